// Messages of a session's socket: a byte for the kind, then what it carries. See docs/rest.md.
export const KIND = { input: 1, size: 3, taken: 4, end: 6, output: 20, begun: 21, ended: 22, alive: 23, credit: 24 };
const NUMBER_BYTES = 8;

/** @param {number} kind @param {Uint8Array} payload */
function frame(kind, payload) {
  const bytes = new Uint8Array(payload.length + 1);
  bytes[0] = kind;
  bytes.set(payload, 1);
  return bytes;
}

/** @param {Uint8Array} data */
export function inputFrame(data) {
  return frame(KIND.input, data);
}

/** @param {number} rows @param {number} columns */
export function sizeFrame(rows, columns) {
  const view = new DataView(new ArrayBuffer(4));
  view.setUint16(0, rows);
  view.setUint16(2, columns);
  return frame(KIND.size, new Uint8Array(view.buffer));
}

// Everything up to the frame with this number has been shown.
/** @param {number} number */
export function takenFrame(number) {
  const view = new DataView(new ArrayBuffer(NUMBER_BYTES));
  view.setBigUint64(0, BigInt(number));
  return frame(KIND.taken, new Uint8Array(view.buffer));
}

export function endFrame() {
  return frame(KIND.end, new Uint8Array());
}

/** @param {ArrayBuffer} buffer */
export function readFrame(buffer) {
  const view = new DataView(buffer);
  const payload = new Uint8Array(buffer, 1 + NUMBER_BYTES);
  return { kind: view.getUint8(0), number: Number(view.getBigUint64(1)), payload };
}

// What a CREDIT says: how many bytes of input have reached the command.
/** @param {Uint8Array} payload */
export function creditOf(payload) {
  return Number(new DataView(payload.buffer, payload.byteOffset).getBigUint64(0));
}

// Answers in columns (docs/rest.md): views into the one buffer that came, nothing is converted point by point.
/** @typedef {{dtype: string, offset: number, length: number}} ColumnPlace */
const TYPE = "application/vnd.trainyard.columns";
const MAGIC = 0x4f435954; // "TYCO", little-endian
const VERSION = 1;
const PREFIX_BYTES = 12;

/** @param {string} url @param {AbortSignal} [signal] */
export async function fetchColumns(url, signal) {
  return readColumns(await (await get(url, TYPE, signal)).arrayBuffer());
}

/** @param {string} url @param {AbortSignal} [signal] */
export async function getJson(url, signal) {
  return (await get(url, "application/json", signal)).json();
}

// An answer that is not what was asked for: its error has the `status`.
/** @param {string} url @param {string} type @param {AbortSignal} [signal] */
async function get(url, type, signal) {
  const answer = await fetch(url, { headers: { Accept: type }, signal });
  if (!answer.ok) throw Object.assign(new Error(`${url}: ${answer.status}`), { status: answer.status });
  return answer;
}

// Returns the JSON answer with a Float64Array in the place of each list. Series that share a column share the array.
/** @param {ArrayBuffer} buffer */
export function readColumns(buffer) {
  const view = new DataView(buffer);
  if (view.getUint32(0, true) !== MAGIC || view.getUint32(4, true) !== VERSION)
    throw new Error("these are no columns that this page reads");
  const length = view.getUint32(8, true);
  const start = PREFIX_BYTES + length;
  const { series, ...answer } = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, PREFIX_BYTES, length)));
  /** @type {Map<string, Column>} */
  const seen = new Map();
  /** @param {ColumnPlace} place */
  const column = ({ dtype, offset, length }) => {
    const key = `${dtype} ${offset} ${length}`;
    if (!seen.has(key)) seen.set(key, floats(buffer, dtype, start + offset, length));
    return seen.get(key);
  };
  /** @param {{columns: Record<string, ColumnPlace>}} series */
  const read = ({ columns, ...rest }) => ({
    ...rest,
    ...Object.fromEntries(Object.entries(columns).map(([name, place]) => [name, column(place)])),
  });
  return { ...answer, series: series.map(read) };
}

// Steps beyond 2^53 are drawn where the nearest float is.
/** @param {ArrayBuffer} buffer @param {string} dtype @param {number} offset @param {number} length */
function floats(buffer, dtype, offset, length) {
  return dtype === "<f8"
    ? new Float64Array(buffer, offset, length)
    : Float64Array.from(new BigInt64Array(buffer, offset, length), Number);
}

// Which names fit what somebody typed: plain words, or a regular expression that has a moment to answer.
const MOMENT_MS = 150;
const GRACE_MS = 30; // for an answer that lies behind whatever kept the page busy
export const IS_PLAIN = /^[^\\^$.|?*+()[\]{}]*$/;

export class Filter {
  constructor(workerUrl) {
    this.workerUrl = workerUrl;
    this.number = 0; // of the request: an answer to an older one is dropped
    this.close();
  }

  // Resolves to {fitting: names in their order, note: "" or a sentence about the pattern}; to null when asked anew
  // meanwhile.
  async ask(text, names) {
    const number = (this.number += 1);
    const pattern = text.trim();
    if (this.isBusy) this.close(); // its answer is not needed any more
    if (!pattern) return { fitting: names, note: "" };
    if (IS_PLAIN.test(pattern)) return { fitting: having(pattern, names), note: "" };
    try {
      new RegExp(pattern, "i");
    } catch {
      const note = `“${pattern}” is no regular expression: taken as plain words.`;
      return { fitting: having(pattern, names), note };
    }
    const fitting = await this.fits(number, pattern, names);
    if (number !== this.number) return null;
    return fitting
      ? { fitting, note: "" }
      : { fitting: names, note: `“${pattern}” is too slow for these names: all are shown.` };
  }

  // The worker's answer; null where it takes longer than it may.
  async fits(number, pattern, names) {
    const worker = await this.ready();
    if (number !== this.number) return null;
    this.isBusy = true;
    const answer = new Promise(
      (resolve) => (worker.onmessage = ({ data }) => data.number === number && resolve(data.fitting)),
    );
    worker.postMessage({ number, pattern, names });
    const fitting = await Promise.race([answer, later(MOMENT_MS).then(() => Promise.race([answer, later(GRACE_MS)]))]);
    if (number !== this.number) return null;
    if (fitting) this.isBusy = false;
    else this.close();
    return fitting;
  }

  // The worker once it runs: its start, on a busy machine, is not the pattern's fault.
  ready() {
    this.starting ??= new Promise((resolve) => {
      const worker = (this.worker = new Worker(this.workerUrl));
      worker.addEventListener("message", () => resolve(worker), { once: true });
      worker.postMessage({ number: 0, pattern: "", names: [] });
    });
    return this.starting;
  }

  close() {
    this.worker?.terminate();
    this.worker = this.starting = null;
    this.isBusy = false;
  }
}

function having(words, names) {
  const wanted = words.toLowerCase();
  return names.filter((name) => name.toLowerCase().includes(wanted));
}

const later = (wait) => new Promise((resolve) => setTimeout(() => resolve(null), wait));

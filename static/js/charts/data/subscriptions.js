// The streams of the shown runs: each passes its messages on with its run.
/** @type {RunStream} */
const SILENT = { on: () => () => {}, continues: () => true };

export class Subscriptions {
  // streamOf(run) -> {on(type, listener) -> stop, continues(cursor)}; listeners: {type: (run, message)}
  /** @param {((run: string) => RunStream) | undefined} streamOf
   * @param {Record<string, (run: string, message: any) => void>} listeners */
  constructor(streamOf, listeners) {
    this.streamOf = streamOf;
    this.listeners = listeners;
    /** @type {Map<string, {stream: RunStream, stops: (() => void)[]}>} */
    this.all = new Map(); // run -> {stream, stops}
  }

  /** @param {string} run */
  open(run) {
    const stream = this.streamOf?.(run) ?? SILENT;
    const stops = Object.entries(this.listeners).map(([type, listener]) =>
      stream.on(type, (message) => listener(run, message)),
    );
    this.all.set(run, { stream, stops });
  }

  /** @param {string} run */
  close(run) {
    this.all.get(run)?.stops.forEach((stop) => stop());
    this.all.delete(run);
  }

  closeAll() {
    for (const run of [...this.all.keys()]) this.close(run);
  }

  /** Whether what a run's stream says goes on from the cursor. @param {string} run @param {number} cursor */
  continues(run, cursor) {
    return this.all.get(run)?.stream.continues(cursor) ?? true;
  }
}

// The streams of the runs that are looked at: each tells its news together with its run.
const SILENT = { on: () => () => {}, continues: () => true };

export class Subscriptions {
  // streamOf(run) -> {on(type, listener) -> stop, continues(cursor)}; listeners: {type: (run, message)}
  constructor(streamOf, listeners) {
    Object.assign(this, { streamOf, listeners });
    this.all = new Map(); // run -> {stream, stops}
  }

  open(run) {
    const stream = this.streamOf?.(run) ?? SILENT;
    const stops = Object.entries(this.listeners).map(([type, listener]) =>
      stream.on(type, (message) => listener(run, message)),
    );
    this.all.set(run, { stream, stops });
  }

  close(run) {
    this.all.get(run)?.stops.forEach((stop) => stop());
    this.all.delete(run);
  }

  closeAll() {
    for (const run of [...this.all.keys()]) this.close(run);
  }

  // Whether what a run's stream says goes on from the cursor.
  continues(run, cursor) {
    return this.all.get(run)?.stream.continues(cursor) ?? true;
  }
}

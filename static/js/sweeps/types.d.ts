// What the pages of sweeps send to their scripts: dashboard/pages/sweeps/columns.py and views.py.
declare namespace Sweeps {
  interface Field {
    path: string;
    label: string;
    low: number;
    high: number;
    isLog: boolean;
    choices: string[];
    values: (number | string | null)[];
  }
  interface Objective {
    metric: string;
    direction: "minimize" | "maximize";
    values: (number | null)[];
  }
  interface Best {
    steps: [at: number, number: number, value: number][];
    end: number;
  }
  interface Slots {
    lanes: string[];
    states: string[];
    bars: [lane: number, start: number, end: number, state: number, number: number][];
    saved: number;
    taken: number;
    share: number | null;
    pruned: number;
    unknown: number;
  }
  interface Columns {
    total: number;
    complete: number;
    number: number[];
    state: string[];
    run: (string | null)[];
    fields: Field[];
    objectives: Objective[];
    overTrials: Best | null;
    overCompute: Best | null;
    front: number[];
    slots: Slots;
    names?: string[]; // by number; else they are called trials
  }
  // The same of runs that are compared: dashboard/pages/compare/plots.py.
  interface RunColumns extends Columns {
    names: string[];
    fields: (Field & { isAxis: boolean })[];
    others: string[];
    metrics: string[];
    run: string[];
  }
  interface FieldImportance {
    path: string;
    label: string;
    fanova: number;
    fanova_error: number;
    permutation: number;
    permutation_error: number;
  }
  interface Importance {
    isCurrent: boolean; // else newer ones are being computed; the first time there is nothing else
    fields: FieldImportance[];
    interactions: number;
    num_complete: number;
    num_reported: number;
    num_used: number;
    sentence: string;
  }
  interface Surface {
    x: number[] | string[];
    y: number[] | string[];
    cells: (number | null)[][];
    num_used: number;
  }
  // What an axis of the parallel coordinates lets through.
  interface Brush {
    axis: string;
    ranges: [low: number, high: number][];
    texts: string[];
  }
  // An option of ECharts. Its own types are a megabyte, and say little of what is computed.
  // biome-ignore lint/suspicious/noExplicitAny: see above
  type Option = Record<string, any>;
}

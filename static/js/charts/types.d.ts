// Shapes that the modules of the charts hand each other.

type Column = Float64Array;
type Axis = "step" | "relative" | "time" | "value"; // value: of another series
type Span = [number, number];

/** The points of one series in one attempt (data/parts.js). */
interface Part {
  step: Column;
  time: Column;
  value: Column;
  min: Column | null;
  max: Column | null;
  last: Column | null;
  num_nan: Column | null;
  seams: number[];
  hasPoints?: boolean;
  room?: Room;
}

/** Columns with room behind their points. */
interface Room extends Omit<Part, "seams"> {
  used: number;
}

/** A series as an answer of the server, or a message of its stream, has it. */
interface Series {
  run: string;
  name: string;
  labels?: Labels;
  attempt: number;
  superseded?: boolean;
  kind?: string;
  step: ArrayLike<number>;
  time: ArrayLike<number>;
  value: ArrayLike<number>;
  mean: ArrayLike<number>;
  min: ArrayLike<number>;
  max: ArrayLike<number>;
  last: ArrayLike<number>;
  num_nan?: ArrayLike<number>;
}

type Labels = Record<string, string>;

/** One line of a name: its points by attempt. */
interface HeldLine {
  run: string;
  labels: Labels;
  parts: Map<number, Part>;
  tails: Map<number, Part>;
}

/** What is held of one name (data/entries.js). */
interface Entry {
  cursors: Map<string, number>;
  orders: Map<string, number>;
  lines: Map<string, HeldLine>;
}

interface Points {
  x: Column;
  value: Column;
}

/** A value that is no number, and where it stands. */
interface BadPoint {
  x: number;
  value: number;
}

/** The attempts of one line put together along an axis (lines/attempts.js). */
interface WholeLine extends Points {
  min: Column | null;
  max: Column | null;
  ghosts: Points[];
  begins: { x: number; attempt: number; run?: string }[];
  bad: BadPoint[];
  last: number | undefined;
  count: number;
}

interface Extremes {
  min: number;
  max: number;
}

/** A line, or several as one, on its way to be drawn. */
interface DrawnLine extends WholeLine {
  key: string;
  run: string | null;
  labels: Labels;
  group: string | null;
  runs: string[];
  extremes: Extremes | null;
  reach?: Reach;
}

/** How far along x the runs of a group go. */
interface Reach {
  from: number;
  to: number;
  numAtEnd: number;
}

type ColumnKind = "main" | "raw" | "ghost" | "low" | "high";

interface DrawnColumn {
  kind: ColumnKind;
  key: string;
  x: Column;
  y: Column;
}

/** In a column that is drawn null is a gap; undefined says that the line has no point at this place. */
type Values = ArrayLike<number | null | undefined>;

interface BuildOptions {
  axis?: Axis;
  isLogX?: boolean;
  isLogY?: boolean;
  ignoreOutliers?: boolean;
  ranks?: string;
  smoothing?: { kind: string; amount: number };
  starts?: Map<string, number>;
  hidden?: Set<string>;
  group?: { of: Map<string, string>; band: string } | null;
  width?: number;
  view?: Span | null;
}

interface LineFacts {
  run: string | null;
  labels: Labels;
  group: string | null;
  runs: string[];
  last: number | null;
  min: number | null;
  max: number | null;
  count: number;
  reach?: Reach;
}

interface Mark {
  x: number;
  run: string | null;
  attempt: number;
  sentence?: string; // of what is no new attempt
  kind?: string; // alarm, note, checkpoint or event
}

/** A chart as it is drawn (lines/build.js). */
interface BuiltChart {
  x: Column;
  ys: Values[];
  columns: { kind: ColumnKind; key: string }[];
  lines: Map<string, LineFacts>;
  marks: Mark[];
  bad: BadPoint[];
  range: { low: number; high: number } | null;
}

interface GridOptions {
  width?: number;
  view?: Span | null;
  isLogX?: boolean;
}

interface Table {
  x: Column;
  y: Column;
}

/** Which points of a line stand at which places. */
interface Picks {
  places: Int32Array;
  points: Int32Array;
}

/** A stretch of x with as many places as it has room for. */
interface Section {
  from: number;
  to: number;
  places: number;
  startOf: (x: Column) => number;
  endOf: (x: Column) => number;
  x: Column | null;
}

/** The window of an axis that finer points are loaded for. */
interface AxisWindow {
  axis: Axis;
  from: number;
  to: number;
}

/** What one request asks for. */
interface Batch {
  runs: string[];
  names: string[];
  points: number;
  window?: AxisWindow | null;
  order?: number;
  tries?: number;
}

/** What the server answers to a batch, or with less a message of a stream. */
interface SeriesAnswer {
  cursors: Record<string, number>;
  series: Series[];
  origins?: Record<string, number>;
}

interface SeriesMessage {
  from: number;
  cursor: number;
  series: Series[];
}

interface RunStream {
  on(type: string, listener: (message: SeriesMessage & { type: string }) => void): () => void;
  continues(cursor: number): boolean;
}

/** A rectangle in pixels of a canvas. */
interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

/** The part of a column that is drawn: its places, where they are, and how values become pixels. */
interface DrawnPath {
  from: number;
  to: number;
  px: Column;
  toY: (value: number) => number;
}

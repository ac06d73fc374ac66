// Numbers and times as people read them; dashboard/numbers.py says the same on the server.
const SCALES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function number(value, unit = "") {
  if (value === null || value === undefined || value === "") return "–";
  const x = Number(value);
  let text;
  if (Number.isNaN(x)) text = "NaN";
  else if (!Number.isFinite(x)) text = x > 0 ? "∞" : "−∞";
  else text = finite(x);
  return unit ? `${text} ${unit}` : text;
}

// How a metric is shown follows from how it is named: bytes in KiB and so on, seconds as durations, shares in percent.
export function formatOf(name) {
  if (/(^|_)bytes$/.test(name)) return size;
  if (/(^|_)bytes_per_s(econd)?$/.test(name)) return (value) => `${size(value)}/s`;
  if (/_percent$/.test(name)) return (value) => number(value, "%");
  if (/tokens_per_s(econd)?$/.test(name)) return (value) => number(value, "tok/s");
  if (/samples_per_s(econd)?$/.test(name)) return (value) => number(value, "samples/s");
  if (/_(s|seconds)$/.test(name) && !/per_s(econd)?s?$/.test(name)) return (value) => number(value, "s");
  return number;
}

// A number on an axis: as short as it may be.
export function tick(value) {
  return number(value).replace(/(\.\d*?)0+(?=\D*$)/, "$1").replace(/\.(?=\D*$)/, "");
}

export function count(value) {
  return value === null || value === undefined ? "–" : Math.trunc(value).toLocaleString("en-US");
}

export function size(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return number(value);
  let amount = value;
  let unit = 0;
  while (Math.abs(amount) >= 1024 && unit < BYTES.length - 1) {
    amount /= 1024;
    unit += 1;
  }
  return `${amount.toFixed(unit === 0 || Math.abs(amount) >= 100 ? 0 : 1)} ${BYTES[unit]}`;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  if (seconds < 1) return `${Math.max(0, Math.round(seconds * 1000))} ms`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  for (const [unit, name, below, belowName] of [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]]) {
    if (whole < unit) continue;
    const rest = Math.floor((whole % unit) / below);
    const text = `${Math.floor(whole / unit)} ${name}`;
    return rest ? `${text} ${rest} ${belowName}` : text;
  }
  return "–";
}

export function age(at, now) {
  const seconds = (now - at) / 1000;
  const span = Math.abs(seconds);
  if (span < 5) return "just now";
  for (const [unit, name] of [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]]) {
    if (span < unit) continue;
    const text = `${Math.floor(span / unit)} ${name}`;
    return seconds > 0 ? `${text} ago` : `in ${text}`;
  }
  return "just now";
}

function finite(x) {
  const magnitude = Math.abs(x);
  if (x === 0) return "0";
  if (magnitude < 0.001 || magnitude >= 1e15) {
    const [digits, power] = x.toExponential(2).split("e");
    return `${Number(digits)}e${Number(power)}`.replaceAll("-", "−");
  }
  for (const [scale, letter] of SCALES) {
    if (magnitude >= scale * 0.9995) return threeDigits(x / scale) + letter;
  }
  return threeDigits(x);
}

function threeDigits(x) {
  const magnitude = Math.abs(x);
  const places = magnitude >= 99.95 ? 0 : magnitude >= 9.995 ? 1 : magnitude >= 0.9995 ? 2 : 3;
  const text = x.toFixed(places);
  return (Number.isInteger(x) ? String(x) : text).replace("-", "−"); // 4, not 4.00: whole numbers are shown whole
}

// Terminal colours that can be read: whatever a program chose keeps its hue and is darkened or lightened until it
// stands out.
const CONTRAST = 4.6; // 4.5 : 1 is what people need
// The luminance of the least favourable ground of a line (marked as chosen), in the light and in the dark theme.
const LIGHT = 0.86;
const DARK = 0.017;
const BASIC = [
  0x000000, 0xcd3131, 0x0dbc79, 0xe5e510, 0x2472c8, 0xbc3fbc, 0x11a8cd, 0xe5e5e5, 0x666666, 0xf14c4c, 0x23d18b,
  0xf5f543, 0x3b8eea, 0xd670d6, 0x29b8db, 0xffffff,
];
const CLASSES = {
  isBold: "is-bold",
  isDim: "is-dim",
  isItalic: "is-italic",
  isUnderlined: "is-underlined",
  isStruck: "is-struck",
};
const known = new Map();

// The look of a style: {classes, color, background}; the first sixteen colours are the page's own (classes).
export function look(style) {
  const classes = Object.keys(CLASSES).flatMap((flag) => (style[flag] ? CLASSES[flag] : []));
  const [fg, bg] = style.isInverse ? [style.bg, style.fg] : [style.fg, style.bg];
  if (style.isInverse && bg === null) return { classes: [...classes, "is-inverse"] };
  if (bg !== null) return { classes, ...onGround(fg, rgbOf(bg)) };
  if (fg === null) return { classes };
  if (typeof fg === "number" && fg < 16) return { classes: [...classes, `ansi-${fg}`] };
  const rgb = rgbOf(fg);
  return { classes, color: `light-dark(${css(readable(rgb, LIGHT))}, ${css(readable(rgb, DARK))})` };
}

// The colour, mixed with black or white as little as lets it be read on a ground of that luminance.
export function readable(rgb, ground) {
  const key = `${rgb} ${ground}`;
  if (known.size > 2000) known.clear();
  if (!known.has(key)) known.set(key, mixed(rgb, ground));
  return known.get(key);
}

export function luminance(rgb) {
  const [red, green, blue] = rgb.map((channel) => {
    const share = channel / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

export const contrast = (one, other) => (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);

export function rgbOf(colour) {
  if (typeof colour !== "number") return colour;
  if (colour < 16) return [16, 8, 0].map((bits) => (BASIC[colour] >> bits) & 255);
  if (colour >= 232) return Array(3).fill(8 + 10 * (colour - 232));
  const cube = colour - 16;
  return [Math.floor(cube / 36), Math.floor(cube / 6) % 6, cube % 6].map((step) => (step ? 55 + 40 * step : 0));
}

function onGround(fg, ground) {
  const light = luminance(ground);
  const wanted = fg === null ? [128, 128, 128] : rgbOf(fg);
  return { color: css(fg === null ? extreme(light) : readable(wanted, light)), background: css(ground) };
}

function mixed(rgb, ground) {
  const end = extreme(ground);
  for (let share = 0; share < 1; share += 0.05) {
    const tried = rgb.map((channel, at) => Math.round(channel + (end[at] - channel) * share));
    if (contrast(luminance(tried), ground) >= CONTRAST) return tried;
  }
  return end;
}

const extreme = (ground) => (contrast(1, ground) > contrast(0, ground) ? [255, 255, 255] : [0, 0, 0]);

const css = (rgb) => `rgb(${rgb.join(" ")})`;

// A canvas's context that writes SVG: what a plot and its picture draw, with texts that stay texts.
import { make } from "../../shared/dom.js";

const ANCHORS = { left: "start", center: "middle", right: "end" };
const OPS = {
  moveTo: (x, y) => `M${x} ${y}`,
  lineTo: (x, y) => `L${x} ${y}`,
  closePath: () => "Z",
  rect: (x, y, width, height) => `M${x} ${y}h${width}v${height}h${-width}Z`,
  arc: (_x, _y, r) => `a${r} ${r} 0 1 1 ${-2 * r} 0a${r} ${r} 0 1 1 ${2 * r} 0`, // whole, from its right
};

/** @returns {any} a CanvasRenderingContext2D, as far as they use one */
export function svgContext() {
  const held = [];
  const probe = make("canvas").getContext("2d");
  let path = "";
  const add = (tag, how, words = "") => ctx.parts.push(`<${tag} ${how}${ctx.clipped}>${words}</${tag}>`);
  const ctx = {
    parts: [],
    dash: [],
    clipped: "",
    save: () => held.push({ ...ctx }),
    restore: () => Object.assign(ctx, held.pop()),
    scale: (by) => ctx.parts.push(`</g><g transform="scale(${by})">`),
    drawImage(plot, left, top) {
      ctx.parts.push(`<g transform="translate(${left} ${top})">`);
      plot.paintOn(ctx);
      ctx.parts.push("</g>");
    },
    clip() {
      ctx.parts.push(`<clipPath id="plot"><path d="${path}"/></clipPath>`);
      ctx.clipped = ' clip-path="url(#plot)"';
    },
    clearRect() {},
    beginPath: () => (path = ""),
    setLineDash: (dash) => (ctx.dash = dash),
    fillRect: (...place) => add("path", `d="${OPS.rect(...place)}" ${paint("fill", ctx.fillStyle)}`),
    fill: () => add("path", `d="${path}" ${paint("fill", ctx.fillStyle)}`),
    stroke() {
      const pen = `stroke-width="${ctx.lineWidth ?? 1}" stroke-dasharray="${ctx.dash}" fill="none"`;
      add("path", `d="${path}" ${pen} ${paint("stroke", ctx.strokeStyle)}`);
    },
    measureText: (words) => Object.assign(probe, { font: ctx.font }).measureText(words),
    fillText(words, x, y) {
      const base = ctx.textBaseline === "top" ? "hanging" : "central";
      const place = `x="${x}" y="${y}" text-anchor="${ANCHORS[ctx.textAlign]}" dominant-baseline="${base}"`;
      const escaped = make("b", { textContent: words }).innerHTML;
      add("text", `${place} style="font:${ctx.font}" ${paint("fill", ctx.fillStyle)}`, escaped);
    },
  };
  const round = (value) => Math.round(value * 100) / 100;
  for (const [name, write] of Object.entries(OPS)) ctx[name] = (...at) => (path += write(...at.map(round)));
  return ctx;
}

function paint(what, css) {
  const [red, green, blue, opacity = 1] = css.match(/[\d.]+/g) ?? [0, 0, 0];
  return `${what}="rgb(${red},${green},${blue})" ${what}-opacity="${opacity}"`;
}

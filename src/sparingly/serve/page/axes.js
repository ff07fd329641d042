// What all charts share: scales, ticks that fit, and a drawing that follows the width of its place.
// Charts are drawn in real pixels, so that their text is as large as the rest of the page, on a phone too.

import { el, fill, svg } from "./dom.js";
import { number, times } from "./words.js";

export const FONT = 12;
const GAP = 14; // between the labels of two ticks
const DAY = 86_400_000;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200]
  .map((s) => s * 1000)
  .concat([1, 2, 7, 14, 30, 90, 180, 365, 730, 1825, 3650].map((days) => days * DAY));

const ruler = document.createElement("canvas").getContext("2d");

/** How wide a label will be. */
export function breadth(text) {
  ruler.font = `${FONT}px ${getComputedStyle(document.body).fontFamily}`;
  return ruler.measureText(text).width;
}

export function linear(from, to, start, end) {
  const span = to - from || 1;
  return (value) => start + ((value - from) / span) * (end - start);
}

/** Round values from low to high, about `most` of them; whole ones only where halves make no sense. */
export function niceTicks(low, high, most, whole = false) {
  const rough = (high - low || 1) / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
  if (whole) step = Math.max(1, Math.round(step));
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++)
    ticks.push(Number((k * step).toPrecision(12)));
  return ticks;
}

/** The next round value at or above the largest, so that the top tick is at the top of the chart. */
export function niceTop(largest, most, whole = false) {
  const top = largest > 0 ? largest : 1;
  const ticks = niceTicks(0, top, most, whole);
  const step = ticks.length > 1 ? ticks[1] - ticks[0] : ticks[0] || 1;
  return Math.max(step, Math.ceil(top / step - 1e-9) * step);
}

/** Moments between start and end (in ms) that fall on round local times, as many as fit into `room` pixels. */
export function timeTicks(start, end, room) {
  const span = Math.max(end - start, 1);
  const fits = (step) => (span / step) * (breadth(timeLabel(start, step)) + GAP) <= room;
  const step = STEPS.find(fits) ?? STEPS.at(-1);
  const ticks = [];
  for (let at = firstTick(start, step); at <= end; at = nextTick(at, step)) {
    const midnight = step < DAY && new Date(at).getHours() + new Date(at).getMinutes() === 0 && span > DAY / 4;
    ticks.push([at, midnight ? times.day(at) : timeLabel(at, step)]);
  }
  return ticks;
}

function timeLabel(at, step) {
  if (step < 60_000) return times.seconds(at);
  if (step < DAY) return times.clock(at);
  return step < 180 * DAY ? times.day(at) : times.month(at);
}

function firstTick(start, step) {
  const midnight = new Date(start).setHours(0, 0, 0, 0);
  if (step >= DAY) return midnight < start ? nextTick(midnight, DAY) : midnight;
  return midnight + Math.ceil((start - midnight) / step) * step;
}

function nextTick(at, step) {
  if (step < DAY) return at + step;
  const next = new Date(at);
  next.setDate(next.getDate() + Math.round(step / DAY)); // a day is not always 24 hours long
  return next.getTime();
}

/**
 * A figure: caption, legend, drawing, and words for when there is nothing to draw.
 * `paint(frame, width)` fills the drawing; it runs again when the figure gets another width.
 */
export class Figure {
  constructor(caption, note = "") {
    this.legend = el("ul", { class: "legend" });
    this.place = el("div", { class: "place" });
    this.empty = el("p", { class: "empty", hidden: true });
    this.note = el("p", { class: "note" }, note);
    this.node = el("figure", {}, el("figcaption", {}, caption), this.legend, this.place, this.empty, this.note);
    this.paint = null;
    this.width = 0;
    this.observer = new ResizeObserver(() => {
      if (this.paint && this.place.clientWidth !== this.width) this.redraw();
    });
    this.observer.observe(this.place);
  }

  /** Draw, and say in `words` what is to be seen. */
  draw(words, height, paint) {
    this.empty.hidden = true;
    this.place.hidden = this.legend.hidden = false;
    Object.assign(this, { words, height, paint });
    this.redraw();
  }

  redraw() {
    this.width = this.place.clientWidth;
    if (this.width < 40) return; // not in the page yet
    const frame = svg("svg", {
      class: "panel",
      role: "img",
      "aria-label": this.words,
      width: this.width,
      height: this.height,
      viewBox: `0 0 ${this.width} ${this.height}`,
      "font-size": FONT,
    });
    this.paint(frame, this.width, this.height);
    fill(this.place, frame);
  }

  /** There is nothing to draw yet; say why. */
  say(words) {
    this.paint = null;
    this.place.hidden = this.legend.hidden = true;
    this.empty.hidden = false;
    if (this.empty.textContent !== words) this.empty.textContent = words;
  }

  close() {
    this.observer.disconnect();
  }
}

/** The vertical axis: faint lines with numbers at the left, and what they count above. Gives where the plot begins. */
export function verticalAxis(frame, ticks, y, width, title) {
  const left = Math.ceil(Math.max(...ticks.map((tick) => breadth(number(tick))))) + 8;
  frame.append(svg("text", { x: 0, y: FONT, class: "unit" }, title));
  for (const tick of ticks) {
    frame.append(
      svg("line", { x1: left, x2: width, y1: y(tick), y2: y(tick), class: tick === 0 ? "axis" : "grid" }),
      svg("text", { x: left - 8, y: y(tick) + FONT * 0.35, "text-anchor": "end" }, number(tick)),
    );
  }
  return left;
}

/** Labels along the bottom; those that would stick out or touch the one before are left out. */
export function horizontalLabels(frame, ticks, x, width, y) {
  let taken = -Infinity;
  for (const [value, words] of ticks) {
    const half = breadth(words) / 2;
    const at = Math.max(half, Math.min(x(value), width - half - 1));
    if (Math.abs(at - x(value)) > half || at - half < taken + 6) continue;
    taken = at + half;
    frame.append(
      svg("line", { x1: x(value), x2: x(value), y1: y - 16, y2: y - 12, class: "axis" }),
      svg("text", { x: at, y, "text-anchor": "middle" }, words),
    );
  }
}

/** An entry of a legend: a small drawing, its name, and a value that can change. */
export function legendEntry(mark, name) {
  const value = el("b");
  const swatch = svg(
    "svg",
    { class: "swatch", width: 26, height: 14, viewBox: "0 0 26 14", "aria-hidden": "true" },
    mark,
  );
  return { node: el("li", {}, swatch, el("span", {}, name, " ", value)), value };
}

let patterns = 0;

/** Slanted lines to fill an area with: told from a plain one without colour. */
export function hatching(kind) {
  const id = `hatching-${++patterns}`;
  const lines = svg("path", { d: "M-1 7L7 -1M-1 1L1 -1M5 7L7 5", class: `hatch ${kind}` });
  const pattern = svg("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse" }, lines);
  return { pattern: svg("defs", {}, pattern), paint: `url(#${id})` };
}

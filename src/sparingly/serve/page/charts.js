// The charts of an agent: counters over time, widths against the threshold, and one interval on the scale of rewards.
// What a line or a mark is can be told without colour: by its dashes, its filling or its shape.

import {
  Figure,
  FONT,
  breadth,
  hatching,
  horizontalLabels,
  legendEntry,
  linear,
  niceTicks,
  niceTop,
  timeTicks,
  verticalAxis,
} from "./axes.js";
import { fill, say, show, svg } from "./dom.js";
import { number, times } from "./words.js";

const TOP = 30;
const BOTTOM = 44;
const HEIGHT = 240;

/**
 * Counters over time as steps. A series is {name, kind, points: [[ms, value], …], fill?, under?, values?}: `kind` is
 * its class in the style sheet, `fill` is "plain" or "hatched", `under` the points that its area stands on, `values`
 * what the legend shows where that is not the height of the line.
 */
export class TimeChart extends Figure {
  constructor(caption, unit, whole) {
    super(caption);
    Object.assign(this, { unit, whole, entries: null, pointed: null, idle: "" });
    this.place.addEventListener("pointermove", (event) => this.point(event.offsetX));
    this.place.addEventListener("pointerleave", () => this.point(null));
  }

  update(series, words) {
    this.series = series;
    if (!this.entries) {
      this.entries = series.map(({ name, kind, fill: filling }) => legendEntry(swatch(kind, filling), name));
      fill(
        this.legend,
        this.entries.map((entry) => entry.node),
      );
    }
    this.draw(words, HEIGHT, (frame, width, height) => this.paintSteps(frame, width, height));
  }

  paintSteps(frame, width, height) {
    const all = this.series.flatMap(({ points }) => points);
    const start = Math.min(...all.map(([at]) => at));
    const end = Math.max(start + 10_000, ...all.map(([at]) => at));
    const largest = Math.max(...all.map(([, value]) => value));
    const top = niceTop(largest, 4, this.whole);
    const base = height - BOTTOM;
    const y = linear(0, top, base, TOP);
    const left = verticalAxis(frame, niceTicks(0, top, 4, this.whole), y, width, this.unit);
    const x = linear(start, end, left, width - 1);
    Object.assign(this, { x, start, end, left });
    horizontalLabels(frame, timeTicks(start, end, width - left), x, width, base + 18);
    frame.append(svg("text", { x: width, y: height - 4, class: "unit", "text-anchor": "end" }, this.title(start, end)));
    for (const { kind, points, fill: filling, under } of this.series) {
      if (filling) frame.append(area(points, under, kind, filling, x, y, end));
      frame.append(svg("path", { d: steps(points, x, y, end), class: `line ${kind}` }));
    }
    this.marker = svg("line", { y1: TOP, y2: base, class: "pointed", visibility: "hidden" });
    frame.append(this.marker);
    this.readOut();
  }

  title(start, end) {
    const days = [times.date(start), times.date(end)];
    return `local time, ${days[0] === days[1] ? days[0] : `${days[0]} to ${days[1]}`}`;
  }

  point(offset) {
    this.pointed = offset;
    if (this.paint) this.readOut();
  }

  /** The legend shows the values under the pointer, or else the latest ones. */
  readOut() {
    const inside = this.pointed !== null && this.pointed >= this.left;
    const at = inside
      ? this.start + ((this.pointed - this.left) / (this.x(this.end) - this.left)) * (this.end - this.start)
      : Infinity;
    this.marker.setAttribute("visibility", inside ? "visible" : "hidden");
    if (inside) for (const end of ["x1", "x2"]) this.marker.setAttribute(end, this.pointed);
    this.series.forEach(({ points, values }, place) => {
      const index = Math.max(
        points.findLastIndex(([moment]) => moment <= at),
        0,
      );
      say(this.entries[place].value, number(values ? values[index] : points[index][1]));
    });
    say(this.note, inside ? `at ${times.full(at)}` : this.idle);
  }
}

/** A path through the points that goes straight on where two of them share a moment or a value. */
function steps(points, x, y, end) {
  let path = "";
  let before = null;
  for (const [at, value] of points) {
    path += before === null ? "M" : "L";
    path += `${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    before = value;
  }
  return `${path}L${x(end).toFixed(1)} ${y(before).toFixed(1)}`;
}

function area(points, under, kind, filling, x, y, end) {
  const ground = under ?? [
    [points[0][0], 0],
    [points.at(-1)[0], 0],
  ];
  const back = [[end, ground.at(-1)[1]], ...ground.toReversed()].map(
    ([at, value]) => `L${x(at).toFixed(1)} ${y(value).toFixed(1)}`,
  );
  const shape = { d: `${steps(points, x, y, end)}${back.join("")}Z`, class: `area ${kind}` };
  if (filling === "plain") return svg("path", shape);
  const { pattern, paint } = hatching(kind);
  return svg("g", {}, pattern, svg("path", { ...shape, class: "hatched", fill: paint }));
}

/** Corners for a quantity that stays until it jumps, or grows by `rate` a millisecond in between. */
export function corners(points, rate = 0) {
  const result = [];
  for (const [at, value] of points) {
    const last = result.at(-1);
    if (last) result.push([at, Math.min(Math.max(last[1] + rate * (at - last[0]), last[1]), Math.max(value, last[1]))]);
    result.push([at, value]);
  }
  return result;
}

function swatch(kind, filling) {
  if (filling === "hatched") {
    const { pattern, paint } = hatching(kind);
    return [
      pattern,
      svg("rect", { x: 0, y: 1, width: 26, height: 13, fill: paint }),
      svg("path", { d: "M0 1.5H26", class: `line ${kind}` }),
    ];
  }
  if (filling)
    return [
      svg("rect", { x: 0, y: 1, width: 26, height: 13, class: `area ${kind}` }),
      svg("path", { d: "M0 1.5H26", class: `line ${kind}` }),
    ];
  return svg("path", { d: "M0 7H26", class: `line ${kind}` });
}

/** How wide the interval was at each of the latest decisions, and how wide it had to be for an ask. */
export class WidthChart extends Figure {
  constructor(caption) {
    super(caption);
    const none = hatching("none");
    const line = legendEntry(svg("path", { d: "M0 7H26", class: "line threshold" }), "threshold");
    line.node.title = "It asks at or above the threshold.";
    this.shut = legendEntry(
      [none.pattern, svg("rect", { width: 26, height: 14, fill: none.paint })],
      "asks nothing",
    ).node;
    const marks = [legendEntry(dot(13, 7, true), "asked"), legendEntry(dot(13, 7, false), "not asked"), line];
    fill(
      this.legend,
      marks.map((entry) => entry.node),
      this.shut,
    );
  }

  /** The events come newest first. */
  update(events, words) {
    this.events = events.toReversed();
    show(
      this.shut,
      events.some(({ threshold }) => threshold === null),
    );
    this.draw(words, HEIGHT, (frame, width, height) => this.paintWidths(frame, width, height));
  }

  paintWidths(frame, width, height) {
    const { events } = this;
    const [first, last] = [events[0].number, events.at(-1).number];
    const base = height - BOTTOM;
    const top = niceTop(Math.max(...events.flatMap(({ width: w, threshold }) => [w, threshold ?? 0])) * 1.05, 4);
    const y = linear(0, top, base, TOP);
    const left = verticalAxis(frame, niceTicks(0, top, 4), y, width, "width of the interval");
    const x = linear(first - 0.5, last + 0.5, left, width);
    const room = breadth(number(last)) + 14;
    const labels = niceTicks(first, last, Math.max(1, Math.min(8, (width - left) / room)), true).map((n) => [
      n,
      number(n),
    ]);
    horizontalLabels(frame, labels, x, width, base + 18);
    frame.append(
      svg("text", { x: width, y: height - 4, class: "unit", "text-anchor": "end" }, "number of the decision"),
    );
    const none = hatching("none");
    frame.append(none.pattern);
    let path = "";
    for (const [place, { number: n, threshold }] of events.entries()) {
      const [from, to] = [x(n - 0.5), x(n + 0.5)];
      if (threshold === null) {
        frame.append(svg("rect", { x: from, y: TOP, width: to - from, height: base - TOP, fill: none.paint }));
      } else {
        const joined = place > 0 && events[place - 1].threshold !== null;
        path += `${joined ? "L" : "M"}${from.toFixed(1)} ${y(threshold).toFixed(1)}H${to.toFixed(1)}`;
      }
    }
    if (path) frame.append(svg("path", { d: path, class: "line threshold" }));
    for (const event of events) {
      const title = svg("title", {}, `${event.number}: ${event.action}, width ${number(event.width)}`);
      frame.append(svg("g", {}, title, dot(x(event.number), y(event.width), event.ask)));
    }
  }
}

function dot(x, y, filled) {
  return svg("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: 4, class: filled ? "dot asked" : "dot" });
}

const INSET = 8;
const ROW = 26;

/** The scale of rewards as a drawing of its own, above the intervals that it measures. */
export function paintScale(frame, width, [low, high]) {
  const x = linear(low, high, INSET, width - INSET);
  const room = Math.max(breadth(number(low)), breadth(number(high)), breadth("0.55")) + 12;
  fill(
    frame,
    niceTicks(low, high, Math.max(2, Math.min(6, width / room))).flatMap((tick) => {
      const half = breadth(number(tick)) / 2;
      const at = Math.max(half, Math.min(x(tick), width - half));
      return [
        svg("text", { x: at, y: FONT, "text-anchor": "middle" }, number(tick)),
        svg("line", { x1: x(tick), x2: x(tick), y1: FONT + 4, y2: FONT + 8, class: "axis" }),
      ];
    }),
  );
}

/** A mean with its interval; whiskers that leave the scale end in an arrow. */
export function paintInterval(frame, width, [low, high], estimate) {
  const x = linear(low, high, INSET, width - INSET);
  const middle = ROW / 2;
  const marks = [svg("line", { x1: INSET, x2: width - INSET, y1: middle, y2: middle, class: "grid" })];
  const inside = (value) => Math.min(Math.max(value, low), high);
  if (estimate.low !== null && estimate.high !== null) {
    const [from, to] = [x(inside(estimate.low)), x(inside(estimate.high))];
    const kind = estimate.mean === null ? "whisker unknown" : "whisker";
    marks.push(svg("path", { d: `M${from} ${middle}H${to}`, class: kind }));
    marks.push(svg("path", { d: tip(from, middle, estimate.low < low ? -1 : 0), class: "whisker" }));
    marks.push(svg("path", { d: tip(to, middle, estimate.high > high ? 1 : 0), class: "whisker" }));
  }
  if (estimate.mean !== null)
    marks.push(svg("circle", { cx: x(inside(estimate.mean)), cy: middle, r: 5, class: "mean" }));
  fill(frame, marks);
}

function tip(x, y, direction) {
  if (direction === 0) return `M${x} ${y - 5}V${y + 5}`;
  return `M${x - 2 * direction} ${y - 5}L${x + 5 * direction} ${y}L${x - 2 * direction} ${y + 5}`;
}

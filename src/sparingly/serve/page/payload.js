// What came along with a decision, made readable: text as text, objects and lists as an indented view.
// It is written by others and shown to someone who is to judge it: all of it stays text.

import { el, plain, quoted } from "./dom.js";
import { number } from "./words.js";

const MOST = 400; // entries drawn; the rest of a larger payload is shown as JSON

/** The payload as an element; it scrolls by itself if it is long. */
export function payloadView(payload) {
  const room = { left: MOST };
  if (payload === null || payload === undefined) {
    return el(
      "p",
      { class: "empty" },
      "This decision came without a payload: there is nothing to show but the action.",
    );
  }
  const view = el(
    "div",
    { class: "payload", tabindex: 0, role: "group", "aria-label": "Payload" },
    value(payload, room),
  );
  if (room.left > 0) return view;
  const whole = el("pre", { class: "payload" });
  const rest = el(
    "details",
    {
      ontoggle: () => {
        whole.textContent ||= JSON.stringify(payload, null, 2);
      },
    },
    el("summary", {}, "It is too large to be shown in full; see all of it as JSON"),
    whole,
  );
  return el("div", {}, view, rest);
}

function value(item, room) {
  room.left -= 1;
  if (item === null) return el("span", { class: "quiet" }, "null");
  if (Array.isArray(item))
    return entries(
      item.map((part, place) => [place + 1, part]),
      room,
      "list",
    );
  if (typeof item === "object") return entries(Object.entries(item), room, "object");
  if (typeof item === "string")
    return item === ""
      ? el("span", { class: "quiet" }, "empty")
      : el("div", { class: "text", dir: "auto" }, plain(item));
  return el("span", { class: "plain" }, typeof item === "number" ? String(item) : item ? "true" : "false");
}

function entries(pairs, room, kind) {
  if (pairs.length === 0) return el("span", { class: "quiet" }, `empty ${kind}`);
  const rows = [];
  for (const [place, [key, item]] of pairs.entries()) {
    if (room.left <= 0) {
      rows.push(el("div", { class: "quiet" }, el("dd", {}, `… and ${number(pairs.length - place)} more`)));
      break;
    }
    const nested = typeof item === "object" && item !== null;
    rows.push(el("div", { class: nested ? "nested" : "" }, el("dt", {}, quoted(key)), el("dd", {}, value(item, room))));
  }
  return el("dl", { class: kind }, rows);
}

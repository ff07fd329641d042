// The budget of an agent as a bar: what is spent, what is held, what is left.
// The amounts stand below it in words, so the bar itself is for the eye only.

import { hatching } from "./axes.js";
import { el, say, svg } from "./dom.js";
import { number } from "./words.js";

export function budgetBar() {
  const { pattern, paint } = hatching("held");
  const spent = svg("rect", { class: "area spent", height: "100%" });
  const held = svg("rect", { fill: paint, height: "100%" });
  const bar = svg("svg", { class: "bar", "aria-hidden": "true", width: "100%", height: 12 }, pattern, spent, held);
  const words = el("p", { class: "amounts" });
  function update({ granted, spent: gone, held: kept, left }) {
    const share = (amount) => `${granted > 0 ? Math.min(100, (100 * amount) / granted) : 0}%`;
    spent.setAttribute("width", share(gone));
    held.setAttribute("x", share(gone));
    held.setAttribute("width", share(kept));
    const holding = kept > 0 ? `, ${number(kept)} held` : "";
    say(words, `${number(left)} left of ${number(granted)} granted: ${number(gone)} spent${holding}`);
  }
  return { node: el("div", { class: "budget" }, bar, words), update };
}

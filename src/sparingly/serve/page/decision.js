// One decision: what was chosen, in which situation, with what payload, and what became of it.
// The answer view shows the first half of it to the person who is to judge.

import { agentPath, get } from "./api.js";
import { el, fill, quoted, say, show } from "./dom.js";
import { payloadView } from "./payload.js";
import { REASONS, STATUSES, moment, number, times } from "./words.js";

/** The situation and the action, for someone who is to judge it. */
export function describeChoice(event) {
  const about = [`Decision ${number(event.number)}`, `made ${moment(event.decided_at)}`];
  if (event.due_at && event.status === "open") about.push(`closes ${moment(event.due_at)}`);
  const context = event.context === null ? null : [" in the context ", quoted(event.context, { class: "term" })];
  return [
    el("p", { class: "quiet" }, about.join(" · ")),
    el("p", { class: "chosen" }, "It chose ", quoted(event.action, { class: "term" }), context, "."),
    payloadView(event.payload),
  ];
}

export function openDecision(root, [name, id]) {
  const place = `#/agents/${encodeURIComponent(name)}`;
  const card = el("div", { class: "card" });
  const answer = el(
    "a",
    { class: "button main", href: `${place}/answer/${encodeURIComponent(id)}`, hidden: true },
    "Answer it",
  );
  fill(
    root,
    el("p", { class: "path" }, el("a", { href: "#/" }, "Agents"), " / ", el("a", { href: place }, quoted(name)), " /"),
    el("div", { class: "heading" }, el("h1", { tabindex: -1 }, "Decision ", quoted(id)), answer),
    card,
  );
  let seen = "";
  return {
    title: `${id} · ${name}`,
    async refresh(signal) {
      const event = await get(agentPath(name, "decisions", id), signal);
      show(answer, ["open", "unanswered"].includes(event.status));
      say(answer, event.status === "unanswered" ? "Answer it late" : "Answer it");
      if (JSON.stringify(event) === seen) return;
      seen = JSON.stringify(event);
      fill(card, describeChoice(event), facts(event));
    },
  };
}

function facts(event) {
  const full = (text) => times.full(Date.parse(text));
  const rows = {
    status: (STATUSES[event.status] ?? event.status) + (event.late ? ", late" : ""),
    reward: event.reward === null ? null : number(event.reward),
    asked: `${event.ask ? "yes" : "no"}: ${REASONS[event.reason] ?? event.reason}`,
    why: event.explanation || null,
    width: number(event.width),
    threshold: event.threshold === null ? "none: nothing is asked" : number(event.threshold),
    cost: event.ask ? number(event.cost) : null,
    decided: full(event.decided_at),
    due: event.due_at && full(event.due_at),
    answered: event.answered_at && full(event.answered_at),
  };
  const shown = Object.entries(rows).filter(([, words]) => words !== null && words !== undefined);
  return el(
    "dl",
    { class: "about" },
    shown.map(([key, words]) => el("div", {}, el("dt", {}, key), el("dd", {}, words))),
  );
}

// The latest decisions as a table, newest first.
// Rows are kept by event and updated in place; each leads to the decision with its payload.

import { agentPath } from "./api.js";
import { el, keyed, quoted, say, show } from "./dom.js";
import { REASONS, STATUSES, moment, number, times } from "./words.js";

const FIRST = 15; // rows at the start; so many more with every wish for older ones:
const PAGE = 50;
const MOST = 500; // as many as the service gives at once
const TONES = {
  open: "fair",
  held: "fair",
  answered: "good",
  unanswered: "bad",
  expired: "",
  released: "",
  not_asked: "",
};

export function makeDecisions(name, app) {
  const body = el("tbody");
  const columns = ["No.", "When", "Action", "Context", "Asked?", "Status", "Reward", "Event"];
  const table = el(
    "table",
    { class: "decisions" },
    el("caption", { class: "unseen" }, "The latest decisions"),
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        columns.map((words) => el("th", { scope: "col" }, words)),
      ),
    ),
    body,
  );
  const scroll = el(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": "The latest decisions" },
    table,
  );
  const call = `POST ${agentPath(name, "decisions")}`;
  const example = el("pre", { class: "example" });
  const none = el(
    "div",
    { class: "empty" },
    el(
      "p",
      {},
      "No decisions yet: they appear here when your program asks for them with ",
      el("code", {}, call),
      ", or from Python:",
    ),
    example,
  );
  const more = el("button", { type: "button", class: "link", onclick: older, hidden: true }, "Show older ones");
  const node = el(
    "section",
    { "aria-labelledby": "decisions-heading" },
    el("h2", { id: "decisions-heading" }, "Recent decisions"),
    none,
    scroll,
    more,
  );
  let rows = FIRST;

  function older() {
    rows = Math.min(rows === FIRST ? PAGE : rows + PAGE, MOST);
    app.refreshNow();
  }

  function update({ events, next }, agent) {
    show(none, events.length === 0);
    if (events.length === 0) say(example, program(name, agent.body));
    show(scroll, events.length > 0);
    table.classList.toggle("plain", !agent.body.contexts); // without contexts the column would be empty
    show(more, (next !== null && rows < MOST) || rows < events.length);
    keyed(
      body,
      events.slice(0, rows),
      (event) => event.event_id,
      (event) => makeRow(name, event),
    );
  }

  return { node, update, rows: () => rows };
}

// A program to start from, with an agent's own names. In Python, JSON texts are texts too.
function program(name, { learner, contexts, rewards }) {
  const agent = JSON.stringify(name);
  const context = contexts ? `, context=${JSON.stringify(contexts[0])}` : "";
  const rest = learner.type === "OFUL" ? ", features=rows" : context;
  return [
    "import sparingly as sp  # pip install 'sparingly[client]'",
    "",
    `client = sp.Client(${JSON.stringify(location.origin)})  # token="…" if the service needs one`,
    `decision = client.decide(${agent}${rest})`,
    "print(decision.action)  # do this",
    "if decision.ask:  # ask what it was worth, and report the answer, now or later",
    `    client.observe(${agent}, decision.event_id, reward=${rewards.high})`,
  ].join("\n");
}

function makeRow(name, event) {
  const place = `#/agents/${encodeURIComponent(name)}/decisions/${encodeURIComponent(event.event_id)}`;
  const at = Date.parse(event.decided_at);
  const when = el("time", { datetime: event.decided_at, title: times.full(at) }, moment(event.decided_at));
  const status = el("span", { class: "badge" });
  const reward = el("td", { class: "value" });
  const asked = el("span", { class: "quiet" }, `${event.ask ? "" : "no: "}${REASONS[event.reason] ?? event.reason}`);
  const node = el(
    "tr",
    { "data-number": event.number },
    el("th", { scope: "row" }, el("a", { href: place }, number(event.number))),
    el("td", {}, when),
    el("td", { class: "label" }, quoted(event.action)),
    el("td", { class: "label context" }, event.context === null ? "–" : quoted(event.context)),
    el("td", {}, event.ask ? el("strong", {}, "asked: ") : null, asked),
    el("td", {}, status),
    reward,
    el("td", { class: "event" }, quoted(event.event_id)),
  );
  function update({ status: now, reward: given, late }) {
    say(status, (STATUSES[now] ?? now) + (late ? ", late" : ""));
    status.className = `badge ${TONES[now] ?? ""}`;
    say(reward, number(given));
  }
  return { node, update };
}

// The view of one agent: its budget, asks and answers over time, its estimates, widths and latest decisions.
// Its counters are fetched at every look, the rest only if one of them has changed.

import { agentPath, get } from "./api.js";
import { TimeChart, WidthChart, corners } from "./charts.js";
import { makeControls } from "./controls.js";
import { makeDecisions } from "./decisions.js";
import { el, fill, quoted, say, show } from "./dom.js";
import { makeEstimates } from "./estimates.js";
import { count, number, settings, times } from "./words.js";

const CHARTED = 50; // decisions whose widths are drawn
const STALE = 10; // rounds after which everything is fetched again, whether or not a counter has changed

export function openAgent(root, [name], app) {
  const paused = el("span", { class: "badge fair", hidden: true }, "paused: asks nothing");
  const about = el("p", { class: "quiet" });
  const described = quoted("");
  const answer = el("a", { class: "button main", href: `#/agents/${encodeURIComponent(name)}/answer` });
  const tiles = makeTiles();
  const controls = makeControls(name, app);
  const budget = new TimeChart("Budget", "units", false);
  const asks = new TimeChart("Asks and answers", "so far", true);
  const widths = new WidthChart("Widths against the threshold");
  const estimates = makeEstimates(name, app);
  const decisions = makeDecisions(name, app);
  fill(
    root,
    el("p", { class: "path" }, el("a", { href: "#/" }, "Agents"), " /"),
    el("div", { class: "heading" }, el("h1", { tabindex: -1 }, quoted(name), " ", paused), answer),
    el("p", {}, described),
    about,
    tiles.node,
    controls.node,
    el("section", { "aria-label": "Over time", class: "figures" }, budget.node, asks.node, widths.node),
    estimates.node,
    decisions.node,
  );

  let seen = "";
  let rounds = 0;

  return {
    title: name,
    async refresh(signal) {
      const agent = await get(agentPath(name), signal);
      const stamp = JSON.stringify([agent, estimates.choice(), decisions.rows()]);
      if (stamp !== seen || ++rounds >= STALE) {
        const [past, recent] = await Promise.all([
          get(`${agentPath(name, "history")}?points=200`, signal),
          get(`${agentPath(name, "decisions")}?payload=false&limit=${Math.max(CHARTED, decisions.rows())}`, signal),
          estimates.refresh(agent, signal),
        ]);
        drawPast(budget, asks, agent, past.points);
        decisions.update(recent, agent);
        drawWidths(widths, recent.events.slice(0, CHARTED));
        [seen, rounds] = [stamp, 0];
      }
      app.title(agent.open ? `(${agent.open}) ${name}` : name);
      show(paused, agent.paused);
      say(about, settings(agent.body)).dataset.rule = agent.body.rule.type;
      say(described, agent.body.description);
      show(described.parentElement, agent.body.description !== "");
      say(answer, agent.open ? `Answer ${count(agent.open, "open ask")}` : "Answer view");
      answer.classList.toggle("main", agent.open > 0);
      tiles.update(agent);
      controls.update(agent);
    },
    close() {
      for (const part of [budget, asks, widths, estimates]) part.close();
    },
  };
}

/** The numbers that matter most, large. */
function makeTiles() {
  const entries = {
    left: ["left to spend", (agent) => [agent.budget.left, `of ${number(agent.budget.granted)} granted`]],
    spent: [
      "spent",
      (agent) => [agent.budget.spent, agent.budget.held ? `and ${number(agent.budget.held)} held` : "none held"],
    ],
    decisions: ["decisions", (agent) => [agent.decisions, `since ${times.date(Date.parse(agent.created_at))}`]],
    asks: ["asks", (agent) => [agent.asks, `${number(percent(agent.asks, agent.decisions))} % of decisions`]],
    answers: ["answers", (agent) => [agent.answers, `${number(percent(agent.answers, agent.asks))} % of asks`]],
    open: [
      "open asks",
      (agent) => [
        agent.open,
        agent.held ? `and ${number(agent.held)} held` : agent.open ? "wait for an answer" : "none waits",
      ],
    ],
  };
  const made = Object.entries(entries).map(([key, [label, values]]) => {
    const large = el("span", { class: "count", "data-count": key });
    const small = el("span", { class: "quiet" });
    const node = el("li", { class: key }, el("span", { class: "label" }, label), large, small);
    return {
      node,
      update: (agent) =>
        [large, small].forEach((part, place) => {
          const value = values(agent)[place];
          say(part, place === 0 ? number(value) : value);
        }),
    };
  });
  return {
    node: el(
      "ul",
      { class: "tiles", "aria-label": "Counters" },
      made.map((tile) => tile.node),
    ),
    update: (agent) => made.forEach((tile) => tile.update(agent)),
  };
}

const percent = (part, whole) => (whole ? Math.round((1000 * part) / whole) / 10 : 0);

/** Both charts over time; the points go from the creation of the agent to this moment. */
function drawPast(budget, asks, agent, points) {
  const { growth } = agent.body.budget;
  const rate = growth.by === "clock" ? growth.amount / growth.every / 1000 : 0;
  const line = (value, slope) =>
    corners(
      points.map((point) => [Date.parse(point.at), value(point)]),
      slope,
    );
  const spent = line((point) => point.spent);
  const { granted, spent: gone, held } = agent.budget;
  budget.update(
    [
      { name: "granted", kind: "granted", points: line((point) => point.granted, rate) },
      {
        name: "held",
        kind: "held",
        fill: "hatched",
        under: spent,
        points: line((point) => point.spent + point.held),
        values: line((point) => point.held).map(([, value]) => value),
      },
      { name: "spent", kind: "spent", fill: "plain", points: spent },
    ],
    `Budget over time: now ${number(granted)} granted, ${number(held)} held, ${number(gone)} spent`,
  );
  if (agent.asks === 0) {
    asks.say(
      agent.decisions === 0
        ? "No decisions yet: the agent waits for your program to ask it what to do."
        : `No asks yet: none of ${count(agent.decisions, "decision")} was worth asking about, or could be paid for.`,
    );
    return;
  }
  asks.idle = agent.answers ? "" : "No answers yet: people give them in the answer view, or your program sends them.";
  asks.update(
    [
      { name: "asks", kind: "asks", points: line((point) => point.asks) },
      { name: "answers", kind: "answers", points: line((point) => point.answers) },
    ],
    `Asks and answers over time: now ${count(agent.asks, "ask")} and ${count(agent.answers, "answer")}`,
  );
}

function drawWidths(widths, events) {
  if (events.length === 0) {
    widths.say(
      "No decisions yet: each one will show how uncertain the agent was, and how uncertain it had to be to ask.",
    );
    return;
  }
  const asked = events.filter((event) => event.ask).length;
  widths.update(
    events,
    `Widths of the latest ${count(events.length, "decision")}, of which ${number(asked)} were asked about`,
  );
}

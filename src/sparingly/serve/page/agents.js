// The first view: all agents with their budgets, and which of them wait for answers.
// Each entry is kept and updated in place, so that a link keeps the focus while numbers change.

import { get } from "./api.js";
import { budgetBar } from "./budget.js";
import { el, fill, keyed, quoted, say, show } from "./dom.js";
import { count, settings } from "./words.js";

export function openAgents(root, _, app) {
  const list = el("ul", { class: "agents" });
  const none = el(
    "div",
    { class: "card", hidden: true },
    el(
      "p",
      {},
      "No agents yet. An agent chooses between actions for your program, and says when it is worth asking ",
      "a person how good its choice was.",
    ),
    el("p", {}, el("a", { class: "button main", href: "#/new" }, "Create an agent")),
  );
  const head = el(
    "div",
    { class: "heading" },
    el("h1", { tabindex: -1 }, "Agents"),
    el("a", { class: "button", href: "#/new" }, "New agent"),
  );
  fill(root, head, none, list);
  return {
    title: "Agents",
    async refresh(signal) {
      const agents = await allAgents(signal);
      show(none, agents.length === 0);
      keyed(list, agents, (agent) => agent.name, makeEntry);
      const open = agents.reduce((sum, agent) => sum + agent.open, 0);
      app.title(open ? `(${open}) Agents` : "Agents");
    },
  };
}

async function allAgents(signal) {
  const found = [];
  for (let after = ""; after !== null; ) {
    const page = await get(`v1/agents?after=${encodeURIComponent(after)}`, signal);
    found.push(...page.agents);
    after = page.next ?? null;
  }
  return found;
}

function makeEntry({ name }) {
  const link = `#/agents/${encodeURIComponent(name)}`;
  const paused = el("span", { class: "badge fair" }, "paused");
  const about = el("p", { class: "quiet" });
  const described = quoted("");
  const description = el("p", {}, described);
  const bar = budgetBar();
  const counts = el("p", { class: "quiet" });
  const answer = el("a", { class: "button main", href: `${link}/answer` });
  const node = el(
    "li",
    { class: "card" },
    el("div", { class: "heading" }, el("h2", {}, el("a", { href: link }, quoted(name)), " ", paused), answer),
    description,
    about,
    bar.node,
    counts,
  );
  function update(agent) {
    show(paused, agent.paused);
    say(described, agent.body.description);
    show(description, agent.body.description !== "");
    say(about, settings(agent.body)).dataset.rule = agent.body.rule.type;
    bar.update(agent.budget);
    say(
      counts,
      `${count(agent.decisions, "decision")} · ${count(agent.asks, "ask")} · ${count(agent.answers, "answer")}`,
    );
    say(answer, `Answer ${count(agent.open, "open ask")}`);
    show(answer, agent.open > 0);
  }
  return { node, update };
}

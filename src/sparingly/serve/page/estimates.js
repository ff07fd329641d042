// What the agent thinks of its actions: a mean and an interval for each, in the context that is chosen.
// A table with drawings: the numbers can be read out, and on a phone each action becomes a card.

import { agentPath, get } from "./api.js";
import { paintInterval, paintScale } from "./charts.js";
import { el, fill, keyed, quoted, say, show, svg } from "./dom.js";
import { number } from "./words.js";

const MANY = 300; // more contexts than this are typed, not chosen from a list
const FIRST = 20; // so many actions are shown at first

export function makeEstimates(name, app) {
  const choice = el("div", { class: "chooser", hidden: true });
  const explained = el("p", { class: "quiet" });
  const scale = svg("svg", { class: "panel", height: 22, "aria-hidden": "true" });
  const head = el(
    "tr",
    {},
    ["Action", null, "Estimate and interval", "Answers / asks", "Width"].map((words) =>
      el("th", { scope: "col", class: words === null ? "drawn" : "" }, words ?? scale),
    ),
  );
  const body = el("tbody");
  const table = el(
    "table",
    { class: "estimates" },
    el("caption", { class: "unseen" }, "Estimates of the actions"),
    el("thead", {}, head),
    body,
  );
  const more = el("button", { type: "button", class: "link", onclick: showAll, hidden: true });
  const node = el(
    "section",
    { "aria-labelledby": "estimates-heading" },
    el("div", { class: "heading" }, el("h2", { id: "estimates-heading" }, "Estimates"), choice),
    explained,
    table,
    more,
  );
  const observer = new ResizeObserver(() => latest && draw());
  observer.observe(table);

  let chooser = null;
  let latest = null;
  let all = false;
  let width = 0;

  function showAll() {
    all = true;
    draw();
  }

  /** The contexts cannot change, so the chooser is made once. */
  function makeChooser(contexts) {
    const attributes = { id: "context", onchange: () => app.refreshNow() };
    if (contexts.length > MANY) chooser = el("input", { ...attributes, value: contexts[0], autocomplete: "off" });
    else
      chooser = el(
        "select",
        attributes,
        contexts.map((context) => el("option", { value: context }, context)),
      );
    fill(choice, el("label", { for: "context" }, "Context"), chooser);
    show(choice, true);
  }

  async function refresh(agent, signal) {
    const { contexts, rewards } = agent.body;
    if (contexts && !chooser) makeChooser(contexts);
    const query = chooser ? `?context=${encodeURIComponent(chooser.value)}` : "";
    try {
      latest = { ...(await get(agentPath(name, "estimates") + query, signal)), rewards, agent };
    } catch (error) {
      if (![404, 422].includes(error.status)) throw error;
      latest = null; // a context that there is not, or features that no decision has brought yet
      fill(body);
      fill(explained, quoted(error.detail || error.title));
      return;
    }
    draw();
  }

  function draw() {
    const { estimates, threshold, rewards, agent } = latest;
    const means = estimates.map(({ mean }) => mean).filter((mean) => mean !== null);
    const reach = [Math.min(rewards.low, ...means), Math.max(rewards.high, ...means)];
    say(explained, explanation(means.length, threshold, agent));
    const shown = all ? estimates : estimates.slice(0, FIRST);
    keyed(
      body,
      shown.map((estimate, place) => ({ estimate, place })),
      ({ place }) => place,
      makeRow,
    );
    width = body.querySelector("svg")?.clientWidth ?? 0;
    if (width > 0) {
      scale.setAttribute("width", width);
      scale.setAttribute("viewBox", `0 0 ${width} 22`);
      paintScale(scale, width, reach);
      [...body.querySelectorAll("svg")].forEach((frame, place) => {
        frame.setAttribute("viewBox", `0 0 ${width} 26`);
        paintInterval(frame, width, reach, shown[place]);
      });
    }
    for (const badge of body.querySelectorAll("[data-width]")) {
      show(badge, threshold !== null && Number(badge.dataset.width) >= threshold && !agent.paused);
    }
    show(more, shown.length < estimates.length);
    say(more, `Show all ${number(estimates.length)} actions`);
  }

  return { node, refresh, choice: () => chooser?.value ?? "", close: () => observer.disconnect() };
}

function explanation(known, threshold, agent) {
  const start = known === 0 ? "No answers yet: the first ones will put a mark on the scale. " : "";
  if (agent.paused) return `${start}The agent is paused and asks nothing.`;
  if (agent.body.rule.type === "Never") return `${start}Its rule asks nothing.`;
  if (threshold === null) return `${start}At present no width is enough to ask: the budget could not carry it.`;
  if (threshold === 0) return `${start}At present the agent asks about every action, whatever its width.`;
  const width =
    agent.body.learner.type === "OFUL"
      ? "how uncertain its features leave it, for those of the latest decision."
      : "how uncertain it still is, by the number of asks, on a scale of rewards from 0 to 1.";
  return `${start}At present the agent asks about an action whose width is at least ${number(threshold)}: ${width}`;
}

function makeRow({ estimate: { action } }) {
  const frame = svg("svg", { class: "interval", height: 26, role: "img" });
  const words = el("td", { class: "value" });
  const answers = el("td", { "data-label": "answers / asks" });
  const width = el("span");
  const enough = el("span", { class: "badge good" }, "would ask");
  const node = el(
    "tr",
    {},
    el("th", { scope: "row" }, quoted(action)),
    el("td", { class: "drawn" }, frame),
    words,
    answers,
    el("td", { "data-label": "width" }, width, " ", enough),
  );
  function update({ estimate }) {
    const { mean, low, high } = estimate;
    const range = low === null ? "" : ` (${number(low)} to ${number(high)})`;
    say(words, mean === null ? "no answer yet" : `${number(mean)}${range}`);
    frame.setAttribute("aria-label", mean === null ? "no answer yet" : `mean ${number(mean)}${range}`);
    say(answers, `${number(estimate.answered)} / ${number(estimate.asked)}`);
    answers.title = estimate.asked === null ? "not counted by action: features tell them apart" : "";
    say(width, number(estimate.width));
    enough.dataset.width = estimate.width;
  }
  return { node, update };
}

// The form that creates an agent. The service judges it; what it says is shown next to the form.
// Only the fields that the chosen learner, rule and growth need are shown; the rest has the service's own defaults.

import { agentPath, put } from "./api.js";
import { el, field, fill, select, show, trouble } from "./dom.js";

const LEARNERS = {
  UCB1: "UCB1: actions, with or without contexts",
  KLUCB: "KLUCB: the same, for yes or no answers",
  MOSS: "MOSS: the same, with a tighter bonus",
  Thompson: "Thompson: samples from its posterior",
  OFUL: "OFUL: actions with features",
};
const RULES = {
  BalancedMatching: "BalancedMatching (recommended): a reserve, and the rest where it helps most",
  ExactMatching: "ExactMatching: safe against any adversary",
  PaperMatching: "PaperMatching: the paper’s rule, for comparison",
  Matching: "Matching: asks if an interval is wider than α·B^(β−1)",
  Greedy: "Greedy: asks whenever the budget allows",
  Always: "Always: asks until the budget is spent",
  Never: "Never: does not ask",
};
const GROWTHS = {
  grants: "only when someone grants more",
  clock: "with time",
  decisions: "with every decision",
};
const PERIODS = { 3600: "hour", 86400: "day", 604800: "week" };
const SCALES = {
  "0 1": "yes or no (0 to 1)",
  "1 5": "1 to 5",
  "0 10": "0 to 10",
  "0 100": "0 to 100",
  other: "another scale",
};

const box = (attributes) => el("input", { type: "number", step: "any", ...attributes });
const lines = (area) =>
  area.value
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);
const row = (...fields) => el("div", { class: "row" }, fields);

/** All inputs, by name. */
function makeInputs() {
  return {
    name: el("input", {
      required: true,
      maxlength: 64,
      autocomplete: "off",
      autocapitalize: "off",
      spellcheck: "false",
      pattern: "[A-Za-z0-9]([A-Za-z0-9._\\-]{0,62}[A-Za-z0-9])?",
      title: "Letters and digits; inside also . _ -",
    }),
    description: el("input", { maxlength: 2000, autocomplete: "off" }),
    learner: select(LEARNERS),
    dim: box({ min: 1, max: 256, step: 1, value: 8, required: true }),
    actions: el("textarea", { rows: 4, spellcheck: "false" }),
    contexts: el("textarea", { rows: 4, spellcheck: "false" }),
    rule: select(RULES),
    alpha: box({ min: 0, value: 1, required: true }),
    beta: box({ min: 0, max: 1, value: 0.5, required: true }),
    policies: box({ min: 1, max: 64, step: 1, value: 1, required: true }),
    initial: box({ min: 0, value: 100, required: true }),
    growth: select(GROWTHS),
    amount: box({ min: 0, value: 50, required: true }),
    every: select(PERIODS),
    rate: box({ min: 0, value: 5, required: true }),
    scale: select(SCALES),
    low: box({ value: 0, required: true }),
    high: box({ value: 1, required: true }),
    costs: el("textarea", { rows: 3, spellcheck: "false" }),
    closeAfter: box({ min: 0 }),
    late: select({ learn: "is learned from all the same", keep: "is kept for the log only" }),
    lease: box({ min: 0, value: 600 }),
    bonus: box({ min: 0, value: 1 }),
    ties: select({ random: "a random one wins", first: "the first action wins" }),
    noise: box({ min: 0, value: 0.1 }),
    seed: box({ min: 0, step: 1, value: 0 }),
  };
}

/** The body of the request; what is left empty is left to the service. */
function body(i) {
  const value = (input) => (input.value === "" ? undefined : Number(input.value));
  const linear = i.learner.value === "OFUL";
  const learner = { type: i.learner.value, scale: value(i.bonus), ties: i.ties.value };
  if (linear) Object.assign(learner, { dim: value(i.dim), noise: value(i.noise) });
  const rule = { type: i.rule.value };
  if (rule.type === "Matching") Object.assign(rule, { alpha: value(i.alpha), beta: value(i.beta) });
  if (rule.type === "Greedy") rule.policies = value(i.policies);
  const growth = { by: i.growth.value };
  if (growth.by === "clock") Object.assign(growth, { amount: value(i.amount), every: Number(i.every.value) });
  if (growth.by === "decisions") growth.rate = Number((value(i.rate) / 100).toPrecision(12));
  const [actions, contexts, costs] = [lines(i.actions), linear ? [] : lines(i.contexts), lines(i.costs)];
  const hours = value(i.closeAfter);
  return {
    learner,
    rule,
    actions: actions.length ? actions : undefined,
    contexts: contexts.length ? contexts : undefined,
    costs: costs.length ? costs.map((cost) => (Number.isFinite(Number(cost)) ? Number(cost) : cost)) : undefined,
    budget: { initial: value(i.initial), growth },
    rewards: { low: value(i.low), high: value(i.high) },
    unanswered: { close_after: hours === undefined ? null : hours * 3600, late: i.late.value },
    lease: value(i.lease),
    seed: value(i.seed),
    description: i.description.value,
  };
}

/** Show the fields that the choices call for; a hidden one is disabled, so that it cannot be found wanting. */
function follow(i) {
  const needed = [
    [i.learner.value === "OFUL", i.dim, i.noise],
    [i.learner.value !== "OFUL", i.contexts],
    [i.rule.value === "Matching", i.alpha, i.beta],
    [i.rule.value === "Greedy", i.policies],
    [i.growth.value === "clock", i.amount, i.every],
    [i.growth.value === "decisions", i.rate],
    [i.scale.value === "other", i.low, i.high],
  ];
  for (const [wanted, ...inputs] of needed) {
    for (const input of inputs) {
      input.disabled = !wanted;
      show(input.closest(".field"), wanted);
    }
  }
  i.actions.required = i.learner.value !== "OFUL";
  if (i.scale.value !== "other") [i.low.value, i.high.value] = i.scale.value.split(" ");
}

export function openCreate(root, _, app) {
  const i = makeInputs();
  i.every.value = "86400";
  const refusal = el("div", { class: "refusal", role: "alert", tabindex: -1, hidden: true });
  const button = el("button", { class: "main" }, "Create the agent");
  const form = el(
    "form",
    { class: "card create", onsubmit: submit, onchange: () => follow(i) },
    parts(i),
    refusal,
    button,
  );
  fill(root, el("h1", { tabindex: -1 }, "New agent"), form);
  follow(i);

  async function submit(event) {
    event.preventDefault();
    if (button.disabled) return;
    button.disabled = true;
    show(refusal, false);
    try {
      const agent = await put(agentPath(i.name.value), body(i));
      app.announce(`${agent.name} is there.`);
      location.hash = `#/agents/${encodeURIComponent(agent.name)}`;
    } catch (error) {
      fill(refusal, trouble(error));
      show(refusal, true).focus();
    } finally {
      button.disabled = false;
    }
  }

  return { title: "New agent", refresh: async () => {} };
}

function parts(i) {
  return [
    row(
      field("Name", i.name, "Letters and digits; inside also . _ -"),
      field("Description (optional)", i.description, "For the people who answer: what is a good choice?"),
    ),
    row(
      field("Actions, one per line", i.actions, "What it can choose, for example: small, large"),
      field(
        "Contexts, one per line (optional)",
        i.contexts,
        "Situations that it learns about separately, for example: code, chat",
      ),
    ),
    row(field("Learner", i.learner), field("Number of features", i.dim)),
    row(field("When it asks", i.rule), field("α", i.alpha), field("β", i.beta), field("Policies", i.policies)),
    row(
      field("Budget at the start", i.initial, "In units; an ask costs one unless costs are set"),
      field("It grows", i.growth),
      field("by", i.amount),
      field("every", i.every),
      field("by % of a unit", i.rate),
    ),
    row(field("Scale of answers", i.scale), field("Worst", i.low), field("Best", i.high)),
    el(
      "details",
      {},
      el("summary", {}, "Advanced"),
      field(
        "Costs of asking, one per line",
        i.costs,
        "One number for each action, in their order; empty: one unit each",
      ),
      row(
        field("Unanswered asks close after (hours)", i.closeAfter, "Empty: never. They stay spent"),
        field("An answer after that", i.late),
      ),
      row(
        field("Scale of the bonus", i.bonus, "1 is what the theory asks for; smaller explores less"),
        field("Noise of the answers", i.noise),
        field("Of equally good actions", i.ties),
      ),
      row(field("Deferred asks expire after (seconds)", i.lease), field("Seed", i.seed, "For choices by chance")),
    ),
  ];
}

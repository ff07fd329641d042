// What a person may do to an agent: grant it more budget, and keep it from asking for a while.
// Neither can do harm twice: a grant carries its own id, and pausing what is paused changes nothing.

import { agentPath, freshId, post } from "./api.js";
import { el, fill, say, show, trouble } from "./dom.js";
import { number } from "./words.js";

export function makeControls(name, app) {
  const amount = el("input", {
    id: "grant-amount",
    type: "number",
    step: "any",
    min: 0.000001,
    required: true,
    inputmode: "decimal",
  });
  const grant = el("button", {}, "Grant");
  const form = el(
    "form",
    { class: "grant", onsubmit: submit },
    el("label", { for: "grant-amount" }, "Grant more budget"),
    amount,
    grant,
  );
  const pause = el("button", { type: "button", onclick: toggle });
  const result = el("p", { class: "result", role: "status" });
  let paused = false;
  let pending = null; // a grant that was sent, and may or may not have arrived

  /** The id belongs to what the person wants, not to the click: a second click or a retry is the same grant. */
  async function submit(event) {
    event.preventDefault();
    if (pending?.sending) return;
    const wanted = Number(amount.value);
    if (pending?.amount !== wanted) pending = { amount: wanted, id: freshId("page") };
    pending.sending = true;
    grant.setAttribute("aria-disabled", "true");
    try {
      const { budget } = await post(agentPath(name, "grants"), { grant_id: pending.id, amount: wanted });
      pending = null;
      amount.value = "";
      say(result, `${number(wanted)} granted: ${number(budget.left)} left of ${number(budget.granted)}.`);
      app.refreshNow();
    } catch (error) {
      fill(
        result,
        trouble(error),
        error.status && error.status !== 503 ? "" : " Granting the same again is safe: it counts once.",
      );
      if (error.status && error.status !== 503) pending = null;
      else pending.sending = false;
    } finally {
      grant.removeAttribute("aria-disabled");
    }
  }

  async function toggle() {
    if (pause.disabled) return;
    pause.disabled = true;
    try {
      update(await post(agentPath(name, paused ? "resume" : "pause")));
      say(result, paused ? "Paused: it goes on deciding, and asks nothing." : "It asks again.");
      app.refreshNow();
    } catch (error) {
      fill(result, trouble(error));
    } finally {
      pause.disabled = false;
      pause.focus();
    }
  }

  function update(agent) {
    paused = agent.paused;
    say(pause, paused ? "Resume asking" : "Pause asking");
    show(pause, true);
  }

  const node = el("section", { class: "card controls", "aria-label": "Control" }, form, pause, result);
  return { node, update };
}

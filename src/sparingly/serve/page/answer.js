// The answer view: a person works through the open asks of an agent, one after the other, by mouse or keyboard.
// An answer cannot be taken back, so a key chooses and Enter sends, unless the person wants it faster.

import { agentPath, get, post } from "./api.js";
import { describeChoice } from "./decision.js";
import { el, fill, quoted, say, show, trouble } from "./dom.js";
import { makeQueue } from "./queue.js";
import { makeScore } from "./score.js";
import { count, number } from "./words.js";

const AGAIN = 2000; // milliseconds until an answer that could not be stored is sent again
const BOUNCE = 400; // a key that was pressed twice by accident must not answer the next ask too

const MOVING = Symbol("on the way to the next ask");

let fast = false; // whether a single key sends

export function openAnswer(root, [name, wanted], app) {
  const parts = makeParts(name, { submit, skip, help: () => help.showModal(), again });
  const { card, form, send, notice, idle, help } = parts;
  const queue = makeQueue(name, wanted);
  const closing = new AbortController();
  let agent = null;
  let score = null;
  let current = null;
  let gone = false; // someone else answered it, or it was closed, while it was on the screen
  let sending = null;
  let done = 0;
  let last = { key: "", at: 0 };
  root.classList.add("answering");
  fill(root, parts.nodes);
  document.addEventListener("keydown", pressed);

  async function refresh(signal) {
    agent = await get(agentPath(name), signal);
    if (!score) setUp();
    if (!current) display(await queue.next(signal));
    else if (!sending && !gone) await check(signal);
    progress();
  }

  function setUp() {
    score = makeScore(agent.body.rewards, (picked) => {
      last = { key: "", at: 0 }; // a choice in between: what comes next is meant
      update();
      if (picked && fast) submit();
    });
    form.prepend(score.node);
    say(parts.described, agent.body.description);
    show(parts.described.parentElement, agent.body.description !== "");
    show(parts.quick, score.keys.length > 0);
    fill(help.querySelector("tbody"), helpRows(score.keys));
  }

  /** Put an ask on the screen, or say that there is none. */
  function display(event) {
    current = event;
    gone = false;
    sending = null;
    last.at = performance.now(); // from now on a bounced key would count for this one
    score.set(null);
    show(card, current !== null);
    show(idle, current === null);
    if (current) {
      if (document.activeElement?.matches("form button")) card.focus(); // Enter is to send, not to press it once more
      fill(parts.shown, describeChoice(current));
      app.announce(`Decision ${current.number}: it chose ${current.action}.`);
    }
    update();
    progress();
  }

  function update() {
    send.disabled = !gone && (score.value() === null || sending !== null);
    say(send, gone ? "Next" : sending ? "Sending…" : "Send");
    score.node.disabled = gone;
  }

  function progress() {
    if (!agent) return;
    const skipped = queue.skipped();
    const told = [`${count(agent.open, "open ask")} left`];
    if (done) told.push(`${number(done)} answered by you`);
    if (skipped) told.push(`${number(skipped)} skipped`);
    say(parts.left, told.join(", "));
    parts.bar.max = Math.max(1, done + agent.open);
    parts.bar.value = done;
    say(
      parts.idleWords,
      skipped
        ? `You have skipped ${count(skipped, "ask")}, and there is no other.`
        : "No open asks: everything is answered. New ones appear here by themselves.",
    );
    show(parts.again, skipped > 0);
    app.title(agent.open ? `(${agent.open}) Answer · ${name}` : `Answer · ${name}`);
  }

  /** Is the ask on the screen still open? */
  async function check(signal) {
    const [shown, event] = [current, await get(agentPath(name, "decisions", current.event_id), signal)];
    if (current !== shown || sending || event.status === shown.status) return;
    gone = true;
    fill(
      notice,
      event.status === "answered"
        ? `Someone else has answered this meanwhile, with ${number(event.reward)}.`
        : "This ask is not open any more.",
    );
    update();
  }

  async function submit() {
    if (gone && !sending) return advance();
    if (!current || gone || sending || score.value() === null) return undefined;
    const [event, reward] = [current, score.value()];
    sending = event;
    update();
    for (;;) {
      try {
        const feedback = await post(
          agentPath(name, "decisions", event.event_id, "feedback"),
          { reward },
          closing.signal,
        );
        answered(event, feedback);
        return advance();
      } catch (error) {
        if (closing.signal.aborted || sending !== event) return undefined;
        if (error.status === 409) {
          await taken(event, error);
          return advance();
        }
        if (error.status && error.status !== 503) {
          fill(notice, trouble(error));
          sending = null;
          return update();
        }
        fill(notice, trouble(error), " Your answer is kept, and sent again by itself until it is stored.");
        await new Promise((resolve) => setTimeout(resolve, AGAIN));
        if (closing.signal.aborted || sending !== event) return undefined; // skipped meanwhile
      }
    }
  }

  function answered(event, { reward, late, learned }) {
    done += 1;
    agent.open = Math.max(0, agent.open - (event.status === "open" ? 1 : 0));
    const fate = late
      ? learned
        ? " It was late, and is learned from all the same."
        : " It was late, and is kept for the log only."
      : "";
    say(notice, `Stored ${number(reward)} for decision ${number(event.number)}.${fate}`);
  }

  async function taken(event, error) {
    const known = await get(agentPath(name, "decisions", event.event_id), closing.signal).catch(() => null);
    if (known?.status === "answered") {
      const theirs = `Someone else had answered decision ${number(event.number)} already: ${number(known.reward)}.`;
      say(notice, `${theirs} Yours was not stored.`);
    } else fill(notice, trouble(error));
  }

  /** On to the next one; if the service must be asked for it and is not there, the next look at it will do. */
  async function advance() {
    sending = MOVING;
    queue.pass(current);
    const next = queue.ready() ?? (await queue.next(closing.signal).catch(() => null));
    if (!closing.signal.aborted) display(next);
  }

  function skip() {
    if (!current || sending === MOVING) return;
    queue.skip(current);
    say(notice, `Skipped decision ${number(current.number)}.`);
    advance();
  }

  function again() {
    queue.goRound();
    app.refreshNow();
  }

  function pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || document.querySelector("dialog[open]"))
      return;
    const { target } = event;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (key === "?") help.showModal();
    else if (!current || (target.closest("a, button, summary") && key === "Enter")) return;
    else if (key === last.key && performance.now() - last.at < BOUNCE) return event.preventDefault();
    else if (key === "Enter") act(key, submit);
    else if (key === "s") act(key, skip);
    else if (gone || sending || !score.press(key, target)) return;
    else if (fast) last = { key, at: performance.now() };
    event.preventDefault();
  }

  function act(key, action) {
    last = { key, at: performance.now() };
    action();
  }

  return {
    title: `Answer · ${name}`,
    refresh,
    close() {
      closing.abort();
      document.removeEventListener("keydown", pressed);
    },
  };
}

/** Everything that is on the screen. */
function makeParts(name, { submit, skip, help, again }) {
  const place = `#/agents/${encodeURIComponent(name)}`;
  const left = el("p", { class: "left" });
  const bar = el("progress", { value: 0, max: 1, "aria-label": "Answered of all" });
  const described = quoted("");
  const shown = el("div", { class: "shown" });
  const send = el("button", { class: "main" }, "Send");
  const notice = el("p", { class: "notice", role: "status" });
  const quick = el("input", {
    type: "checkbox",
    onchange: () => {
      fast = quick.checked;
    },
  });
  quick.checked = fast;
  const label = el("label", { class: "check" }, quick, "send at once");
  const buttons = el(
    "div",
    { class: "buttons" },
    send,
    el("button", { type: "button", onclick: skip }, "Skip ", el("kbd", { "aria-hidden": "true" }, "s")),
    label,
    el("button", { type: "button", class: "link", onclick: help }, "Keys ", el("kbd", { "aria-hidden": "true" }, "?")),
  );
  const form = el(
    "form",
    {
      onsubmit: (event) => {
        event.preventDefault();
        submit();
      },
    },
    buttons,
  );
  const card = el("section", { class: "card ask", "aria-label": "The ask", tabindex: -1, hidden: true }, shown, form);
  const idleWords = el("p");
  const round = el("button", { type: "button", onclick: again }, "Go through them again");
  const idle = el("div", { class: "card", hidden: true }, idleWords, round);
  const keys = helpDialog();
  const nodes = [
    el("p", { class: "path" }, el("a", { href: "#/" }, "Agents"), " / ", el("a", { href: place }, quoted(name)), " /"),
    el("h1", { tabindex: -1 }, "Answer"),
    el("p", {}, described),
    el("div", { class: "progress" }, left, bar),
    notice,
    card,
    idle,
    keys,
  ];
  return {
    nodes,
    quick: label,
    left,
    bar,
    described,
    shown,
    send,
    notice,
    form,
    card,
    idle,
    idleWords,
    again: round,
    help: keys,
  };
}

function helpDialog() {
  const close = el("button", { class: "main" }, "Close");
  const dialog = el(
    "dialog",
    { "aria-labelledby": "keys-heading" },
    el("h2", { id: "keys-heading" }, "Keys"),
    el("table", {}, el("tbody")),
    close,
  );
  close.addEventListener("click", () => dialog.close());
  return dialog;
}

function helpRows(keys) {
  const rows = [
    [keys.length ? keys.join(" ") : "0 … 9", "choose the score"],
    ["Enter", "send it"],
    ["s", "skip this one"],
    ["?", "this list"],
  ];
  return rows.map(([key, words]) => el("tr", {}, el("th", { scope: "row" }, el("kbd", {}, key)), el("td", {}, words)));
}

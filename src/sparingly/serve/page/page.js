// The page of the decision service: which view is shown, and fresh data for it every two seconds.
// It says when the service is not there or not ready, and asks for a token if one is needed.

import { Problem, Unreachable, get, hasToken, onTokenNeeded, readiness, useToken } from "./api.js";
import { openAgent } from "./agent.js";
import { openAgents } from "./agents.js";
import { openAnswer } from "./answer.js";
import { openCreate } from "./create.js";
import { openDecision } from "./decision.js";
import { el, fill, quoted } from "./dom.js";
import { times } from "./words.js";

const EVERY = 2000; // milliseconds between two looks at the service
const PROBE = 3; // at every third look it is asked whether it can decide: that makes it write to its storage
const ROUTES = [
  [/^$/, openAgents],
  [/^new$/, openCreate],
  [/^agents\/([^/]+)$/, openAgent],
  [/^agents\/([^/]+)\/answer(?:\/([^/]+))?$/, openAnswer],
  [/^agents\/([^/]+)\/decisions\/([^/]+)$/, openDecision],
];

const main = document.getElementById("main");
const banner = document.getElementById("connection");
const said = document.getElementById("said");
let view = null;
let leaving = new AbortController();
let timer = 0;
let running = false;
let again = false;
let looks = 0;

const app = {
  title: (words) => {
    document.title = `${words} · sparingly`;
  },
  announce: (words) => {
    said.textContent = words; // heard, not seen
  },
  refreshNow: () => look(),
};

/** A link for somebody who answers: it has a token in it, which leaves the address, and shows the answers alone. */
function takeLink() {
  const found = /^#\/link\/([^/]+)\/(agents\/[^/]+\/answer)$/.exec(location.hash);
  if (!found) return;
  useToken(found[1]);
  history.replaceState(null, "", `#/${found[2]}`);
}

/** Those who may only answer do not see the ways to all that they may not. */
async function narrow() {
  try {
    const me = await get("v1/me");
    document.body.classList.toggle("answers-only", !me.scopes.includes("read"));
  } catch {
    // The view says what is wrong.
  }
}

function route() {
  takeLink();
  leaving.abort();
  view?.close?.();
  leaving = new AbortController();
  const path = location.hash.replace(/^#\/?/, "").replace(/\/$/, "");
  const [open, parts] = destination(path);
  const root = el("div", { class: "view" });
  fill(main, root);
  view = open(root, parts, app);
  app.title(view.title);
  for (const link of document.querySelectorAll("nav [data-page]")) {
    const here = link.dataset.page === (path === "new" ? "new" : "agents");
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  look();
}

function destination(path) {
  try {
    for (const [pattern, open] of ROUTES) {
      const found = pattern.exec(path);
      if (found) return [open, found.slice(1).map((part) => part && decodeURIComponent(part))];
    }
  } catch {
    // An address with a broken escape leads nowhere, too.
  }
  return [openNothing, []];
}

function openNothing(root) {
  fill(root, el("h1", { tabindex: -1 }, "There is no such page"), el("p", {}, el("a", { href: "#/" }, "All agents")));
  return { title: "No such page", refresh: async () => {} };
}

/** Fetch what the view shows, now and then every two seconds for as long as someone may be looking. */
async function look() {
  if (running) {
    again = true;
    return;
  }
  clearTimeout(timer);
  if (document.hidden) return;
  running = true;
  const [shown, { signal }] = [view, leaving];
  let stop = false;
  try {
    const probe = looks++ % PROBE === 0 || banner.dataset.state;
    const [health] = await Promise.all([probe ? readiness(signal) : { status: "ok" }, shown.refresh(signal)]);
    report(health.status === "ok" ? null : notReady(health.detail));
  } catch (error) {
    if (!signal.aborted) stop = failed(error);
  }
  running = false;
  if (again || shown !== view) {
    again = false;
    look();
  } else if (!stop) timer = setTimeout(look, EVERY);
}

/** Say what is wrong; whether there is no use in trying again by itself. */
function failed(error) {
  if (error instanceof Unreachable) {
    report({
      title: "The service cannot be reached.",
      rest: "What you see may be out of date. Trying again every two seconds.",
    });
  } else if (!(error instanceof Problem)) {
    report({ title: "Something went wrong on this page.", rest: "Please reload it." });
    console.error(error);
  } else if (error.status === 503) report(notReady(error.detail));
  else if (error.status === 401) {
    const button = el("button", { type: "button", onclick: () => look() }, "Enter the token");
    report({ title: "This service needs a token.", rest: button });
    return true;
  } else if (error.status === 404) {
    fill(
      main,
      el("h1", { tabindex: -1 }, "Not found"),
      el("p", {}, quoted(error.detail || error.title)),
      el("p", {}, el("a", { href: "#/" }, "All agents")),
    );
    return true;
  } else report({ title: error.title, rest: quoted(error.detail) });
  return false;
}

const notReady = (detail) => ({
  title: "The service is not ready.",
  rest: [quoted(detail || "It cannot decide at the moment."), " Trying again every two seconds."],
});

/** The banner at the top; null: all is well. It changes only if the state does, so that it is read out once. */
function report(state) {
  const before = banner.dataset.state ?? "";
  const key = state ? state.title : "";
  if (key === before) return;
  banner.dataset.state = key;
  banner.className = state ? "bad" : "good";
  if (state) {
    fill(banner, el("strong", {}, quoted(state.title)), ` Since ${times.seconds(Date.now())}. `, state.rest);
  } else {
    fill(banner, "The service is back.");
    setTimeout(() => {
      if (banner.dataset.state === "") fill(banner);
    }, 5000);
  }
}

/** Ask the person for the token. Null: they would not say. */
function askForToken(refused) {
  return new Promise((resolve) => {
    const input = el("input", {
      id: "token",
      type: "password",
      required: true,
      autocomplete: "current-password",
      pattern: "[!-~]+",
      title: "Letters, digits and signs, without spaces",
    });
    const cancel = el("button", { type: "button", onclick: () => dialog.close() }, "Not now");
    const form = el(
      "form",
      {},
      el("h2", { id: "token-heading" }, "This service needs a token"),
      el(
        "p",
        {},
        "It is in the file that the service was started with (--token-file). It is kept until you close this tab.",
      ),
      refused ? el("p", { class: "refusal", role: "alert" }, "The last one was not accepted.") : null,
      el("input", { type: "text", autocomplete: "username", value: "sparingly", hidden: true }), // managers want it
      el("div", { class: "field" }, el("label", { for: "token" }, "Token"), input),
      el("div", { class: "buttons" }, el("button", { class: "main" }, "Go on"), cancel),
    );
    const dialog = el("dialog", { "aria-labelledby": "token-heading" }, form);
    let given = null;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      given = input.value;
      dialog.close();
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(given);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

onTokenNeeded(askForToken);
takeLink();
if (hasToken()) narrow();
addEventListener("hashchange", () => {
  route();
  main.querySelector("h1")?.focus();
  scrollTo(0, 0);
});
document.addEventListener("visibilitychange", () => look());
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address belongs to the views
  main.focus();
});
route();

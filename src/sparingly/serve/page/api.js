// Talking to the service: JSON both ways, problem documents as errors, and a token if the service wants one.
// A call either gives an answer or throws a Problem (the service refused) or Unreachable (nobody answered).

const PATIENCE = 15_000; // milliseconds until a call counts as unanswered
const TOKEN = "sparingly-token";

export class Problem extends Error {
  constructor(status, title, detail) {
    super(`${status} ${title}: ${detail}`);
    Object.assign(this, { status, title, detail });
  }
}

export class Unreachable extends Error {
  title = "The service cannot be reached.";
  detail = "It may be stopped, or the network between you and it is down.";
}

let token = "";
let asking = null;
let askForToken = async () => null;

try {
  token = sessionStorage.getItem(TOKEN) ?? "";
} catch {
  // Storage may be switched off: then the token lasts as long as the page.
}

/** Set who asks the person for the token: an async function of whether one was refused; null: they would not say. */
export function onTokenNeeded(ask) {
  askForToken = ask;
}

/** Whether there is a token. */
export const hasToken = () => token !== "";

/** Use this token from now on, for as long as the tab is open. */
export function useToken(given) {
  token = given;
  try {
    sessionStorage.setItem(TOKEN, token);
  } catch {
    // As above.
  }
}

/** A random id that is used once; `crypto.randomUUID` would need HTTPS. */
export function freshId(prefix) {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return `${prefix}-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/** The path of an agent, or of something of it. */
export function agentPath(name, ...rest) {
  return ["v1", "agents", name, ...rest].map(encodeURIComponent).join("/");
}

export const get = (path, signal) => call("GET", path, undefined, signal);
export const put = (path, body, signal) => call("PUT", path, body, signal);
export const post = (path, body = {}, signal) => call("POST", path, body, signal);

async function call(method, path, body, signal) {
  for (;;) {
    const used = token;
    const response = await send(method, path, body, signal);
    if (response.status === 401) {
      await newToken(used, response);
      signal?.throwIfAborted();
      continue;
    }
    const answer = await response.json().catch(() => {
      signal?.throwIfAborted();
      throw new Unreachable();
    });
    if (!response.ok) throw problem(response, answer);
    return answer;
  }
}

/** Whether the service can decide: {status, version, detail}. It says so with 503 if it cannot. */
export async function readiness(signal) {
  const response = await send("GET", "readyz", undefined, signal);
  return response.json().catch(() => ({ status: response.ok ? "ok" : "unavailable", detail: "" }));
}

async function send(method, path, body, signal) {
  const headers = { accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (token) headers.authorization = `Bearer ${token}`;
  const control = new AbortController();
  const stop = () => control.abort();
  signal?.addEventListener("abort", stop);
  const alarm = setTimeout(stop, PATIENCE);
  try {
    const options = { method, headers, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store" };
    return await fetch(path, { ...options, signal: control.signal });
  } catch {
    signal?.throwIfAborted();
    throw new Unreachable();
  } finally {
    clearTimeout(alarm);
    signal?.removeEventListener("abort", stop);
  }
}

function problem(response, answer) {
  return new Problem(
    response.status,
    answer.title || response.statusText || `Status ${response.status}`,
    answer.detail ?? "",
  );
}

/** However many calls were refused, the person is asked once. */
async function newToken(used, response) {
  if (token !== used) return; // it was given while this call was under way
  asking ??= askForToken(used !== "").finally(() => {
    asking = null;
  });
  const given = await asking;
  if (!given) throw problem(response, await response.json().catch(() => ({})));
  useToken(given);
}

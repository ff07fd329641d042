// Which open ask comes next: oldest first, without those that this person has answered or skipped.
// A few are fetched ahead, so that the next one is there at once.

import { agentPath, get } from "./api.js";

const AHEAD = 10; // fetched at once: the next one is there without waiting, and payloads may be large

export function makeQueue(name, wanted) {
  let waiting = [];
  let after = null; // where to go on; null: from the start
  const passed = new Set();
  const skipped = new Set();

  function ready() {
    for (;;) {
      const event = waiting.shift();
      if (!event) return null;
      if (!passed.has(event.event_id) && !skipped.has(event.event_id)) return event;
    }
  }

  /** The next ask, from the service if need be. Held asks may open late, so the list is searched from the start too. */
  async function next(signal) {
    if (wanted) {
      const event = await get(agentPath(name, "decisions", wanted), signal);
      wanted = null;
      if (["open", "unanswered"].includes(event.status)) return event;
    }
    let event = ready();
    let whole = after === null;
    while (!event) {
      const query = `?status=open&limit=${AHEAD}${after === null ? "" : `&after=${after}`}`;
      const page = await get(agentPath(name, "asks") + query, signal);
      waiting = page.events;
      event = ready();
      after = page.next;
      if (event || (after === null && whole)) break;
      whole ||= after === null;
    }
    return event;
  }

  return {
    next,
    ready,
    pass: (event) => skipped.has(event.event_id) || passed.add(event.event_id),
    skip: (event) => skipped.add(event.event_id),
    skipped: () => skipped.size,
    goRound() {
      skipped.clear();
      [waiting, after] = [[], null];
    },
  };
}

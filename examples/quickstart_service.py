"""Quickstart of the decision service: a stream of users through the client, and a budget that adds up in the end.

A site shows each visitor one of three things, and may ask some of them for one to five stars. Some answer late, some
never. Every decision and answer has an id: run it twice on the same service, and the second run changes nothing.

    python examples/quickstart_service.py                                  # starts a service of its own
    python examples/quickstart_service.py --url http://127.0.0.1:8000      # uses one that runs
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

import numpy as np

import sparingly as sp
from sparingly.serve.testserver import service

AGENT, USERS, GRANT = "quickstart", 400, 12
ACTIONS, CONTEXTS = ["recipe", "podcast", "quiz"], ["morning", "evening"]
TASTE = {"morning": [4.2, 2.4, 3.0], "evening": [2.6, 4.4, 3.1]}  # mean stars, which the agent does not know
WAIT = 2.0  # seconds until an ask counts as unanswered; days, on a real site


def stream(client: sp.Client, random: np.random.Generator) -> list[tuple[str, float]]:
    """Serve the users one by one; the answers that have not come when all of them have gone."""
    underway: list[tuple[int, str, float]] = []  # at which user an answer comes, to what, and the answer
    for user in range(1, USERS + 1):
        if user % 100 == 0:
            print(f"  {user} of {USERS} users", flush=True)
        context = CONTEXTS[int(random.integers(2))]
        decision = client.decide(AGENT, context, payload={"user": user}, event_id=f"user-{user}")
        # … show decision.action to the user …
        if user == 7:  # a retry, as after a lost connection: the same decision, and nothing is spent twice
            assert client.decide(AGENT, context, payload={"user": user}, event_id="user-7") == decision
        if decision.ask:  # … and ask for stars; the budget is charged already
            stars = float(np.clip(round(random.normal(TASTE[context][decision.action_index], 0.7)), 1, 5))
            patience, delay = random.random(), int(random.integers(20, 150))
            if patience < 0.9:  # most answer at once, some much later, and one in ten never does
                underway.append((user if patience < 0.7 else user + delay, decision.event_id, stars))
        for item in [item for item in underway if item[0] <= user]:
            client.observe(AGENT, item[1], item[2])
            underway.remove(item)
    return [(event_id, stars) for _, event_id, stars in underway]


def let_them_close(client: sp.Client) -> None:
    """Wait until no ask is open any more: nobody answered it in time."""
    while (still := client.agent(AGENT).open) > 0:
        print(f"  {still} asks are still open …", flush=True)
        time.sleep(0.5)


def account(client: sp.Client) -> None:
    """Print where every unit and every ask went; the agent, its decisions and its log must tell the same."""
    agent, events, log = client.agent(AGENT), list(client.decisions(AGENT)), list(client.log(AGENT))
    budget, status = agent.budget, Counter(event.status for event in events if event.ask)
    late = sum(event.late for event in events)
    print(f"""
granted       {budget.granted:6.1f}   60 at first, 5 % of {agent.decisions} decisions, and a grant of {GRANT}
  spent       {budget.spent:6.1f}   one for each ask
  held        {budget.held:6.1f}
  left        {budget.left:6.1f}
asks          {agent.asks:6d}
  answered    {status["answered"]:6d}   {late} of them too late, but not in vain
  still open  {status["open"]:6d}
  unanswered  {status["unanswered"]:6d}
""")
    assert round(budget.spent + budget.held + budget.left, 6) == budget.granted
    assert round(60 + 0.05 * agent.decisions + GRANT, 6) == budget.granted
    assert status["answered"] + status["open"] + status["unanswered"] == agent.asks == budget.spent
    kinds = Counter(line["kind"] for line in log)
    asked = [line for line in log if line["kind"] == "decision" and line["ask"]]
    assert kinds["decision"] == agent.decisions == USERS + len(CONTEXTS)  # the retry was no further decision
    assert kinds["feedback"] == agent.answers == status["answered"]
    assert len(asked) == agent.asks and sum(line["cost"] for line in asked) == log[-1]["spent"]
    assert (log[-1]["granted"] / 1e6, log[-1]["spent"] / 1e6) == (
        budget.granted,
        budget.spent,
    )  # it counts in millionths
    for context in CONTEXTS:
        known = [f"{e.action} {e.mean:.1f} ({e.answered} answers)" for e in client.estimates(AGENT, context).estimates]
        print(f"{context}: {', '.join(known)}")


def main() -> None:
    """Create an agent, serve the users, wait for those who answer late, and account for everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a service that runs already")
    with service(parser.parse_args().url) as url, sp.Client(url) as client:
        client.create(
            AGENT,
            learner={"type": "UCB1"},
            actions=ACTIONS,
            contexts=CONTEXTS,
            budget={"initial": 60, "growth": {"by": "decisions", "rate": 0.05}},
            rewards={"low": 1, "high": 5},
            unanswered={"close_after": WAIT, "late": "learn"},
        )
        print(f"{USERS} users arrive; {url} shows what happens.", flush=True)
        late = stream(client, np.random.default_rng(0))
        let_them_close(client)
        for event_id, stars in late:  # better late than never: it is kept, marked, and learnt from
            assert client.observe(AGENT, event_id, stars).late
        client.grant(AGENT, GRANT, grant_id="second-round")  # more may be asked: these two asks are open to the end
        for context in CONTEXTS:
            client.decide(AGENT, context, event_id=f"last-{context}")
        account(client)


if __name__ == "__main__":
    main()

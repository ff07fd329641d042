"""The routes of the service: path, handler, body, response and query parameters of every operation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sparingly.serve import contract
from sparingly.serve.contract import (
    AgentBody,
    ChangeBody,
    ChargeBody,
    ConfirmBody,
    DecisionBody,
    FeedbackBody,
    GrantBody,
    NoBody,
)  # fmt: skip
from sparingly.serve.http import Query, Route
from sparingly.serve.token_handlers import TokenHandlers

if TYPE_CHECKING:
    from sparingly.serve.app import Service

STATUSES = ("open", "held", "answered", "unanswered", "released", "expired")
LIMIT = Query(50, least=1, most=1_000, about="How many at the most.")


def routes(service: Service) -> Iterator[Route]:
    """All operations, with the types of their bodies and responses."""
    agent = "/v1/agents/{name}"
    event = agent + "/decisions/{event_id}"
    yield Route("PUT", agent, service.put_agent, "Create an agent", AgentBody, contract.Agent, (201, 409))
    yield Route(
        "GET", "/v1/agents", service.get_agents, "List agents, by name", gives=contract.AgentList,
        query={"limit": Query(1_000, least=1, most=1_000, about="How many at the most."),
               "after": Query("", text=True, about="Where the last page ended: its `next`.")},
    )  # fmt: skip
    yield Route(
        "PATCH", agent, service.patch_agent, "Change actions, contexts, rule or budget of an agent", ChangeBody,
        contract.Agent,
    )  # fmt: skip
    yield Route("GET", agent, service.get_agent, "Show an agent", gives=contract.Agent)
    yield Route(
        "DELETE", agent, service.delete_agent, "Delete an agent with all of its records", gives=contract.Deleted,
        query={"confirm": Query(text=True, about="The agent's name once more.")},
    )  # fmt: skip
    yield Route("POST", agent + "/pause", service.post_pause, "Pause asking", NoBody, contract.Agent)
    yield Route("POST", agent + "/resume", service.post_resume, "Resume asking", NoBody, contract.Agent)
    yield Route(
        "POST", agent + "/decisions", service.post_decision, "Make a decision", DecisionBody,
        contract.Decision, (409,),
    )  # fmt: skip
    yield Route(
        "GET", agent + "/decisions", service.get_decisions, "List decisions, newest first", gives=contract.EventList,
        query={"limit": LIMIT, "before": Query(about="Where the last page ended: its `next`."),
               "payload": Query("true", words=("true", "false"), about="Without payloads the answer is short.")},
    )  # fmt: skip
    yield Route("GET", event, service.get_decision, "Show a decision", gives=contract.Event)
    yield Route(
        "POST", event + "/feedback", service.post_feedback, "Report the reward of a decision", FeedbackBody,
        contract.Feedback, (409,),
    )  # fmt: skip
    yield Route(
        "POST", event + "/activate", service.post_activate, "Activate a held ask: somebody sees it now", NoBody,
        contract.Event, (409,),
    )  # fmt: skip
    yield Route(
        "POST", event + "/release", service.post_release, "Release a held ask that nobody has seen", NoBody,
        contract.Event, (409,),
    )  # fmt: skip
    yield Route(
        "GET", agent + "/asks", service.get_asks, "List asks by status, oldest first", gives=contract.EventList,
        query={"status": Query("open", words=STATUSES), "limit": LIMIT,
               "after": Query(0, about="Where the last page ended: its `next`.")},
    )  # fmt: skip
    yield Route("POST", agent + "/grants", service.post_grant, "Add to the budget", GrantBody, contract.Booking, (409,))
    yield Route(
        "POST", agent + "/charges", service.post_charge, "Charge asks that are not in the log", ChargeBody,
        contract.Booking, (409,),
    )  # fmt: skip
    yield Route(
        "GET", agent + "/estimates", service.get_estimates, "Estimates of the actions", gives=contract.Estimates,
        query={"context": Query(text=True, about="The name of a context; the first one by default.")},
    )  # fmt: skip
    yield Route(
        "GET", agent + "/history", service.get_history, "Budget, asks and answers over time", gives=contract.History,
        query={"points": Query(200, least=2, most=1_000)},
    )  # fmt: skip
    yield Route(
        "GET", agent + "/log", service.get_log, "Download the log, for a replay",
        gives=("application/x-ndjson", "application/vnd.apache.parquet"),
        query={"format": Query("jsonl", words=("jsonl", "parquet")), "after": Query(0)},
    )  # fmt: skip
    yield from _routes_of_the_service(service)
    yield from _routes_about_people(service)


def _routes_of_the_service(service: Service) -> Iterator[Route]:
    """Operations that are not about an agent."""
    yield Route("GET", "/v1/clock", service.get_clock, "The time, and whether the clock is held", gives=contract.Clock)
    yield Route(
        "POST", "/v1/clock/confirm", service.post_confirm, "Confirm a clock that has jumped ahead", ConfirmBody,
        contract.Clock, (409,),
    )  # fmt: skip
    yield Route("GET", "/healthz", service.get_health, "Whether the service runs", gives=contract.Health)
    yield Route("GET", "/readyz", service.get_ready, "Whether it can decide", gives=contract.Health)
    yield Route(
        "GET", "/metrics", service.get_metrics, "Metrics for Prometheus", gives=("text/plain",),
        query={"agents": Query(1_000, most=10_000, about="Of how many agents, by name."),
               "after": Query("", text=True, about="The name of the last agent of the page before.")},
    )  # fmt: skip
    yield Route("GET", "/openapi.json", service.get_document, "This document", gives=Any)
    yield Route("GET", "/docs", service.get_docs, "This document as a page", gives=("text/html",))
    yield Route("GET", "/", service.get_page, "The page", gives=("text/html",))
    yield Route("GET", "/page/{file}", service.get_file, "A file of the page", gives=("*/*",))


def _routes_about_people(service: Service) -> Iterator[Route]:
    """Who may do what, and what is not to stay."""
    event = "/v1/agents/{name}/decisions/{event_id}"
    yield Route(
        "POST", event + "/erase", service.post_erase, "Erase the payload of a decision, and nothing else", NoBody,
        contract.Event,
    )  # fmt: skip
    yield from TokenHandlers(service).routes()

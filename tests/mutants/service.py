"""Mutants of the service: its stores, its writer, its agents, its clock, what it takes from callers; and its client."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

FAULTS = "serve/test_faults.py"
CONCURRENCY = "serve/test_concurrency.py"
MODEL = ("serve/test_model.py::test_on_sqlite",)
CLOCK = "serve/test_clock.py"
CLIENT = "serve/test_client.py"
SAFETY = "serve/test_safety.py"
CONNECTIONS = "serve/test_connections.py"
HOSTILE = "serve/test_hostile.py"

MUTANTS = (
    Mutant(
        "store/settles-over-others", "store", "serve/store.py",
        "WHERE id = ? AND seq = ? AND spent", "WHERE id = ? AND ? >= 0 AND spent",
        "counters are written although another process has written meanwhile",
        (f"{FAULTS}::test_what_another_has_written_is_not_overwritten",),
    ),
    Mutant(
        "store/ledger-of-memory-alone", "store", "serve/store.py",
        "CONSTRAINT never_overspent CHECK (spent + held <= granted),", "CONSTRAINT never_overspent CHECK (spent >= 0),",
        "the schema takes an agent that is overspent",
        (f"{FAULTS}::test_the_schema_is_the_last_line",),
    ),
    Mutant(
        "store/snapshots-go-back", "store", "serve/store.py",
        '"seq = excluded.seq, body = excluded.body WHERE excluded.seq > snapshots.seq"',
        '"seq = excluded.seq, body = excluded.body"',
        "an older snapshot takes the place of a newer one",
        ("serve/test_sqlite.py::test_a_snapshot_never_goes_back",),
    ),
    Mutant(
        "store/log-cut", "store", "serve/queries.py",
        "last = sizes[fit][0] - 1", "last = sizes[fit][0]",
        "a chunk of the log is one record larger than what fits",
        (f"{SAFETY}::test_a_chunk_of_the_log_is_limited_in_bytes",),
    ),
    Mutant(
        "store/damage-overlooked", "store", "serve/queries.py",
        'COUNTERS = ("granted", "spent", "held", "asks", "answers")', 'COUNTERS = ("granted", "spent", "held", "asks")',
        "an agent whose answers do not agree with its log is trusted",
        (f"{FAULTS}::test_an_agent_that_does_not_agree_with_its_log_asks_nothing[sqlite-stopped-answers]",),
    ),
    Mutant(
        "store/deleted-are-listed", "store", "serve/queries.py",
        "NOT_DELETED = f\"SUBSTR(name, 1, {len(DELETED)}) <> '{DELETED}'\"", 'NOT_DELETED = "LENGTH(name) > 0"',
        "deleted agents are still listed",
        (f"{SAFETY}::test_a_deleted_agent_is_gone_at_once_and_its_records_soon",),
    ),
    Mutant(
        "sqlite/commits-without-sync", "store", "serve/sqlite.py",
        'self.run("PRAGMA synchronous = FULL")', 'self.run("PRAGMA synchronous = OFF")',
        "SQLite does not wait until a decision is on disk",
        ("serve/test_sqlite.py::test_commits_are_durable",),
    ),
    Mutant(
        "sqlite/moved-file-overlooked", "store", "serve/sqlite.py",
        "if about is None or about.st_ino != inode:", "if about is None:",
        "writes go on into a file that was replaced",
        (f"{FAULTS}::test_the_file_is_taken_away",),
    ),
    Mutant(
        "sqlite/second-process", "store", "serve/sqlite.py",
        "if _identity(self.path.stat()) in _locked_files:", "if () in _locked_files:",
        "a file that this process serves already is opened again",
        ("serve/test_sqlite.py::test_a_refused_store_leaves_the_locks_of_the_first_in_place",),
    ),
    Mutant(
        "postgres/rows-unlocked", "store", "serve/postgres.py",
        "ORDER BY id FOR UPDATE", "ORDER BY id",
        "two processes may write the same agent at once",
        (f"{CONCURRENCY}::test_one_unit_left_and_64_callers[two_processes-Always-budget_exhausted-False]",
         f"{CONCURRENCY}::test_64_retries_of_one_event[two_processes]"),
    ),
    Mutant(
        "postgres/commits-without-sync", "store", "serve/postgres.py",
        "SET synchronous_commit = on", "SET synchronous_commit = off",
        "PostgreSQL does not wait until a decision is on disk",
        ("serve/test_postgres.py::test_commits_are_durable_whatever_the_server_does",),
    ),
    Mutant(
        "postgres/broken-line-kept", "store", "serve/postgres.py",
        "self._make_sure_of_connection()\n            return self._begin_with(names)",
        "raise",
        "a connection that was cut while idle is an error for the next caller",
        (f"{FAULTS}::test_the_connection_is_cut_in_a_transaction", f"{FAULTS}::test_postgres_goes_and_comes_back"),
    ),
    Mutant(
        "writer/answers-before-commit", "service", "serve/writer.py",
        "self._fail(sorted({command.agent for command in commands if command.agent}), commands, failure)",
        "self.storage_error = str(failure)",
        "callers are told to ask although the commit has failed",
        (f"{FAULTS}::test_a_commit_in_doubt", f"{FAULTS}::test_what_was_not_stored_is_not_remembered"),
    ),
    Mutant(
        "writer/memory-stays-ahead", "service", "serve/writer.py",
        "self.store.time.save_failed()\n        self.forget(names)", "self.store.time.save_failed()",
        "after a failed commit the agent in memory is not dropped",
        (f"{FAULTS}::test_another_process_takes_the_place_of_what_was_not_stored",),
    ),
    Mutant(
        "service/second-decision-for-one-id", "service", "serve/live_agent.py",
        "if known.fingerprint != digest:", "if known.fingerprint is None:",
        "an event_id that was used for another request gets that request's decision",
        (f"{CONCURRENCY}::test_one_event_id_for_two_requests", *MODEL),
    ),
    Mutant(
        "service/grant-counts-twice", "service", "serve/live_agent.py",
        'known = self._known_booking("grant", grant_id, units)\n        if known is not None:',
        'known = self._known_booking("grant", grant_id, units)\n        if known is not None and known.amount < 0:',
        "a grant that is sent again is booked again",
        (f"{CONCURRENCY}::test_grants_with_one_id[one_process]", *MODEL),
    ),
    Mutant(
        "service/answer-changed", "service", "serve/live_agent.py",
        "if record.reward != reward:", "if record.reward is None:",
        "a second answer with another value is taken for the first",
        (f"{CONCURRENCY}::test_answers_with_different_values[one_process]", *MODEL),
    ),
    Mutant(
        "service/lease-not-refunded", "service", "serve/live_agent.py",
        "        self.record.held -= cost\n", "",
        "a held ask that is released or expires is not refunded",
        MODEL,
    ),
    Mutant(
        "service/released-ask-still-learnt", "service", "serve/live_agent.py",
        "self._expect(record)\n        self.agent.withdraw(record.number)", "self._expect(record)",
        "the agent counts an ask that was released",
        MODEL,
    ),
    Mutant(
        "service/lease-twice-as-long", "service", "serve/live_agent.py",
        "lease = self.clock + round(self.body.lease * MICRO)",
        "lease = self.clock + 2 * round(self.body.lease * MICRO)",
        "leases last twice as long",
        MODEL,
    ),
    Mutant(
        "service/paused-asks", "service", "serve/live_agent.py",
        "if ask and self.record.paused:", "if ask and self.record.paused > 1:",
        "a paused agent asks",
        MODEL,
    ),
    Mutant(
        "service/replay-forgets-releases", "service", "serve/live_agent.py",
        'elif record.kind in ("release", "expire"):', 'elif record.kind in ("expire",):',
        "an agent that is made from its log again counts asks that were released",
        (f"{SAFETY}::test_the_log_alone_gives_the_agent_again",),
    ),
    Mutant(
        "service/replay-learns-late-answers", "service", "serve/live_agent.py",
        'if record.kind == "feedback" and record.learned:', 'if record.kind == "feedback":',
        "an agent that is made from its log learns from answers that were too late",
        (f"{SAFETY}::test_the_log_alone_gives_the_agent_again",),
    ),
    Mutant(
        "service/replay-on-top-of-snapshot", "service", "serve/loading.py",
        "live = LiveAgent.load(record, (found[0][0], found[0][1]) if found else None)",
        "live = LiveAgent.load(record, (0, found[0][1]) if found else None)",
        "the log before a snapshot is applied on top of it",
        MODEL,
    ),
    Mutant(
        "service/growth-by-decisions", "service", "serve/factory.py",
        "accrued = max(accrued, units_of(growth.rate) * decisions)",
        "accrued = max(accrued, units_of(growth.rate) * (decisions + 1))",
        "the budget grows a decision ahead",
        MODEL,
    ),
    Mutant(
        "service/growth-by-started-periods", "service", "serve/factory.py",
        "units_of(growth.amount) * elapsed // every)", "units_of(growth.amount) * (elapsed + every) // every)",
        "the budget grows by the clock before the time has passed",
        MODEL,
    ),
    Mutant(
        "clock/jumps-trusted", "service", "serve/clock.py",
        "if now > most + TOLERANCE:", "if now > most + 10**9 * TOLERANCE:",
        "a clock that jumps years ahead is trusted, and grants what nobody meant to",
        (f"{CLOCK}::test_it_holds_a_clock_that_jumps",),
    ),
    Mutant(
        "clock/held-in-the-past", "service", "serve/clock.py",
        "            self._before = most, steady\n", "            self._before = None\n",
        "a clock that went back and is set right is held in the past",
        (f"{CLOCK}::test_a_clock_that_went_back_may_come_back",),
    ),
    Mutant(
        "clock/any-gap-at-a-start", "service", "serve/clock.py",
        "if now > last + patience:", "if now > last + 10**6 * patience:",
        "a start trusts whatever the clock says",
        (f"{CLOCK}::test_what_is_trusted_at_a_start",),
    ),
    Mutant(
        "clock/small-steps-add-up", "service", "serve/clock.py",
        "passed + min(max(ahead, -drift), drift), steady", "passed + ahead, steady",
        "many small jumps add up to a large one",
        (f"{CLOCK}::test_many_small_steps_add_up_to_the_tolerance_at_the_most",),
    ),
    Mutant(
        "http/token-unchecked", "service", "serve/access.py",
        "if self.token is not None and hmac.compare_digest(given, self.token.encode()):",
        "if self.token is not None and given:",
        "any token opens",
        (f"{HOSTILE}::test_without_the_token_nothing_is_seen_and_nothing_stored",),
    ),
    Mutant(
        "http/body-unlimited", "service", "serve/http.py",
        "        if size > largest:\n", "        if size > 1_000 * largest:\n",
        "a body in chunks may be as large as it likes",
        (f"{HOSTILE}::test_an_attack_is_refused_and_stores_nothing",),
    ),
    Mutant(
        "http/head-unlimited", "service", "serve/connections.py",
        "if self._around <= self.limits.head_bytes + FRAMING * self._body:", "if self._around <= 10**12:",
        "headers and trailers without end are read",
        (f"{CONNECTIONS}::test_what_never_ends_is_hung_up_on",),
    ),
    Mutant(
        "http/key-twice", "service", "serve/json_body.py",
        "if len(result) < len(pairs):", "if len(result) > len(pairs):",
        "of a key that stands twice in an object the last one counts",
        ("serve/test_json_body.py::test_the_quick_way_is_as_careful",
         f"{HOSTILE}::test_an_attack_is_refused_and_stores_nothing"),
    ),
    Mutant(
        "client/new-id-for-each-try", "client", "serve/client.py",
        '{"event_id": new_id() if event_id is None else event_id, "context": context}',
        '{"event_id": event_id, "context": context}',
        "a decision is sent without an id: after a lost answer the service decides once more",
        (f"{CLIENT}::test_every_try_has_the_same_id",),
    ),
    Mutant(
        "client/booking-without-id", "client", "serve/client.py",
        "body = {name: new_id() if id is None else id, ", "body = {name: id, ",
        "a grant is sent without an id",
        (f"{CLIENT}::test_every_try_has_the_same_id",),
    ),
    Mutant(
        "client/busy-is-final", "client", "serve/sans_io.py",
        "frozenset({429, 502, 503, 504})", "frozenset({429, 502, 504})",
        "a service that is not ready is not tried again",
        (f"{CLIENT}::test_every_try_has_the_same_id",),
    ),
    Mutant(
        "client/tries-for-ever", "client", "serve/sans_io.py",
        "if self.made > self.policy.retries or wait >= self.left():", "if self.made > self.policy.retries:",
        "a call goes on after its deadline",
        (f"{CLIENT}::test_no_call_goes_on_after_its_deadline",),
    ),
    Mutant(
        "client/pauses-alike", "client", "serve/sans_io.py",
        "return random.uniform(0.0, longest)", "return longest",
        "clients that failed together retry together",
        (f"{CLIENT}::test_pauses_are_drawn_from_zero_on",),
    ),
    Mutant(
        "client/retry-after-ignored", "client", "serve/sans_io.py",
        "wait += seconds_to_wait(reply)", "wait += 0.0 * seconds_to_wait(reply)",
        "Retry-After is ignored",
        (f"{CLIENT}::test_retry_after_is_the_least_pause",),
    ),
    Mutant(
        "client/gone-is-deleted", "client", "serve/sans_io.py",
        "if response.status_code == 404 and tries.unsure and", "if response.status_code == 404 and",
        "to delete what was never there succeeds",
        (f"{CLIENT}::test_a_deleted_agent_is_deleted_however_often_it_took",),
    ),
    Mutant(
        "client/log-repeats", "client", "serve/sans_io.py",
        'call = replace(call, query={**call.query, "after": last})', "call = replace(call)",
        "a log that broke off is read from its beginning again",
        (f"{CLIENT}::test_a_log_that_breaks_off_goes_on_after_the_last_whole_line",),
    ),
)  # fmt: skip

"""Runs claims in quick mode and prints what each of their checks came to: `python -m tests.mutants.claims ID …`.

With --against FILE, what the unmutated package gives, it stops at the first claim that notices a difference.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from sparingly.lab.claims import Runner
from sparingly.lab.reproduce import choose, run_claim


def noticed(sound: dict[str, Any], mutated: dict[str, Any]) -> str:
    """What a claim says of a mutant: another verdict, or a check that is no longer shown; empty if nothing."""
    now = dict(mutated["checks"])
    lost = [says for says, outcome in sound["checks"] if outcome == "shown" and now.get(says) != "shown"]
    if lost:
        return f"{now.get(lost[0], 'gone')}: {lost[0]}"
    return f"{mutated['verdict']}, no longer {sound['verdict']}" if mutated["verdict"] != sound["verdict"] else ""


def main() -> None:
    """One line of JSON for each claim."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.claims", description=__doc__)
    parser.add_argument("ids", nargs="+")
    parser.add_argument("--against", type=Path)
    given = parser.parse_args()
    sound = json.loads(given.against.read_text(encoding="utf-8")) if given.against else {}
    for claim in (claim for word in given.ids for claim in choose([word])):
        start = time.process_time()
        record = run_claim(claim, Runner())
        checks = [(f"{number}. {check.says}", check.outcome) for number, check in enumerate(record.evidence.checks, 1)]
        found = {"id": claim.id, "verdict": record.verdict, "checks": checks, "seconds": time.process_time() - start}
        print(json.dumps(found), flush=True)
        if claim.id in sound and noticed(sound[claim.id], found):
            break


if __name__ == "__main__":
    main()

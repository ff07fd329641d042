"""Whether verdicts depend on the seed: the quick claims with many seeds. `python -m benchmarks.claim_seeds --seeds 10`.

A true claim should not fail by chance, and a false one not hold by chance. A check is wrong with probability at most
1e-6, as its test says. But the data may also leave it open, which fails the claim, and that has no such bound: it is
counted here, beside what one would expect from the intervals alone (`chance_of_open`). What is done is kept in
--out, so an interrupted run goes on. Options: the ids of claims, or of groups (all by default); --jobs.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from sparingly.lab.claims import ClaimRecord
from sparingly.lab.claims.statistics import chance_of_open
from sparingly.lab.reproduce import MARKS, choose, reproduce


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("ids", nargs="*")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--out", type=Path, default=Path("results/claim_seeds"))
    given = parser.parse_args()
    claims = choose(given.ids)
    wanted = {claim.id for claim in claims}
    by_seed: list[list[ClaimRecord]] = []
    for seed in range(given.seeds):
        found = reproduce(claims, given.out / f"seed-{seed}", "quick", seed, given.jobs)
        by_seed.append([record for record in found if record.id in wanted])
        print(f"seed {seed}: {', '.join(told(by_seed[-1])) or 'all hold'}", flush=True)
    print(table(by_seed))
    return int(any(record.verdict == "fails" for records in by_seed for record in records))


def told(records: list[ClaimRecord]) -> list[str]:
    """The claims that fail."""
    return [record.id for record in records if record.verdict == "fails"]


def table(by_seed: list[list[ClaimRecord]]) -> str:
    """Verdicts by seed, and the checks that were open or differ from one seed to the next."""
    lines = ["| claim | " + " | ".join(str(seed) for seed in range(len(by_seed))) + " |"]
    lines.append("|---|" + "---|" * len(by_seed))
    lines += [
        f"| {records[0].id} | " + " | ".join(MARKS[record.verdict] for record in records) + " |"
        for records in zip(*by_seed, strict=True)
    ]
    outcomes: Counter[tuple[str, str, str]] = Counter()
    for records in by_seed:
        for record in records:
            outcomes.update((record.id, check.says, check.outcome) for check in record.evidence.checks)
    made = sum(len(record.evidence.checks) for records in by_seed for record in records)
    wrong = sum(check.outcome == "open" for rs in by_seed for record in rs for check in record.evidence.checks)
    expected = sum(chance_of_open(check) for rs in by_seed for record in rs for check in record.evidence.checks)
    lines += ["", f"{made:,} checks, {wrong} open; from the intervals one would expect {expected:.2g}.", ""]
    for (claim, says, outcome), count in sorted(outcomes.items()):
        if outcome != "shown" and count < len(by_seed):
            lines.append(f"- {claim}, {outcome} with {count} of {len(by_seed)} seeds: {says}")
    risky = sorted(
        ((chance_of_open(check), record.id, check.says) for record in by_seed[0] for check in record.evidence.checks),
        reverse=True,
    )
    lines += ["", "Most likely to be left open with another seed, as seed 0 sees it:"]
    lines += [f"- {chance:.1e}: {claim}, {says}" for chance, claim, says in risky[:10] if chance > 1e-9]
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())

"""What `reproduce --quick` wrote in version 0.1.0: `python -m tests.frozen.claims results/reproduce/quick/claims.json`.

Compares each claim's parameters, checks, curves and verdict with the digests beside this file; `--write` replaces them.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

LATER = ("seconds", "cpu_seconds", "margin", "power", "most", "span")
DIGESTS = Path(__file__).parent / "claims.json"


def rounded(value: Any) -> Any:
    """Floats with nine digits; the time that a claim took does not count, nor do its margins, which came later."""
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items() if k not in LATER}
    if isinstance(value, list):
        return [rounded(v) for v in value]
    return f"{value:.9g}" if isinstance(value, float) else value


def digests(path: Path) -> dict[str, str]:
    """One digest for each claim."""
    claims = json.loads(path.read_text())
    return {c["id"]: hashlib.sha256(json.dumps(rounded(c), sort_keys=True).encode()).hexdigest()[:16] for c in claims}


def main() -> int:
    """Compare, or write."""
    found = digests(Path(sys.argv[1]))
    if "--write" in sys.argv:
        DIGESTS.write_text(json.dumps(found, indent=0) + "\n")
    frozen = json.loads(DIGESTS.read_text())
    changed = [name for name in frozen.keys() | found.keys() if frozen.get(name) != found.get(name)]
    print(f"{len(found)} claims, {len(changed)} changed: {', '.join(sorted(changed)) or 'none'}")
    return bool(changed)


if __name__ == "__main__":
    sys.exit(main())

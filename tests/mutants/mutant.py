"""What a mutant is: one piece of text of the package and what stands there instead, as data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

CONSTANT = "theorem constant"  # a constant or a term of a theorem or of an algorithm: a claim should see it too
KINDS = (
    CONSTANT, "rule", "learner", "pacing", "exploring", "simulation", "budgets and contexts", "ledger", "saving",
    "store", "service", "client",
)  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change. `old` stands exactly once in `file`, which is below src/sparingly.

    `tests` are ids of tests below tests/, the cheapest first; one without parameters stands for all of them. `claims`
    are ids of claims, or groups of them. Tests run as plain Python, which needs no compilation, unless `compiled`.
    """

    id: str
    kind: str
    file: str
    old: str
    new: str
    says: str  # what is wrong
    tests: tuple[str, ...]
    claims: tuple[str, ...] = ()
    compiled: bool = False

    def apply(self, package: Path) -> None:
        """Change the copy of the package in this folder."""
        path = package / self.file
        path.write_text(self.changed(path.read_text(encoding="utf-8")), encoding="utf-8")

    def changed(self, text: str) -> str:
        """The text of the file with the change."""
        if text.count(self.old) != 1:
            raise SystemExit(f"{self.id}: its old text stands {text.count(self.old)} times in {self.file}, not once")
        return text.replace(self.old, self.new)

    @property
    def recompiles(self) -> bool:
        """Whether compiled code depends on the file."""
        return self.file.split("/")[0] not in ("lab", "serve", "theory")

    @property
    def serves(self) -> bool:
        """Whether the tests are those of the service."""
        return any(test.startswith("serve/") for test in self.tests)

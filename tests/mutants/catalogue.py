"""All mutants. An id keeps its meaning: a mutant that is changed gets a new one."""

from __future__ import annotations

from tests.mutants import arms, bounds, episodes, features, labels, lessons, rules, service, world
from tests.mutants.mutant import Mutant

PARTS = (arms, features, labels, episodes, rules, bounds, lessons, world, service)
MUTANTS: dict[str, Mutant] = {mutant.id: mutant for part in PARTS for mutant in part.MUTANTS}

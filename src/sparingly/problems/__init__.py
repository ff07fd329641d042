"""Problems to simulate. `Arms`, `ContextualArms`, and instances built to be hard."""

from sparingly.problems.adversarial import Scenario, greedy_trap, worse_labelling
from sparingly.problems.arms import Arms, ContextualArms
from sparingly.problems.episodic import Episodic
from sparingly.problems.linear import Linear, hypercube, linear_trap
from sparingly.problems.rewards import Bernoulli, Beta, Fixed, Rewards, TruncatedNormal

__all__ = [
    "Arms", "Bernoulli", "Beta", "ContextualArms", "Episodic", "Fixed", "Linear", "Rewards", "Scenario",
    "TruncatedNormal", "greedy_trap", "hypercube", "linear_trap", "worse_labelling",
]  # fmt: skip

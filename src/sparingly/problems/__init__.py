"""Problems to simulate: arms, linear rewards, episodes, and instances built to be hard."""

from sparingly.problems.adversarial import Scenario, greedy_trap, worse_labelling
from sparingly.problems.arms import Arms, ContextualArms
from sparingly.problems.episodic import Episodic
from sparingly.problems.hard_instances import (
    HardFamily,
    hard_arms,
    hard_costs,
    hard_linear,
    hard_varying,
    hard_varying_linear,
    hidden_arm,
    hypercube,
)
from sparingly.problems.labels import Labels
from sparingly.problems.linear import Linear, linear_trap
from sparingly.problems.mdps import chain, deep_sea, episode_trap, grid, random_mdp, river_swim
from sparingly.problems.rewards import Bernoulli, Beta, Fixed, Rewards, TruncatedNormal

__all__ = [
    "Arms", "Bernoulli", "Beta", "ContextualArms", "Episodic", "Fixed", "HardFamily", "Labels", "Linear", "Rewards",
    "Scenario", "TruncatedNormal", "chain", "deep_sea", "episode_trap", "greedy_trap", "grid", "hard_arms",
    "hard_costs", "hard_linear", "hard_varying", "hard_varying_linear", "hidden_arm", "hypercube", "linear_trap",
    "random_mdp", "river_swim", "worse_labelling",
]  # fmt: skip

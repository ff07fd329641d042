"""The theorems of the paper as functions: upper and lower bounds, budget profiles, and front-loading as a policy.

`upper` and `lower` take a budget as an array (…, T), B(1), …, B(T), and give a bound for every horizon 1, …, T.
`lemmas` has what their proofs rest on, `sequences` intervals that are tighter than the paper's.
"""

from sparingly.theory import lemmas, lower, profiles, repair, sequences, stationary, upper
from sparingly.theory.front_loading import FrontLoaded, Played, play

__all__ = ["FrontLoaded", "Played", "lemmas", "lower", "play", "profiles", "repair", "sequences", "stationary", "upper"]

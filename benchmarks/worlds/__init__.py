"""Which rule, in which world? Every rule and the baselines that one would write oneself, in the same worlds.

`python -m benchmarks.worlds` runs them and judges BalancedMatching.
"""

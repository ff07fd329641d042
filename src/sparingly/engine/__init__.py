"""The simulator: compiled loops (one file per family) and `simulate`, which runs them in parallel."""

from sparingly.engine.simulate import Simulation, simulate

__all__ = ["Simulation", "simulate"]

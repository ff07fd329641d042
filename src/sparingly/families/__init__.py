"""One file per family of problems (episodes have two): what its agents remember, and one round of theirs, compiled.

The Agent, the simulator and everything above them call the same functions from here.
"""

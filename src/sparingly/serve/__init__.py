"""The decision service: HTTP in front of agents, on a store that never overspends. `sparingly serve` starts it."""

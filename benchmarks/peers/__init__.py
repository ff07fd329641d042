"""What a user would pick instead, on the same rounds and under the same budgets: `python -m benchmarks.peers`."""

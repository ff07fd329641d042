"""Speed, as ratios measured in one run: against a C program of the same algorithm, and against other packages."""

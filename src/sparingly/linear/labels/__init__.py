"""Labels: one input for all classes, and an answer names the right one. Learner, memory, round, family, simulator."""

"""One model for all steps, acting step by step: learner, memory, planning, sweeping, round, the Agent's side."""

"""Arms and contextual arms: learners, what their agents remember, the round, the simulator's loop, the Agent's side."""

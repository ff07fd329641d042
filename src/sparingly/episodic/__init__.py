"""Episodes: learners, what their agents remember, value iteration, the simulator's loop, the Agent's side."""

"""Trajectories and files as version 0.1.0 made them: what later versions must reproduce."""

"""Tests of sparingly.simulation."""

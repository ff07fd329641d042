"""Tests of sparingly.rules."""

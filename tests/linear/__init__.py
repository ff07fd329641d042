"""Tests of sparingly.linear."""

"""Tests of sparingly.tabular."""

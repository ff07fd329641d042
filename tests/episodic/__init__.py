"""Tests of sparingly.episodic."""

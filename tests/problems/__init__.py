"""Tests of the problems: arms, hard instances, real data."""

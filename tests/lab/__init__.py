"""Tests of the laboratory: experiments, sweeps, plans, claims and their report."""

"""Mutants: single changes that make the package wrong, and which test and which claim notice each (`make mutants`)."""

"""Tests of the bounds, the budget profiles and front-loading."""

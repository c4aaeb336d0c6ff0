"""Moves with one gradient a step, or none."""

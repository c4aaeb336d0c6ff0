"""Moves with a metric that depends on the position."""

"""Transitions of whole batches for metrics that are full matrices."""

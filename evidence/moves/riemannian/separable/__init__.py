"""Compiled transitions, row by row, for a metric K⁻¹ + diag(d)."""

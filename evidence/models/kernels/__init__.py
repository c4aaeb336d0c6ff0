"""Covariance functions: parsing, derivatives, one per class."""

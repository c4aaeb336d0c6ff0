"""Tempered densities p_beta from a reference to the posterior."""

"""Hamiltonian moves with a constant mass."""

"""Parallel tempering: the ensemble and what its levels say about log Z."""

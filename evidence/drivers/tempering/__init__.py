"""Parallel tempering: replicas at all temperatures that swap places, and log Z from all of them.

:mod:`.ensemble` runs segments of sweeps, :mod:`.tuning` places the levels, :mod:`.segments` joins
what is left behind, :mod:`.bridging` estimates log Z from it.
"""

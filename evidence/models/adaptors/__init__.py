"""Models written in other languages, as densities; and draws of other samplers.

===============  ==============================================================================
:mod:`.pymc`     :func:`~.pymc.from_pymc`, by way of JAX or PyTensor
:mod:`.numpyro`  :func:`~.numpyro.from_numpyro`, by way of JAX
:mod:`.stan`     :func:`~.stan.from_stan`, by way of BridgeStan
:mod:`.program`  what both make: unconstrained inside, the program's own parameters outside
:mod:`.graphs`   a PyMC model's density and parameters as functions of one vector
:mod:`.derived`  derivatives by PyTensor
:mod:`.chains`   draws that any sampler made
===============  ==============================================================================
"""

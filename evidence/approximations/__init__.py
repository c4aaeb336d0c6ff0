"""Gaussian approximations of the posterior: where tempering starts.

======================  =======================================================================
:mod:`.ep`              expectation propagation; :mod:`.correction` to second order
:mod:`.laplace`         Laplace's method; :mod:`.softmax_laplace` for several classes
:mod:`.density_fit`     a Gaussian with tails as heavy as needed, fitted to any density
:mod:`.reference`       what they have in common: Gaussian sites times a Gaussian prior
:mod:`.gradient`        derivatives of EP's log Z in the hyperparameters
======================  =======================================================================
"""

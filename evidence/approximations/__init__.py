"""Gaussian approximations of the posterior: where tempering starts.

======================  =======================================================================
:mod:`.gp.ep`           expectation propagation; :mod:`.gp.correction` to second order
:mod:`.gp.laplace`      Laplace's method
:mod:`.gp.gradient`     derivatives of EP's log Z in the hyperparameters
:mod:`.density.fit`     a Gaussian with tails as heavy as needed, fitted to any density
:mod:`.reference`       what they have in common: Gaussian sites times a Gaussian prior
======================  =======================================================================
"""

"""Gaussian approximations of a GPModel: EP, Laplace, the second-order correction."""

"""Gaussian approximations where a datum sees several predictors: EP and Laplace by blocks."""

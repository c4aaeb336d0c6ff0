"""Gaussian approximations of a SoftmaxModel."""

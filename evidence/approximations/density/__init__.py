"""Gaussian approximations of a DensityModel."""

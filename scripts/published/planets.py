"""Radial velocities of a star with n planets: the model of the EPRV3 evidence challenge.

Mean anomaly M = 2π t/P + M₀, Kepler's equation E − e sin E = M and the true anomaly ν,
tan(ν/2) = √((1+e)/(1−e)) tan(E/2), give v = C + Σ K [cos(ω + ν) + e cos ω]; noise is normal, with
correlations over time and a jitter that is unknown.

Reference: B. E. Nelson et al., Astronomical Journal 159 (2020) 73.
"""

from __future__ import annotations

from pathlib import Path

import numba
import numpy as np
from scipy.linalg import cholesky, solve_triangular

import evidence as ev
from evidence.numerics.arrays import Array

_OF_ONE = ("P", "K", "e", "w", "M")  # period, semi-amplitude, eccentricity, ω, M₀
_E_WIDTH = 0.2  # of the Rayleigh distribution of e, which ends at 1
_LONGEST_STEP, _NEWTON = 1.0, 60  # of Newton's method for E


@numba.njit(cache=True)
def add_velocity(t, period, amplitude, e, w, m0, out):
    """Kepler's orbit at every time, added to ``out``."""
    for i in range(t.size):
        mean = 2.0 * np.pi * t[i] / period + m0
        mean -= 2.0 * np.pi * np.floor(mean / (2.0 * np.pi))
        anomaly = mean + e * np.sin(mean) if e < 0.8 else np.pi
        for _ in range(_NEWTON):
            step = (anomaly - e * np.sin(anomaly) - mean) / (1.0 - e * np.cos(anomaly))
            anomaly -= min(max(step, -_LONGEST_STEP), _LONGEST_STEP)
            if abs(step) < 1e-13:
                break
        half = 0.5 * anomaly
        nu = 2.0 * np.arctan2(np.sqrt(1.0 + e) * np.sin(half), np.sqrt(1.0 - e) * np.cos(half))
        out[i] += amplitude * (np.cos(w + nu) + e * np.cos(w))


class Velocities:
    """log likelihood of one point and the map of the unit cube to it, for a data set."""

    def __init__(self, folder: Path, number: int, n_planets: int) -> None:
        self.t, self.v, self.sd = np.loadtxt(folder / f"rvs_{number:04d}.txt").T
        bounds = folder / f"prior_bounds_{number:04d}.txt"
        self.bounds = np.loadtxt(bounds, delimiter=",", usecols=(2, 3))[:n_planets]
        away = np.subtract.outer(self.t, self.t)
        turns = (np.sin(np.pi * away / 20.0) / 0.5) ** 2
        self.cov = 3.0 * np.exp(-0.5 * (turns + (away / 50.0) ** 2))

    def __call__(self, theta: Array) -> float:
        residual = self.v - theta[0]
        orbits = np.zeros(self.t.size)
        for planet in theta[2:].reshape(-1, len(_OF_ONE)):
            add_velocity(self.t, *planet, orbits)
        cov = self.cov.copy()
        cov.flat[:: self.t.size + 1] += self.sd**2 + theta[1] ** 2
        root = cholesky(cov, lower=True, overwrite_a=True, check_finite=False)
        z = solve_triangular(root, residual - orbits, lower=True, check_finite=False)
        return float(
            -0.5 * z @ z - np.log(np.diag(root)).sum() - 0.5 * z.size * np.log(2.0 * np.pi)
        )

    def transform(self, u: Array) -> Array:
        """C uniform, σ and K as 1/(1 + x), P log-uniform, e Rayleigh's, angles on the circle."""
        theta = np.empty(u.size)
        theta[0], theta[1] = 2000.0 * u[0] - 1000.0, 100.0 ** u[1] - 1.0
        share = -np.expm1(-0.5 / _E_WIDTH**2)
        for j, (low, high) in enumerate(self.bounds):
            own = u[2 + 5 * j : 7 + 5 * j]
            theta[2 + 5 * j : 7 + 5 * j] = (
                low * (high / low) ** own[0], 1000.0 ** own[1] - 1.0,
                _E_WIDTH * np.sqrt(-2.0 * np.log1p(-share * own[2])),
                2.0 * np.pi * own[3], 2.0 * np.pi * own[4],
            )  # fmt: skip
        return theta

    def model(self) -> ev.DensityModel:
        planets = range(1, len(self.bounds) + 1)
        names = ["C", "jitter", *(f"{letter}{j}" for j in planets for letter in _OF_ONE)]
        angles = [f"{letter}{j}" for j in planets for letter in "wM"]
        return ev.DensityModel(self, prior_transform=self.transform, names=names, periodic=angles)

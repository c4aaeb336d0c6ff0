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
from scipy.special import ndtri

import evidence as ev
from evidence.numerics.arrays import Array

_OF_ONE = ("P", "K", "M", "e", "w")  # period, semi-amplitude, M₀, eccentricity, ω
_E_WIDTH = 0.2  # of the Rayleigh distribution of e, which ends at 1
_WIDE = (1.25, 1e4)  # days, of the wide prior
_LONGEST_STEP, _NEWTON = 1.0, 60  # of Newton's method for E


@numba.njit(cache=True)
def add_velocity(t, period, amplitude, m0, e, w, out):
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
    """What a data set says of n planets, with the offset C integrated out, which is linear.

    The priors are those of the challenge, in other coordinates. e and ω are drawn as a point of
    the plane, (e cos ω, e sin ω) with two normal coordinates, in which small eccentricities
    have no angle to lose; M₀ as λ = M₀ + ω + 2π t̄/P, the mean longitude in the middle t̄ of the
    data, which tells nothing of ω and P where M₀ tells of both. Both are rotations of angles
    that are uniform, so that priors stay as they are; the posterior becomes nearly normal.
    """

    def __init__(self, folder: Path, number: int, n_planets: int, *, wide: bool = False) -> None:
        self.t, self.v, self.sd = np.loadtxt(folder / f"rvs_{number:04d}.txt").T
        self.middle = 0.5 * (self.t.min() + self.t.max())
        bounds = folder / f"prior_bounds_{number:04d}.txt"
        self.bounds = np.loadtxt(bounds, delimiter=",", usecols=(2, 3))[:n_planets]
        if wide:
            self.bounds = np.tile(_WIDE, (n_planets, 1))
        away = np.subtract.outer(self.t, self.t)
        turns = (np.sin(np.pi * away / 20.0) / 0.5) ** 2
        self.cov = 3.0 * np.exp(-0.5 * (turns + (away / 50.0) ** 2))

    @property
    def width(self) -> float:
        """log of the volume that log P may be in."""
        return float(np.log(np.diff(np.log(self.bounds), axis=1)).sum())

    def orbits(self, theta: Array) -> Array:
        """Σ K [cos(ω + ν) + e cos ω] at every time."""
        out = np.zeros(self.t.size)
        for planet in theta[1:].reshape(-1, len(_OF_ONE)):
            add_velocity(self.t, *planet, out)
        return out

    def noise(self, theta: Array) -> Array:
        """The covariance, of which the jitter is the first parameter."""
        cov = self.cov.copy()
        cov.flat[:: self.t.size + 1] += self.sd**2 + theta[0] ** 2
        return cov

    def transform(self, u: Array) -> Array:
        """σ and K as 1/(1 + x), P log-uniform, e Rayleigh's up to 1, angles on the circle."""
        theta = np.empty(u.size)
        theta[0] = 100.0 ** u[0] - 1.0
        share = -np.expm1(-0.5 / _E_WIDTH**2)
        for j, (low, high) in enumerate(self.bounds):
            some = slice(1 + 5 * j, 6 + 5 * j)
            own, (x, y) = u[some], ndtri(u[some][3:])
            period, w = low * (high / low) ** own[0], np.arctan2(y, x)
            m0 = 2.0 * np.pi * (own[2] - self.middle / period) - w
            e = _E_WIDTH * np.sqrt(-2.0 * np.log1p(share * np.expm1(-0.5 * (x * x + y * y))))
            m0, w = np.mod([m0, w], 2.0 * np.pi)
            theta[some] = period, 1000.0 ** own[1] - 1.0, m0, e, w
        return theta

    def model(self) -> ev.DensityModel:
        planets = range(1, len(self.bounds) + 1)
        return ev.linear_density(
            self.v, np.ones((self.t.size, 1)), self.noise, {"C": (-1000.0, 1000.0)},
            mean=self.orbits, prior_transform=self.transform,
            names=["jitter", *(f"{letter}{j}" for j in planets for letter in _OF_ONE)],
            periodic=[f"M{j}" for j in planets],
        )  # fmt: skip

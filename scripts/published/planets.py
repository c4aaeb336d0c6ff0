"""Radial velocities of a star with n planets: the model of the EPRV3 evidence challenge.

Mean anomaly M = 2π t/P + M₀, Kepler's equation E − e sin E = M and the true anomaly ν,
tan(ν/2) = √((1+e)/(1−e)) tan(E/2), give v = C + Σ K [cos(ω + ν) + e cos ω]; noise is normal, with
correlations over time and a jitter that is unknown.

Reference: B. E. Nelson et al., Astronomical Journal 159 (2020) 73.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numba
import numpy as np
from scipy.special import ndtri

import evidence as ev
from evidence.numerics.arrays import Array
from scripts.catalogue.problem import LOG_2PI, Problem, normal, uniform

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
        self.wide = wide
        away = np.subtract.outer(self.t, self.t)
        turns = (np.sin(np.pi * away / 20.0) / 0.5) ** 2
        self.cov = 3.0 * np.exp(-0.5 * (turns + (away / 50.0) ** 2))

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
            periodic=[f"M{j}" for j in planets], scan=[f"P{j}" for j in planets if self.wide],
        )  # fmt: skip


def problem(folder: Path, number: int, n_planets: int, *, wide: bool = False) -> Problem:
    """The same posterior by another route, for samplers that take batches.

    Coordinates are quantiles of σ, log P, K and λ, and two normal numbers for (e cos ω, e sin ω).
    Noise is a fixed matrix Q diag(λ) Qᵀ and a multiple of the identity, so that residuals turned
    by Qᵀ are independent; Kepler's equation is solved by a fixed number of steps.
    """
    same = Velocities(folder, number, n_planets, wide=wide)
    t, n = same.t, same.t.size
    lam, Q = np.linalg.eigh(same.cov + np.diag(same.sd**2))
    one, most = Q.sum(axis=0), -np.expm1(-0.5 / _E_WIDTH**2)

    def velocity(xp: Any, u: Array, low: float, high: float) -> Array:
        x, y = u[..., 3], u[..., 4]
        r = xp.sqrt(x * x + y * y)
        e = _E_WIDTH * xp.sqrt(-2.0 * xp.log1p(most * xp.expm1(-0.5 * r * r)))
        e = xp.minimum(e, 1.0 - 1e-9)[..., None]
        cos, sin = (x / r)[..., None], (y / r)[..., None]
        turns = u[..., 2:3] + (t - same.middle) / (low * (high / low) ** u[..., :1])
        mean = xp.mod(2.0 * np.pi * turns - xp.arctan2(y, x)[..., None], 2.0 * np.pi)
        at = mean + e * xp.sin(mean) / (1.0 - xp.sin(mean + e) + xp.sin(mean))
        for _ in range(12):
            step = (at - e * xp.sin(at) - mean) / (1.0 - e * xp.cos(at))
            at = at - xp.clip(step, -_LONGEST_STEP, _LONGEST_STEP)
        away = 1.0 - e * xp.cos(at)
        cos_nu = (xp.cos(at) - e) / away
        sin_nu = xp.sqrt(1.0 - e * e) * xp.sin(at) / away
        return (1000.0 ** u[..., 1:2] - 1.0) * (cos * (cos_nu + e) - sin * sin_nu)

    def log_likelihood(xp: Any, u: Array) -> Array:
        away = same.v
        for j, (low, high) in enumerate(same.bounds):
            away = away - velocity(xp, u[..., 1 + 5 * j : 6 + 5 * j], low, high)
        away, var = away @ Q, lam + (100.0 ** u[..., :1] - 1.0) ** 2
        precision, linear = xp.sum(one**2 / var, -1), xp.sum(one * away / var, -1)
        square = xp.sum(away**2 / var, -1) - linear**2 / precision
        size = xp.sum(xp.log(var), -1) + xp.log(precision) + (n - 1) * LOG_2PI
        return -0.5 * (square + size) - np.log(2000.0)  # C is far within its bounds

    one_planet = [uniform(0.0, 1.0)] * 3 + [normal(0.0, 1.0)] * 2
    return Problem([uniform(0.0, 1.0), *one_planet * n_planets], log_likelihood, np.nan)

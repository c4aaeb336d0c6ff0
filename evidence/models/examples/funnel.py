r"""Neal's funnel: a scale parameter and what it scales.

.. math:: v \sim N(0, 9),\qquad z_i \mid v \sim N(0, e^v),\quad i = 1 \dots n

The density is normalised: log Z = 0. Its curvature changes e^v-fold along the way.
"""

from __future__ import annotations

import numpy as np

from ...execution.arguments import check_size
from ...numerics.arrays import Array
from .example import LOG_2PI, Example, Smooth

_SD = 3.0  # of v


class Funnel(Smooth):
    """log p(v, z); a point is (v, z₁ … zₙ)."""

    def __init__(self, n: int) -> None:
        self.n, self.dim = n, n + 1
        self.constant = -np.log(_SD) - 0.5 * self.dim * LOG_2PI

    def value_and_grad(self, x: Array) -> tuple[Array, Array]:
        v, z, e, s = self._parts(x)
        value = self.constant - 0.5 * (v * v / _SD**2 + s + self.n * v)
        slope = np.empty_like(x)
        slope[:, 0] = 0.5 * (s - self.n) - v / _SD**2
        np.multiply(z, -e[:, None], out=slope[:, 1:])
        return value, slope

    @staticmethod
    def _parts(x: Array) -> tuple[Array, Array, Array, Array]:
        """v, z, e^{-v} and e^{-v} |z|²."""
        v, z = x[:, 0], x[:, 1:]
        e = np.exp(-v)
        return v, z, e, e * np.einsum("mi,mi->m", z, z)

    def hessian(self, x: Array) -> Array:
        _, z, e, s = self._parts(x)
        H = np.zeros((len(x), self.dim, self.dim))
        H[:, 0, 0] = -1.0 / _SD**2 - 0.5 * s
        H[:, 0, 1:] = H[:, 1:, 0] = e[:, None] * z
        H.reshape(len(x), -1)[:, self.dim + 1 :: self.dim + 1] = -e[:, None]
        return H

    def third(self, x: Array, W: Array) -> Array:
        _, z, e, s = self._parts(x)
        corner, side = W[:, 0, 0], W[:, 0, 1:]
        trace = np.einsum("mii->m", W) - corner
        return self._slope(z, e, s, corner, side, trace)

    def tensor(self, x: Array) -> Array:
        _, z, e, s = self._parts(x)
        T, i = np.zeros((len(x), *3 * (self.dim,))), np.arange(1, self.dim)
        T[:, 0, 0, 0] = 0.5 * s
        T[:, 0, 0, 1:] = T[:, 0, 1:, 0] = T[:, 1:, 0, 0] = -e[:, None] * z
        T[:, 0, i, i] = T[:, i, 0, i] = T[:, i, i, 0] = e[:, None]
        return T

    def along(self, x: Array, w: Array) -> Array:
        _, z, e, s = self._parts(x)
        first, rest = w[:, 0], w[:, 1:]
        side = first[:, None] * rest
        return self._slope(z, e, s, first * first, side, np.einsum("mi,mi->m", rest, rest))

    @staticmethod
    def _slope(z: Array, e: Array, s: Array, corner: Array, side: Array, trace: Array) -> Array:
        """∇⟨W, H⟩ from W₀₀, W₀ᵢ and the trace of the rest."""
        out = np.empty((len(z), z.shape[1] + 1))
        out[:, 0] = 0.5 * corner * s + e * (trace - 2.0 * np.einsum("mi,mi->m", side, z))
        np.multiply(e[:, None], 2.0 * side - corner[:, None] * z, out=out[:, 1:])
        return out

    def draws(self, rng: np.random.Generator, size: int) -> Array:
        v = _SD * rng.standard_normal(size)
        z = rng.standard_normal((size, self.n)) * np.exp(0.5 * v)[:, None]
        return np.column_stack([v, z])


def funnel(dim: int = 10) -> Example:
    """Neal's funnel with ``dim`` scaled parameters, dim + 1 in all.

    Examples
    --------
    >>> example = funnel(dim=10)
    >>> example.model.n, example.logz
    (11, 0.0)
    """
    check_size("dim", dim, dim)
    density = Funnel(dim)
    names = ["v", *(f"z[{i}]" for i in range(dim))]
    about = f"Neal's funnel, {dim} parameters of scale e^(v/2)"
    return Example(density.model(names=names), 0.0, density.draws, about)

r"""Coordinatewise changes of variables θ = g(x), with what derivatives of densities need.

For a function f of θ, let F(x) = f(g(x)). With D = diag(g') and ∇, H the derivatives of f,

.. math:: \nabla F = D\nabla,\qquad \nabla^2 F = D H D + \mathrm{diag}(g'' \nabla)

and for a symmetric matrix W the contraction :math:`\nabla_x \langle W, \nabla^2 F\rangle` needs
that of f with D W D only. A density picks up :math:`\sum \log g'` as well, which acts on each
coordinate alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, lambertw

from ...execution.arguments import shown
from ...messages import InputError
from ...numerics.arrays import Array


class Derivatives(NamedTuple):
    """g and its first three derivatives at a batch of points, all (M, d)."""

    g: Array
    g1: Array
    g2: Array
    g3: Array


class LogSlope(NamedTuple):
    """The log Jacobian of every row, (M,), and three derivatives in each coordinate, (M, d)."""

    total: Array
    first: Array
    second: Array
    third: Array


class Bounded:
    """Coordinates with limits: logarithms above or below one limit, logits between two.

    >>> change = Bounded([(0.0, None), (None, None), (0.0, 1.0)])
    >>> change(np.array([[0.0, -2.0, 0.0]])).tolist()
    [[1.0, -2.0, 0.5]]
    >>> change.inverse(np.array([[1.0, -2.0, 0.5]])).tolist()
    [[0.0, -2.0, 0.0]]
    """

    def __init__(self, bounds: Sequence[Any], dim: int | None = None) -> None:
        pairs: list[tuple[Any, ...]] = []
        with suppress(TypeError):
            pairs = [(None, None) if pair is None else tuple(pair) for pair in bounds]
        if not pairs or len(pairs) != (dim or len(pairs)) or any(len(p) != 2 for p in pairs):
            raise InputError(
                f"bounds must hold {dim or 'some'} pairs (low, high), one per parameter, with "
                f"None where there is no limit; got {shown(bounds)}"
            )
        self.low, self.high = np.full(len(pairs), -np.inf), np.full(len(pairs), np.inf)
        for i, pair in enumerate(pairs):
            try:
                for end, limit in zip((self.low, self.high), pair, strict=True):
                    end[i] = end[i] if limit is None else limit
            except (TypeError, ValueError):
                self.low[i] = np.nan
            if not self.low[i] < self.high[i]:
                raise InputError(
                    f"bounds[{i}] must be numbers or None with low < high, got {shown(pair)}"
                )
        below, above = np.isfinite(self.low), np.isfinite(self.high)
        self._lower, self._upper = below & ~above, above & ~below
        self._both = below & above
        self.closed = bool(self._both.all())
        # rounding must not put a point on a limit, where a density may have its pole
        self._first = np.where(below, np.nextafter(self.low, np.inf), -np.inf)
        self._last = np.where(above, np.nextafter(self.high, -np.inf), np.inf)

    def __call__(self, x: Array) -> Array:
        theta = np.array(x, dtype=float)
        one, two, both = self._lower, self._upper, self._both
        with np.errstate(over="ignore"):
            theta[:, one] = self.low[one] + np.exp(x[:, one])
            theta[:, two] = self.high[two] - np.exp(-x[:, two])
        # expit rounds to zero where exp is 1e-308, and a pole may have mass left
        share = np.maximum(expit(x[:, both]), np.exp(np.minimum(x[:, both], -40.0)))
        theta[:, both] = self.low[both] + (self.high - self.low)[both] * share
        return np.clip(theta, self._first, self._last, out=theta)

    def inverse(self, theta: Array) -> Array:
        x = np.array(theta, dtype=float)
        one, two, both = self._lower, self._upper, self._both
        with np.errstate(divide="ignore", invalid="ignore"):
            x[:, one] = np.log(theta[:, one] - self.low[one])
            x[:, two] = -np.log(self.high[two] - theta[:, two])
            x[:, both] = np.log(theta[:, both] - self.low[both])
            x[:, both] -= np.log(self.high[both] - theta[:, both])
        x[~np.isfinite(x)] = np.nan
        return x

    def derivatives(self, x: Array) -> Derivatives:
        g1, g2, g3 = np.ones_like(x), np.zeros_like(x), np.zeros_like(x)
        one, two, both = self._lower, self._upper, self._both
        g1[:, one] = g2[:, one] = g3[:, one] = np.exp(x[:, one])
        g1[:, two] = g3[:, two] = np.exp(-x[:, two])
        g2[:, two] = -g1[:, two]
        s = expit(x[:, both])
        slope = (self.high - self.low)[both] * s * expit(-x[:, both])
        g1[:, both], g2[:, both] = slope, slope * (1.0 - 2.0 * s)
        g3[:, both] = slope * (1.0 - 6.0 * s * (1.0 - s))
        return Derivatives(self(x), g1, g2, g3)

    def log_slope(self, x: Array) -> LogSlope:
        total, first = np.zeros_like(x), np.zeros_like(x)
        second, third = np.zeros_like(x), np.zeros_like(x)
        one, two, both = self._lower, self._upper, self._both
        total[:, one], first[:, one] = x[:, one], 1.0
        total[:, two], first[:, two] = -x[:, two], -1.0
        inside = x[:, both]
        total[:, both] = np.log((self.high - self.low)[both])
        total[:, both] -= np.logaddexp(0.0, inside) + np.logaddexp(0.0, -inside)
        slope = expit(inside) * expit(-inside)
        first[:, both] = -np.tanh(0.5 * inside)
        second[:, both] = -2.0 * slope
        third[:, both] = 2.0 * slope * np.tanh(0.5 * inside)
        return LogSlope(total.sum(axis=1), first, second, third)


class Tails:
    """g(z) = z exp(hz²/2), Tukey's h: near zero the identity, far out polynomial tails.

    A standard normal becomes a density that falls off as \\|θ\\|^(-1 - 1/h).

    >>> tails = Tails(0.2)
    >>> far = tails(np.array([[4.0]]))
    >>> round(float(far[0, 0]), 2), round(float(tails.inverse(far)[0, 0]), 12)
    (19.81, 4.0)
    """

    def __init__(self, h: ArrayLike) -> None:
        self.h = np.asarray(h, dtype=float)
        """One number, or one per coordinate."""

    def __call__(self, x: Array) -> Array:
        return x * np.exp(0.5 * self.h * x * x)

    def inverse(self, theta: Array) -> Array:
        square = theta * theta
        with np.errstate(divide="ignore", invalid="ignore"):
            root = np.sqrt(lambertw(self.h * square).real / self.h)
        return np.where(self.h > 0.0, np.copysign(root, theta), theta)

    def derivatives(self, x: Array) -> Derivatives:
        h, u = self.h, self.h * x * x
        grow = np.exp(0.5 * u)
        g2, g3 = h * x * (3.0 + u) * grow, h * (3.0 + u * (6.0 + u)) * grow
        return Derivatives(x * grow, (1.0 + u) * grow, g2, g3)

    def log_slope(self, x: Array) -> LogSlope:
        h, u = self.h, self.h * x * x
        one = 1.0 + u
        total, third = (np.log1p(u) + 0.5 * u).sum(axis=1), 4.0 * h * h * x * (u - 3.0) / one**3
        first, second = h * x * (2.0 / one + 1.0), h * (2.0 * (1.0 - u) / (one * one) + 1.0)
        return LogSlope(total, first, second, third)


def gradient(d: Derivatives, slope: Array) -> Array:
    """∇F from ∇f."""
    return d.g1 * slope


def hessian(d: Derivatives, slope: Array, H: Array) -> Array:
    """∇²F from ∇f and ∇²f."""
    out = d.g1[:, :, None] * H * d.g1[:, None, :]
    diagonal(out)[...] += d.g2 * slope
    return out


def tensor(d: Derivatives, F: Array) -> Array:
    """D F D: how a metric changes."""
    return d.g1[:, :, None] * F * d.g1[:, None, :]


#: D W D, what W becomes for f
pull = tensor


def contraction(d: Derivatives, slope: Array, H: Array, W: Array, inner: Array) -> Array:
    """∇⟨W, ∇²F⟩, given ``inner`` = ∇⟨D W D, ∇²f⟩."""
    cross = 2.0 * d.g2 * np.einsum("mij,mij,mj->mi", W, H, d.g1)
    own = np.einsum("mii->mi", W)
    mixed = d.g1 * np.einsum("mij,mj->mi", H, own * d.g2)
    return d.g1 * inner + cross + own * d.g3 * slope + mixed


def tensor_contraction(d: Derivatives, F: Array, W: Array, inner: Array) -> Array:
    """∇⟨W, D F D⟩, given ``inner`` = ∇⟨D W D, F⟩."""
    return d.g1 * inner + 2.0 * d.g2 * np.einsum("mij,mij,mj->mi", W, F, d.g1)


def diagonal(A: Array) -> Array:
    """The diagonals of a batch of matrices, to be written to."""
    return np.einsum("mii->mi", A)  # a view, whatever the layout

"""Ordinal: ordered categories 0, 1, …, K-1, with a cumulative logistic link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from ...execution.arguments import array
from ...messages import InputError
from ...numerics.jit import jit, vector_loop
from ...numerics.special import exp, exp_parts, log, sigmoid
from .base import Array, Likelihood, Limits, Observations, Rows
from .checks import check_parameter, stack
from .pointwise import Pointwise


@vector_loop
def _first_order(x, theta, step, out):
    r"""log p(y|x) and its slope; with a constant ``step`` the loop becomes vector instructions.

    With a = c_{y-1} - x and b = x - c_y the slope is σ(a) - σ(b), as a product: for b < a it is
    -σ(a) σ(-b) expm1(b - a). The first and the last category have an infinite cutpoint.
    """
    for i in range(x.size):
        j = np.uint64(i * step)
        a, b = theta[0, j] - x[i], x[i] - theta[1, j]
        below = b < a
        p, q = (a, b) if below else (b, a)  # q ≤ p, and so q < 0
        e, f = exp(-abs(p)), exp(q)
        h, r, t = exp_parts(q - p, 0.0)
        less = 2.0 * (h * (r + t) + (h - 0.5))
        out[0, i] = theta[2, j] - (p if p > 0.0 else 0.0) - log(1.0 + e, e) - log(1.0 + f, f)
        gain = less * (e if p < 0.0 else 1.0) / ((1.0 + e) * (1.0 + f))
        out[1, i] = -gain if below else gain


@jit
def _bends(x, theta):
    """The second and the third derivative."""
    a, b = theta[0] - x, x - theta[1]
    p, q = sigmoid(a) * sigmoid(-a), sigmoid(b) * sigmoid(-b)
    return -p - q, q * np.tanh(0.5 * b) - p * np.tanh(0.5 * a)


@dataclass(frozen=True)
class Ordinal(Likelihood):
    r"""Ordered categories, :math:`P(y \le k|x) = \sigma(c_k - x)`: proportional odds.

    The first cutpoint is :math:`c_0 = 0`: the level belongs to x, by the model's mean, an offset
    or a constant in its kernel. The others follow at distances :math:`g_k = c_k - c_{k-1}`. With
    :math:`\sigma(b) - \sigma(a) = \sigma(b)\,\sigma(-a)\,(1 - e^{a-b})` nothing
    cancels, however far the tail:

    .. math:: \log p(y|x) = \log\sigma(c_y - x) + \log\sigma(x - c_{y-1})
              + \log(1 - e^{-g_y}),

    where the factors of an infinite cutpoint or gap are one.

    Parameters
    ----------
    gaps : array (K - 2,)
        Positive distances between the K - 1 cutpoints of K categories. Each may be learnt,
        as ``likelihood__gap_1``, ``likelihood__gap_2``, …

    References
    ----------
    P. McCullagh, Regression models for ordinal data, J. R. Stat. Soc. B 42 (1980) 109.

    >>> Ordinal(gaps=(1.0, 2.0)).log_prob([0.0, 0.0, 90.0], [0, 1, 1]).round(6)
    array([ -0.693147,  -1.465084, -89.458675])
    >>> Ordinal(gaps=(1.0, 2.0)).cutpoints
    array([0., 1., 3.])
    """

    gaps: tuple[float, ...] = (1.0,)

    name: ClassVar[str] = "ordinal"
    poles = 0.5 * np.pi
    counts: ClassVar[bool] = True

    kernel = Pointwise(_bends, 3, _first_order)

    def __post_init__(self) -> None:
        gaps = np.atleast_1d(check_parameter("gaps", self.gaps) if np.size(self.gaps) else ())
        object.__setattr__(self, "gaps", tuple(gaps.tolist()))

    # -- parameters ---------------------------------------------------------------------

    @property
    def free(self) -> Limits:  # type: ignore[override]
        bounds = (1e-3, 1e3)
        return {f"gap_{k}": bounds for k in range(1, len(self.gaps) + 1)}

    def value_of(self, name: str) -> float:
        return dict(zip(self.free, self.gaps, strict=True))[name]

    def changed(self, values: Mapping[str, float]) -> Self:
        gaps = (values.get(name, self.value_of(name)) for name in self.free)
        return replace(self, gaps=tuple(gaps))

    def at(self, rows: Rows) -> Self:
        """The same: gaps belong to all data."""
        return self

    @property
    def cutpoints(self) -> Array:
        """c_0 = 0 < c_1 < …, shape (K - 1,)."""
        return np.cumsum([0.0, *self.gaps])

    # -- observations -------------------------------------------------------------------

    def check(self, y: ArrayLike) -> Observations:
        """Return categories 0, 1, …, K-1 as floats."""
        values, last = array("y", y), len(self.gaps) + 1
        bad = np.unique(values[~np.isin(values, np.arange(last + 1.0))])
        if bad.size:
            listed = ", ".join(f"{value:.12g}" for value in bad[:6])
            raise InputError(
                f"y: the ordinal likelihood with {last - 1} gap(s) wants categories 0 to "
                f"{last}, got {listed}; count K categories from 0 and give K - 2 gaps=(…)"
            )
        return Observations(values)

    def theta(self, y: Array) -> Array:
        return self._thetas(y, np.array(self.gaps)[None])[:, 0]

    def thetas(self, y: Array, values: Mapping[str, Array]) -> Array:
        first = next(iter(values.values()))
        gaps = [values.get(n, np.full_like(first, self.value_of(n))) for n in self.free]
        return self._thetas(y, np.column_stack(gaps))

    def _thetas(self, y: Array, gaps: Array) -> Array:
        k, far = y.astype(np.intp), np.full((len(gaps), 1), np.inf)
        ends = np.hstack([-far, np.zeros_like(far), np.cumsum(gaps, axis=1), far])
        widths = np.hstack([far, gaps, far])
        like = np.broadcast_to(y, (len(gaps), y.size))
        return stack(like, ends[:, k], ends[:, k + 1], np.log(-np.expm1(-widths))[:, k])

    def location(self, y: Array) -> Array:
        """Midway between cutpoints, and beyond the outermost by one."""
        ends = np.array([-2.0, *self.cutpoints, self.cutpoints[-1] + 2.0])
        return np.interp(y, np.arange(ends.size - 1.0), 0.5 * (ends[1:] + ends[:-1]))

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        x = np.asarray(x, float)
        return np.searchsorted(self.cutpoints, x + rng.logistic(size=x.shape)).astype(float)

    def cdf(self, y: Array, x: Array) -> Array:
        ends = np.array([-np.inf, *self.cutpoints, np.inf])
        k = np.clip(np.floor(y), -1.0, ends.size - 2.0).astype(np.intp)
        return expit(ends[k + 1] - x)

    def conditional_moments(self, x: Array) -> tuple[Array, Array]:
        """Sums over cutpoints: E[y] = Σ P(y > k), var[y] = Σ_jk P(y ≤ min) P(y > max)."""
        away = np.asarray(x, float)[..., None] - self.cutpoints
        above, below = expit(away), expit(-away)
        return above.sum(axis=-1), (above * (2.0 * below.cumsum(axis=-1) - below)).sum(axis=-1)

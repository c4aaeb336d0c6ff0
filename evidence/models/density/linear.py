r"""Coefficients that enter linearly, integrated out in closed form: ``ev.linear_density``.

Of data :math:`y = m(\theta) + A(\theta)\,c + \epsilon` with noise of covariance
:math:`\Sigma = R R^\top` and coefficients :math:`c = \mu + S u`, :math:`u \sim N(0, I)`, it is

.. math:: p(y|\theta) = \frac{(2\pi)^{-N/2}}{|R|\,|T|}
          \exp\Big(-\frac12 \min_u \big[|z - B u|^2 + |u|^2\big]\Big),\qquad
          z = R^{-1}(y - m - A\mu),\quad B = R^{-1} A S,

with T of the QR decomposition of B above the unit matrix: Woodbury's identity without its
differences of large numbers. A coefficient that is uniform has no row in that unit matrix; it is
the last column, so that given θ it is a normal of deviation :math:`1/|T_{LL}|` cut off at its
limits, which is integrated by two values of Φ.

Reference: A. Gelman et al., Bayesian Data Analysis (2013), §14.8 (a prior as further data).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular
from scipy.special import log_ndtr, ndtri_exp

from ...execution.arguments import array, check_kind, shown
from ...messages import InputError
from ...numerics.arrays import Array
from .model import DensityModel
from .priors import LOG_2PI, is_frozen, single

Given = Callable[..., ArrayLike] | Array  # a function of θ, or what it is for all

_NARROW = 1e-4  # of an interval whose probability is density times width, to 1e-9
_DERIVED = ("grad", "value_and_grad", "hessian", "third", "along", "tensor", "metric", "check")


class LinearDensity(DensityModel):
    """A density whose linear coefficients are integrated out: :func:`linear_density` makes it."""

    def __init__(self, likelihood: Marginal, linear: tuple[str, ...], **words: Any) -> None:
        super().__init__(likelihood, vectorized=likelihood.vectorized, **words)
        self.likelihood = likelihood
        if taken := sorted({*linear} & {*self.names}):
            raise InputError(f"linear: {', '.join(taken)} is a parameter of the density already")
        self.names = (*self.names, *linear)

    def outward(self, x: Array) -> Array:
        """Parameters, and coefficients drawn given them: the same ones at the same place."""
        theta = self.arguments(x)
        return np.concatenate([theta, self.likelihood.coefficients(theta)], axis=1)

    def inward(self, theta: Array) -> Array:
        return super().inward(theta[:, : self.n])

    def from_prior(self, rng: np.random.Generator) -> Array:
        """Parameters, and coefficients that know nothing of the data."""
        return np.append(super().from_prior(rng)[: self.n], self.likelihood.from_prior(rng))


def linear_density(
    y: ArrayLike,
    design: ArrayLike | Callable[..., Any],
    noise: ArrayLike | Callable[..., Any],
    linear: Mapping[str, Any],
    *,
    mean: Callable[..., Any] | None = None,
    vectorized: bool = False,
    **words: Any,
) -> LinearDensity:
    r"""A density of data with normal noise, whose linear coefficients are integrated out exactly.

    The model is y = mean(θ) + design(θ) · c + noise. What has to be searched are the parameters θ
    alone; draws hold the coefficients c as well, each from its distribution given θ.

    Parameters
    ----------
    y : array (N,)
        The data.
    design : array (N, L) or callable
        Columns of the coefficients, or θ → the columns.
    noise : array (N,) or (N, N), or callable
        Standard deviations, or a covariance; or θ → either.
    linear : mapping
        Names of the L coefficients and their priors, independent of each other and of θ:
        ``scipy.stats.norm(mean, sd)``, and at most one that is uniform, as ``(low, high)`` or
        ``scipy.stats.uniform``. (Of two that are uniform the integral has no closed form.)
    mean : callable, optional
        θ → (N,): what is not linear, or whose prior is not normal.
    vectorized : bool
        Whether functions take a batch (M, d) and return (M, N, L), (M, N) or (M, N, N).
    **words
        ``prior`` or ``prior_transform`` of θ, ``names``, ``periodic``, …, as for
        :class:`~evidence.DensityModel`.

    Returns
    -------
    LinearDensity
        A DensityModel with the coefficients' names after those of θ.

    Examples
    --------
    A wave of unknown period; its amplitudes and a common offset are linear.

    >>> import evidence as ev
    >>> from scipy import stats
    >>> t = np.linspace(0.0, 10.0, 30)
    >>> def design(theta):
    ...     phase = 2 * np.pi * t / theta[0]
    ...     return np.column_stack([np.cos(phase), np.sin(phase), np.ones_like(t)])
    >>> y = 1.5 * np.cos(2 * np.pi * t / 3.1) + 40.0
    >>> model = ev.linear_density(
    ...     y, design, np.full(30, 0.5), prior={"period": stats.loguniform(2.0, 5.0)},
    ...     linear={"a": stats.norm(0, 2), "b": stats.norm(0, 2), "offset": (-100, 100)},
    ... )
    >>> model.n, model.names
    (1, ('period', 'a', 'b', 'offset'))
    >>> result = ev.log_evidence(model, effort="frugal", random_seed=0, progressbar=False)
    >>> np.round(result.samples.mean(axis=0)[[0, 3]], 1).tolist()
    [3.1, 40.0]
    """
    if "prior" not in words and "prior_transform" not in words:
        raise InputError(
            "prior of the other parameters is missing: give prior= or prior_transform="
        )
    if given := sorted({*_DERIVED} & {*words}):
        raise InputError(f"{', '.join(given)}: ev.linear_density has no use for it; leave it out")
    check_kind("linear", linear, Mapping)
    if not linear:
        raise InputError("linear must name a coefficient and its prior, got none")
    priors = [_normal_or_uniform(str(name), prior) for name, prior in linear.items()]
    if sum(flat for *_, flat in priors) > 1:
        raise InputError(
            "linear: of two uniform coefficients the integral has no closed form; give all but "
            "one a normal prior, scipy.stats.norm(mean, sd), or make them parameters of mean="
        )
    data = array("y", y, ("N",))
    n = data.size
    parts = {"design": design, "noise": noise, "mean": np.zeros(n) if mean is None else mean}
    shapes = {"design": ((n, len(linear)),), "noise": ((n,), (n, n)), "mean": ((n,),)}
    fixed = {k: v if callable(v) else array(k, v, *shapes[k]) for k, v in parts.items()}
    likelihood = Marginal(data, priors=priors, vectorized=vectorized, **fixed)
    return LinearDensity(likelihood, tuple(map(str, linear)), **words)


def _normal_or_uniform(name: str, entry: object) -> tuple[float, float, bool]:
    """Centre, deviation or width, and whether it is uniform."""
    prior = single(entry, f"linear[{shown(name)}]")
    if is_frozen(prior) and prior.dist.name == "norm":
        return float(prior.mean()), float(prior.std()), False
    if is_frozen(prior) and prior.dist.name == "uniform":
        low, high = map(float, prior.support())
        return 0.5 * (low + high), high - low, True
    raise InputError(
        f"linear[{shown(name)}] must be normal, scipy.stats.norm(mean, sd), or uniform, (low, "
        f"high): with other priors there is no closed form; got {shown(entry)}"
    )


class Marginal:
    """log p(y|θ), and draws of the coefficients given θ."""

    __name__ = "linear_density"

    def __init__(
        self, y: Array, *, design: Given, noise: Given, mean: Given,
        priors: list[tuple[float, float, bool]], vectorized: bool,
    ) -> None:  # fmt: skip
        self.y, self.mean, self.design, self.noise = y, mean, design, noise
        self.vectorized = vectorized
        centre, scale, flat = map(np.array, zip(*priors, strict=True))
        self.order = np.argsort(flat, kind="stable")  # the uniform one comes last
        self.centre, self.scale = centre[self.order], scale[self.order]
        self.flat = bool(flat.any())
        self.unit = np.eye(flat.size)[: flat.size - self.flat]  # the normal priors as data
        self.root = None if callable(noise) else _rooted(noise[None])
        if self.root is not None and np.isnan(self.root).any():
            raise InputError(
                "noise must hold standard deviations above zero, or be a positive definite "
                "covariance"
            )

    def __call__(self, theta: Array) -> Array | float:
        _, value, *_ = self._solved(theta if self.vectorized else theta[None])
        return value if self.vectorized else value[0]

    def coefficients(self, theta: Array) -> Array:
        """A draw for every row, by a generator that begins with the row's own bits."""
        if not len(theta):
            return np.zeros((0, self.scale.size))
        T, _, v, middle, width = self._solved(theta)
        for row, one in enumerate(theta):
            seed = int.from_bytes(blake2b(one.tobytes(), digest_size=16).digest(), "little")
            rng = np.random.default_rng(seed)
            v[row] += rng.standard_normal(self.scale.size)
            if self.flat:
                v[row, -1] = _between(middle[row], width[row], rng.random())
                T[row, -1, -1] = 1.0
        u = np.linalg.solve(T, v[:, :, None])[:, :, 0]
        out = np.empty_like(u)
        out[:, self.order] = self.centre + self.scale * u
        return out

    def from_prior(self, rng: np.random.Generator) -> Array:
        """Coefficients of one draw of their prior."""
        u, out = rng.standard_normal(self.scale.size), np.empty(self.scale.size)
        if self.flat:
            u[-1] = rng.random() - 0.5
        out[self.order] = self.centre + self.scale * u
        return out

    def _solved(self, theta: Array) -> tuple[Array, Array, Array, Array, Array]:
        """T and Qᵀz of the decomposition, log p(y|θ); where a coefficient is uniform, the middle
        of its interval and the width, in its standard deviations given θ."""
        n, L = self.y.size, self.scale.size
        A = self._asked("design", self.design, theta, (n, L))[:, :, self.order]
        away = self.y - self._asked("mean", self.mean, theta, (n,)) - A @ self.centre
        root = self.root
        if root is None:
            root = _rooted(self._asked("noise", self.noise, theta, (n,), (n, n)))
        columns = np.concatenate([A * self.scale, away[:, :, None]], axis=2)
        both, log_det = _whitened(root, columns)
        unit = np.zeros((len(theta), len(self.unit), L + 1))
        unit[:, :, :L] = self.unit
        both = np.concatenate([both, unit], axis=1)
        B, z = both[:, :, :L], both[:, :, L]
        Q, T = np.linalg.qr(B)
        v = np.einsum("mni,mn->mi", Q, z)
        rest = z - np.einsum("mni,mi->mn", Q, v)
        diagonal = np.abs(np.einsum("mii->mi", T))
        value = -0.5 * (np.einsum("mn,mn->m", rest, rest) + n * LOG_2PI) - log_det
        value -= np.log(diagonal[:, : len(self.unit)]).sum(axis=1)
        middle = np.where(T[:, -1, -1] < 0.0, v[:, -1], -v[:, -1])
        width = diagonal[:, -1]
        if self.flat:
            value += _log_mean(middle, width) + 0.5 * LOG_2PI
        return T, value, v, middle, width

    def _asked(self, name: str, what: Given, theta: Array, *shapes: tuple[int, ...]) -> Array:
        """An array for every row of θ, or the one for all."""
        if not callable(what):
            return np.broadcast_to(what, (len(theta), *what.shape))
        out = what(theta) if self.vectorized else [what(point) for point in theta]
        out = np.asarray(out, dtype=float)
        if out.shape not in [(len(theta), *shape) for shape in shapes]:
            told = " or ".join(map(str, shapes))
            raise InputError(
                f"{name} must return shape {told} for a point, got {out.shape[1:]}; vectorized= "
                "says whether functions take batches"
            )
        return out


def _rooted(noise: Array) -> Array:
    """Standard deviations (M, N), or the roots R (M, N, N) of covariances; NaN where there are
    none, as where a parameter is so far out that its deviation has become zero."""
    if noise.ndim == 2:
        return np.where(noise > 0.0, noise, np.nan)
    try:
        return np.asarray(np.linalg.cholesky(noise), dtype=float)
    except np.linalg.LinAlgError:
        if len(noise) == 1:
            return np.full(noise.shape, np.nan)
        return np.concatenate([_rooted(one[None]) for one in noise])


def _whitened(root: Array, columns: Array) -> tuple[Array, Array]:
    """R⁻¹ of columns (M, N, K), and log |R|."""
    if root.ndim == 2:
        return columns / root[:, :, None], np.log(root).sum(axis=1)
    log_det = np.log(np.einsum("mii->mi", root)).sum(axis=1)
    if len(root) == 1:  # of all rows at once
        flat = np.swapaxes(columns, 0, 1).reshape(columns.shape[1], -1)
        solved = solve_triangular(root[0], flat, lower=True, check_finite=False)
        return np.swapaxes(solved.reshape(-1, len(columns), columns.shape[2]), 0, 1), log_det
    pairs = zip(root, columns, strict=True)
    each = [solve_triangular(r, c, lower=True, check_finite=False) for r, c in pairs]
    return np.array(each), log_det


def _log_mean(middle: Array, width: Array) -> Array:
    """log of the mean density of N(0, 1) over an interval."""
    low, high = _ends(middle, width)
    with np.errstate(all="ignore"):
        below = log_ndtr(high)
        wide = below + np.log(-np.expm1(log_ndtr(low) - below)) - np.log(width)
    narrow = -0.5 * (middle * middle + LOG_2PI)
    return np.where(width * (1.0 + np.abs(middle)) < _NARROW, narrow, wide)


def _ends(middle: Array, width: Array) -> tuple[Array, Array]:
    """Of the interval or its mirror image: in the lower tail nothing cancels."""
    middle = -np.abs(middle)
    return middle - 0.5 * width, middle + 0.5 * width


def _between(middle: Array, width: Array, share: float) -> float:
    """Where a normal cut off at both ends has so much of its mass, in widths from the middle."""
    if width * (1.0 + abs(middle)) < _NARROW:
        return share - 0.5
    low, high = _ends(middle, width)
    log_p = np.logaddexp(log_ndtr(low) + np.log1p(-share), log_ndtr(high) + np.log(share))
    away = (float(ndtri_exp(log_p)) + abs(middle)) / width
    return float(np.clip(away if middle <= 0.0 else -away, -0.5, 0.5))

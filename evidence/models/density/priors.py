"""Priors that tempering can start from: Gaussian, or independent distributions of SciPy.

Independent priors make their own coordinates, ``x = Φ⁻¹(F(θ))`` for each parameter, in which
they are standard normal; whatever limits a parameter has are then taken care of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cholesky, solve_triangular
from scipy.special import ndtr, ndtri

from ...execution.arguments import array, shown
from ...messages import InputError
from ...numerics.arrays import Array
from .changes import Derivatives

_LOG_2PI = float(np.log(2.0 * np.pi))
_STEP = 1e-3  # of numerical differences in units of a standard normal


class GaussianPrior:
    """N(mean, cov), a prior that tempering can start from.

    Parameters
    ----------
    mean : array (d,)
    cov : float, array (d,) or array (d, d)
        One variance for all, variances, or the covariance matrix.

    Examples
    --------
    >>> prior = GaussianPrior([0.0, 1.0], 4.0)
    >>> prior.cov.tolist()
    [[4.0, 0.0], [0.0, 4.0]]
    >>> round(float(prior.log_prob(np.array([[0.0, 1.0]]))[0]), 4)  # -log(2π·4)
    -3.2242
    """

    def __init__(self, mean: ArrayLike, cov: ArrayLike = 1.0) -> None:
        self.mean: Array = np.atleast_1d(array("mean", mean, (), ("d",)))
        d = self.mean.size
        cov = array("cov", cov, (), (1,), (d,), (d, d))
        if cov.ndim < 2:
            cov = np.diag(np.broadcast_to(cov, (d,)))
        if not np.allclose(cov, cov.T, rtol=1e-8, atol=0.0):
            raise InputError("cov must be symmetric")
        try:
            self.chol: Array = cholesky(cov, lower=True)
        except np.linalg.LinAlgError:
            raise InputError("cov must be positive definite") from None
        self.cov: Array = cov

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return self.mean.size

    @cached_property
    def _inverse_root(self) -> Array:
        return solve_triangular(self.chol, np.eye(self.dim), lower=True)

    @cached_property
    def _at_mean(self) -> float:
        """log density at the mean."""
        return -float(np.log(np.diag(self.chol)).sum()) - 0.5 * self.dim * _LOG_2PI

    @cached_property
    def precision(self) -> Array:
        """The inverse of the covariance."""
        return self._inverse_root.T @ self._inverse_root

    def log_prob(self, x: Array) -> Array:
        """log density of every row."""
        z = (x - self.mean) @ self._inverse_root.T
        return self._at_mean - 0.5 * np.einsum("mi,mi->m", z, z)

    def gradient(self, x: Array) -> Array:
        """Gradient of the log density, row by row."""
        return -(x - self.mean) @ self.precision


class Quantiles:
    """θ = F⁻¹(Φ(x)) for a distribution per coordinate.

    >>> from scipy import stats
    >>> change = Quantiles([stats.expon(scale=2.0), stats.norm(1.0, 3.0)])
    >>> np.round(change(np.array([[0.0, 1.0]])), 4).tolist()  # the median, one sd above the mean
    [[1.3863, 4.0]]
    """

    def __init__(self, distributions: Sequence[Any]) -> None:
        self.distributions = tuple(distributions)
        alike: dict[Any, list[int]] = {}
        for i, distribution in enumerate(self.distributions):
            alike.setdefault(_kind(distribution), []).append(i)
        #: one call serves all coordinates that have the same distribution
        self._groups = [(self.distributions[some[0]], np.array(some)) for some in alike.values()]
        self._last: tuple[Array, Derivatives] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_last": None}

    def __call__(self, x: Array) -> Array:
        theta = np.empty_like(x)
        x = np.clip(x, -37.0, 37.0)
        for distribution, some in self._groups:
            own = x[:, some]
            if (simple := _simple(distribution)) is not None:
                change, loc, scale = simple
                theta[:, some] = loc + scale * change(own)
                continue
            upper = own > 0.0
            tail = ndtr(np.where(upper, -own, own))
            out = np.empty_like(own)
            out[~upper] = distribution.ppf(tail[~upper])
            out[upper] = distribution.isf(tail[upper])
            theta[:, some] = out
        return theta

    def inverse(self, theta: Array) -> Array:
        x = np.empty_like(theta)
        for distribution, some in self._groups:
            low, high = distribution.cdf(theta[:, some]), distribution.sf(theta[:, some])
            x[:, some] = np.where(low < high, ndtri(low), -ndtri(high))
        x[~np.isfinite(x)] = np.nan
        return x

    def _log_density(self, x: Array) -> tuple[Array, Array]:
        """g(x) and log f(g(x)), coordinate by coordinate."""
        theta = self(x)
        log_f = np.empty_like(theta)
        for distribution, some in self._groups:
            log_f[:, some] = distribution.logpdf(theta[:, some])
        return theta, log_f

    def slopes(self, x: Array) -> tuple[Array, Array]:
        """g and g' = φ(x) / f(g(x))."""
        theta, log_f = self._log_density(x)
        return theta, np.exp(-0.5 * (x * x + _LOG_2PI) - log_f)

    def derivatives(self, x: Array) -> Derivatives:
        """g to third order; derivatives of log f along x by differences of fourth order.

        Riemannian moves ask again and again at the same place, and quantiles take long: the last
        answer is kept. Threads may share it, so it is read and replaced as a whole, and what goes
        out is a copy, since it goes on to functions of the user's.
        """
        last = self._last
        if last is None or not np.array_equal(last[0], x):
            last = self._last = (x.copy(), self._derivatives(x))
        return Derivatives(*(part.copy() for part in last[1]))

    def _derivatives(self, x: Array) -> Derivatives:
        h, (g, log_f) = _STEP, self._log_density(x)
        g1 = np.exp(-0.5 * (x * x + _LOG_2PI) - log_f)
        f = {k: self._log_density(x + k * h)[1] for k in (-2, -1, 1, 2)} | {0: log_f}
        first = (8.0 * (f[1] - f[-1]) - (f[2] - f[-2])) / (12.0 * h)
        second = (16.0 * (f[1] + f[-1]) - (f[2] + f[-2]) - 30.0 * f[0]) / (12.0 * h * h)
        a = -x - first
        return Derivatives(g, g1, g1 * a, g1 * (a * a - 1.0 - second))


def _kind(distribution: Any) -> Any:
    """What two distributions that are the same have in common."""
    family = getattr(getattr(distribution, "dist", None), "name", None)
    if family is None:
        return "", id(distribution)
    return family, repr(distribution.args), repr(sorted(distribution.kwds.items()))


def _simple(distribution: Any) -> tuple[Any, Any, Any] | None:
    """Normal and uniform ones without SciPy's detours, which cost far more than the numbers."""
    change = {"norm": lambda x: x, "uniform": ndtr}.get(_kind(distribution)[0])
    if change is None or not hasattr(distribution.dist, "_parse_args"):
        return None
    _, loc, scale = distribution.dist._parse_args(*distribution.args, **distribution.kwds)
    return change, loc, scale


def check_prior(prior: Any, dim: int) -> GaussianPrior | Quantiles:
    """A prior in one of the two forms, or an error that says which there are."""
    if isinstance(prior, GaussianPrior):
        if prior.dim != dim:
            raise InputError(f"prior has {prior.dim} dimensions but the model has dim={dim}")
        return prior
    if hasattr(prior, "ppf"):
        prior = [prior] * dim
    if isinstance(prior, Mapping):
        prior = list(prior.values())
    needed = ("ppf", "isf", "cdf", "sf", "logpdf")
    if isinstance(prior, Sequence) and not isinstance(prior, str):
        if len(prior) != dim:
            raise InputError(f"prior holds {len(prior)} distributions but the model has dim={dim}")
        for i, distribution in enumerate(prior):
            if not all(hasattr(distribution, name) for name in needed):
                raise InputError(
                    f"prior[{i}] must be a continuous distribution of scipy.stats with its "
                    f"parameters, such as scipy.stats.norm(0, 1); got "
                    f"{shown(distribution)}"
                )
        return Quantiles(prior)
    raise InputError(
        "prior must be ev.GaussianPrior(mean, cov), or one distribution of scipy.stats per "
        f"parameter; got {shown(prior)}. A prior that can only be sampled and evaluated belongs "
        "into logdensity, with its sampler as sampler="
    )

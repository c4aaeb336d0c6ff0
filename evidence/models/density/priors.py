"""Priors that tempering can start from: Gaussian, distributions, maps of the unit cube.

Priors that are not Gaussian make their own coordinates, ``x = Φ⁻¹(F(θ))`` for each parameter, in
which they are standard normal; whatever limits a parameter has are then taken care of.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from types import EllipsisType
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cholesky, solve_triangular
from scipy.special import erf, erfinv, log_ndtr, ndtr, ndtri, ndtri_exp

from ...execution.arguments import array, shown
from ...messages import InputError
from ...numerics.arrays import Array, Flags, Indices
from ..priors import Distribution, Frozen, OnAnother
from .changes import Derivatives
from .functions import required

LOG_2PI = float(np.log(2.0 * np.pi))
_ROOT_2 = float(np.sqrt(2.0))
_STEP = 1e-3  # of numerical differences in units of a standard normal
_FAR = 37.0  # standard deviations at which a normal tail ends
_LAST = 1.0 - 2.0**-53  # the largest number below one
_RETREATS = (8.0, 7.5, 7.0)  # where a map is asked that is infinite farther out, at u within 1e-12
_Key = tuple[Any, ...]  # what coordinates that one call serves have the same
_NEEDED = ("ppf", "isf", "cdf", "sf", "logpdf")


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
        return -float(np.log(np.diag(self.chol)).sum()) - 0.5 * self.dim * LOG_2PI

    @cached_property
    def precision(self) -> Array:
        """The inverse of the covariance."""
        return self._inverse_root.T @ self._inverse_root

    def placed(self, z: Array) -> Array:
        """Rows of standard normal numbers as draws."""
        return self.mean + z @ self.chol.T

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

    def __init__(self, distributions: Sequence[Distribution]) -> None:
        self.distributions = tuple(distributions)
        #: one call serves all coordinates with the same distribution, all normal, all uniform
        #: ones, and of few rows all of a family
        self._many, self._few = self._grouped(_same), self._grouped(_group)
        self._last: tuple[Array, Derivatives] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_last": None}

    def _grouped(self, key: Callable[[Distribution], _Key]) -> list[tuple[Any, Indices]]:
        alike: dict[Any, list[int]] = {}
        for i, distribution in enumerate(self.distributions):
            alike.setdefault(key(distribution), []).append(i)
        every = ((kind, np.array(some)) for (kind, *_), some in alike.items())
        return [(kind([self.distributions[i] for i in some]), some) for kind, some in every]

    def _groups(self, x: Array, few: int = 1000) -> list[tuple[Any, Indices]]:
        return self._few if len(x) <= few else self._many

    def __call__(self, x: Array) -> Array:
        theta = np.empty_like(x)
        for marginal, some in self._groups(x):
            theta[:, some] = marginal.quantile(x[:, some])
        return theta

    def inverse(self, theta: Array) -> Array:
        x = np.empty_like(theta)
        for marginal, some in self._groups(theta):
            x[:, some] = marginal.score(theta[:, some])
        x[~np.isfinite(x)] = np.nan
        return x

    def _log_density(self, x: Array) -> tuple[Array, Array]:
        """g(x) and log f(g(x)), coordinate by coordinate."""
        theta = self(x)
        log_f = np.empty_like(theta)
        for marginal, some in self._groups(x):
            log_f[:, some] = marginal.log_density(theta[:, some])
        return theta, log_f

    @np.errstate(all="ignore")
    def slopes(self, x: Array) -> tuple[Array, Array]:
        """g and g' = φ(x) / f(g(x))."""
        theta, log_f = self._log_density(x)
        return theta, np.exp(-0.5 * (x * x + LOG_2PI) - log_f)

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

    @np.errstate(all="ignore")
    def _derivatives(self, x: Array) -> Derivatives:
        h, (g, log_f) = _STEP, self._log_density(x)
        g1 = np.exp(-0.5 * (x * x + LOG_2PI) - log_f)
        f = {k: self._log_density(x + k * h)[1] for k in (-2, -1, 1, 2)} | {0: log_f}
        first = (8.0 * (f[1] - f[-1]) - (f[2] - f[-2])) / (12.0 * h)
        second = (16.0 * (f[1] + f[-1]) - (f[2] + f[-2]) - 30.0 * f[0]) / (12.0 * h * h)
        a = -x - first
        return Derivatives(g, g1, g1 * a, g1 * (a * a - 1.0 - second))


class _Normals:
    """Normal distributions, without SciPy's detours, which cost far more than the numbers."""

    def __init__(self, distributions: Sequence[Frozen]) -> None:
        self.loc, self.scale = np.array([_parameters(d) for d in distributions]).T

    def quantile(self, x: Array) -> Array:
        return self.loc + self.scale * x

    def score(self, theta: Array) -> Array:
        return (theta - self.loc) / self.scale

    def log_density(self, theta: Array) -> Array:
        z = self.score(theta)
        return -0.5 * (z * z + LOG_2PI) - np.log(self.scale)


class _Uniforms(_Normals):
    """Uniform ones, likewise."""

    def quantile(self, x: Array) -> Array:
        return self.loc + self.scale * ndtr(x)

    def score(self, theta: Array) -> Array:
        low, high = (theta - self.loc) / self.scale, (self.loc + self.scale - theta) / self.scale
        inside = (low >= 0.0) & (high >= 0.0)
        return np.where(inside, _from_tails(low, high), np.nan)

    def log_density(self, theta: Array) -> Array:
        inside = (theta >= self.loc) & (theta <= self.loc + self.scale)
        return np.where(inside, -np.log(self.scale), -np.inf)


class _HalfNormals(_Normals):
    """Half-normal ones, likewise."""

    def quantile(self, x: Array) -> Array:
        upper = -ndtri_exp(log_ndtr(-x) - np.log(2.0))
        return self.loc + self.scale * np.where(x > 0.0, upper, _ROOT_2 * erfinv(ndtr(x)))

    def score(self, theta: Array) -> Array:
        z = (theta - self.loc) / self.scale
        upper = -ndtri_exp(np.minimum(np.log(2.0) + log_ndtr(-z), 0.0))
        return np.where(z < 0.0, np.nan, np.where(z < 1.0, ndtri(erf(z / _ROOT_2)), upper))

    def log_density(self, theta: Array) -> Array:
        z = (theta - self.loc) / self.scale
        log_f = 0.5 * np.log(2.0 / np.pi) - 0.5 * z * z - np.log(self.scale)
        return np.where(z >= 0.0, log_f, -np.inf)


class _Exponentials(_Normals):
    """Exponential ones, likewise."""

    def quantile(self, x: Array) -> Array:
        return self.loc - self.scale * log_ndtr(-x)

    def score(self, theta: Array) -> Array:
        z = (theta - self.loc) / self.scale
        lower = ndtri(-np.expm1(-z))
        return np.where(z < 0.0, np.nan, np.where(z < 0.5, lower, -ndtri_exp(-np.maximum(z, 0.5))))

    def log_density(self, theta: Array) -> Array:
        z = (theta - self.loc) / self.scale
        return np.where(z >= 0.0, -z - np.log(self.scale), -np.inf)


@contextmanager
def _quiet(tail: Array, *, far: float = 1e-40) -> Iterator[None]:
    """Quantiles of SciPy's without what they warn of, and answer all the same.

    Boost's warnings heed no errstate. They are of tails below ``far``, and silenced there only:
    whenever filters change Python tells once more what it has told, a user's own warnings too.
    """
    with np.errstate(all="ignore"):
        if not (tail < far).any():
            yield
            return
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*boost::math", RuntimeWarning)
            yield


class _Alike:
    """Coordinates with the same distribution, whatever it is."""

    def __init__(self, distributions: Sequence[Distribution]) -> None:
        self.distribution = distributions[0]

    def _ask(self, name: str, values: Array, some: Flags | EllipsisType = ...) -> Array:
        """A function of the distribution, such as ``ppf``, at some of the values."""
        return np.asarray(getattr(self.distribution, name)(values[some]))

    def quantile(self, x: Array) -> Array:
        out = self._tails(np.clip(x, -_FAR, _FAR), np.ones(x.shape, bool))
        for limit in _RETREATS:  # 1 - u, or a search, failed
            lost = ~np.isfinite(out)
            if lost.any():
                out[lost] = self._tails(np.clip(x, -limit, limit), lost)[lost]
        return out

    def _tails(self, x: Array, some: Flags) -> Array:
        out, upper, tail = np.empty_like(x), x > 0.0, ndtr(-np.abs(x))
        with _quiet(tail):
            for name, these in (("ppf", some & ~upper), ("isf", some & upper)):
                out[these] = self._ask(name, tail, these)
        return out

    @np.errstate(all="ignore")
    def score(self, theta: Array) -> Array:
        return _from_tails(self._ask("cdf", theta), self._ask("sf", theta))

    @np.errstate(all="ignore")
    def log_density(self, theta: Array) -> Array:
        return self._ask("logpdf", theta)


class _Family(_Alike):
    """Distributions of one family of SciPy's, each with its own parameters, in one call: checks
    of arguments take longer than the numbers."""

    def __init__(self, distributions: Sequence[Frozen]) -> None:
        self.distribution = distributions[0].dist
        self.parameters = np.array([_parameters(d) for d in distributions]).T

    def _ask(self, name: str, values: Array, some: Flags | EllipsisType = ...) -> Array:
        own = [np.broadcast_to(part, values.shape)[some] for part in self.parameters]
        return np.asarray(getattr(self.distribution, name)(values[some], *own))


class _OfRows(_Alike):
    """A distribution whose parameters have a value for every row: all are asked for all."""

    def __init__(self, distribution: Distribution) -> None:
        super().__init__([distribution])

    def quantile(self, x: Array) -> Array:
        tail, own = ndtr(-np.abs(x)), self.distribution
        with _quiet(tail):
            return np.where(x > 0.0, self._each(own.isf, tail), self._each(own.ppf, tail))

    @np.errstate(all="ignore")
    def score(self, theta: Array) -> Array:
        low, high = (self._each(f, theta) for f in (self.distribution.cdf, self.distribution.sf))
        return _from_tails(low, high)

    def _each(self, function: Callable[[Array], ArrayLike], values: Array) -> Array:
        """Of columns, which the rows' parameters go along with; SciPy's take them all at once."""
        if hasattr(self.distribution, "dist"):
            return np.asarray(function(values.T)).T
        return np.stack([np.asarray(function(column)) for column in values.T], axis=1)


def _from_tails(low: Array, high: Array) -> Array:
    """x from Φ(x) and 1 - Φ(x), the smaller of which is the more precise."""
    with np.errstate(invalid="ignore"):
        return np.where(low < high, ndtri(low), -ndtri(high))


_FAST = {"norm": _Normals, "uniform": _Uniforms, "halfnorm": _HalfNormals, "expon": _Exponentials}


def is_frozen(distribution: Distribution) -> TypeGuard[Frozen]:
    return getattr(getattr(distribution, "dist", None), "name", None) is not None


def _of_rows(distribution: Distribution) -> _OfRows | _Normals:
    """A distribution that a function has made of columns, by the fast path where there is one."""
    if not is_frozen(distribution) or distribution.dist.name not in _FAST:
        return _OfRows(distribution)
    if not hasattr(distribution.dist, "_parse_args"):
        return _OfRows(distribution)
    _, loc, scale = distribution.dist._parse_args(*distribution.args, **distribution.kwds)
    kind = _FAST[distribution.dist.name]
    made = kind.__new__(kind)
    made.loc, made.scale = (np.reshape(part, (-1, 1)) for part in (loc, scale))
    made.scale = np.where(made.scale > 0.0, made.scale, np.nan)
    return made


def _group(distribution: Distribution) -> _Key:
    """What coordinates have in common that one call serves: a class, and a distribution or a
    family."""
    from scipy import stats

    same = _same(distribution)
    if not is_frozen(distribution) or len(same) < 3 or _parameters(distribution) is None:
        return same
    family = distribution.dist.name
    known = type(distribution.dist) is type(getattr(stats, family, None))
    return (_Family, family) if known else same


def _same(distribution: Distribution) -> _Key:
    """What coordinates have in common that have the very same distribution, or a fast class."""
    if not is_frozen(distribution) or isinstance(distribution, OnAnother):
        return _Alike, id(distribution)
    family = distribution.dist.name
    if family in _FAST and _parameters(distribution) is not None:
        return (_FAST[family],)
    return _Alike, family, repr(distribution.args), repr(sorted(distribution.kwds.items()))


def _parameters(distribution: Frozen) -> tuple[float, ...] | None:
    """Shapes, place and scale as single numbers, where they are."""
    if not hasattr(distribution.dist, "_parse_args"):
        return None
    shapes, *rest = distribution.dist._parse_args(*distribution.args, **distribution.kwds)
    alone = all(np.ndim(part) == 0 for part in (*shapes, *rest))
    return tuple(float(part) for part in (*shapes, *rest)) if alone else None


class InverseOnly:
    """A distribution of which only the quantile function ``ppf`` is there.

    Its distribution function is found by bisection, its density by differences.

    >>> class Exponential:
    ...     def ppf(self, q):
    ...         return -np.log1p(-q)
    >>> one = InverseOnly(Exponential())
    >>> np.round([one.cdf(1.0), one.logpdf(1.0)], 6).tolist()
    [0.632121, -1.0]
    """

    def __init__(self, distribution: Any) -> None:
        self.distribution = distribution

    def ppf(self, q: ArrayLike) -> Array:
        return np.asarray(self.distribution.ppf(np.asarray(q, dtype=float)), dtype=float)

    def isf(self, q: ArrayLike) -> Array:
        return self.ppf(np.minimum(1.0 - np.asarray(q, dtype=float), _LAST))

    def cdf(self, theta: ArrayLike) -> Array:
        return ndtr(self._score(theta))

    def sf(self, theta: ArrayLike) -> Array:
        return ndtr(-self._score(theta))

    def logpdf(self, theta: ArrayLike) -> Array:
        x, h = self._score(theta), _STEP
        with np.errstate(all="ignore"):  # beyond 8 standard deviations u is 1, and nothing moves
            slope = (self.ppf(ndtr(x + h)) - self.ppf(ndtr(x - h))) / (2.0 * h)
            return -0.5 * (x * x + LOG_2PI) - np.log(slope)

    def _score(self, theta: ArrayLike, *, near: float = 8.0, bisections: int = 60) -> Array:
        """``near``: standard deviations at which one minus a normal tail ends."""
        theta = np.asarray(theta, dtype=float)
        low, high = np.full(theta.shape, -near), np.full(theta.shape, near)
        outside = (theta < self.ppf(ndtr(low))) | (theta > self.ppf(ndtr(high)))
        for _ in range(bisections):
            middle = 0.5 * (low + high)
            above = self.ppf(ndtr(middle)) < theta
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return np.where(outside, np.where(theta > self.ppf(0.5), np.inf, -np.inf), high)


class _Modern:
    """A distribution of SciPy's new kind (``scipy.stats.Normal``, …) by the names of the old."""

    def __init__(self, distribution: Any) -> None:
        self.distribution = distribution
        self.ppf, self.isf = distribution.icdf, distribution.iccdf
        self.cdf, self.sf, self.logpdf = distribution.cdf, distribution.ccdf, distribution.logpdf


def retreating(
    far: Callable[[Array], Array], x: Array, complain: Callable[[Array, Array], None]
) -> Array:
    """Parameters of rows x; of rows where one is infinite or NaN, at a point nearer to the centre.

    Beyond 8 standard deviations 1 - u is no number, and quantiles made of it are infinite: that
    is 1e-15 of the prior, which may have the parameters at its border.
    """
    theta = far(x)
    for limit in _RETREATS:
        bad = ~np.isfinite(theta).all(axis=1)
        if not bad.any():
            return theta
        theta = theta.copy()
        theta[bad] = far(np.clip(x[bad], -limit, limit))
    if (bad := ~np.isfinite(theta).all(axis=1)).any():
        complain(x[bad][0], theta[bad][0])
    return theta


class Transform:
    """θ = T(Φ(x)) for a map T of the unit cube: a prior as nested samplers take it.

    There is no way back from parameters, and slopes of T are differences.
    """

    def __init__(self, function: Callable[..., Any], dim: int, vectorized: bool) -> None:
        self.function, self.dim, self.vectorized = function, dim, vectorized

    def __call__(self, x: Array) -> Array:
        return retreating(self._far, x, self._complain)

    def check(self) -> None:
        """A map of other points fails; one of one point changes the first of several rows only."""
        x = np.random.default_rng(20122).standard_normal((3, self.dim))
        if not self.vectorized:
            try:
                with np.errstate(all="ignore"):
                    self._one(ndtr(x[0]))
            except (IndexError, ValueError) as error:
                raise InputError(
                    f"prior_transform was called with u of shape ({self.dim},), as dim= or names= "
                    f"say, and ended in {type(error).__name__}: {error}"
                ) from error
            return
        told = (
            "with vectorized=True prior_transform gets rows of points (M, d), and must treat each "
            "by itself: u[:, 0] is the first parameter of all"
        )
        try:
            together, alone = self._far(x), np.concatenate([self._far(x[[i]]) for i in range(3)])
        except (IndexError, TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{told}; yours ended in {type(error).__name__}: {error}") from error
        if not np.allclose(together, alone, rtol=1e-6, equal_nan=True):
            raise InputError(f"{told}; yours gives other parameters to a point among others")

    def _far(self, x: Array, *, smallest: float = 1e-300) -> Array:
        """T(Φ(x)), which may be infinite where u is next to 0 or 1.

        ``smallest``: a number above zero.
        """
        cube = np.clip(ndtr(x), smallest, _LAST)
        if not len(cube):
            return cube
        with np.errstate(all="ignore"):
            out = self.function(cube.copy()) if self.vectorized else list(map(self._one, cube))
        where = " of the unit cube"
        return required("prior_transform", out, cube.shape, self.vectorized, where)

    def _one(self, point: Array) -> object:
        return self.function(point.copy())

    def _complain(self, x: Array, theta: Array) -> None:
        raise InputError(
            f"prior_transform must return finite numbers, got {theta} at {ndtr(x)} of the unit "
            "cube; it may be infinite within 1e-12 of 0 or 1 only"
        )

    def inverse(self, theta: Array) -> Array:
        raise InputError(
            "prior_transform leads from the unit cube to parameters and not back; give "
            "distributions as prior= where coordinates of parameters are needed"
        )

    def ends(self, x: Array, w: Array, *, least: float = 0.01) -> str:
        """A warning's text where at least this part of the posterior, rows x of weights w, is
        where u = Φ(x) is 1 in doubles; empty where it is not."""
        if type(self) is not Transform or (part := w @ (x > _RETREATS[0]).any(axis=1)) < least:
            return ""
        return (
            f"{100.0 * part:.0f} % of the posterior is where prior_transform gets u within 1e-15 "
            "of 1, where doubles end: log Z is of a prior cut there; give distributions as prior="
        )

    def pull(self, x: Array, slope: Array, *, slope_step: float = 1e-5) -> Array:
        """The gradient in x from that in θ.

        ``slope_step``: of first differences, in units of a standard normal.
        """
        out = np.empty_like(x)
        for i, e in enumerate(np.eye(self.dim) * slope_step):
            out[:, i] = ((self(x + e) - self(x - e)) * slope).sum(axis=1) / (2.0 * slope_step)
        return out


class Dependent(Transform):
    """θ_i = F_i⁻¹(Φ(x_i)), where F_i may depend on parameters that come before.

    >>> from scipy import stats
    >>> change = Dependent({"scale": stats.expon(), "x": lambda scale: stats.norm(0.0, scale)})
    >>> np.round(change(np.array([[0.0, 2.0]])), 4).tolist()  # twice the median of the scale
    [[0.6931, 1.3863]]
    """

    def __init__(self, entries: Mapping[str, Any]) -> None:
        super().__init__(self._outward, len(entries), True)
        self.names, names = tuple(entries), list(entries)
        alike: dict[Any, list[int]] = {}
        for i, (name, entry) in enumerate(entries.items()):
            uses = tuple(_asked(name, entry, names[:i])) if is_function(entry) else ()
            key = (*_text(entry), uses) if is_function(entry) else name
            alike.setdefault(key, []).append(i)
        #: entries that one call serves, what they are functions of, and their columns: twenty
        #: distributions of SciPy, made for every call, took fifty times as long as one
        firsts = [(names[some[0]], some) for some in alike.values()]
        self._groups = [(_fixed(name, entries[name]), some) for name, some in firsts]
        self._uses = [key[-1] if isinstance(key, tuple) else () for key in alike]

    def __call__(self, x: Array) -> Array:
        return retreating(self._outward, np.clip(x, -_FAR, _FAR), self._complain)

    def _complain(self, x: Array, theta: Array) -> None:
        at = dict(zip(self.names, theta.tolist(), strict=True))
        raise InputError(
            f"prior must have finite quantiles: at {ndtr(x)} of the unit cube they are {at}"
        )

    def _outward(self, x: Array) -> Array:
        theta = np.empty_like(x)
        if not len(x):
            return theta
        for made, some in self._given(theta):
            theta[:, some] = made.quantile(x[:, some])
        return theta

    def _given(self, theta: Array) -> Iterator[tuple[_Alike | _Normals, list[int]]]:
        """Distributions and their columns, each given those before it."""
        for (entry, some), uses in zip(self._groups, self._uses, strict=True):
            if isinstance(entry, _Alike):
                yield entry, some
            else:
                made = entry(**{self.names[j]: theta[:, j] for j in uses})
                yield _of_rows(marginal(made, f"prior[{shown(self.names[some[0]])}]")), some

    def inverse(self, theta: Array) -> Array:
        x = np.empty_like(theta)
        if not len(theta):
            return x
        for made, some in self._given(theta):
            x[:, some] = made.score(theta[:, some])
        x[~np.isfinite(x)] = np.nan
        return x


def _asked(name: str, entry: Callable[..., object], before: list[str]) -> list[int]:
    """Which of the parameters before it an entry is a function of."""
    every = inspect.signature(entry).parameters.values()
    asked = [one.name for one in every if one.default is one.empty]
    if late := [one for one in asked if one not in before]:
        raise InputError(
            f"prior[{shown(name)}] is a function of {', '.join(late)}: its arguments must be "
            f"names of parameters before it ({', '.join(before) or 'there are none'})"
        )
    return [before.index(one) for one in asked]


def _fixed(name: str, entry: object) -> Callable[..., object] | _Alike:
    """What is no function, once and for all."""
    return entry if is_function(entry) else _Alike([single(entry, f"prior[{shown(name)}]")])


def _text(entry: object) -> tuple[Any, ...]:
    """What functions have in common that are the same, written once and made in a loop."""
    if not inspect.isfunction(entry):
        return (id(entry),)
    cells = tuple(map(id, entry.__closure__ or ()))
    defaults = (*(entry.__defaults__ or ()), *(entry.__kwdefaults__ or {}).values())
    return entry.__code__, id(entry.__globals__), cells, tuple(map(id, defaults))


def _is_multivariate(prior: object) -> TypeGuard[Any]:
    """Whether this is scipy.stats.multivariate_normal(mean, cov); without it scipy.stats, which
    takes a while to load, may not be needed."""
    if prior is None or isinstance(prior, Mapping | list | tuple | np.ndarray):
        return False
    from scipy import stats

    return isinstance(prior, type(stats.multivariate_normal(0.0, 1.0)))


def is_function(entry: object) -> TypeGuard[Callable[..., object]]:
    """Whether this makes a distribution of other parameters."""
    return inspect.isfunction(entry) or inspect.ismethod(entry) or isinstance(entry, partial)


def _is_distribution(entry: object) -> TypeGuard[Distribution]:
    return all(hasattr(entry, one) for one in _NEEDED)


def marginal(entry: object, name: str) -> Distribution:
    """A distribution with ppf, isf, cdf, sf and logpdf from any form people have one in."""
    if isinstance(entry, tuple | list | np.ndarray) and len(entry) == 2:
        low, high = entry
        numbers = all(np.issubdtype(np.asarray(end).dtype, np.number) for end in entry)
        if not numbers or not np.all(np.isfinite(low) & np.isfinite(high) & (low < high)):
            raise InputError(
                f"{name} must be a pair of finite numbers low < high, between which the parameter "
                f"is uniform, or a distribution; got {shown(entry)}"
            )
        from scipy import stats

        return stats.uniform(low, high - low)
    if _is_distribution(entry):
        return entry
    if all(hasattr(entry, one) for one in ("icdf", "iccdf", "cdf", "ccdf", "logpdf")):
        return _modern(entry)
    if callable(getattr(entry, "ppf", None)) and not hasattr(entry, "pmf"):
        return InverseOnly(entry)
    raise InputError(
        f"{name} must be a continuous distribution of scipy.stats with its parameters, such as "
        f"scipy.stats.norm(0, 1), an object with ppf, or a pair (low, high); got {shown(entry)}"
    )


def single(entry: object, name: str) -> Distribution:
    """The distribution of one number, which has quantiles."""
    made, told = marginal(entry, name), shown(entry)
    if is_frozen(made):
        words = [*map(shown, made.args), *(f"{key}={shown(v)}" for key, v in made.kwds.items())]
        told = f"{made.dist.name}({', '.join(words)})"
    with np.errstate(all="ignore"):
        median = np.asarray(made.ppf(np.array([0.5])))
    if median.size != 1:
        raise InputError(
            f"{name} is {told}, of {median.size} numbers at once: give every parameter its own, "
            "as in [norm(0, 1), norm(1, 1)]"
        )
    if not np.isfinite(median).all():
        raise InputError(
            f"{name} is {told}, which has no median: scale must be positive (SciPy's uniform "
            "takes loc and width), and its other parameters what SciPy allows"
        )
    return made


def _modern(entry: Any) -> Distribution:
    """Normal and uniform ones as those of the old kind, which have a fast path."""
    from scipy import stats

    kind = type(entry).__name__
    if kind == "Normal":
        return stats.norm(entry.mu, entry.sigma)
    if kind == "Uniform":
        return stats.uniform(entry.a, entry.b - entry.a)
    return _Modern(entry)


def names_of(prior: object) -> list[str] | None:
    """Where a prior names its parameters."""
    return [str(name) for name in prior] if isinstance(prior, Mapping) else None


def size_of(prior: object) -> int | None:
    """The number of parameters, where a prior tells."""
    if isinstance(prior, GaussianPrior):
        return prior.dim
    if _is_multivariate(prior):
        return int(prior.dim)
    if isinstance(prior, Mapping | list | tuple | np.ndarray):
        return len(prior)
    if prior is not None:
        check_prior(prior, 1)  # what is none is told of before its dimension is asked for
    return None


def check_prior(
    prior: object, dim: int, names: Sequence[str] | None = None
) -> GaussianPrior | Quantiles | Dependent:
    """A prior in one of the forms that there are, or an error that says which these are."""
    if _is_multivariate(prior):
        prior = GaussianPrior(prior.mean, prior.cov)
    if isinstance(prior, GaussianPrior):
        if prior.dim != dim:
            raise InputError(f"prior has {prior.dim} dimensions but the model has dim={dim}")
        return prior
    if hasattr(prior, "ppf") or hasattr(prior, "icdf"):
        prior = [prior] * dim
    if isinstance(prior, Mapping):
        names, prior = list(prior), list(prior.values())
    if isinstance(prior, np.ndarray) and prior.ndim == 2:
        prior = list(prior)
    if isinstance(prior, Sequence) and not isinstance(prior, str):
        if len(prior) != dim:
            raise InputError(f"prior holds {len(prior)} distributions but the model has dim={dim}")
        if any(map(is_function, prior)):
            names = [f"x{i}" for i in range(dim)] if names is None else names
            return Dependent(dict(zip(names, prior, strict=True)))
        return Quantiles([single(entry, f"prior[{i}]") for i, entry in enumerate(prior)])
    raise InputError(
        "prior must be ev.GaussianPrior(mean, cov), scipy.stats.multivariate_normal(mean, cov), "
        "or for each parameter a distribution of scipy.stats, a pair (low, high), or a function "
        f"of parameters before it that makes one; got {shown(prior)}. A map of the unit cube "
        "belongs into prior_transform=; a prior that can only be sampled and evaluated into "
        "logdensity, with its sampler as sampler="
    )

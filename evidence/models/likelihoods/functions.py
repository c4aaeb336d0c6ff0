r"""A likelihood of several predictors around a user's function of them.

Slopes and curvatures of :math:`f(\eta, y)` are central differences, whose steps are found datum
by datum: a user's predictors have units of their own, and a step is right where second differences
are about :math:`\epsilon^{1/2}` of f.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Self

import numba
import numpy as np
from numba.core.errors import NumbaError
from numba.np.unsafe.ndarray import to_fixed_tuple
from numpy.typing import ArrayLike

from ...execution.arguments import shown
from ...messages import InputError
from ..borrowed import borrowed
from .base import PLACES, Array, Rows
from .custom import CustomLikelihood, compiled
from .differences import examples
from .predicted import Expansion, Several

_TRIES = 50  # of steps, each four times or a quarter of the one before
_Z, _LOG_W = np.polynomial.hermite_e.hermegauss(9)
_LOG_W = np.log(_LOG_W / _LOG_W.sum()) + 0.5 * _Z**2


_njit = numba.njit(error_model="numpy")  # of functions that are given: not kept on disk


@_njit
def _moved(at, eta, theta, j, step):
    x = eta[j]
    eta[j] = x + step
    value = at(eta, theta)
    eta[j] = x
    return value


@_njit
def _stepped(at, eta, theta, j, f):
    """A step that is neither too long nor too short, and f at both of its ends."""
    first_step = 2e-4  # the first that is tried
    good_bend = 4e-8  # second difference of a good step, relative to f where that is large
    good_tilt = 1e-2  # and first difference at most
    h, before, size = first_step, 0, max(1.0, abs(f))
    for _ in range(_TRIES):
        up, down = _moved(at, eta, theta, j, h), _moved(at, eta, theta, j, -h)
        bend, tilt, ahead = abs(up - 2.0 * f + down), 0.5 * abs(up - down), 0
        if not (bend < 8.0 * good_bend * size and tilt < good_tilt * size):
            ahead = -1
        elif bend < good_bend / 8.0 * size and tilt < 0.1 * good_tilt * size:
            ahead = 1
        if ahead == 0 or ahead == -before:
            break
        before = ahead
        h *= 4.0 if ahead > 0 else 0.25
    return h, up, down


@_njit
def _values(at, eta, theta, out):
    for n in range(eta.shape[2]):
        own = theta[:, n].copy()
        for b in range(eta.shape[0]):
            out[b, n] = at(eta[b, :, n].copy(), own)


@_njit
def _expand(at, eta_, theta_, value, slope, W):
    P, second = len(eta_), W.size > 0
    h = np.empty(P)
    for n in range(eta_.shape[1]):
        eta, theta = eta_[:, n].copy(), theta_[:, n].copy()
        value[n] = f = at(eta, theta)
        for j in range(P):
            h[j], up, down = _stepped(at, eta, theta, j, f)
            slope[j, n] = (up - down) / (2.0 * h[j])
            if second:
                W[n, j, j] = (2.0 * f - up - down) / h[j] ** 2
            for k in range(j if second else 0):
                x, total = eta[k], 0.0
                for sign in (1.0, -1.0):
                    eta[k] = x + sign * h[k]
                    total += sign * _moved(at, eta, theta, j, h[j])
                    total -= sign * _moved(at, eta, theta, j, -h[j])
                eta[k] = x
                W[n, j, k] = W[n, k, j] = -total / (4.0 * h[j] * h[k])


@_njit
def _mode(at, eta, theta, m, v):
    """Of the first predictor, by Newton's method with steps halved until they rise; precision."""
    near = 1e-3  # squared steps to a mode, in its standard deviations
    x, precision = m, 1.0 / v
    for _ in range(_TRIES):
        eta[0] = x
        f = at(eta, theta)
        h, up, down = _stepped(at, eta, theta, 0, f)
        precision = 1.0 / v + max((2.0 * f - up - down) / (h * h), 0.0)
        step = ((up - down) / (2.0 * h) - (x - m) / v) / precision
        for _ in range(_TRIES):
            rise = _moved(at, eta, theta, 0, step) - f - step * (0.5 * step + x - m) / v
            if rise >= 0.0:
                break
            step *= 0.5
        x += step
        if step * step * precision < near:
            break
    return x, precision


@_njit
def _tilted(at, further, theta, m, v, out):
    """log Ẑ, mean and variance (3, B) of the first predictor given the others (B, P - 1)."""
    eta, log_p = np.empty(1 + further.shape[1]), np.empty(_Z.size)
    for b in range(m.size):
        for j in range(further.shape[1]):
            eta[1 + j] = further[b, j]
        x, precision = _mode(at, eta, theta, m[b], v[b])
        sd = 1.0 / math.sqrt(precision)
        for i in range(_Z.size):
            eta[0] = x + sd * _Z[i]
            log_p[i] = at(eta, theta) - 0.5 * (eta[0] - m[b]) ** 2 / v[b] + _LOG_W[i]
        top, total, mean, square = log_p.max(), 0.0, 0.0, 0.0
        for i in range(_Z.size):
            w = math.exp(log_p[i] - top)
            total, mean, square = total + w, mean + w * _Z[i], square + w * _Z[i] ** 2
        mean /= total
        out[0, b] = top + math.log(total * sd / math.sqrt(v[b]))
        out[1, b], out[2, b] = x + sd * mean, sd * sd * (square / total - mean * mean)


@cache
def _compile(function: Callable[..., Any], P: int, K: int) -> tuple[Any, Any]:
    """log p of arrays of predictors and of y and parameters; and as :class:`.CustomLikelihood`
    takes it, of the first predictor, whose parameters begin with the others: without a third
    derivative."""
    scalar = compiled(function)

    @_njit
    def at(eta, theta):
        y, own = theta[0], theta[1:]
        return float(scalar(to_fixed_tuple(eta, P), y, *to_fixed_tuple(own, K)))

    @_njit
    def first(x, y, *others):
        eta, theta = np.empty(P), np.empty(1 + K)
        eta[0], theta[0] = x, y
        for j in range(P - 1):
            eta[1 + j] = others[j]
        for k in range(K):
            theta[1 + k] = others[P - 1 + k]
        f = at(eta, theta)
        h, up, down = _stepped(at, eta, theta, 0, f)
        return f, (up - down) / (2.0 * h), (up - 2.0 * f + down) / (h * h), math.nan

    return at, first


@dataclass(frozen=True, repr=False)
class FunctionOfSeveral(Several):
    """Of P predictors; made by :func:`.from_function`."""

    one: CustomLikelihood
    """The function, with its parameters and what else users said; not to be evaluated."""
    predictors: tuple[str, ...]

    steep = True  # for all that is known

    name = borrowed("one.name")
    log_concave = borrowed("one.log_concave")
    check = borrowed("one.check")
    theta = borrowed("one.theta")

    def __repr__(self) -> str:
        return repr(self.one)

    def at(self, rows: Rows) -> Self:
        return replace(self, one=self.one.at(rows))

    def location(self, y: Array) -> Array:
        """Of the first predictor; of others nothing is known."""
        rest = np.zeros(y.size * (len(self.predictors) - 1))
        return np.concatenate([self.one.location(y), rest])

    def ceiling(self, y: Array) -> float:
        return np.inf

    @property
    def _compiled(self) -> tuple[Any, Any]:
        return _compile(self.one.function, len(self.predictors), len(self.one.params))

    def _call(self, function: Callable[..., None], *arrays: Array) -> None:
        try:
            function(self._compiled[0], *arrays)
        except NumbaError as error:
            words = ", ".join(("eta", "y", *(name for name, _ in self.one.params)))
            raise InputError(
                f"function: Numba cannot compile f({words}) -> log p, eta a tuple of "
                f"{len(self.predictors)} numbers; use scalars and the math module"
            ) from error

    def log_probs(self, y: Array, eta: Array, own: Mapping[str, Array] | None = None) -> Array:
        out = np.empty((len(eta), y.size))
        self._call(_values, np.ascontiguousarray(eta, float), self.theta(y), out)
        out[np.isnan(out)] = -np.inf
        return out

    def slopes(self, y: Array, eta: Array) -> tuple[Array, Array]:
        value, slope, none = np.empty((len(eta), y.size)), np.empty(eta.shape), np.empty((0, 0, 0))
        for one, f, f1 in zip(np.ascontiguousarray(eta, float), value, slope, strict=True):
            self._call(_expand, one, self.theta(y), f, f1, none)
        value[np.isnan(value)] = -np.inf
        return value, slope

    def expand(self, y: Array, eta: Array) -> Expansion:
        P, N = eta.shape
        out = Expansion(np.empty(N), np.empty((P, N)), np.empty((N, P, P)))
        eta = np.ascontiguousarray(eta, float)
        self._call(_expand, eta, self.theta(y), *out[:3])
        return out

    def given(self, further: Array) -> CustomLikelihood:
        """That of the first predictor for values of the others (P - 1, N)."""
        own = zip(self.predictors[1:], (tuple(row.tolist()) for row in further), strict=True)
        hooks, params = self.one.hooks, (*own, *self.one.params)
        for name, around in _AROUND.items():
            if (hook := getattr(hooks, name)) is not None:
                hooks = hooks._replace(**{name: partial(around, hook, len(further))})
        return replace(self.one, function=self._compiled[1], params=params, hooks=hooks)

    def tilted_first(
        self, i: int, y: Array, further: Array, m: Array, v: Array
    ) -> tuple[Array, Array, Array] | None:
        out, theta = np.empty((3, m.size)), self.at([i]).theta(y[[i]])[:, 0]
        self._call(_tilted, np.ascontiguousarray(further), theta, m, v, out)
        return out[0], out[1], out[2]

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        draw, eta = self.one._need("simulate"), np.moveaxis(self.split(x), -2, 0)
        return np.asarray(draw(eta, rng, *self.one._parameters(eta)), float)

    def conditional_moments(self, x: Array) -> tuple[Array, Array]:
        moments, eta = self.one._need("conditional_moments"), np.moveaxis(self.split(x), -2, 0)
        mean, var = moments(eta, *self.one._parameters(eta))
        return np.broadcast_to(mean, eta.shape[1:]), np.broadcast_to(var, eta.shape[1:])


def of_several(
    one: CustomLikelihood, predictors: Sequence[str], tried: bool, y: ArrayLike | None
) -> FunctionOfSeveral:
    """Checked, and perhaps ``tried`` at examples of y."""
    names = () if isinstance(predictors, str) else tuple(predictors)
    words = [name for name in names if isinstance(name, str) and name.isidentifier()]
    if len({*words}) != len(names) or len(names) < 2:
        raise InputError(
            "predictors must be two or more different words, such as ['mu', 'log_sigma'], got "
            f"{shown(predictors)}"
        )
    made = FunctionOfSeveral(one, names)
    if tried:
        seen = examples(one) if y is None else np.atleast_1d(one.check(y).y)
        places = np.tile(np.reshape(PLACES, (-1, 1, 1)), (1, len(names), seen.size))
        odd = np.flatnonzero(~np.isfinite(made.log_probs(seen, places)).any(axis=0))
        if odd.size:
            raise InputError(
                f"function: not finite at any of eta = {PLACES[0]:g} to {PLACES[-1]:g} for "
                f"y = {seen[odd[0]]:g}; check its formula, or pass example_y="
            )
    return made


def _eta(x: Array, further: tuple[Array, ...]) -> Array:
    return np.array(np.broadcast_arrays(x, *further))


def _moments(function: Callable[..., Any], further: int, x: Array, *others: Array) -> Any:
    return function(_eta(x, others[:further]), *others[further:])


def _draw(function: Callable[..., Any], further: int, x: Array, rng: object, *rest: Array) -> Any:
    return function(_eta(x, rest[:further]), rng, *rest[further:])


def _place(function: Callable[..., Any], further: int, y: Array, *others: Array) -> Any:
    return function(y, *others[further:])


#: what users say of several predictors, told of the first one
_AROUND: dict[str, Callable[..., Any]] = {
    "conditional_moments": _moments,
    "simulate": _draw,
    "location": _place,
}

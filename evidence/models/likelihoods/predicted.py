r"""Likelihoods of several predictors: :math:`p(y_n|\eta_n)` with :math:`\eta_n` in P dimensions.

Of any family with parameters one is made by predicting some of these, too: the first predictor is
the latent value that the family sees, every further one is a parameter through its link,

.. math:: p(y|\eta) = p(y|x = \eta_1,\ \theta_j = g_j^{-1}(\eta_{j+1})),

the logarithm for positive numbers, log-odds for shares. The slope in :math:`\eta_1` is that of the
family's compiled kernel; those in parameters are differences of log p. What starts from these is
exact all the same: proposals are weighted, moves accepted or not, by log p itself.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit

from ...execution.arguments import shown
from ...messages import InputError, suggest
from ...numerics.arrays import Array
from ..borrowed import borrowed
from ..identity import rounded
from .base import PLACES, Likelihood, Limits, Rows, family
from .quadrature import evaluate

_STEP = 2e-4  # of differences: slopes to 1e-8, curvatures to 1e-7 of log p near one


class Expansion(NamedTuple):
    """log p of N data, its gradient (P, N) and its curvature (N, P, P), the Hessian's negative."""

    value: Array
    slope: Array
    curvature: Array
    pi: Array | None = None
    """As :class:`.BlockSites` have it."""


class Several(Likelihood):
    """P predictors per datum; their arrays are (P, N) or, of B draws, (B, P, N)."""

    predictors: tuple[str, ...]
    """What they are of; the first is ``mu``."""
    contrasts: bool = False
    """Whether only differences of them count."""
    steep: bool = False
    """Whether log p may fall like an exponential in one of them."""

    @abstractmethod
    def log_probs(self, y: Array, eta: Array, own: Mapping[str, Array] | None = None) -> Array:
        """log p(y_n|η_n) of draws, (B, P, N) to (B, N); -inf where there is no number. Draws may
        have their ``own`` values of free parameters, (B,)."""

    def averaged(self, y: Array, known: Array, away: Array, log_w: Array, tilt: Array) -> Array:
        """log Σ_m exp(log_w_gm + tilt_mn) p of one datum at known_n (P, n) + away_gm (P, G, M)."""
        eta = known[:, None, None] + away[..., None]
        each = self.log_probs(y, eta.reshape(len(eta), -1).T[:, :, None]).reshape(eta.shape[1:])
        each += log_w[..., None] + tilt
        top = np.maximum(each.max(axis=1), -1e300)
        return top + np.log(np.exp(each - top[:, None]).sum(axis=1))

    @abstractmethod
    def slopes(self, y: Array, eta: Array) -> tuple[Array, Array]:
        """The same, and its gradient (B, P, N)."""

    @abstractmethod
    def expand(self, y: Array, eta: Array) -> Expansion:
        """To second order, at one η (P, N)."""

    def given(self, further: Array) -> Likelihood:
        """What the first predictor's likelihood is for values of further ones, (P - 1, N)."""
        raise NotImplementedError(f"{self.name} has no first predictor")

    def tilted_first(
        self, i: int, y: Array, further: Array, m: Array, v: Array
    ) -> tuple[Array, Array, Array] | None:
        """log Ẑ, mean and variance of datum i over its first predictor ~ N(m, v), (B,), for values
        of the further ones, (B, P - 1); None where there is no quadrature for it."""
        return None

    def split(self, x: ArrayLike) -> Array:
        """Predictors (…, P·N), one after the other, as (…, P, N)."""
        x, P = np.asarray(x, float), len(self.predictors)
        return x.reshape(*x.shape[:-1], P, x.shape[-1] // P)  # of no rows, too

    def identity(self, y: Array, mean: Array, sd: Array) -> tuple[NDArray[Any], ...]:
        middle, spread = self.split(mean), self.split(sd)
        signs = np.array([np.cos(np.arange(len(self.predictors)) * p)[:, None] for p in PLACES])
        places = middle + np.reshape(PLACES, (-1, 1, 1)) * signs * spread
        return np.array([type(self).__name__]), rounded(self.log_probs(y, places), 1.0)


@dataclass(frozen=True, repr=False)
class Predicted(Several):
    """A family some of whose parameters are predicted, too.

    Parameters
    ----------
    base : Likelihood
        The family; the values that it has for these parameters are of no account.
    names : tuple of str
        Which: positive numbers by their logarithm, shares by their log-odds.

    Examples
    --------
    >>> from evidence.models.likelihoods import Gaussian
    >>> noisy = Predicted(Gaussian(), ("noise_std",))
    >>> eta = np.array([[[0.0, 0.0], [0.0, np.log(2.0)]]])  # one draw of two predictors
    >>> noisy.log_probs(np.array([0.0, 0.0]), eta).round(6)
    array([[-0.918939, -1.612086]])
    """

    base: Likelihood
    names: tuple[str, ...]

    name: ClassVar[str] = "predicted"
    log_concave: ClassVar[bool] = False

    def __post_init__(self) -> None:
        fields, of = getattr(family(self.base), "__dataclass_fields__", {}), self.base.value_of
        known = [n for n in self.base.free if n in fields and np.ndim(of(n)) == 0]
        own = ", and is a function, which takes predictors=['mu', …]" * hasattr(self.base, "hooks")
        for name in self.names:
            if name not in known:
                raise InputError(
                    f"predictors: {self.base.name} has no parameter {shown(name)} to predict"
                    f"{suggest(name, known)} It has {', '.join(known) or 'none'}{own}"
                )
            if self._range(name) not in ((0.0, np.inf), (0.0, 1.0)):
                raise InputError(f"predictors: {name} is neither a positive number nor a share")

    def _range(self, name: str) -> tuple[float, float]:
        return self.base.limits.get(name, (0.0, np.inf))

    def __repr__(self) -> str:
        from .registry import describe

        words = describe(self.base)
        for name in self.names:
            words = re.sub(rf"\b{name}=[^,)]*", f"{name}=predicted", words)
        return words

    @property
    def predictors(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("mu", *self.names)

    @property
    def steep(self) -> bool:  # type: ignore[override]
        return any(self._range(name)[1] != 1.0 for name in self.names)

    counts = borrowed("base.counts")
    limits = borrowed("base.limits")
    value_of = borrowed("base.value_of")
    check = borrowed("base.check")
    theta = borrowed("base.theta")

    @property
    def free(self) -> Limits:  # type: ignore[override]
        return {name: ends for name, ends in self.base.free.items() if name not in self.names}

    @property
    def new(self) -> Predicted:
        return replace(self, base=self.base.new)

    def of_family(self, other: Likelihood) -> Likelihood:
        return other if isinstance(other, Several) else Predicted(other, self.names)

    def changed(self, values: Mapping[str, float]) -> Self:
        return replace(self, base=self.base.changed(values))

    def at(self, rows: Rows) -> Self:
        return replace(self, base=self.base.at(rows))

    def location(self, y: Array) -> Array:
        """Of the first predictor; of parameters their values in ``base``."""
        middle = [np.full(y.shape, self.to_line(n, self.base.value_of(n))) for n in self.names]
        return np.concatenate([np.broadcast_to(self.base.location(y), y.shape), *middle])

    def ceiling(self, y: Array) -> float:
        """Zero for probabilities; densities may be as high as noise is small."""
        return 0.0 if self.counts or hasattr(self.base, "probability") else np.inf

    def to_line(self, name: str, value: ArrayLike) -> Array:
        """A parameter's predictor."""
        value = np.asarray(value, float)
        return logit(value) if self._range(name)[1] == 1.0 else np.log(value)

    def natural(self, name: str, eta: Array) -> Array:
        """The parameter for values of its predictor."""
        log_farthest = 300.0  # where parameters are still numbers
        logit_farthest = 36.0  # where shares are not 1
        if self._range(name)[1] == 1.0:
            return expit(np.clip(eta, -logit_farthest, logit_farthest))
        return np.exp(np.clip(eta, -log_farthest, log_farthest))

    def given(self, further: Array) -> Likelihood:
        pairs = zip(self.names, further, strict=True)
        own = {name: tuple(self.natural(name, row).tolist()) for name, row in pairs}
        return self.base.changed(own)  # type: ignore[arg-type]

    def _at(self, further: Array) -> Likelihood:
        """The family for values of further predictors (…, P - 1, N), of which it has arrays."""
        pairs = enumerate(self.names)
        return self.base.holding({n: self.natural(n, further[..., j, :]) for j, n in pairs})

    def _kernel(
        self, y: Array, eta: Array, own: Mapping[str, Array] | None = None, order: int = 3, *,
        together: int = 2**16,
    ) -> Array:  # fmt: skip
        """log p and its derivatives in the first predictor, (4, B, N).

        ``together``: data times draws at a time.
        """
        out = np.empty((4, len(eta), y.size))
        step = max(1, together // y.size)
        for some in (slice(i, i + step) for i in range(0, len(eta), step)):
            part = eta[some]
            values = {n: self.natural(n, part[:, j]) for j, n in enumerate(self.names, 1)}
            values |= {name: value[some] for name, value in (own or {}).items()}
            with np.errstate(all="ignore"):
                theta = self.base.thetas(y, values)
                theta = theta.reshape(len(theta), -1)
                each = evaluate(self.base.kernel, theta, part[:, 0].ravel(), order)
            out[:, some] = each.reshape(4, len(part), y.size)
        out[0][np.isnan(out[0])] = -np.inf
        return out

    def log_probs(self, y: Array, eta: Array, own: Mapping[str, Array] | None = None) -> Array:
        return self._kernel(y, eta, own, order=1)[0]

    def slopes(self, y: Array, eta: Array) -> tuple[Array, Array]:
        slope = np.empty_like(eta)
        value, slope[:, 0], *_ = self._kernel(y, eta, order=1)
        for j in range(1, eta.shape[1]):
            up, down = (self.log_probs(y, _moved(eta, j, s)) for s in (_STEP, -_STEP))
            with np.errstate(invalid="ignore"):
                slope[:, j] = (up - down) / (2.0 * _STEP)
        return value, slope

    def expand(self, y: Array, eta: Array) -> Expansion:
        P, h = len(eta), _STEP
        here, slope, W = eta[None], np.empty_like(eta), np.empty((y.size, P, P))
        value, slope[0], second, _ = self._kernel(y, here)[:, 0]
        W[:, 0, 0] = -second
        with np.errstate(invalid="ignore"):
            for j in range(1, P):
                up, down = (self._kernel(y, _moved(here, j, s))[:, 0] for s in (h, -h))
                slope[j] = (up[0] - down[0]) / (2.0 * h)
                W[:, j, 0] = W[:, 0, j] = (down[1] - up[1]) / (2.0 * h)
                W[:, j, j] = (2.0 * value - up[0] - down[0]) / h**2
                for k in range(1, j):
                    corners = [
                        self.log_probs(y, _moved(_moved(here, j, a * h), k, b * h))[0] * a * b
                        for a in (1.0, -1.0)
                        for b in (1.0, -1.0)
                    ]
                    W[:, j, k] = W[:, k, j] = -np.sum(corners, axis=0) / (4.0 * h * h)
        return Expansion(value, slope, W)

    def tilted_first(
        self, i: int, y: Array, further: Array, m: Array, v: Array
    ) -> tuple[Array, Array, Array] | None:
        one = self.at(np.full(m.size, i))._at(further[:, :, None].swapaxes(0, 2)[0])
        with np.errstate(all="ignore"):
            return one.tilted(np.full(m.size, y[i]), m, v)

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        eta = self.split(x)
        return self._at(eta[..., 1:, :]).simulate(eta[..., 0, :], rng)

    def conditional_moments(self, x: Array) -> tuple[Array, Array]:
        eta = self.split(x)
        return self._at(eta[..., 1:, :]).conditional_moments(eta[..., 0, :])

    def cdf(self, y: Array, x: Array) -> Array:
        eta = self.split(x)
        return self._at(eta[..., 1:, :]).cdf(y, eta[..., 0, :])


def predicted(base: Likelihood, names: tuple[str, ...]) -> Several:
    """With parameters by the names that people use, such as sigma; or what has predictors."""
    if isinstance(base, Several):
        return base
    return Predicted(base, tuple(parameter(base, name) for name in names))


def parameter(base: Likelihood, name: str) -> str:
    """The field that a word such as sigma means."""
    from ..hyperparameters import synonym

    with suppress(StopIteration):
        return next(own for own in base.free if name in (own, synonym(base, own)))
    return name


def _moved(eta: Array, j: int, step: float) -> Array:
    out = eta.copy()
    out[:, j] += step
    return out

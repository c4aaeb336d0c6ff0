r"""Hyperparameters that are integrated as any density is, without EP.

Where log Z(θ) is a formula (:mod:`.grouped`, or one factorisation under normal noise), what is
left is

.. math:: Z = \int p(\theta)\, Z(\theta)\, d\theta,

a likelihood Z(θ) under a prior p in a few dimensions. Where latent values are few, too, they may
stay in the integral, as :math:`x = m + L_\theta z` for standard normal z:

.. math:: Z = \int p(\theta) \int N(z; 0, I)\, p(y|A x + o, \theta)\, dz\, d\theta ,

or what EP has no answer for is integrated first (:mod:`.effects`). Of few data under many
hyperparameters EP's evidence is integrated,

.. math:: Z = \int p(\theta)\, Z_{EP}(\theta)\, d\theta \;
          \mathrm{E}_{EP} \frac{\hat Z(\theta)}{Z_{EP}(\theta)} ,

with the mean of unbiased estimates at draws of θ. All are searched and
integrated by :mod:`evidence.methods.density`, from independent draws of the prior, with halving
and climbs, and shares nothing with a search for an optimum.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy import stats
from scipy.linalg import block_diag

from ..approximations.gp.exact import has_closed_form, log_evidence_by, log_evidence_of
from ..approximations.gp.gradient import log_evidence_gradient
from ..execution.clock import check_interrupt
from ..messages import InputError
from ..models.base import DataModel
from ..models.density.model import DensityModel
from ..models.formulas.jzs import Ratios
from ..models.hyperparameters import scalars
from ..models.latent import LatentModel
from ..models.likelihoods.predicted import Several
from ..models.likelihoods.quadrature import evaluate
from ..models.priors import Priors
from ..models.scales import natural, to_line
from ..models.sparse import SparseModel
from ..numerics.arrays import Array
from .at_theta import (
    COARSE,
    Look,
    NoEvidence,
    check_digits,
    ep_at,
    guided_estimate,
    looked,
    numerics,
)
from .covariances import covariance_functions
from .effects import effects_integrated
from .grouped import GroupedEvidence, grouped_evidence
from .parts import Parts, parts_of
from .scatter import check_peaks, check_scatter, prior_net
from .standardised import standardised_density

_DRAWS = 2000  # of a posterior that take a second at most
_LEAST, _AT_ONCE = 2.5e5, 16.0  # of the smallest model; a library's, in the time of one
_FEW = 4  # dimensions up to which a density takes a second


def density_over(
    model: Any, priors: Priors, many: int = 8, *, few_of_several: int = 12, terms: float = 500.0,
    by_ep: tuple[int, int] = (64, 256), several: int = 4,
) -> DensityModel | ClosedForm | None:  # fmt: skip
    """The density over θ, or over latent values and θ, in natural values: the last coordinates are
    the hyperparameters. The closed form alone where a look takes long; None where there is none,
    and evidences at given θ have to be estimated. Peaks of as ``many`` data are seen from afar:
    two clusters of 10 data to 400 by 2¹⁵ looks, where half a million took 3 to 100 s.

    ``few_of_several``: dimensions up to which a density takes a second where posteriors at given θ
    have several modes; ``terms``: data whose likelihood takes as long; ``by_ep``: data under
    ``several`` hyperparameters, and under a period and as many others, up to which some 4,000 fits
    of EP are better than a few hundred, which do not tell where its modes are. (Of 4 counts a
    period among four took five minutes, of 100 among five over seven, and 18 s by EP; among four
    of 200, or of 150 labels under six without a period, EP takes three and four times as long as
    a surrogate.)
    """
    if isinstance(priors, Ratios):
        return standardised_density(model, priors)
    prior, parts = priors.natural(), parts_of(model, priors)
    if has_closed_form(model):
        return _closed_form(model, priors, prior, parts)
    if parts is None or prior is None:
        dense = getattr(model, "structure", "") == "dense" and model.likelihood.log_concave
        period = len(priors) > several and any("periodicity" in name for name in priors.names)
        few = 0 if len(priors) < several else by_ep[period]
        if prior is None or not dense or model.y.size > few:
            return None
        density = DensityModel(EPEvidence(model, priors), prior=prior, names=priors.names)
        density.frugal = density.smooth = True
        return density
    check_peaks(model, priors, parts)
    if (effects := effects_integrated(model, parts)) is not None:
        density = _with_latent(effects, effects.n, prior, priors)
        density.frugal = density.smooth = True
        density.guesses = at_scales(model, priors, effects.n)
        return density
    few = _FEW if model.likelihood.log_concave else few_of_several
    if model.n + len(priors) > few or model.y.size > terms:
        return None
    density = _with_latent(LikelihoodOfAll(model, parts), model.n, prior, priors)
    density.smooth = model.likelihood.log_concave or model.y.size > many
    return density


def _with_latent(
    log_p: Callable[..., Any], n: int, prior: list[Any], priors: Priors
) -> DensityModel:
    """The density over standard normal latent values, and hyperparameters."""
    names = (*[f"z[{i}]" for i in range(n)], *priors.names)
    both = [*[stats.norm()] * n, *prior]
    density = DensityModel(log_p, prior=both, names=names, vectorized=True)
    density.n_draws = _DRAWS
    return density


def at_scales(model: DataModel, priors: Priors, n: int = 0) -> Array:
    """Rows of parameters, the first ``n`` of them zero, as data would have those that are
    positive, whatever their prior expects: some part of their spread."""
    scales = np.array([1.0, 0.1, 0.01])  # of data's spread
    spread = float(np.std(model.likelihood.location(model.y)))
    values = model.hyperparameters.values[priors.free]
    scaled = np.isnan(priors.lows)
    scaled &= np.cumsum(scaled) <= _FEW
    each = [spread * scales if own else [v] for own, v in zip(scaled, values, strict=True)]
    return np.array(list(itertools.product(*[[0.0]] * n, *each)))


def _closed_form(
    model: Any, priors: Priors, prior: list[Any] | None, parts: Parts | None, single: float = 2e4,
    *, dearest: float = 5e3, dear: float = 1e6, cheaper: float = 8e5,
) -> DensityModel | ClosedForm:  # fmt: skip
    """Of normal noise: by groups where data are, else by one factorisation at every θ.

    Looks are made one by one, some 9,000 with draws, up to ``single`` multiplications: 3 s. Where
    a matrix is soon factorised groups have to take half as long, and may take more than that (of
    30 columns and 100 rows .12 ms, a matrix .8).

    ``dearest``: multiplications of a look, 8 μs, some 600,000 of which are made; ``dear``:
    multiplications of one factorisation, some 3,000 of which are made; ``cheaper``:
    multiplications of a look up to which thousands of draws of a posterior take a second at most.
    """
    grouped = None if parts is None else grouped_evidence(model, parts)
    exact = ExactEvidence(model.without_matrices(), priors, parts)
    if grouped is not None and exact.by_matrix and 2.0 * grouped.cost > exact.cost:
        grouped = None
    evidence, most = grouped or exact, dear if exact.by_matrix or grouped is None else single
    closed = ClosedForm(evidence, priors.lows, model.hyperparameters.n_kernel)
    if prior is None or evidence.cost > most:
        return closed
    noise = priors.free >= closed.n_kernel
    if noise.any():
        largest = float(max(np.abs(model.y).max(), np.abs(model.prior.mean).max()))
        effects = np.flatnonzero(np.isnan(priors.lows) & ~noise)
        heights = partial(closed.heights, priors)
        check_scatter(heights, priors, int(np.flatnonzero(noise)[0]), effects, largest)
    many = grouped is not None and evidence.cost < dearest
    log_z = evidence if many else evidence.at
    density = DensityModel(log_z, prior=prior, names=priors.names, vectorized=many)
    cheap = grouped is not None or (exact.by_matrix and exact.cost < cheaper)
    density.n_draws, density.smooth, density.frugal = _DRAWS if cheap else None, True, not many
    density.guesses = at_scales(model, priors)
    return density


class ExactEvidence:
    """log Z of a model with normal noise, for rows of natural values of what is free; ``cost`` is
    about how many multiplications, in the time of compiled ones, one takes."""

    def __init__(self, model: Any, priors: Priors, parts: Parts | None = None) -> None:
        self.model, self.free, self.lows, self.parts = model, priors.free, priors.lows, parts
        self.cost = _LEAST + model.prior.work / _AT_ONCE
        self.dense = getattr(model, "structure", "") == "dense"

    @cached_property
    def _covariance(self) -> Callable[[Array], Array] | None:
        """K(θ), where all there is to a prior is a matrix that is soon factorised; or None."""
        model, parts = self.model, self.parts
        soon = max(model.n, model.y.size) ** 3 < 3.0 * _AT_ONCE * _LEAST
        if parts is not None and soon:
            return partial(_covariance_of_parts, parts, model.A.toarray())
        if not (self.dense or (_same_as_dense(model) and soon)):
            return None
        return covariance_functions([model.kernel], model.X, model.relative_jitter)[0]

    @property
    def by_matrix(self) -> bool:
        return self._covariance is not None

    def at(self, values: Array) -> float:
        """-inf where numbers fail."""
        with suppress(NoEvidence, InputError), numerics():
            logs = to_line(values, self.lows)
            value = self._log_z(self.model.hyperparameters.with_logs(self.free, logs))
            return value if np.isfinite(value) else -np.inf
        return -np.inf

    def _log_z(self, theta: Array, digits: float = 1e-7) -> float:
        """By a matrix where there is one: what else a model has takes ten times as long. Noise
        below so many ``digits`` of a variance leaves a matrix fewer of them than a chain."""
        model, n = self.model, self.model.hyperparameters.n_kernel
        if self._covariance is not None:
            s = model.theta[1] if theta.size == n else np.full(model.y.size, np.exp(theta[n]))
            K = None if n else model.prior.covariance
            K = self._covariance(theta[:n]) if K is None else K
            if self.dense or np.min(s) ** 2 > digits * K.diagonal().max():
                return log_evidence_by(K, model.y - model.prior.mean, s * s)
        return log_evidence_of(model.at(theta))

    def gradient(self, theta: Array, steep: float = 10.0) -> Array:
        """Of log Z in what is free, or :class:`.NoEvidence`: one that is ``steep`` times as large
        as data and nats together is what cancellation left."""
        reference = ep_at(self.model, self.model.hyperparameters.with_logs(self.free, theta))
        with numerics():
            gradient = log_evidence_gradient(reference)[self.free]
        if not np.abs(gradient).max() <= steep * (self.model.y.size + abs(reference.logz)):
            raise NoEvidence("the gradient is rounding")
        return gradient

    def __call__(self, values: Array) -> Array:
        return np.array([self.at(row) for row in values])


class EPEvidence:
    """EP's log Z of a model at natural values of what is free."""

    def __init__(self, model: LatentModel, priors: Priors) -> None:
        self.model, self.free, self.lows = model.without_matrices(), priors.free, priors.lows

    def _fit(self, values: Array) -> Any:
        logs = to_line(values, self.lows)
        theta = self.model.hyperparameters.with_logs(self.free, logs)
        return ep_at(self.model, theta, tol=COARSE)

    def __call__(self, values: Array) -> float:
        """-inf where numbers fail."""
        with suppress(NoEvidence):
            check_digits(reference := self._fit(values), 0.1)
            return reference.logz if np.isfinite(reference.logz) else -np.inf
        return -np.inf

    def gaps(self, rows: Array, rng: Generator, size: int = 64) -> Array:
        """log of unbiased estimates over EP's, each by ``size`` guided draws."""
        every = map(self._fit, rows)
        return np.array([guided_estimate(q, size, rng, 0.1).log_z - q.logz for q in every])


def _covariance_of_parts(parts: Parts, A: Array, theta: Array) -> Array:
    values = parts.standing.copy()
    values[: parts.n_kernel] = natural(theta, parts.lows[: parts.n_kernel])
    roots = zip(parts.counts, parts.roots(values[None]), strict=True)
    B = A @ block_diag(*[np.kron(np.eye(count), root[0]) for count, root in roots])
    return np.asarray(B @ B.T)


def _same_as_dense(model: LatentModel) -> bool:
    """Whether a structure of a kernel leaves nothing out of its matrix."""
    structure = getattr(model, "structure", "")
    neighbours = structure.removeprefix("vecchia(m=").removesuffix(")")
    return structure == "markov" or (neighbours.isdigit() and int(neighbours) >= model.n - 1)


class ClosedForm(NamedTuple):
    """An evidence that is known at every θ, as islands over θ ask for it."""

    evidence: GroupedEvidence | ExactEvidence
    lows: ArrayLike
    n_kernel: int
    fewest: int = 2

    def log_z(self, theta: Array) -> float:
        """log Z, or :class:`.NoEvidence`."""
        check_interrupt()
        value = float(self.evidence(natural(theta, self.lows)[None])[0])
        if not np.isfinite(value):
            raise NoEvidence("log Z is not finite")
        return value

    def heights(self, priors: Priors, values: Array) -> Array:
        """Log density over the line."""
        return self.evidence(values) + priors.log_density(to_line(values, self.lows))

    def starts(
        self, priors: Priors, *, looking: float = 1e9, fewest: int = 3, net: int = 8,
        n_climbs: int = 3,
    ) -> list[Array]:  # fmt: skip
        """The highest of a net all over the prior, no two of them near each other.

        ``looking``: multiplications of all looks before climbs; ``fewest``: log2 of how many looks
        there are at least; ``net``: log2 of points all over a prior, at most; ``n_climbs``:
        climbs.
        """
        if priors.natural() is None:
            return []
        most = int(np.log2(looking / self.evidence.cost))
        values = prior_net(priors, min(max(most, fewest), net))
        climbs = n_climbs if most >= net else 1
        theta, height = to_line(values, self.lows), self.heights(priors, values)
        chosen: list[Array] = []
        for i in np.argsort(-height)[: n_climbs**2]:
            if len(chosen) < climbs and np.isfinite(height[i]):
                apart = [float(np.abs(theta[i] - other).max()) for other in chosen]
                chosen += [theta[i]] if min(apart, default=np.inf) > 1.0 else []
        return chosen

    def __call__(self, theta: Array, rng: Generator) -> tuple[float, float]:
        return (value := self.log_z(theta)), value

    def look(self, theta: Array) -> Look:
        if isinstance(self.evidence, ExactEvidence):
            with suppress(NoEvidence):
                return Look(self.log_z(theta), self.evidence.gradient(theta), None)
        return looked(self.log_z, theta)

    def near(self, places: Array, looks: list[Look], root: Array, n_draws: int) -> ClosedForm:
        return self


class LikelihoodOfAll:
    """log p(y | A x + o, θ) for rows of z and θ."""

    def __init__(self, model: SparseModel, parts: Parts) -> None:
        self.parts, self.likelihood, self.n = parts, model.likelihood, model.n
        self.y, self.theta = model.y, model.theta
        self.design, self.middle = model.A.toarray(), model.prior.mean
        self.names = scalars(model.likelihood)

    def __call__(self, rows: Array) -> Array:
        z, values = rows[:, : self.n], self.parts.values(rows[:, self.n :])
        x = self.parts.coloured(self.parts.roots(values), z)
        own = dict(zip(self.names, values[:, self.parts.n_kernel :].T, strict=True))
        with np.errstate(all="ignore"):
            eta = x @ self.design.T + self.middle
            if isinstance(self.likelihood, Several):
                each = self.likelihood.log_probs(self.y, self.likelihood.split(eta), own)
                return each.sum(axis=1)
            theta = self.likelihood.thetas(self.y, own) if own else self.theta[:, None]
            theta = np.broadcast_to(theta, (len(theta), len(rows), self.y.size))
            theta = theta.reshape(len(theta), -1)
            each = evaluate(self.likelihood.kernel, theta, eta.ravel(), 1)[0]
        out = each.reshape(len(rows), -1).sum(axis=1)
        return np.where(np.isnan(out), -np.inf, out)

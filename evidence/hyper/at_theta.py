r"""The evidence at one setting of the hyperparameters: EP's, and an unbiased estimate.

Draws that EP's sites guide (:mod:`evidence.proposals.guide`), or draws about its Gaussian, give
:math:`\hat Z(\theta) = Z_q\,\frac1M \sum_{i=1}^M w_i`, unbiased for every M. Where numbers fail
there is no evidence, and everything that moves over θ hears it by one error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.linalg import LinAlgError
from numpy.random import Generator
from scipy.linalg import solve_triangular
from scipy.optimize import minimize

from ..approximations.gp.ep import fit_ep, rounding_error
from ..approximations.gp.gradient import log_evidence_gradient
from ..approximations.gp.modes import fit_best, mixture_of
from ..approximations.predictors.averaged import fit_averaged
from ..approximations.predictors.ep import DIGITS, MOST, fit_block_ep
from ..approximations.predictors.laplace import fit_block_laplace
from ..approximations.predictors.reference import BlockReference
from ..approximations.reference import GaussianReference
from ..drivers.weighted import Resampling, Stepped, Tailed, islands, try_tailed
from ..execution.clock import check_interrupt
from ..messages import InputError
from ..models.gp import CovarianceError
from ..models.latent import LatentModel
from ..models.predictors import PredictorsModel
from ..models.priors import Priors
from ..moves.gradient.gibbs import LatentGivenUtilities, latent_given_utilities
from ..numerics.arrays import Array, Indices
from ..paths.families import is_stepped, make_path, sees_several
from ..proposals.guide import CannotGuide, make_guide
from ..statistics.weights import Weights

if TYPE_CHECKING:
    from .direct import ClosedForm

_STEP = 1e-4  # of logs, for gradients by differences
_WIDEST = 3.0  # logs of the largest spread that a climb may promise
COARSE = 1e-3  # tolerance of EP where weights make up for the rest
ROUGH = 0.1  # the same where a sweep costs as much as the draws: sites of a neighbour will do


class NoEvidence(ArithmeticError):
    """Numbers fail at these hyperparameters: the covariance, EP, or the digits of log Z."""


@contextmanager
def numerics() -> Iterator[None]:
    """Whatever fails numerically inside is a :class:`NoEvidence`, and makes no other noise."""
    try:
        with np.errstate(all="ignore"):
            yield
    except (CovarianceError, CannotGuide, ArithmeticError, LinAlgError) as error:
        raise NoEvidence(str(error) or f"EP failed: {type(error).__name__}") from None


def ep_at(
    model: LatentModel | PredictorsModel, theta: Array, start: Any = None, tol: float = 1e-9, *,
    coarsely: int = 60,
) -> Any:  # fmt: skip
    """EP at the logs ``theta`` of all hyperparameters, from the sites ``start`` if given; where
    data see many predictors Laplace's method.

    Without them, and where there may be several fixed points, it is that of the largest log Z.

    ``coarsely``: sweeps for a tolerance that is coarse: what needed more was far from any mass
    over θ, and did not converge in 240 either (a fourth of a robust regression's time).
    """
    check_interrupt()
    sweeps = {"max_sweeps": coarsely} if tol >= COARSE else {}
    try:
        with numerics():
            here = model.at(theta)
            if sees_several(here):
                if here.n_predictors > MOST:
                    return fit_block_laplace(here)
                return fit_block_ep(here, start=start, tol=max(tol, DIGITS))
            assert isinstance(here, LatentModel)
            if start is None and not here.likelihood.log_concave:
                start = fit_best(here).sites
            return fit_ep(here, start=start, tol=tol, **sweeps)
    except InputError as refused:  # where numbers of a prior precision end, or a likelihood's
        raise NoEvidence(str(refused)) from None


def check_few(model: LatentModel | PredictorsModel) -> None:
    """Where EP is wanted, predictors are few, or Laplace's method will do."""
    if model.n_predictors > MOST and not model.likelihood.log_concave:
        raise InputError(
            f"model has {model.n_predictors} predictors for each datum: hyperparameters are for "
            f"up to {MOST}; hold them, with model.with_priors(None)"
        )


def check_digits(reference: GaussianReference | BlockReference, most: float) -> None:
    """No evidence where log Z cannot be right or more than ``most`` nats of it are rounding."""
    highest = reference.model.likelihood.ceiling(reference.model.observed)
    if reference.logz > highest + most:
        raise NoEvidence(f"log Z = {reference.logz:.3g} of a likelihood of at most {highest:.3g}")
    if isinstance(reference, BlockReference):
        lost = reference.lost
    else:
        lost = rounding_error(reference.model.prior, reference.sites, reference.predictors[0])
    if not lost <= most:
        raise NoEvidence(f"log Z has lost its digits: about {lost:.2g} nats of it are rounding")


@dataclass(frozen=True, eq=False)
class GuidedDraws:
    """Guided draws at one θ, and the estimate of log Z that their weights make.

    Attributes
    ----------
    values : array
        (N, M), utilities for probit, latent values else.
    """

    model: LatentModel
    values: Array
    utilities: bool
    log_weights: Array
    log_z: float

    @cached_property
    def _given(self) -> LatentGivenUtilities:
        return latent_given_utilities(self.model)

    def pick(self, rng: Generator) -> Array:
        """Latent values (1, N) of one draw, chosen by weight."""
        chosen = np.argmax(self.log_weights + rng.gumbel(size=self.log_weights.size))
        value = self.values[:, [chosen]]
        if not self.utilities:
            return np.ascontiguousarray(value.T)
        return self._given.draw(value, rng)


def tailed_weights(reference: GaussianReference, n: int, rng: Generator) -> Weights:
    """Of so many :class:`.Tailed` draws, relative to EP's log Z."""
    with numerics():
        return Weights(Tailed(make_path(reference)).draw(n, rng)[1])


def draws_plainly(reference: GaussianReference | BlockReference) -> bool:
    """Whether draws with tails will do: guided ones, in steps, would be hardly better there, and
    take 18 seconds to compile."""
    with suppress(NoEvidence), numerics():
        return try_tailed(reference) is not None
    return False


def guided_estimate(
    reference: GaussianReference | BlockReference, size: int, rng: Generator, most_rounding: float
) -> GuidedDraws:
    """log Ẑ from ``size`` draws that the reference guides."""
    if reference.name == "laplace" and isinstance(reference, BlockReference):
        reference = fit_averaged(reference.model, reference)
    check_digits(reference, most_rounding)
    if isinstance(reference, BlockReference) or is_stepped(reference.model):
        with numerics():
            source = Stepped.of(reference)
            between = Resampling(source.log_z0, (1, size), rng, "systematic")
            (log_z,), *_, (draws,) = islands(source, between, 1)
        x = reference.model.from_latent(draws) if is_stepped(reference.model) else draws
        drawn = GuidedDraws(reference.model, x.T, False, np.zeros(1), log_z)
    else:
        with numerics():
            guide = make_guide(reference)
            values, log_w = guide.draw(size, rng)
            log_z = guide.log_z0 + (float(np.logaddexp.reduce(log_w)) - float(np.log(size)))
        drawn = GuidedDraws(reference.model, values, guide.utilities, log_w, log_z)
    if np.isnan(drawn.log_z):
        raise NoEvidence("the weights of guided draws are not numbers")
    return drawn


def _guided(reference: GaussianReference | BlockReference, size: int, rng: Generator) -> float:
    """log Ẑ; where there may be several modes, and the prior's draws find them, half of the draws
    are of what EP has no claim to. (Of a robust regression it lacked 7 % of Z, and 256 draws that
    its sites guide told of that once in forty times.)"""
    parts: tuple[Any, ...] = (reference,)
    if isinstance(reference, GaussianReference) and not reference.model.likelihood.log_concave:
        both = mixture_of([reference], few=4).components
        parts = both if len(both) > 1 else parts
    each = [guided_estimate(part, -(-size // len(parts)), rng, 0.1).log_z for part in parts]
    return float(np.logaddexp.reduce(each))


class Look(NamedTuple):
    """An approximate log Z at some θ, its gradient in what is free, and EP's sites."""

    log_z: float
    gradient: Array
    sites: Any


def looked(log_z: Callable[[Array], float], theta: Array) -> Look:
    """log Z at θ and its gradient by differences, or :class:`.NoEvidence`."""
    steps = _STEP * np.eye(theta.size)
    here, up, down = log_z(theta), *([log_z(row) for row in theta + s] for s in (steps, -steps))
    gradient = (np.array(up) - np.array(down)) / (2.0 * _STEP)
    if not (np.isfinite(here) and np.isfinite(gradient).all()):
        raise NoEvidence("log Z or its gradient is not finite")
    return Look(here, gradient, None)


def climb(
    evidence: ClosedForm, priors: Priors, start: Array, *, reach: float = 7.0
) -> tuple[Array, Array, float]:
    """Where log Z with the prior is about largest uphill of ``start``, its spread, and log Z.

    ``reach``: logs that a climb may go.
    """

    def log_p(theta: Array) -> float:
        return float(priors.log_density(theta[None])[0])

    def look(theta: Array) -> Look:
        here, prior = evidence.look(theta), looked(log_p, theta)
        return Look(here.log_z + prior.log_z, here.gradient + prior.gradient, None)

    def objective(theta: Array) -> tuple[float, Array]:
        try:
            here = look(theta)
        except NoEvidence:
            return np.inf, np.zeros(theta.size)
        return -here.log_z, -here.gradient

    low, high = np.clip(priors.support(), start[:, None] - reach, start[:, None] + reach).T
    inside = np.column_stack([low + 2.0 * _STEP, high - 2.0 * _STEP])
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=inside)
    with suppress(NoEvidence):
        return found.x, _spread(look, found.x), evidence.log_z(found.x)
    return found.x, np.full(start.size, _WIDEST), evidence.log_z(found.x)


def _spread(
    look: Callable[[Array], Look], at: Array, *, first_step: float = 0.1, fall: float = 1.0
) -> Array:
    """Standard deviations by the curvature over steps along which the density falls by little.

    ``first_step``: logs of the first step whose curvature is measured; ``fall``: nats over which a
    density's curvature is measured.
    """
    steps, top = np.full(at.size, first_step), look(at).log_z
    for i, unit in enumerate(np.eye(at.size)):
        while steps[i] > _STEP and look(at + steps[i] * unit).log_z < top - fall:
            steps[i] /= 3.0
    ends = [[look(at + s * row).gradient for s in (1, -1)] for row in np.diag(steps)]
    hessian = np.array([(down - up) for up, down in ends]) / (2.0 * steps[:, None])
    values, vectors = np.linalg.eigh(0.5 * (hessian + hessian.T))
    variance = (vectors**2) @ (1.0 / np.maximum(values, _WIDEST**-2))
    return np.minimum(np.sqrt(variance), _WIDEST)


@dataclass(frozen=True, eq=False)
class GuidedEvidence:
    """(θ, rng) to log Ẑ(θ) and EP's log Z, for some of a model's hyperparameters.

    Attributes
    ----------
    free : array
        Which they are; all others stay as the model has them.
    n_draws : int
    places, sites : array (n, P), and n sites
        Where EP was fitted before: it starts from the nearest.
    root : array (P, P)
        Lower root of a matrix of covariance, in whose units distances are.
    """

    model: LatentModel | PredictorsModel
    free: Indices
    n_draws: int
    places: Array
    sites: tuple[Any, ...]
    root: Array
    plain: bool = False
    """Whether draws about EP's Gaussian, with the tails of a t, need no guide."""

    @classmethod
    def about(
        cls, best: GaussianReference | BlockReference, model: LatentModel | PredictorsModel,
        free: Indices,
    ) -> GuidedEvidence:  # fmt: skip
        """Begun from EP at the best hyperparameters found."""
        at, root = best.model.hyperparameters.theta[None, free], np.eye(len(free))
        return cls(model, free, 0, at, (best.sites,), root, draws_plainly(best))

    @property
    def fewest(self) -> int:
        """Weights of a few draws have tails that they do not show; small models afford more."""
        cheap = 100_000 if self.plain else 20_000  # draws of single values, beside a fit of EP
        slow = is_stepped(self.model) and not self.model.likelihood.log_concave
        if slow or sees_several(self.model):  # whose draws cost more than the fit
            return 16
        return int(np.clip(cheap // self.model.y.size, 16, 256))

    def __call__(self, theta: Array, rng: Generator) -> tuple[float, float]:
        # 0.1 nats are rounding only where sites are ten orders stronger than the prior
        reference = self._ep(theta, ROUGH if sees_several(self.model) else COARSE)
        if not self.plain:
            with suppress(NoEvidence):  # where likelihoods are too narrow to be integrated over
                return _guided(reference, self.n_draws, rng), reference.logz
        check_digits(reference, 0.1)
        weights = tailed_weights(reference, self.n_draws, rng)
        return reference.logz + float(weights.log_mean), reference.logz

    def look(self, theta: Array) -> Look:
        """EP's evidence and its gradient, or :class:`.NoEvidence`."""
        reference = self._ep(theta)
        check_digits(reference, 0.1)
        with numerics():
            gradient = log_evidence_gradient(reference)[self.free]
        if not (np.isfinite(reference.logz) and np.isfinite(gradient).all()):
            raise NoEvidence("EP's log Z or its gradient is not finite")
        return Look(reference.logz, gradient, reference.sites)

    def near(self, places: Array, looks: list[Look], root: Array, n_draws: int) -> GuidedEvidence:
        """The same, begun from what was seen elsewhere."""
        sites = tuple(look.sites for look in looks)
        return replace(self, places=places, sites=sites, root=root, n_draws=n_draws)

    def _ep(self, theta: Array, tol: float = COARSE) -> Any:
        apart = solve_triangular(self.root, (self.places - theta).T, lower=True)
        everything = self.model.hyperparameters.with_logs(self.free, theta)
        nearest = np.argmin(np.sum(apart**2, axis=0))
        return ep_at(self.model, everything, self.sites[nearest], tol)

r"""Islands of independent weighted draws, guided by a reference's sites or tilted.

No chain and no temperature: Ẑ is the mean weight of the draws that a proposal makes
(:mod:`evidence.proposals.guide`, :mod:`evidence.proposals.tilting`), and some of them,
resampled, are draws from the posterior. For probit a proposal draws utilities, and latent values
follow, x given z being Gaussian (:mod:`evidence.moves.gradient.gibbs`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from ..approximations.predictors.reference import BlockReference
from ..approximations.reference import GaussianReference
from ..execution.clock import Stopped, check_interrupt
from ..moves.gradient.gibbs import LatentGivenUtilities, latent_given_utilities
from ..numerics.arrays import Array, Rng
from ..paths.base import TemperedPath
from ..paths.families import is_stepped, make_path
from ..proposals.data import Coloured, DatumGuide, make_datum_guide
from ..proposals.guide import Between, Guide, make_guide
from ..proposals.predictors import BlockGuide, make_block_guide
from ..proposals.steps import StepGuide, Traced, make_step_guide
from ..proposals.tilting import Proposal as Tilting
from ..proposals.tilting import draw, minimax_proposal, oriented
from ..statistics.genealogy import Genealogy
from ..statistics.resampling import SCHEMES, Ancestors, systematic
from ..statistics.weights import Weights, variance_in_order, variance_of_ends
from .islands import KEEP, Islands, Row

if TYPE_CHECKING:
    from ..models.gp import GPModel

_THRESHOLD = 0.5  # relative effective sample size at which draws are resampled


def may_be_even(
    reference: GaussianReference | BlockReference, large: int = 400, data: int = 4096
) -> bool:
    """Whether the reference's own draws may be so even that guided ones, made in steps, would cost
    more and tell little more. Hardly of more latent values than are ``large``, or of more
    ``data``; nor where guided draws are nearly exact: of a single value, or of a tree, along which
    they look ahead."""
    model = reference.model
    small = 1 < model.n <= large and model.y.size <= data
    return small and model.likelihood.log_concave and not _foreseen(reference)


def _foreseen(reference: GaussianReference | BlockReference) -> bool:
    """Whether a latent value follows from one other, and a datum sees one."""
    seen = reference.model.prior.design
    if isinstance(reference, BlockReference) or seen is None or np.diff(seen.indptr).max() > 1:
        return False
    return bool(np.diff(reference.gaussian.steps().indptr).max() <= 1)


class Guided(NamedTuple):
    """A guide, and what leads from probit's utilities to latent values."""

    guide: Guide
    given: LatentGivenUtilities | None
    net: NDArray[np.uint32] | None = None
    """Digits that islands share, of no use to a single one, whose error bar they would spoil.

    With them the errors of islands come from their few outermost draws, and are skewed.
    """

    @classmethod
    def of(cls, reference: GaussianReference) -> Guided:
        """O(N³), once."""
        check_interrupt(2.0 * reference.mean.size**3)
        guide, model = make_guide(reference), reference.model
        return cls(guide, latent_given_utilities(model) if guide.utilities else None)

    @property
    def log_z0(self) -> float:
        return self.guide.log_z0

    def draw(self, n: int, rng: Rng, between: Between) -> tuple[Array, Array]:
        """``n`` draws as columns and their log weights, resampled ``between`` coordinates."""
        return self.guide.draw(n, rng, between, self.net)

    def latent(self, drawn: Array, kept: Ancestors, rng: Rng) -> Array:
        """Rows of latent values from some columns of draws."""
        chosen = drawn[:, kept]
        return chosen.T if self.given is None else self.given.draw(chosen, rng)


class Stepped(NamedTuple):
    """A guide in steps."""

    guide: StepGuide | BlockGuide | DatumGuide

    @classmethod
    def of(cls, reference: GaussianReference | BlockReference) -> Stepped:
        check_interrupt(reference.model.prior.work)
        if isinstance(reference, BlockReference):
            dense = reference.model.prior.design is None
            return cls((make_datum_guide if dense else make_block_guide)(reference))
        return cls(make_step_guide(reference))

    @property
    def log_z0(self) -> float:
        return self.guide.log_z0

    def draw(self, n: int, rng: Rng, between: Between) -> tuple[Traced | Coloured, Array]:
        """As :meth:`Guided.draw`."""
        return self.guide.draw(n, rng, between)

    def latent(self, drawn: Traced | Coloured, kept: Ancestors, rng: Rng) -> Array:
        """Rows of latent values from some of the draws."""
        return drawn.take(kept).T


class Tailed(NamedTuple):
    """Draws about a reference: along each axis of its root, Student's t of ``df`` degrees of
    freedom.

    That costs 1.6 % of what draws are worth per axis, and weights have a light tail where the
    posterior has the prior's on one side, as where all counts of a group are zero. Where every
    datum sees most effects, steps cannot tell that before their end: of 19 such models, 4 seeds
    each, RMS z of guided draws is 1.26, and 1.11 of these (an honest t₁₅ has 1.07).
    """

    path: TemperedPath
    df: float = 10.0

    @property
    def log_z0(self) -> float:
        return self.path.log_z0

    def draw(self, n: int, rng: Rng, between: Between | None = None) -> tuple[Array, Array]:
        """``n`` draws as columns and their log weights; they are not resampled on the way."""
        frame, df = self.path.coordinates("base"), self.df
        z = rng.standard_t(df, (n, frame.root.size))
        x = frame.to_latent(z * frame.root)
        ratio = 0.5 * (df + 1.0) * np.log1p(z**2 / df) - 0.5 * z**2
        ratio += gammaln(0.5 * df) - gammaln(0.5 * (df + 1.0)) + 0.5 * np.log(0.5 * df)
        return x.T, self.path.tilt(x) + ratio.sum(axis=1)

    def latent(self, drawn: Array, kept: Ancestors, rng: Rng) -> Array:
        """Rows of latent values from some columns of draws."""
        return drawn[:, kept].T


class Tilted(NamedTuple):
    """Minimax tilting for a probit model, and what leads from utilities to latent values."""

    proposal: Tilting
    y: Array
    given: LatentGivenUtilities
    log_z0: float = 0.0

    @classmethod
    def of(cls, model: GPModel) -> Tilted:
        """O(N³), once."""
        check_interrupt(20.0 * model.n**3)
        cov = model.K.copy()
        cov.flat[:: model.n + 1] += 1.0
        proposal = minimax_proposal(*oriented(cov, model.y, model.mean))
        return cls(proposal, model.y, latent_given_utilities(model))

    def draw(self, n: int, rng: Rng, between: Between) -> tuple[Array, Array]:
        """``n`` draws as columns and their log weights; they are not resampled on the way."""
        return draw(self.proposal, n, rng)

    def latent(self, drawn: Array, kept: Ancestors, rng: Rng) -> Array:
        """Rows of latent values from some columns of draws."""
        oriented = self.y[:, None] * self.proposal.restore(drawn[:, kept])
        return self.given.draw(self.given.mean[:, None] + oriented, rng)


class Proposal(Protocol):
    """A density for draws of a DensityModel."""

    def weighted(self, rng: Rng, n: int) -> tuple[Array, Array]:
        """Draws (n, d) in the model's coordinates, and their log weights."""
        ...


class Proposed(NamedTuple):
    """Any proposal for a DensityModel."""

    proposal: Proposal
    log_z0: float = 0.0

    def draw(self, n: int, rng: Rng, between: Between) -> tuple[Array, Array]:
        """``n`` draws as columns and their log weights; they are not resampled on the way."""
        x, log_w = self.proposal.weighted(rng, n)
        return x.T, log_w

    def latent(self, drawn: Array, kept: Ancestors, rng: Rng) -> Array:
        """Rows of the model's coordinates from some columns of draws."""
        return drawn[:, kept].T


def try_tailed(
    reference: GaussianReference | BlockReference, n: int = 1024, worth: float = 0.2,
    shape: float = 0.5, large: int = 64, data: int = 2048,
) -> tuple[Tailed, Weights] | None:  # fmt: skip
    """Draws with tails and weights of ``n`` of them, if these are ``worth`` that part of their
    number and their Pareto shape is below ``shape``: 256 take a sixth of the time of guided ones,
    and have a variance of .016 at a worth of .2, where guided ones behind a wall had .02 to .04.
    Not asked of more latent values than are ``large``, nor of more ``data``."""
    model = reference.model
    small = is_stepped(model) and model.n <= large and model.y.size <= data
    if not (small and model.likelihood.log_concave and isinstance(reference, GaussianReference)):
        return None
    source = Tailed(make_path(reference))
    weights = Weights(source.draw(n, np.random.default_rng(0))[1])
    return (source, weights) if weights.ess > worth and weights.shape < shape else None


Source = Guided | Stepped | Tailed | Tilted | Proposed


def run_weighted(
    source: Source,
    n_islands: int,
    n_particles: int,
    seed: np.random.SeedSequence,
    stop: Callable[[], bool] = lambda: False,
    resampling: str | None = None,
    threshold: float = _THRESHOLD,
    keep: int = KEEP,
) -> Islands:
    r"""``n_islands`` estimates of Z from ``n_particles`` draws each.

    With a scheme of ``resampling``, guided draws are resampled after a block of coordinates at
    which the relative effective sample size is ``threshold`` or less, and the means of the
    weights since then multiply: Ẑ stays unbiased.
    """
    started, rng = time.perf_counter(), np.random.default_rng(seed)
    estimates, latent = [], []
    for count in abreast(source, n_islands, n_particles):
        if stop():
            raise Stopped
        between = Resampling(source.log_z0, (count, n_particles), rng, resampling, threshold)
        *some, draws = islands(source, between, keep)
        estimates.append(some)
        latent.append(draws)
    log_z, ess, variances, ends = np.concatenate(estimates, axis=1)
    seconds, made = time.perf_counter() - started, n_islands * n_particles
    row = Row(log_z, ess.mean(), 1.0, np.nan, 0, made, n_particles, seconds)
    return Islands.of([row], np.concatenate(latent), variances, ends)


def abreast(source: Source, n_islands: int, n: int, numbers: float = 4e6) -> list[int]:
    """How many islands of ``n`` draws to draw at a time, of about so many numbers together."""
    if not (isinstance(source, Stepped) and source.guide.abreast):
        return [1] * n_islands
    most = int(max(numbers / (source.guide.size * n), 1.0))
    return [min(most, n_islands - i) for i in range(0, n_islands, most)]


def islands(source: Source, between: Resampling, most: int) -> tuple[Array, ...]:
    """log Ẑ, relative effective sample sizes, relative variances of Ẑ, their parts by ends, and
    draws, of islands side by side."""
    (count, n), rng = between.shape, between.rng
    drawn, log_w = source.draw(count * n, rng, between)
    each = [Weights(own) for own in log_w.reshape(count, n)]
    w = np.array([one.relative for one in each])
    # every so-many-th draw of a net is a part of space
    order = rng.permutation(n) if isinstance(source, Guided) else np.arange(n)
    kept = [order[systematic(own[order], rng, min(n, most))] for own in w]
    variances = between.family.variance(w)
    if isinstance(source, Proposed):  # mixtures draw one component after the other
        variances = np.array([variance_in_order(own) for own in w])
    nets = isinstance(source, Guided) and source.net is not None
    ends = np.array([variance_of_ends(own) if nets else 0.0 for own in w])
    chosen = (np.array(kept) + n * np.arange(count)[:, None]).ravel()
    draws = source.latent(drawn, chosen, rng)  # type: ignore[arg-type]  # as it drew them
    log_z, ess = between.log_z + [one.log_mean for one in each], np.array([o.ess for o in each])
    return log_z, ess, variances, ends, draws.reshape(count, -1, draws.shape[1])


def courses(source: Stepped, between: Resampling) -> Array:
    """log Ẑ of islands side by side at every look at their weights, and at the end."""
    _, log_w = source.draw(math.prod(between.shape), between.rng, between)
    ends = [Weights(own).log_mean for own in log_w.reshape(between.shape)]
    return np.array([*between.course, between.log_z + ends]).T


class Resampling:
    """What is done with the weights of islands, side by side, between blocks of coordinates."""

    def __init__(
        self,
        log_z: float,
        shape: tuple[int, int],
        rng: Rng,
        scheme: str | None,
        threshold: float = _THRESHOLD,
    ) -> None:
        self.shape, self.rng, self.scheme, self.threshold = shape, rng, scheme, threshold
        self.log_z, self.course = np.full(shape[0], log_z), list[Array]()
        self.family = Genealogy(*shape, scheme or "systematic")

    def __call__(self, log_w: Array) -> Ancestors | None:
        """Columns to go on with, or None; an island's weights start again from one."""
        each = log_w.reshape(self.shape)
        top = np.maximum(each.max(axis=1), np.finfo(float).min)
        w = np.exp(each - top[:, None])
        total, n = w.sum(axis=1), self.shape[1]
        with np.errstate(divide="ignore"):
            log_z = self.log_z + top + np.log(total / n)
        self.course.append(log_z)
        uneven = total * total <= self.threshold * n * np.sum(w * w, axis=1)
        which = uneven & (total > 0.0) & (self.scheme is not None)
        if not which.any():
            return None
        self.log_z, each[which] = np.where(which, log_z, self.log_z), 0.0
        chosen = np.arange(each.size).reshape(each.shape)
        for i in np.flatnonzero(which):
            chosen[i] = n * i + SCHEMES[self.scheme](w[i], self.rng)  # type: ignore[index]
        self.family.resample(chosen, which)
        return chosen.ravel()

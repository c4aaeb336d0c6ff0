r"""Draws in two stages: the few parameters that tell the scale of others, then these.

A neck, where a scale shrinks to nothing and the likelihood lets it, takes part in Z but hardly in
any fit: particles have to follow all children into it one small step after the other, and come
too late. Here

.. math:: q(P, C) = q(P)\, N\big(C;\, m(P), H(P)^{-1}\big)

with a mixture q(P) that is fitted to :math:`\hat p(P)` (:mod:`.conditional`), a density of few
dimensions in which a neck has its full width. Weights p/q are unbiased however rough Laplace's
method is, and they are :math:`\hat p/q` alone where children are Gaussian given their parents.

Reference: H. Rue, S. Martino, N. Chopin, J. R. Statist. Soc. B 71 (2009) 319, section 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import copy_context
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtri

from ...execution.meter import Allowance, Meter, metered
from ...models.density.functions import evaluating
from ...models.density.model import DensityModel
from ...models.density.priors import GaussianPrior
from ...numerics.arrays import Array, Flags
from ...numerics.special import LOG_SQRT_2PI
from .blend import Blend, placed
from .conditional import ConditionalLaplace, telling
from .policy import FRUGAL
from .search import Search
from .verdict import Verdict, judged

# Of parents each draw is dear, and few of them are fitted well: of a walk of six steps draws of a
# marginal that were worth .2 of their number made draws of all that had no variance.
_MARGINAL = replace(FRUGAL, level=(2048, 2048, 2048), very_even=0.8, even=(0.6, 0.4))
TRIAL = 1024  # draws that say what it is worth


@dataclass(frozen=True, eq=False)
class Staged:
    """A density for draws."""

    outer: Blend
    inner: ConditionalLaplace
    verdict: Verdict
    """What draws say of it."""
    unseen: float = 0.0
    """Share of the rough draws that lie where its own do not come."""

    @property
    def model(self) -> DensityModel:
        return self.inner.model

    def weighted(self, rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        """Draws (n, d) and their log weights."""
        P = placed(self.outer.model, self.outer.draw(rng, n))
        u = rng.standard_normal((n, self.inner.children.size))
        x, log_w = np.empty((n, self.model.n)), np.empty(n)
        for some in self.inner.parts(n):
            with np.errstate(all="ignore"):  # far out nothing is left of a density
                given = self.inner.at(P[some])
            x[some], L = given.x, given.root
            away = np.linalg.solve(np.swapaxes(L, 1, 2), u[some, :, None])[..., 0]
            x[some, self.inner.children] += away
            log_w[some] = -np.log(np.einsum("mii->mi", L)).sum(axis=1)
        log_w += 0.5 * (u * u).sum(axis=1) + u.shape[1] * LOG_SQRT_2PI - self.outer.log(P)
        with np.errstate(invalid="ignore"):
            log_w += self.model.log_prob(x)
        return x, np.where(np.isnan(log_w), -np.inf, log_w)

    def log_weight(self, x: Array) -> Array:
        """log p/q of rows in the model's coordinates, wherever they come from."""
        z, root = self.inner.standardised(x)
        log_q = self.outer.log(x[:, self.inner.parents]) - z.shape[1] * LOG_SQRT_2PI
        log_q += np.log(np.einsum("mii->mi", root)).sum(axis=1) - 0.5 * (z * z).sum(axis=1)
        return self.model.log_prob(x) - log_q


def fit_staged(model: DensityModel, draws: Array, seed: int = 0) -> Staged | None:
    """The proposal, or None where no coordinate tells the scale of others by much, or those are
    not Gaussian given it.

    Parameters
    ----------
    model : DensityModel
    draws : array (M, d)
        Rough ones of the posterior's bulk, in the model's coordinates. Of parents that might do,
        those are taken by whose Gaussians the draws may be theirs.
    seed : int

    Examples
    --------
    >>> model = DensityModel(  # v ~ N(0, 9) tells the scale of two others, N(0, e^v)
    ...     lambda x: (-x[:, 0]**2 / 18 - x[:, 0] - np.exp(-x[:, 0]) * (x[:, 1:]**2).sum(1) / 2),
    ...     dim=3, vectorized=True,
    ... )
    >>> rng = np.random.default_rng(0)
    >>> v = 3.0 * rng.standard_normal((128, 1))
    >>> draws = np.hstack([v, np.exp(v / 2.0) * rng.standard_normal((128, 2))])
    >>> staged = fit_staged(model, draws)
    >>> staged.inner.parents.tolist(), bool(staged.verdict.share > 0.7)
    ([0], True)
    """
    with np.errstate(all="ignore"):
        return _fitted(model.bare(), draws, seed)


def _fitted(
    model: DensityModel, draws: Array, seed: int, outside: float = 0.03,
    even: tuple[float, float] = (0.4, 0.5), unseen: float = 100.0, rare: float = 1e-4,
) -> Staged | None:  # fmt: skip
    """The best of what parents make, or the first whose weights cannot be bettered by much: of
    this Pareto shape and effective share.

    A part ``outside`` of the rough draws may lie where the Gaussian of their children given their
    parents has less than the part ``rare`` of its own: it misses a mode; those are unseen that
    would have so many times the mean weight.
    """
    best = None
    for inner in _with_parents(model, draws):
        square = (inner.standardised(draws)[0] ** 2).sum(axis=1)
        if np.mean(~(square < chdtri(inner.children.size, rare))) > outside:
            continue  # it misses a mode
        if (outer := _marginal(inner, draws, seed)) is None:
            continue
        staged = Staged(outer, inner, Verdict())
        log_w = staged.weighted(np.random.default_rng([seed, 5]), TRIAL)[1]
        staged = replace(staged, verdict=judged(log_w))
        if best is None or staged.verdict.share > best.verdict.share:
            best = staged
        if best.verdict.shape < even[0] and best.verdict.share > even[1]:
            break
    if best is None:
        return None
    heavier = best.log_weight(draws) - best.verdict.logz > np.log(unseen)
    return replace(best, unseen=float(heavier.mean()))


def _with_parents(
    model: DensityModel, draws: Array, clearly: float = 0.4, faintly: float = 0.01, most: int = 4,
    asked: int = 4, astray: float = 20.0,
) -> Iterator[ConditionalLaplace]:  # fmt: skip
    """One parent, then with one more each, as long as it tells of the scale of the rest at all.

    First those count that tell it among the draws, then along the whole reach of the parents
    known: by a sum of squared logs of scales, ``clearly`` of the first parent and ``faintly`` of
    others, at so many points as are ``asked``. A mode of children ``astray``, so many sds of the
    bulk away, is one in a neck of their own.
    """
    sd, told, points = draws.std(axis=0), np.zeros((model.n, model.n)), draws
    rest, inner = np.arange(model.n), None
    while True:
        some = points[np.linspace(0, len(points) - 1, asked).round().astype(int)]
        told = np.maximum(told, telling(model, some, sd))
        each = told[np.ix_(rest, rest)].sum(axis=1)
        if inner is None and not each.max() > clearly:
            return
        full = model.n - rest.size == min(most, model.n - 1)
        if inner is not None:  # that others tell may be rounding, in a neck
            yield inner
        if full or not each.max() > faintly:
            return
        rest = np.delete(rest, each.argmax())
        inner = ConditionalLaplace(model, np.setdiff1d(np.arange(model.n), rest), draws)
        lines, high = _along(inner, draws)
        x = inner.at(lines[high]).x
        away = np.abs(x - draws.mean(axis=0))[:, inner.children] < astray * sd[inner.children]
        points = np.concatenate([draws[:1], x[away.all(axis=1)]])


def _marginal(
    inner: ConditionalLaplace, draws: Array, seed: int, most: int = 12_000, widths: float = 5.0,
    least: float = 2.0,
) -> Blend | None:  # fmt: skip
    """A mixture for p̂, by at ``most`` so many evaluations of it; those of the model are counted.
    Its prior is as wide as p̂ is along every coordinate, which ends so many of the Gaussian's
    ``widths`` apart; and at ``least`` so many of the bulk's.

    In a neck it has rounding errors, which leave a search unconfirmed: of 15 groups, centred, one
    went on for 130 s. With so many it took 20 s, and draws were right.
    """
    rng, outside = np.random.default_rng([seed, 4]), copy_context()
    lines, high = _along(inner, draws)
    inside = np.concatenate([lines[high], draws[:, inner.parents]])
    ends = inside.min(axis=0), inside.max(axis=0)
    sd = np.maximum((ends[1] - ends[0]) / widths, least * inner.spread)
    reach = GaussianPrior(0.5 * (ends[0] + ends[1]), sd**2)

    def relative(P: Array) -> Array:
        return np.asarray(outside.run(inner.log_marginal, P) - reach.log_prob(P))

    own = Meter()
    with metered(own), evaluating(None):  # no worker is sent p̂, nor are its values kept
        model = DensityModel(relative, inner.parents.size, prior=reach, vectorized=True)
        return Search(model, rng, _MARGINAL, Allowance(own, most), modes=()).run().blend


def _along(
    inner: ConditionalLaplace, draws: Array, n: int = 6, height: float = 12.0
) -> tuple[Array, Flags]:
    """Parents on lines through n draws, one along each, (lines, parents, points, parents), and up
    to where p̂ first falls by so many nats, on either side."""
    far = 1.4 ** np.arange(16)  # up to 155 sd of the bulk away
    away, middle = np.concatenate([-far[::-1], [0.0], far]), len(far)
    through = draws[np.linspace(0, len(draws) - 1, n).round().astype(int)][:, inner.parents]
    steps = away[:, None] * np.diag(inner.spread)[:, None]
    lines = through[:, None, None] + steps
    values = inner.log_marginal(lines.reshape(-1, inner.spread.size)).reshape(lines.shape[:3])
    high = values > values[..., middle].max() - height
    high[..., middle:] = np.logical_and.accumulate(high[..., middle:], axis=-1)
    high[..., middle::-1] = np.logical_and.accumulate(high[..., middle::-1], axis=-1)
    return lines, high

r"""What evaluations so far have shown of a density: draws, each with the density it came from.

With M draws of the prior and n_k of the k-th proposal q_k, N of them all, each stands for

.. math:: W(z) = N \pi(z) \Big/ \Big(M \pi(z) + \sum_k n_k q_k(z)\Big)

draws of the prior π = N(0, I), whichever proposal it came from. As proposals were moved by draws
before them, these weights are for learning; an estimate of Z comes from fresh draws.

The M independent draws of the prior say where nothing else has looked. Each judged by what a
proposal leaves unexplained there, a region of prior mass

.. math:: \epsilon = 1 - 0.05^{1/M} \approx 3/M

is met with 95 %: the *resolution* of a search, which its answer states.

Reference: J.-M. Cornuet et al., Scandinavian Journal of Statistics 39 (2012) 798.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import logsumexp

from ...messages import InputError
from ...models.density.model import DensityModel, refuse_infinite
from ...models.density.priors import GaussianPrior
from ...numerics.arrays import Array, Indices
from .blend import Blend, log_normal, placed
from .policy import NORMAL
from .verdict import Rough, rough


@dataclass
class Cloud:
    """Draws in coordinates in which the prior is N(0, I), and the logarithms of likelihoods."""

    model: DensityModel
    z: Array = field(default_factory=lambda: np.zeros((0, 0)))
    log_l: Array = field(default_factory=lambda: np.zeros(0))
    rounds: list[tuple[int, Blend]] = field(default_factory=list)
    screened: int = 0
    """Draws of the prior, the first ones."""
    own: list[Array] = field(default_factory=list)
    """log weights of the draws of those rounds that were fixed before them and are at p."""
    level: float = -np.inf
    """The last height above which draws were learnt from."""
    thinned: tuple[float, int] = (-np.inf, 0)
    """A height below which so many of the prior's draws count, the first ones."""
    of_p: bool = False
    """Whether levels are levels of log p, and not of log L."""
    kept: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    """Points that still count,"""
    _ratio: Array = field(default_factory=lambda: np.zeros(0))
    """and log Σ n_k q_k/π at them."""

    def screen(self, rng: np.random.Generator, n: int, together: int = 2**12) -> Cloud:
        """Draw so many of the prior, ``together`` at a time, and until some have a likelihood."""
        enough, parts, values = self.screened + n, list[Array](), [self.log_l]
        try:
            while self.screened < enough or self._hidden(values):
                left = max(enough - self.screened, 0) or together
                z = rng.standard_normal((min(left, together), self.model.n))
                values.append(self._log_l(z))
                parts.append(z)
                self.screened += len(z)
        finally:  # what was evaluated stays, whatever ends it
            self.z = np.concatenate([self.z.reshape(-1, self.model.n), *parts])
            first, self.log_l = self.log_l.size, np.concatenate(values)
            new = first + np.flatnonzero(np.isfinite(self.log_l[first:]))
            self.kept = np.append(self.kept, new)
            self._ratio = np.append(self._ratio, np.full(new.size, -np.inf))
        if self.model.density is None:  # at walls numbers are rounded
            refuse_infinite(self.log_l)
        if not np.isfinite(self.log_l).any():
            where = "around where it starts" if self.model.density else "of the prior"
            raise InputError(
                f"logdensity is -inf at all {self.log_l.size} points tried {where}: there is no "
                "evidence to estimate; is a constraint never met, or prior= or sampler= elsewhere?"
            )
        return self

    def _hidden(
        self, values: list[Array], fewest: int = 16, most: int = 2**18, in_batches: int = 2**20
    ) -> bool:
        """Whether fewer draws than this have a likelihood, and some more may help."""
        few = sum(int(np.isfinite(v).sum()) for v in values) < fewest
        return few and self.screened < (in_batches if self.model.vectorized else most)

    def _log_l(self, z: Array, together: int = 2**12) -> Array:
        """Of rows, so many ``together``: what a density makes of more may not fit into memory."""
        parts = np.array_split(z, range(together, len(z), together))
        return np.concatenate([self.model.log_likelihood(placed(self.model, p)) for p in parts])

    def log_p(self, z: Array) -> Array:
        """log density of rows."""
        return self._log_l(z) + log_normal(z)

    def add(self, rng: np.random.Generator, blend: Blend, n: int) -> Array:
        """Draws of a proposal, and their own log weights. Every point and every proposal meet."""
        z = blend.draw(rng, n)
        log_l, own = self._log_l(z), blend.log_ratio(z)
        others = [np.log(m) + q.log_ratio(z) for m, q in self.rounds]
        before = np.log(n) + blend.log_ratio(self.z[self.kept])
        self.rounds.append((n, blend))
        some = np.isfinite(log_l)
        new = logsumexp([*others, np.log(n) + own], axis=0)[some]
        self._ratio = np.append(np.logaddexp(self._ratio, before), new)
        self.kept = np.append(self.kept, self.log_l.size + np.flatnonzero(some))
        self.z, self.log_l = np.concatenate([self.z, z]), np.append(self.log_l, log_l)
        return np.where(some, log_l - own, -np.inf)

    def look(self, rng: np.random.Generator, n: int) -> None:
        """Evaluate so many draws of all proposals alike. They weigh nothing: a peak within broad
        ground, of which levels have too few draws, stands out among them."""
        for _, blend in self.rounds:
            z = blend.draw(rng, max(n // len(self.rounds), 1))
            self.z, self.log_l = np.concatenate([self.z, z]), np.append(self.log_l, self._log_l(z))

    @property
    def log_w(self) -> Array:
        """Of the points that count, log W/N."""
        drawn = np.where(self.height < self.thinned[0], self.thinned[1], self.screened)
        return -np.logaddexp(np.log(np.maximum(drawn, 1e-300)), self._ratio)

    def forget(self, negligible: float = 1e-4, most: int = 2**15) -> None:
        """Points below the level that hold this part of Z, all together, count no more, nor do
        draws of the prior there beyond ``most``: a plateau's are half a million, and alike."""
        log_l = self.log_l[self.kept]
        log_p = self.log_w + log_l
        order = np.argsort(log_p)
        below = np.logaddexp.accumulate(log_p[order]) < logsumexp(log_p) + np.log(negligible)
        height = self.height
        stay = np.sort(order[~below | (height[order] >= self.level)])
        low = stay[(self.kept[stay] < self.screened) & (height[stay] < self.level)]
        if low.size > most:
            first = min(int(self.kept[low[most]]), self.thinned[1] or self.screened)
            self.thinned = self.level, first
            stay = np.setdiff1d(stay, low[self.kept[low] >= first])
        self.kept, self._ratio = self.kept[stay], self._ratio[stay]

    @property
    def height(self) -> Array:
        """What levels are levels of, at points that count: log L, or log p where p is wider than
        the prior, or than what stands in for one: there p/π may grow without end."""
        return self.log_l[self.kept] + (log_normal(self.z[self.kept]) if self.of_p else 0.0)

    @property
    def ahead(self) -> float:
        """log of the part of Z above the level, if all of it were as high as the highest draw."""
        above = self.height >= self.level
        return float(logsumexp(self.log_w[above]) + self.log_l[self.kept[above]].max())

    def estimate(self) -> Rough:
        """log Z by draws of the prior and of proposals fixed before them; a standard error only of
        weights that have one. (Of a walk of 20 steps 32,768 draws were 44 nats off at ± .3.)"""
        parts = self.log_l[: self.screened], *([np.concatenate(self.own)] if self.own else [])
        return min((rough(p, NORMAL.sound) for p in parts), key=lambda one: (one.se, -one.logz))


def resolution(n: int) -> float:
    """The mass of a region that n independent draws meet with a probability of 95 %.

    >>> round(resolution(300), 4)
    0.0099
    """
    return float(-np.expm1(np.log(0.05) / n)) if n else 1.0


class Rebased(DensityModel):
    """A density without a prior, seen as a likelihood under a Gaussian that is wide enough."""

    density: DensityModel

    def __init__(self, model: DensityModel, prior: GaussianPrior) -> None:
        self.__dict__.update(model.__dict__)
        self.density, self.prior = model, prior

    def log_likelihood(self, x: Array) -> Array:
        assert self.prior is not None
        return self.density.log_prob(x) - self.prior.log_prob(x)

    def log_prob(self, x: Array) -> Array:
        return self.density.log_prob(x)

    def log_prob_and_gradient(self, x: Array) -> tuple[Array, Array]:
        return self.density.log_prob_and_gradient(x)

    def hessian(self, x: Array) -> Array:
        return self.density.hessian(x)

    def bare(self) -> DensityModel:
        return Rebased(self.density.bare(), self.prior) if self.prior else self.density.bare()

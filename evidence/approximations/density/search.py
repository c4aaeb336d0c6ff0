r"""Where the mass of a density is: a Gaussian for it, and what shares nothing with that Gaussian.

1. *Fit*: climbs from a few starts, and a Gaussian over the modes that they find, moved and widened
   by the weights of its own draws (:mod:`.fit`).
2. *Look*: independent draws of the prior (:mod:`.cloud`) and nested halving from them
   (:mod:`.scout`), which know nothing of the fit. What it leaves unexplained at all of their
   points,

   .. math:: U = \sum_i W_i \max\Big(0,\, 1 - 3 Z \frac{q(x_i)}{p(x_i)}\Big),

   is climbed from: at the highest of these points, and where p exceeds q by most.
3. Where U is small the fit stands. Elsewhere a mixture is made of the modes and of the points
   (:mod:`.mixing`); where that does no better, the prior is what annealing starts from.

A density without a prior is seen as a likelihood under the fit itself, made much wider.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from ...execution.meter import phase
from ...messages import Message
from ...models.density.model import DensityModel
from ...models.density.priors import GaussianPrior
from ...models.density.scales import learn
from ...numerics.arrays import Array, Indices
from ...statistics.resampling import systematic
from ..mixture import Mixture
from .cloud import Cloud, Rebased
from .fit import LARGEST_SCOUTED, fit_one
from .mixing import at_modes, blend_of, lost, mixture_of, unexplained
from .modes import COMPARABLE, find_modes, further_modes, not_numbers, peaks, starts
from .policy import NORMAL, Policy
from .reference import DensityReference, Mode, Scouted, density_prior_reference
from .scout import Scouting, scout

_ASKED = 256  # points at which NaN is looked for
_UNEXPLAINED, _MUCH = 0.001, 0.2  # of the posterior, as a scout sees it
_OPEN = 0.15  # of the posterior may be left to the prior
_LOW = 7.0  # nats below the best mode that count
_TELL = 0.005  # from which on it is told where nothing does better
_VOLUMES = 7.0  # nats by which the volume of children may vary, one sd
_COMPARED = 2**16  # points whose neighbours are looked up, the last ones
_PEAKS = 4096  # points of the largest excess, among which its peaks are
_FITTED, _NOTHING = 2**14, 20.0  # points that a mixture is fitted to; nats below the largest
_EVEN = 0.5  # share of even weights from which on the shape of their tail is of no interest
_HOPELESS, _LEAST = 0.7, 0.02  # Pareto shape and effective share of a mixture's weights


def fit_density(
    model: DensityModel,
    laplace: DensityReference | None = None,
    *,
    scales: bool = True,
    seed: int = 0,
    policy: Policy = NORMAL,
    cloud: Cloud | None = None,
) -> DensityReference | Mixture:
    """The reference that a DensityModel starts from unless told otherwise.

    Parameters
    ----------
    model : DensityModel
    laplace : DensityReference, optional
        :func:`.fit_density_laplace` of the model, whose modes are then not looked for again.
    scales : bool
        Whether coordinates may tell each other's scale, as in hierarchical models.
    seed : int
        Of the look from the prior that decides whether one Gaussian is enough.
    policy : Policy
        How hard to look.
    cloud : Cloud, optional
        An empty one, which keeps the draws of the prior.

    Returns
    -------
    DensityReference or Mixture
        A mixture where one Gaussian leaves part of the posterior unexplained; the prior, where
        none does better.

    Examples
    --------
    >>> import numpy as np
    >>> model = DensityModel(lambda x: -1.5 * np.log1p(0.5 * x[0] ** 2), dim=1)  # Student's t
    >>> fit = fit_density(model)
    >>> fit.name, fit.tails > 0.0, bool(abs(fit.logz - 1.5 * np.log(2.0)) < 0.1)
    ('fitted', True, True)
    """
    started = time.perf_counter()
    points = starts(model, np.random.default_rng([seed, 2]), _ASKED)
    doubts = not_numbers(model, model.calls["logdensity"](model.arguments(points)))
    looked, rng = model.n <= LARGEST_SCOUTED, np.random.default_rng([seed, 1])
    cloud = Cloud(model) if cloud is None else cloud
    if model.prior is not None and looked:
        cloud.screen(rng, policy)
    modes = find_modes(model) if laplace is None else laplace.modes
    several = sum(mode.logz > modes[0].logz - COMPARABLE for mode in modes) > 1
    best = None if several and model.prior is not None else fit_one(model, modes, several, scales)
    best = best or density_prior_reference(model)
    whole: DensityReference | Mixture = best
    if model.prior is None and looked and scales and best.scales is None:
        cloud.model = Rebased(model, GaussianPrior(best.mean, policy.reach**2 * best.cov))
        cloud.screen(rng, policy)
    if cloud.log_l.size:
        whole = Look(cloud, policy, rng, best, modes).settle()
    whole.seconds = time.perf_counter() - started
    whole.warnings = (*whole.warnings, *doubts)
    return whole


def fit_gaussian(
    model: DensityModel,
    laplace: DensityReference | None = None,
    *,
    seed: int = 0,
    policy: Policy = NORMAL,
    cloud: Cloud | None = None,
) -> DensityReference | Mixture:
    """:func:`fit_density` with constant scales, as Riemannian moves need it."""
    return fit_density(model, laplace, scales=False, seed=seed, policy=policy, cloud=cloud)


@dataclass
class Look:
    """A search that shares nothing with the fit, and what is made of both."""

    cloud: Cloud
    policy: Policy
    rng: np.random.Generator
    best: DensityReference
    modes: tuple[Mode, ...]
    rest: float = 1.0
    """Of the posterior, as the scout sees it, beyond the reach of ``best``."""
    missed: bool = False
    """Whether modes were found that ``best`` does not reach."""

    @property
    def model(self) -> DensityModel:
        return self.cloud.model

    def settle(self) -> DensityReference | Mixture:
        """The same where a scout agrees with it, or a mixture, or the prior where both fail."""
        seen = None
        for n in self.policy.halving:
            further = n * (seen.evaluations if seen else 0) / self.policy.halving[0]
            if further > self.policy.budget(self.model):
                break
            if seen is not None:
                self.cloud.screen(self.rng, self.policy)
            seen, clean = self._scout(n)
            if clean and self.rest < _UNEXPLAINED:
                return self.best
            if not np.isfinite(seen.se):
                break
        assert seen is not None
        return self._covering(seen)

    def _scout(self, n: int) -> tuple[Scouting, bool]:
        """What n points see, and whether it agrees with all that is known."""
        best, model = self.best, self.model
        tops = [float(model.log_likelihood(mode.x[None])[0]) for mode in self.modes]
        with phase("scout"):
            budget = self.policy.budget(model)
            seen = scout(self.cloud, self.rng, n, max(tops, default=-np.inf), budget=budget)
        log_p = self._log_p(seen)
        beyond, log_q = np.ones(len(seen.x)), np.zeros(len(seen.x))
        if best.name != "prior":
            log_q = best.log_density.log(seen.x)
            beyond = unexplained(log_q, log_p, max(best.top, best.logz))
        known = len(self.modes)
        self.modes = self._uphill(seen, beyond, log_p - log_q)
        self.missed |= self._misses(self.modes[known:])
        best.scouted = _sighted(seen, beyond)
        level = 0.0 if best.name == "prior" else seen.logz - best.logz
        weight = np.full(seen.log_w.shape, -np.inf)  # of points without a likelihood
        some = np.isfinite(seen.log_w)
        weight[some] = np.minimum(seen.log_w[some] + level, 0.0)
        self.rest = float(np.exp(weight) @ beyond)
        return seen, not self.missed and not best.warnings

    def _misses(self, modes: tuple[Mode, ...]) -> bool:
        """Whether there are modes out of the reach of what was fitted."""
        if self.best.name == "prior" or not modes:
            return bool(modes)
        x = np.array([mode.x for mode in modes])
        log_q, logz = self.best.log_density.log(x), max(self.best.top, self.best.logz)
        return bool((unexplained(log_q, self.model.log_prob(x), logz) > 0.5).any())

    def _log_p(self, seen: Scouting) -> Array:
        return seen.log_l + self.model.log_prior(seen.x)

    def _uphill(self, seen: Scouting, beyond: Array, excess: Array) -> tuple[Mode, ...]:
        """Modes that count, with those found uphill of what lies beyond the reference."""
        some = np.flatnonzero(beyond > 0.5)
        if not some.size:
            return self.modes
        high = self._tops(some[-_COMPARED:], seen.x, seen.log_l)
        far = some[np.argsort(-excess[some])][:_PEAKS]
        tops = np.unique(np.append(high, self._tops(far, seen.x, excess)))
        found = further_modes(self.model, self.modes, seen.x[tops[np.argsort(-seen.log_l[tops])]])
        new = (m for m in found if not any(m is known for known in self.modes))
        return self.modes + tuple(m for m in new if m.logz > found[0].logz - _LOW)

    def _tops(self, some: Indices, x: Array, value: Array) -> Indices:
        """Peaks of a value among some points."""
        return some[peaks(x[some], value[some], self.rng)][: self.policy.climbs]

    def _covering(self, seen: Scouting) -> DensityReference | Mixture:
        """A mixture for what a scout saw, or the prior or what there was if that is no better."""
        model, best, rng, log_p = self.model, self.best, self.rng, self._log_p(seen)
        modes = tuple(sorted(self.modes, key=lambda mode: -mode.logz))
        begin = at_modes(model, modes, rng)
        if best.name != "prior" and best.scales is None and not best.warnings:
            begin = [replace(best, tails=0.0), *begin]
        logz = max([seen.logz, *(q.logz for q in begin)])
        # where the scout thinks too much of a peak, it thinks too little of all else
        certain = np.logaddexp.reduce([q.logz for q in begin]) if begin else seen.logz
        log_w = seen.log_w + max(seen.logz - float(certain), 0.0)
        blend, verdict = blend_of(model, begin, _thinned(seen.x, log_p, log_w, rng), logz, rng)
        uneven = verdict.shape > _HOPELESS and verdict.share < _EVEN
        poor = uneven or verdict.share < _LEAST or blend.weights[-1] > _OPEN
        beyond = unexplained(blend.log(seen.x), log_p, max(verdict.top, verdict.logz))
        if poor or np.exp(seen.log_w) @ beyond > _OPEN:
            return self._without_mixture()
        mixture = mixture_of(blend, verdict.logz, _sighted(seen, beyond))
        mixture.lost = lost(mixture, verdict, (seen.x, log_p, seen.log_w), rng)
        mixture.warnings = (*mixture.warnings, *_funnelled(seen.x, np.exp(seen.log_w)))
        return mixture

    def _without_mixture(self) -> DensityReference:
        """The prior where much lies beyond the reach of the fit, or the fit, which says so."""
        best, rest = self.best, self.rest
        if rest > _MUCH:
            return replace(density_prior_reference(self.model), scouted=best.scouted)
        if rest > _TELL:
            text = (
                f"fitted reference: a look from the prior sees {100 * rest:.1g} % of the "
                "posterior beyond its reach, and no mixture does better; method='pt' is a "
                "cross-check"
            )
            best.warnings = (*best.warnings, Message("poor-reference", text))
        best.lost = rest
        return best


def _sighted(seen: Scouting, beyond: Array) -> Scouted:
    """What a scout saw, given what a fit leaves unexplained at its points.

    Of what it had no time to search, the fit explains as much as points there say.
    """
    unclear = max(float(beyond[seen.left].mean()), 1e-300)
    return Scouted(seen.logz, seen.se, float(np.log(unclear)) + seen.most)


def _thinned(
    x: Array, log_p: Array, log_w: Array, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Fewer points for the same weights, where there are more than a fit takes in."""
    if np.count_nonzero(log_w > log_w.max() - _NOTHING) <= _FITTED:
        return x, log_p, log_w
    total = logsumexp(log_w)
    chosen, times = np.unique(systematic(np.exp(log_w - total), rng, _FITTED), return_counts=True)
    return x[chosen], log_p[chosen], np.log(times / _FITTED) + total


def _funnelled(x: Array, w: Array) -> tuple[Message, ...]:
    """A warning where the volume that a posterior fills at given parents varies too much.

    A Gaussian covers a few nats of it; all Gaussians of a mixture may miss what is narrower yet.
    """
    if (scales := learn(x, w)) is None:
        return ()
    log_volume = scales.log_slope(scales.inverse(x))
    spread = float(np.sqrt(w @ (log_volume - w @ log_volume) ** 2))
    if not spread > _VOLUMES:
        return ()
    text = (
        f"fitted mixture: some coordinates tell the scale of others over e^{spread:.0f} in volume "
        "(one sd), as in a funnel: log Z may be too low, as its narrow end is out of reach; "
        "coordinates without it (x = scale * z) are the remedy"
    )
    return (Message("poor-reference", text),)

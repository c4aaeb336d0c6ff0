r"""What annealing starts from: a Gaussian for a density, a mixture of them, or its prior.

The Gaussian (:mod:`.fit`) stands where a search, which shares nothing with it (:mod:`.search`),
finds next to nothing beyond its reach. Elsewhere the search's own Gaussians become a mixture; and
where these do no better, the prior is what annealing starts from.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from ...execution.clock import Clock, also
from ...execution.meter import Allowance, Meter
from ...messages import Message
from ...models.density.model import DensityModel, refuse_endless
from ...models.density.priors import GaussianPrior
from ...numerics.arrays import Array
from ..mixture import Mixture
from .blend import Blend, Blended, placed, unexplained
from .fit import fit_one
from .modes import find_modes, not_numbers, starts
from .policy import NORMAL, Policy
from .reference import DensityReference, Mode, density_prior_reference
from .search import Search, bounded
from .verdict import Rough, usable


def fit_density(
    model: DensityModel, laplace: DensityReference | None = None, *, scales: bool = True,
    seed: int = 0, policy: Policy = NORMAL, found: Search | None = None, single: bool = False,
) -> DensityReference | Mixture:  # fmt: skip
    """The reference that a DensityModel starts from unless told otherwise.

    Parameters
    ----------
    model : DensityModel
    laplace : DensityReference, optional
        :func:`.fit_density_laplace` of the model, whose modes are then not looked for again.
    scales : bool
        Whether coordinates may tell each other's scale, as in hierarchical models.
    seed : int
        Of the search that decides whether one Gaussian is enough.
    policy : Policy
        How hard to look.
    found : Search, optional
        One that was run already.
    single : bool
        Whether there is to be one Gaussian where there is one mode, however little it reaches.

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
    started, own = time.perf_counter(), found is None
    if found is None:
        modes = find_modes(model) if laplace is None else laplace.modes
        found = look(model, modes, seed, policy)
    best = _one(model, found.modes or (), scales) or density_prior_reference(model)
    mixed = not single or len(found.counting()) > 1
    whole = _settled(best, found, mixed) if found.cloud.kept.size else best
    if isinstance(whole, Mixture):
        whole.blended = drawn_from(found) if own else found.blended()
    whole.seconds = time.perf_counter() - started
    whole.warnings = (*whole.warnings, *found.doubts)
    return whole


fit_gaussian = partial(fit_density, scales=False, single=True)
"""With constant scales, as Riemannian moves need it, of one mode one."""


def drawn_from(search: Search, wider: float = 1.5) -> Blended | None:
    """The search's own proposal, if there is one, and what halving left open.

    Thirty nats below its top a Gaussian is known to a few: one ``wider`` in variance explains as
    much as its own. (A normal posterior in 16 dimensions, of which halving had seen the slopes 33
    nats down, was said to ± 3.5 where draws said ± 0.002.)
    """
    if search.blend is None:
        return None
    its = search.blended()
    if not search.missing > -np.inf or not search.cloud.kept.size:
        return its
    z, log_p, _ = search.posterior()
    level = max(search.verdict.top, search.verdict.logz)
    beyond = unexplained(search.blend.log_own(z, ((1.0, 0.5), (wider, 0.5))), log_p, level)
    if search.confirmed:
        beyond = beyond * search.parted(z, beyond)
    return replace(its, scouted=sighted(search, z, beyond))


def look(
    model: DensityModel, modes: tuple[Mode, ...] | None, seed: int, policy: Policy,
    allowed: Meter | Allowance | None = None, clock: Clock | None = None,
    elsewhere: Callable[[Search], bool] = lambda search: False, asked: tuple[int, int] = (256, 16),
    used: float = 0.85, hurried: float = 0.4, halved: float = 0.6,
) -> Search:  # fmt: skip
    """A search, run where the dimension allows it, from the modes, or from none (None), for the
    part ``used`` of the evaluations allowed and of the time that is left, ``hurried`` from a part
    of that time on. Halving takes the part ``halved`` of it at most (of walks of ten and twelve
    steps it took all of 40 seconds, and nothing was left to draw). NaN is looked for at so many
    points as are ``asked``, frugally at fewer."""
    first, second = (np.random.default_rng([seed, k]) for k in (1, 2))
    points = starts(model, second, asked[not policy.halved[model.vectorized]])
    doubts = not_numbers(model, model.calls["logdensity"](model.arguments(points)))
    whole, clock = allowed or Meter(), clock or Clock()
    own = Allowance(whole, used * whole.left)
    search = Search(model, first, policy, own, modes, elsewhere=elsewhere, doubts=doubts)
    if model.n > policy.scouted:
        return search
    refuse_endless(model, points)
    if model.prior is None and modes is not None and not any(usable(m.cov) for m in modes):
        if (box := bounded(model, ())) is None:
            base = _one(model, modes, False) or density_prior_reference(model)
            box = GaussianPrior(base.mean, policy.reach**2 * base.cov)
        search.stand_in(box)

    def ready() -> bool:
        return bool(search.modes or search.blend)

    search.hurried = clock.part(hurried).over(own, ready)
    search.halved = clock.part(halved * used).expired
    with also(clock.part(used).over(own, ready)):
        return search.run()


def _one(model: DensityModel, modes: tuple[Mode, ...], scales: bool) -> DensityReference | None:
    """One Gaussian, unless there are several modes and a prior that has them all."""
    several = sum(mode.logz > modes[0].logz - NORMAL.counts for mode in modes) > 1
    covered = several and model.prior is not None
    return None if covered else fit_one(model, modes, several, scales)


def _settled(
    best: DensityReference, search: Search, mixed: bool, nothing: float = 0.001,
    telling: float = 0.005, much: float = 0.2,
) -> DensityReference | Mixture:  # fmt: skip
    """The Gaussian where the search finds nothing else, a mixture, or the prior.

    Of the posterior the part ``nothing`` may be out of the Gaussian's reach; where no mixture does
    better what is ``telling`` is told, and with ``much`` one begins at the prior.
    """
    policy, (z, log_p, log_w) = search.policy, search.posterior()
    beyond, missed, known = np.ones(len(z)), bool(search.modes), 1.0
    if best.name != "prior":
        assert search.model.prior is not None
        log_q, level = best.log, max(best.top, best.logz)
        shift = float(np.log(np.diag(search.model.prior.chol)).sum())
        beyond = unexplained(log_q(placed(search.model, z)) + shift, log_p, level)
        least = max(best.logz, search.estimate) - policy.counts
        x = np.reshape([m.x for m in search.modes or () if m.logz > least], (-1, best.model.n))
        missed = bool((unexplained(log_q(x), best.model.log_prob(x), level) > 0.5).any())
        known = float(np.exp(min(search.estimate - best.logz, 0.0)))
    rest = known * float(np.exp(log_w) @ beyond)
    best.scouted = sighted(search, z, beyond)
    best.modes = search.modes or ()
    if rest < nothing and not missed and not best.warnings:
        return best
    share, shape, folds = search.verdict.share, search.verdict.shape, search.model.chart.folds
    mixed &= best.name != "prior" or len(search.counting()) <= policy.gaussians * folds
    if mixed and search.blend is not None and share > policy.least and shape < policy.sound:
        return mixture_of(search.blend, search, best.scouted)
    if best.name == "prior":
        return best
    if rest > much and best.model.prior is not None:
        return replace(density_prior_reference(best.model), scouted=best.scouted)
    if rest > telling:
        text = (
            f"fitted reference: a look from the prior sees {100 * rest:.1g} % of the posterior "
            "beyond its reach, and no mixture does better; method='pt' is a cross-check"
        )
        best.warnings = (*best.warnings, Message("poor-reference", text))
    best.lost = rest
    return best


def sighted(search: Search, z: Array, beyond: Array) -> Rough:
    """What a search saw, given what a fit leaves unexplained at its points.

    Of what it had no time for the fit explains as much as the highest points say.
    """
    if search.missing > -np.inf:
        live = search.cloud.height >= search.cloud.level
        mass = np.exp(search.cloud.log_w[live])
        unclear = max(float(mass @ beyond[live] / mass.sum()), 1e-300)
        missing = float(np.log(unclear)) + search.missing
        if search.cut and not search.shares:  # on the way up: no draw yet says what is to come
            known = max([search.estimate, *(mode.logz for mode in search.counting())])
            missing = max(missing, known + float(np.log(np.expm1(search.policy.rough))))
        return Rough(search.estimate, np.inf, missing)
    if search.confirmed:
        return search.sight
    return Rough(search.estimate, float(np.hypot(search.policy.rough, search.noise)), -np.inf)


def mixture_of(
    blend: Blend, search: Search, scouted: Rough | None = None, floor: float = 0.05,
    reserve: float = 0.003,
) -> Mixture:  # fmt: skip
    """A reference made of a blend's largest Gaussians, weights at least the part ``floor`` of the
    largest one's, and beside them the prior with the part ``reserve`` of all."""
    model = search.model.density or search.model
    policy, (z, log_p, log_w) = search.policy, search.posterior()
    chart = blend.chart
    shares = np.maximum(np.exp(log_w) @ np.exp(blend.log_parts(chart.inward(z))), 1e-12)
    first = np.argsort(-shares)[: max(policy.gaussians // chart.folds, 1)]  # every image is one
    own = shares[first] / shares[first].sum()
    prior = search.model.prior
    assert prior is not None
    parts = [
        DensityReference(
            "fitted", model, placed(search.model, mean[None])[0],
            prior.chol @ cov @ prior.chol.T,
            search.verdict.logz + float(np.log(share / chart.folds)), scouted=scouted,
        )
        for k, share in zip(first, own, strict=True)
        for mean, cov in chart.everywhere(blend.means[k], blend.covs[k])
    ]  # fmt: skip
    weights = np.repeat(np.maximum(own, floor * own.max()), chart.folds)
    name = "wide" if model.prior is None else "prior"  # or what took its place
    rest = DensityReference(name, model, prior.mean, prior.cov, 0.0)
    mixture = Mixture([*parts, rest], np.append(weights, reserve * weights.sum()))
    few = replace(blend, weights=own, means=blend.means[first], covs=blend.covs[first])
    level = max(search.verdict.top, search.verdict.logz)
    beyond = float(np.exp(log_w) @ unexplained(few.log_own(z), log_p, level))
    walkers = policy.walked[-1 if model.vectorized else 0][0]
    mixture.lost = search.lost + beyond, float(np.sqrt(search.lost / walkers))
    return mixture

"""The referee of a density: what is known of its mass decides how it is integrated.

*Look*: :mod:`evidence.approximations.density.search` at normal effort; at ``effort="frugal"``, or
where few evaluations are allowed, :mod:`evidence.approximations.density.economy`. *Use*: where the
draws of a mixture, or in two stages, are even enough, islands of them. *Anneal*: in all other
cases. The answer comes from fresh draws of a proposal that was fixed before them, and is compared
with what the looks saw.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..approximations.density.cloud import Cloud, resolution
from ..approximations.density.economy import LARGEST, THOROUGH, Blended, Economy, economise
from ..approximations.density.mixing import defended
from ..approximations.density.modes import laplace_of
from ..approximations.density.policy import policy_of
from ..approximations.density.reference import Scouted
from ..approximations.density.verdict import judged
from ..approximations.mixture import Mixture
from ..execution.meter import Allowance, Meter
from ..models.density.batches import SharedBatches
from ..models.density.functions import evaluating
from ..paths.families import fit_reference, search_seed
from .base import Doubt, Outcome, Problem
from .economical import over_blend
from .referee import Referee
from .staged import over_stages

_DEFAULT = 0.05  # target of a standard error
_LARGEST = 32  # dimensions of a frugal search, where there is no choice
_USED = 0.8  # of the time that is left goes into evaluations that are counted on
_LOOK = 2048  # draws of a mixture that tell whether their weights are even
_CAUTION = 2.5  # walks do not reach everywhere either
_STANDARD_ERRORS = 3.0  # by which a look sees more than the answer


class DensityReferee(Referee):
    """Searches, then uses or anneals."""

    economy: Economy | None = None
    allowed: Meter | Allowance = Meter()
    """Evaluations that may be made."""
    cloud: Cloud | None = None

    @property
    def resolution(self) -> float:  # type: ignore[override]
        """By the draws of the prior that were judged."""
        if self.economy is not None and self.economy.blend is not None:
            return resolution(self.economy.rounds[0][0] if self.economy.rounds else 0)
        return self.cloud.resolution if self.cloud is not None else 1.0

    @property
    def left(self) -> bool:
        """Whether the user leaves everything to us."""
        p = self.problem
        return p.free and not p.annealed and p.n_particles is None

    @property
    def seen(self) -> Scouted | None:
        """What a look from the prior saw, where there was one."""
        parts = getattr(self.reference, "components", (self.reference,))
        return getattr(parts[0], "scouted", None)

    def find(self, method: str) -> Any:
        problem, clock = self.problem, self.problem.clock
        problem.progress.phase("search", "eval")
        batches = SharedBatches(clock, problem.executor, problem.checkpoint, problem.progress)
        try:
            with evaluating(batches):
                return self._search(method == "auto" and self.left)
        finally:
            batches.save()

    def _search(self, left: bool) -> Any:
        problem, meter = self.problem, self.problem.clock.meter
        model, seed, policy = problem.model, search_seed(problem.seed), policy_of(self.effort)
        target = problem.target_se or _DEFAULT
        allowed = self.allowed = self._allowed()
        few = math.isfinite(allowed.left) and model.n <= _LARGEST
        if left and (few or (self.effort == "frugal" and model.n <= LARGEST)):
            economy = self.economy = economise(model, seed, allowed)
            if economy.settled(allowed, problem.clock.stop()):
                self.fits = {"laplace": laplace_of(model, economy.modes)}
                return economy.reference(target) if economy.blend is not None else None
        self.cloud = Cloud(model)
        self.report()
        base = fit_reference(
            model, self.wanted, self.fits, seed=seed, policy=policy, cloud=self.cloud
        )
        alone = left and self.economy is None and base.name == "prior"
        if alone and model.n <= LARGEST and model.prior is not None:
            economy = economise(model, seed, meter, thorough=True)
            if economy.confirmed:
                found = economy.reference(target)
                return replace(found, scouted=base.scouted, warnings=base.warnings)
        return base

    def _allowed(self) -> Meter | Allowance:
        """Evaluations that may be made: those that seconds allow, where these are few."""
        clock, model = self.problem.clock, self.problem.model
        seconds = clock.remaining()
        if seconds is None or model.vectorized:
            return clock.meter
        started = time.perf_counter()
        model.log_prob(model.probes())
        each = (time.perf_counter() - started) / len(model.probes())
        most = int(max(_USED * seconds / max(each, 1e-9), 1.0))
        few = most < min(THOROUGH, clock.meter.left)
        return Allowance(clock.meter, most) if few else clock.meter

    def run(self, problem: Problem, method: str, go: Callable[[Problem], Outcome]) -> Outcome:
        base = problem.reference
        if isinstance(base, Blended):
            return over_blend(problem, base, self.allowed.left)
        if isinstance(base, Mixture) and method == "auto":
            found = over_whole(problem, base) or over_stages(problem, base)
            if found is not None:
                return found
        return super().run(problem, method, go)

    def settle(self, outcome: Outcome) -> None:
        compare(self.seen, outcome)
        super().settle(outcome)

    def best(self) -> tuple[str, float, float] | None:
        """A look that was finished, or draws of the prior, rather than Laplace's number."""
        found, laplace = self.seen, super().best()
        if found is not None and math.isfinite(found.se):
            return "a look from the prior", found.logz, found.se
        draws = self.economy or self.cloud
        if draws is not None and math.isfinite((rough := draws.estimate()).se):
            return f"{rough.n} draws, weighted", rough.logz, rough.se
        return laplace


def over_whole(problem: Problem, mixture: Mixture) -> Outcome | None:
    """Draws of all components at once, a tenth of them from the last one, the prior; None where
    their weights are uneven: then one component after the other is annealed."""
    if problem.annealed or not problem.free:
        return None
    *own, last = (replace(component, share=None) for component in mixture.components)
    blend = defended(own, mixture.weights[:-1], last)
    x, log_w = blend.weighted(np.random.default_rng(problem.child(32)), _LOOK)
    verdict = judged(log_w)
    if not verdict.even:
        return None
    relative = np.exp(log_w - verdict.logz) / len(x)  # shares of the posterior
    owned = relative[:, None] * np.exp(blend.log_parts(x) - blend.log(x)[:, None])
    shares, counted = owned.sum(axis=0), float(owned[:, -1].sum())
    outside = _CAUTION * max(sum(mixture.lost) - counted, 0.0)
    reference = Blended(
        problem.model, blend, verdict, verdict.logz, outside, scouted=mixture.components[0].scouted
    )
    outcome = over_blend(problem, reference, problem.clock.meter.left)
    outcome.doubts.append(Doubt(outside))
    with np.errstate(divide="ignore", invalid="ignore"):
        each = outcome.logz + np.log(shares), np.sqrt((owned**2).sum(axis=0)) / shares
    names = (component.name for component in mixture.components)
    outcome.components = [(n, float(z), float(se)) for n, z, se in zip(names, *each, strict=True)]
    if outcome.samples is not None and len(outcome.samples):
        parts = blend.log_parts(problem.model.unconstrain(outcome.samples))
        noise = np.random.default_rng(problem.child(33)).gumbel(size=parts.shape)
        outcome.component = (parts + noise).argmax(axis=1).astype(float)
    return outcome


def compare(seen: Scouted | None, outcome: Outcome) -> None:
    """A warning, and an error bar as wide as the gap, where a look from the prior saw clearly
    more, or came to its end before it could say that there is not more."""
    if seen is None or np.isnan(outcome.logz):
        return
    se = float(np.nan_to_num(outcome.logz_se))
    most, gap = seen.most - outcome.logz, seen.logz - outcome.logz
    if not np.isfinite(seen.se) and most > se:
        outcome.warn(
            "search-unfinished",
            "a look from the prior, which shares nothing with this estimate, ended before it "
            f"had reached the top: by what it saw log Z may be as high as {seen.most:.1f}; "
            "the error bar is as wide as the gap (effort='thorough' looks ten times as long)",
        )
        outcome.doubts.append(Doubt(most, least=True))
    elif gap > _STANDARD_ERRORS * np.hypot(seen.se, se):
        outcome.warn(
            "scout-saw-more",
            f"a look from the prior, which shares nothing with this estimate, sees log Z = "
            f"{seen.logz:.1f} ± {seen.se:.1f}: a part of the posterior may be missing; "
            "the error bar is as wide as the gap",
        )
        outcome.doubts.append(Doubt(gap, least=True))

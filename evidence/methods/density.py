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
from ..approximations.density.economy import LARGEST, LONGER, Blended, Economy, economise
from ..approximations.density.modes import laplace_of
from ..approximations.density.policy import policy_of
from ..approximations.density.reference import Scouted
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
_STANDARD_ERRORS = 3.0  # by which a look sees more than the answer


class DensityReferee(Referee):
    """Searches, then uses or anneals."""

    economy: Economy | None = None
    allowed: Meter | Allowance
    """Evaluations that may be made, once a search has begun."""
    cloud: Cloud | None = None

    @property
    def resolution(self) -> float:  # type: ignore[override]
        """By the draws of the prior that were judged."""
        if self.cloud is not None:
            return self.cloud.resolution
        rounds = [] if self.economy is None else self.economy.rounds
        return resolution(rounds[0][0] if rounds else 0)

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
        few = most < min(LONGER, clock.meter.left)
        return Allowance(clock.meter, most) if few else clock.meter

    def run(self, problem: Problem, method: str, go: Callable[[Problem], Outcome]) -> Outcome:
        base = problem.reference
        if isinstance(base, Blended):
            return over_blend(problem, base, self.allowed.left)
        if isinstance(base, Mixture) and method == "auto":
            staged = over_stages(problem, base)
            if staged is not None:
                return staged
        return super().run(problem, method, go)

    def settle(self, outcome: Outcome) -> None:
        # what an unfinished look left unclear is unclear to the fit it was judged by: draws in two
        # stages took its place, and have a measure of their own
        staged = outcome.settings.get("reference") == "staged"
        if self.seen is not None and (math.isfinite(self.seen.se) or not staged):
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


def compare(seen: Scouted, outcome: Outcome) -> None:
    """A warning, and an error bar as wide as the gap, where a look from the prior saw clearly
    more, or came to its end before it could say that there is not more."""
    if np.isnan(outcome.logz):
        return
    se = float(np.nan_to_num(outcome.logz_se))
    gap = seen.logz - outcome.logz
    more = float(np.logaddexp(0.0, seen.missing - outcome.logz))
    if not np.isfinite(seen.se) and more > se:
        outcome.warn(
            "search-unfinished",
            "a look from the prior, which shares nothing with this estimate, ended before it "
            f"had reached the top: by what it saw log Z may be {more:.2g} nats higher; "
            "the error bar is as wide as the gap (effort='thorough' looks ten times as long)",
        )
        outcome.doubts.append(Doubt(more, least=True))
    elif gap > _STANDARD_ERRORS * np.hypot(seen.se, se):
        outcome.warn(
            "scout-saw-more",
            f"a look from the prior, which shares nothing with this estimate, sees log Z = "
            f"{seen.logz:.1f} ± {seen.se:.1f}: a part of the posterior may be missing; "
            "the error bar is as wide as the gap",
        )
        outcome.doubts.append(Doubt(gap, least=True))

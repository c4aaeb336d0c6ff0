"""The referee of a density: what is known of its mass decides how it is integrated.

*Search* (:mod:`evidence.approximations.density.search`), at ``effort="frugal"`` first where few
evaluations are allowed. *Use*: where draws of the search's proposal, or in two stages, are even
enough, islands of them. *Anneal*: in all other cases, from what
:mod:`evidence.approximations.density.fitted` makes of the search. The answer comes from fresh
draws of a proposal that was fixed before them, and is compared with what the search saw.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from ..approximations.density.blend import Blended, placed
from ..approximations.density.cloud import resolution
from ..approximations.density.fitted import drawn_from, look
from ..approximations.density.modes import costly, fit_density_laplace
from ..approximations.density.policy import EFFORTS, FRUGAL, NORMAL, Policy
from ..approximations.density.search import Search
from ..approximations.density.staged import Staged
from ..approximations.density.verdict import Rough
from ..approximations.mixture import Mixture
from ..execution.clock import Stopped, also
from ..execution.meter import Allowance, Meter
from ..models.density.batches import SharedBatches
from ..models.density.functions import evaluating
from ..models.density.model import DensityModel
from ..models.density.priors import Transform
from ..paths.families import fit_reference, search_seed
from .base import SURE, Outcome, Problem
from .blended import met_more, over_blend
from .referee import Referee
from .staged import over_stages, stages_for

LONGER = 80_000  # evaluations of which a search at normal effort is affordable: of a function of
# one point it takes 30,000 to 60,000
_SEARCHED = (None, "fitted", "gaussian")  # references that a search decides about


class DensityReferee(Referee):
    """Searches, then uses or anneals."""

    allowed: Meter | Allowance
    """Evaluations that may be made."""
    searched: Search | None = None
    repeated: bool = False
    """Whether there was another search, of another seed: draws met what the first had not."""
    staged: Staged | None = None
    """Draws in two stages that reach where walks of the search had ended."""

    @property
    def resolution(self) -> float:  # type: ignore[override]
        """By the draws of the prior that were judged."""
        return 1.0 if self.searched is None else resolution(self.searched.cloud.screened)

    @property
    def left(self) -> bool:
        """Whether the user leaves everything to us."""
        return self.automatic and self.problem.free

    @property
    def seen(self) -> Rough | None:
        """What a search from the prior saw, where there was one."""
        parts = getattr(self.reference, "components", (self.reference,))
        return getattr(parts[0], "scouted", None)

    def find(self, method: str) -> Any:
        problem, clock = self.problem, self.problem.clock
        problem.progress.phase("search", "eval")
        # what is allowed are calls: what a checkpoint has of them costs nothing
        self.allowed = self._allowed()
        self.automatic = method == "auto" and not problem.annealed
        batches = SharedBatches(clock, problem.executor, problem.checkpoint, problem.progress)
        try:
            with evaluating(batches):
                found = self._search()
        finally:
            batches.save()
        # a search that time cut short leads elsewhere, and so do pieces that follow from it
        if found is not None:
            problem.checkpoint = problem.checkpoint.part(f"from {found.logz:.8g}")
        return found

    def _search(self, climbing: float = 0.3) -> Any:
        """What was found. Climbs that come before a search have the part ``climbing`` of the time:
        sixteen within a shell in eight dimensions took five seconds, and ended nowhere."""
        problem, policy = self.problem, EFFORTS[self.effort]
        sought, dear = problem.model.n <= NORMAL.scouted, self.allowed.left < LONGER
        if self.left and (dear or self.effort == "frugal") and sought:
            found = self._look(None, FRUGAL)
            if found.confirmed or self._over(found):
                self.fits = {"laplace": fit_density_laplace(problem.model, found.modes or ())}
                return drawn_from(found)
            policy = EFFORTS["normal"] if self.effort == "frugal" else policy
        if self.wanted not in _SEARCHED:
            self.report()
            given = fit_reference(problem.model, self.wanted, self.fits)
            whole = getattr(given, "blended", None)
            return whole if self.automatic and whole is not None and whole.converged else given
        if not (costly(problem.model) and sought):
            with also(problem.clock.part(climbing if sought else 1.0).expired):
                self.report()
        known = self.fits.get("laplace")
        found = self._look(None if known is None else known.modes, policy)
        if known is None:
            self.fits = {"laplace": fit_density_laplace(problem.model, found.modes or ())}
        if self.left and (found.confirmed or self._over(found)):
            return drawn_from(found)
        seed = search_seed(problem.seed)
        return fit_reference(
            problem.model, self.wanted, self.fits, seed=seed, policy=policy, found=found
        )

    def _over(self, search: Search) -> bool:
        """Whether draws of what was found, where they say anything, are all that evaluations, or
        time, are left for."""
        over = search.cut or self.problem.clock.stop() or self.allowed.left < LONGER
        return over and math.isfinite(search.sight.se)

    def _look(self, modes: Any, policy: Policy) -> Search:
        """A search from modes; what it saw is kept, unless it had no time."""
        its, seed = self.problem, search_seed(self.problem.seed) + self.repeated
        found = look(its.model, modes, seed, policy, self.allowed, its.clock, self._reached)
        if self.searched is None or found.cloud.kept.size:
            self.searched = found  # else it had no time, and the one before knows more
        return found

    def _reached(self, search: Search) -> bool:
        """Whether draws in two stages reach where walks of a search ended."""
        z, _, log_w = search.posterior()
        if self.left and search.model.vectorized and not search.unlooked:
            seen = placed(search.model, z), log_w
            self.staged = stages_for(self.problem, search.blended(), seen, search.ended)
            self.problem.progress.phase("search", "eval")
        return self.staged is not None

    def _allowed(self, used: float = 0.8, in_batches: int = 2**21) -> Meter | Allowance:
        """Evaluations that may be made: those that the part ``used`` of the seconds that are left
        allows, where these are fewer than a search takes; at most so many ``in_batches``."""
        clock, model = self.problem.clock, self.problem.model
        seconds = clock.remaining()
        if seconds is None:
            return clock.meter
        most = int(max(used * seconds / max(seconds_each(model), 1e-9), 1.0))
        few = most < min(in_batches if model.vectorized else LONGER, clock.meter.left)
        return Allowance(clock.meter, most) if few else clock.meter

    def run(self, problem: Problem, method: str, go: Callable[[Problem], Outcome]) -> Outcome:
        base = problem.reference
        # even weights say nothing of a neck that none of the draws came to: of a walk of six steps
        # whose scales are unknown they left out 3 to 9 % of Z
        blended, its = isinstance(base, Blended), self.searched
        unsure = isinstance(base, Mixture) or (blended and base.scouted is not None)
        sought = blended and problem.model.vectorized and not (its is None or its.unlooked)
        staged = self.staged if its is not None and its.confirmed else None
        if staged is None and (unsure or sought) and method == "auto":
            staged = stages_for(problem, base)
        if staged is not None:
            return over_stages(problem, staged)
        if isinstance(base, Blended):
            screened = 0 if its is None or self.effort == "frugal" else its.cloud.screened
            affordable = problem.clock.affordable() if its and its.cut else math.inf
            outcome = over_blend(problem, base, min(self.allowed.left, affordable), screened)
            if met_more(outcome, base) and not self.repeated:
                self.repeated = True
                with suppress(Stopped):
                    self.problem.reference = self.find(method) or base
                    again = self.run(replace(self.problem), method, go)
                    outcome = again if math.isfinite(again.logz_se) else outcome
            return outcome
        return super().run(problem, method, go)

    def settle(self, outcome: Outcome) -> None:
        # what an unfinished look left unclear is unclear to the fit it was judged by: draws in two
        # stages took its place
        seen, its = self.seen, self.searched
        if seen and (math.isfinite(seen.se) or not (outcome.staged or self._passed(outcome))):
            compare(seen, outcome)
        if its is not None and its.hidden > 0.0 and self.reference.name != "prior":
            hide(its.hidden, outcome)
        if its is not None and its.cloud.kept.size and isinstance(its.model.change, Transform):
            z, _, log_w = its.posterior()
            if told := its.model.change.ends(z, np.exp(log_w)):
                outcome.warn("cube-ends", told)
        super().settle(outcome)

    def _passed(self, outcome: Outcome, some: int = 64, part: float = 0.1) -> bool:
        """Whether annealing from the prior has so large a ``part`` of its draws above where an
        unfinished look ended, and time to say so: what that left open it has seen."""
        its, draws = self.searched, outcome.samples
        late = self.problem.clock.stop() and not self.problem.model.vectorized
        if late or its is None or draws is None or self.reference.name != "prior":
            return False
        return bool(np.mean(its.model.log_likelihood_at(draws[:some]) > its.cloud.level) > part)

    def best(self) -> tuple[str, float, float] | None:
        """A look that was finished, or draws of the prior, rather than Laplace's number."""
        found, its, laplace = self.seen, self.searched, super().best()
        if found is not None and math.isfinite(found.se):
            return "a look from the prior", found.logz, found.se
        if its is not None and math.isfinite((own := its.rough()).logz):
            se = math.hypot(its.policy.rough, own.se, math.log1p(-its.hidden))
            # draws exceed Z by e^a once in e^a times: a number below theirs is none
            if laplace is None or se < math.inf or own.logz > laplace[1]:
                return f"{own.n} draws, weighted", own.logz, se if se < math.inf else math.nan
        return laplace


def hide(share: float, outcome: Outcome) -> None:
    """A warning, and an error bar as wide, where climbs from anywhere end in modes unknown."""
    more = -math.log1p(-share)
    text = f"about {100 * share:.2g} % of the last climbs ended in modes that nobody knew: log Z "
    text += f"may be {more:.2g} nats higher or more; the error bar is as wide as that"
    outcome.doubt("modes-missed", text, more)


def seconds_each(model: DensityModel, rows: int = 64, soon: float = 0.03) -> float:
    """What an evaluation takes, at most so many ``rows`` at a time, and as many as are done
    ``soon``, in seconds: a prior of eleven SciPy distributions takes 7 ms of one row, and .1 of
    each of 64. The median of all but the first, which may be slow; of a density that takes batches
    the least, as one of another size may be compiled first."""
    times, n = [], 1
    for x in model.probes():
        started = time.perf_counter()
        model.log_prob(np.tile(x, (n, 1)))
        times.append((time.perf_counter() - started) / n)
        n = int(np.clip(soon / max(times[-1], 1e-9), 1, rows))
    return float(min(times) if model.vectorized else np.median(times[1:] or times))


def compare(seen: Rough, outcome: Outcome, telling: float = 0.3) -> None:
    """A warning, and an error bar as wide as the gap, where a look from the prior saw clearly
    more, or came to its end before it could say that there is not more. One that came to its end
    with an error so ``telling`` vouches for the log Z that it saw: it shares nothing with
    annealing but the density."""
    if np.isnan(outcome.logz):
        return
    se, gap = float(np.nan_to_num(outcome.logz_se)), seen.logz - outcome.logz
    enough, code, hint = SURE * np.hypot(seen.se, se), "scout-saw-more", ""
    if seen.se < telling and abs(gap) < enough:
        outcome.unsay("poor-reference")
    told = f"sees log Z = {seen.logz:.1f} ± {seen.se:.1f}: a part of the posterior may be missing"
    if not np.isfinite(seen.se):
        gap, enough = float(np.logaddexp(0.0, seen.missing - outcome.logz)), se
        code, hint = "search-unfinished", " (effort='thorough' looks ten times as long)"
        told = f"ended before the top: by what it saw log Z may be {gap:.2g} nats higher"
    if gap > enough:
        text = f"a look from the prior, which shares nothing with this estimate, {told}; "
        outcome.doubt(code, text + f"the error bar is as wide as the gap{hint}", gap)

"""Who decides what is done about a model, and what its answer is worth.

A call has one referee. It *finds* a reference, *runs* the method over it, and *settles* the
outcome: warnings, the best answer there is where time was up, and what the error bar has to hold
beyond the spread of islands (:func:`.doubts.widen`). Latent Gaussian models and softmax have the
one here; that of densities, which have to be searched first, is :mod:`.density`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..approximations.mixture import Mixture
from ..execution.clock import Stopped, interruptible, within
from ..execution.meter import phase
from ..messages import Message
from ..models.density.functions import COARSE
from ..paths.families import family, fit_reference, search_seed
from .base import Outcome, Problem, stopped
from .doubts import Doubt, widen
from .mixture import over_components
from .registry import METHODS

_REFERRED = ("ep", "fitted", "gaussian", "mixture", "prior")  # references whose doubts are told
_OF_EP = {"ep-sites-skipped"}  # doubts about its own log Z, which is not the answer
_OVER = ("no-estimate", "approximation-only")  # warnings where there is a better answer since
_ALONE = ("exact", "orthant", "sequential")  # methods that do not rest on a reference


class Referee:
    """Of models that are not searched: EP, Laplace or the prior is where they start."""

    def __init__(self, problem: Problem, wanted: Any, effort: str) -> None:
        self.problem, self.wanted, self.effort = problem, wanted, effort
        self.kind = family(problem.model)
        self.fits: dict[str, Any] = {}
        self.doubts: list[Message] = []

    automatic = False
    """Whether how to integrate a density is left to us, if not from what."""
    resolution = 0.0
    """Prior mass of a region that a search would have met with 95 %; 0 where none is needed."""

    @property
    def reference(self) -> Any:
        """What was found, or None when there was no time for it."""
        return self.problem.reference

    def answer(self, method: str, options: Mapping[str, Any]) -> Outcome:
        """The outcome of a method, settled."""
        if method in self.kind.reported:
            self.report()
            outcome = Outcome(method, samples=np.zeros((0, 0)))
            if method in self.fits:
                fit = self.fits[method]
                outcome.logz, outcome.warnings = fit.logz, list(fit.warnings)
        else:
            with interruptible(), suppress(Stopped):
                self.problem.reference = self.find(method)
            with interruptible(self.problem.clock):
                outcome = self._over_reference(method, options)
        self.settle(outcome)
        return outcome

    def report(self) -> None:
        """The approximations that every result shows beside its own estimate, if there is time."""
        with interruptible():
            for name in self.kind.reported:
                with suppress(Stopped):
                    self.fits[name] = fit_reference(self.problem.model, name, self.fits)

    def find(self, method: str) -> Any:
        """The reference."""
        self.report()
        seed = search_seed(self.problem.seed)
        return fit_reference(self.problem.model, self.wanted, self.fits, seed=seed)

    def _over_reference(self, method: str, options: Mapping[str, Any]) -> Outcome:
        """The method's own work, or what an interrupt leaves of it, and what its base tells."""
        if self.reference is None:
            return stopped(method)
        if self.problem.move.riemannian and isinstance(self.reference, Mixture):
            self.problem.reference, self.doubts = self.reference.heaviest()
        problem = replace(self.problem)
        try:
            with within(problem.clock.deadline), phase("pilot"):
                outcome = self.run(problem, method, partial(METHODS[method], **options))
        except Stopped:
            outcome = stopped(method)
        except KeyboardInterrupt:
            problem.clock.interrupted.set()
            text = "interrupted before there was an estimate"
            outcome = Outcome(method, warnings=[Message("interrupted", text)])
        finally:
            problem.checkpoint.save()
        outcome.warnings += problem.checkpoint.warnings
        base = self.reference
        if base.name in _REFERRED or not base.converged:
            outcome.notes += [w for w in base.warnings if w.code in _OF_EP]
            known = _OF_EP | {"poor-reference"} if outcome.staged else _OF_EP  # a better one
            outcome.warnings[:0] = [w for w in base.warnings if w.code not in known]
        outcome.warnings = [*self.doubts, *outcome.warnings]
        return outcome

    def run(self, problem: Problem, method: str, go: Callable[[Problem], Outcome]) -> Outcome:
        """The method over the reference, one component after the other if it is a mixture."""
        if isinstance(problem.reference, Mixture):
            return over_components(problem, problem.reference, go)
        return go(problem)

    def settle(self, outcome: Outcome) -> None:
        """Warnings and the error bar, once and for all."""
        alone = self.reference is not None and not isinstance(self.reference, Mixture)
        if alone and not outcome.staged and outcome.method not in _ALONE:
            outcome.doubts.append(Doubt(getattr(self.reference, "lost", 0.0)))
        self.approximate(outcome)
        widen(outcome, self.problem.target_se)
        refuse(outcome, self.kind.ceiling(self.problem.model), self.problem.model)

    def approximate(self, outcome: Outcome, worse: float = 10.0) -> None:
        """The best approximation, for a call whose time was up before it had an answer, or where
        a method that we chose ended with an error so many times ``worse``."""
        clock = self.problem.clock
        if clock.meter.spent() and math.isnan(outcome.logz_se):
            text = f"max_evaluations={clock.meter.most} were used up before there was an estimate"
            outcome.unsay("out-of-evaluations")
            outcome.warn("out-of-evaluations", text)
        failed = clock.limited and not clock.interrupted.is_set() and math.isnan(outcome.logz_se)
        name, logz, se = self.best() or ("", math.nan, math.nan)
        better = failed and (se >= 0.0 or math.isnan(outcome.logz))
        if not (name and (better or (self.automatic and outcome.logz_se > worse * se))):
            return
        what = f"nothing was finished within {clock.limits}"
        if not failed:
            what = f"{outcome.method} ended at {outcome.logz:.3g} ± {outcome.logz_se:.2g}"
        outcome.logz, outcome.logz_se = logz, se
        outcome.unsay(*_OVER)
        what += f": log Z is that of {name}"
        if math.isnan(outcome.logz_se):
            what += ", an approximation without an error bar"
        outcome.warnings.insert(0, Message("approximation-only", what))

    def best(self) -> tuple[str, float, float] | None:
        """What is known without the method: a name, log Z and its standard error, NaN if none."""
        names = [name for name in self.fits if not math.isnan(self.fits[name].logz)]
        if not names:
            return None
        name = ([name for name in names if self.fits[name].converged] or names)[-1]
        return name, self.fits[name].logz, math.nan


def refuse(outcome: Outcome, highest: float, model: Any, errors: float = 5.0) -> None:
    """NaN and a warning for numbers that no log Z can be: ``errors`` standard errors, and
    rounding, above its highest value."""
    se = 0.0 if math.isnan(outcome.logz_se) else outcome.logz_se
    if outcome.logz > highest + 1e-6 + errors * se:
        what = f"log Z = {outcome.logz:.6g} of data whose log likelihood is {highest:.6g} at most"
    elif math.isinf(outcome.logz) or math.isinf(outcome.logz_se):
        what = f"log Z = {outcome.logz} ± {outcome.logz_se}"
    elif outcome.logz < -COARSE:
        what = f"log Z = {outcome.logz:.3g}, where doubles are nats apart (subtract a constant)"
    else:
        return
    outcome.logz = outcome.logz_se = math.nan
    far = f"; {model.suspect}" if model.suspect else ""
    text = f"the numbers failed: they gave {what}; scale or jitter are extreme{far}"
    outcome.warn("impossible", text)

r"""A scout: a short tempered run from the prior to what no component of a mixture has a claim to.

It shares nothing with the references but that it is kept away from where they are: the prior is
the mixture's last component, and a climb from there to its share
(:mod:`evidence.approximations.mixture`) ends where the others do not reach. Modes found there
become components. It estimates nothing: :mod:`evidence.methods.mixture` does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .. import moves
from ..approximations.mixture import Mixture
from ..execution.clock import Stopped
from ..messages import Message
from ..numerics.arrays import Array, Rng
from ..paths.families import family, is_stepped, make_path
from .plan import Pilot, Plan

STRANGE = np.log(0.01)  # of Z, outside all modes, from which on one looks again


def unexplained(log_share: float, much: float = 0.2) -> list[Message]:
    """A warning, where ``much`` of the posterior (the share as a log) only the scout knows."""
    if not log_share > np.log(much):
        return []
    text = (
        f"{100 * np.exp(min(log_share, 0.0)):.2g} % of the posterior lie where no mode was found: "
        "there may be more; method='smc' with reference='prior' is a cross-check"
    )
    return [Message("modes-missed", text)]


class Scouted(NamedTuple):
    """What a scout saw: how to climb, its share of log Z, roughly, and draws from it."""

    plan: Plan
    logz: float
    se: float
    draws: Array
    samples: Array
    """The same as what users call the parameters."""


def explore(
    mixture: Mixture, rng: Rng, stop: Callable[[], bool] = lambda: False, rounds: int = 3
) -> tuple[Mixture, Scouted | None]:
    """A mixture that covers what scouts see, and the last one's report: there are up to ``rounds``
    of them, each after new modes were found.

    Where the prior does not reach the posterior in a reasonable number of steps, or time is up,
    it is left out of the mixture and there is no report. Neither is there one of a density, whose
    mixture comes from a search, nor of a model that is drawn in steps: there draws of the prior
    say what its share is, and a :func:`scout` only where they cannot be guided.
    """
    extend = family(mixture.model).extend
    if extend is None or mixture.components[-1].name != "prior" or is_stepped(mixture.model):
        return mixture, None
    for _ in range(rounds):
        scouted = scout(mixture, rng, stop)
        if scouted is None:
            return mixture.without_last(), None
        if scouted.logz - mixture.logz < STRANGE:
            break
        extended = extend(mixture, scouted.draws)
        if len(extended.components) == len(mixture.components):
            break
        mixture = extended
    return mixture, scouted


def scout(
    mixture: Mixture, rng: Rng, stop: Callable[[], bool], cess: float = 0.3,
    mixing: float = 0.6, max_moves: int = 4, most: int = 256, fewest: int = 64,
    memory: int = 2**16, steep: int = 24,
) -> Scouted | None:  # fmt: skip
    """A rough pilot of ``most`` particles, fewer where they have more than ``memory`` numbers,
    though not less than ``fewest``; with more than ``steep`` temperatures the prior does not reach
    the posterior. Further numbers are those of a :class:`.Pilot`."""
    path = make_path(mixture.components[-1])
    move = moves.get(family(mixture.model).move(mixture.model))
    move.prepare(path)
    steps = 0

    def enough() -> bool:
        nonlocal steps
        steps += 1
        return steps > steep or stop()

    try:
        particles = min(max(memory // path.n, fewest), most)
        pilot = Pilot(cess, mixing, max_moves, particles)
        climbed = pilot.climb(path, move, rng, stop=enough)
    except Stopped:
        return None
    # of weights that are all the same it is zero, but for rounding
    se = np.sqrt(max(climbed.plan.expected_variance(), 0.0) / particles)
    draws = move.latent(path, climbed.state)
    return Scouted(climbed.plan, climbed.log_z, float(se), draws, path.parameters(draws))

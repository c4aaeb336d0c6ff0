"""Jumps between modes leave the target as it is, and lead everywhere; scouts find what is left."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from covering import seldom
from mode_problems import two_groups, uneven_groups
from scipy.stats import norm

from evidence import moves
from evidence.approximations.gp.modes import fit_mixture, mixture_of
from evidence.drivers.jumps import Jumps
from evidence.drivers.scout import explore

_ROWS = 20_000


@cache
def exact_draws(problem):
    """The truth and draws from the posterior: u from its grid; e one by one, from grids of their
    own, for which p is tabulated where there is a u."""
    truth, rng = problem(), np.random.default_rng(1)
    u = rng.choice(truth.grid, p=truth.density, size=_ROWS)
    places, place = np.unique(u, return_inverse=True)
    own = truth.model.K[0, 0] - truth.model.K[0, 1]
    e = np.sqrt(own) * np.linspace(-6.0, 6.0, 241)
    x = np.empty((_ROWS, truth.model.n))
    for n, y in enumerate(truth.model.y):
        at = places[:, None] + e
        ell = truth.model.likelihood.log_prob(at.ravel(), np.full(at.size, y)).reshape(at.shape)
        p = np.exp(ell - ell.max(axis=1, keepdims=True) - 0.5 * e**2 / own)
        up_to = np.cumsum(p, axis=1)[place]
        pick = rng.random(_ROWS) * up_to[:, -1]
        x[:, n] = u + e[(up_to < pick[:, None]).sum(axis=1).clip(0, e.size - 1)]
    return truth, x


@pytest.mark.parametrize(
    ("problem", "move"), seldom([(two_groups, "mgrad"), (uneven_groups, "elliptical")], 0)
)
def test_exact_draws_stay_exact(problem, move):
    (truth, x), rng = exact_draws(problem), np.random.default_rng(2)
    jumps, mover = Jumps(fit_mixture(truth.model)), moves.get(move)
    mover.prepare(jumps.path)
    state, before = mover.init(jumps.path, x), x.mean(axis=1)
    for _ in range(3):
        state = jumps(rng, mover, 1.0, state)
    after = mover.latent(jumps.path, state).mean(axis=1)
    moved = after != before
    assert moved.mean() > 0.5
    middle = float(np.sum(truth.density * truth.grid))
    wide = float(np.sum(truth.density * (truth.grid - middle) ** 2))
    for f in (np.abs, np.square, lambda a: a, lambda a: (np.abs(a - middle) > wide**0.5) * 1.0):
        difference = f(after) - f(before)
        z = difference.mean() / (difference.std() / np.sqrt(_ROWS) + 1e-300)
        assert 2.0 * norm.sf(abs(z)) > 1e-5


def test_chains_start_in_every_mode_in_proportion():
    jumps = Jumps(fit_mixture(two_groups().model))
    mover = moves.get("mgrad")
    state = jumps.start(np.random.default_rng(0), mover, 100)
    x = mover.latent(jumps.path, state)
    assert abs(int((x[:, 0] > 0.0).sum()) - 50) <= 1


def test_a_scout_finds_what_the_search_has_missed():
    truth = two_groups()
    whole = fit_mixture(truth.model)
    half = mixture_of([whole.components[0]])
    found, scouted = explore(half, np.random.default_rng(0))
    assert len(found.components) == 3
    assert scouted is not None
    assert scouted.logz < found.logz - 3.0
    assert found.logz == pytest.approx(truth.logz, abs=0.02)


def test_without_time_there_is_no_scout():
    mixture = fit_mixture(two_groups().model)
    found, scouted = explore(mixture, np.random.default_rng(0), lambda: True)
    assert scouted is None
    assert [component.name for component in found.components] == ["ep", "ep"]

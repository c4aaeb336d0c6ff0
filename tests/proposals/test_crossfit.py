"""Both halves: what they share, and what their average is worth."""

import numpy as np
import pytest

from evidence.proposals.crossfit import NAMES, cross_fit

D = 5


def log_density(x):
    return -0.5 * np.sum(x * x, axis=-1)


def fits(count, chains=4, draws=250, proposal="normal", bend=0.0, times=1):
    for seed in range(count):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((chains, draws, D))
        x[..., 0] += bend * (x[..., 1] ** 2 - 1.0)

        def density(x):
            straight = x[..., 0] - bend * (x[..., 1] ** 2 - 1.0)
            return log_density(np.concatenate([straight[..., None], x[..., 1:]], axis=-1))

        yield cross_fit(x, density(x), density, proposal, int(times * chains * draws), rng)


def z_of(made):
    return (made.logz - 0.5 * D * np.log(2 * np.pi)) / np.hypot(made.se_draws, made.se_proposal)


def test_halves_are_correlated_and_the_error_bar_counts_it():
    """In the family of the proposal what draws contribute is shared: beside few proposals, with
    which that is most of it, halves are correlated. 80 replications tell it within 4 se, and the
    error bar within 2.5; without the correlation it were 0.3 off."""
    made = list(fits(80, times=1 / 8))
    one, two = (np.array([fit.halves[i].bridge.logz for fit in made]) for i in (0, 1))
    assert np.corrcoef(one, two)[0, 1] == pytest.approx(0.8, abs=0.15)
    assert np.mean([half.shared for fit in made for half in fit.halves]) > 0.8
    assert np.sqrt(np.mean([z_of(fit) ** 2 for fit in made])) == pytest.approx(1.0, abs=0.2)


@pytest.mark.slow
def test_what_no_proposal_of_the_family_fits_is_not_shared():
    made = list(fits(30, bend=1.0))
    assert np.mean([half.shared for fit in made for half in fit.halves]) < 0.3
    assert np.sqrt(np.mean([z_of(fit) ** 2 for fit in made])) == pytest.approx(1.0, abs=0.37)


@pytest.mark.parametrize("proposal", sorted(set(NAMES) - {"scaled"}))
def test_every_family(proposal):
    """A z beyond 4.5 has a probability of 7e-6."""
    fit = next(fits(1, draws=1000, proposal=proposal, bend=0.4))
    assert abs(z_of(fit)) < 4.5
    assert fit.family == proposal or proposal == "auto"
    calls = sum(len(half.proposals) for half in fit.halves)
    assert calls == 4000

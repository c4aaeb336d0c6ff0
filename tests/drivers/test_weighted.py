"""Islands of guided draws: unbiased however they resample, honest about their own variance."""

from __future__ import annotations

import numpy as np
import pytest
from covering import seldom
from problems import LIKELIHOODS, covariance, exact_draws, log_z_by_quadrature, small_model

import evidence as ev
from evidence.approximations.reference import prior_reference
from evidence.drivers.weighted import Guided, Proposed, Resampling, islands, run_weighted
from evidence.proposals import guide as guiding
from evidence.statistics.diagnostics import log_mean
from evidence.statistics.resampling import SCHEMES

SEED = np.random.SeedSequence


@pytest.mark.parametrize(
    ("likelihood", "resampling"),
    [
        *(
            pytest.param(
                "probit", scheme, marks=() if scheme == "systematic" else pytest.mark.slow
            )
            for scheme in SCHEMES
        ),
        ("poisson(exposure=1.5)", None),
    ],
)
def test_unbiased_for_z_however_it_resamples(monkeypatch, likelihood, resampling):
    """1000 islands of 8 draws from the prior, resampled after every value if need be.

    z-score below 4.5, false alarm 7e-6 a case; the standard error is below 0.04.
    """
    monkeypatch.setattr(guiding, "_BLOCK", 1)
    model = small_model(likelihood)
    prepared = Guided.of(prior_reference(model))
    islands = run_weighted(prepared, 1000, 8, SEED(1), resampling=resampling)
    found = log_mean(islands.log_z[-1])
    assert abs(found.value - log_z_by_quadrature(model)) < 4.5 * found.se
    assert found.se < 0.04


def test_resampling_happens_and_helps(monkeypatch):
    """An uneven problem: weights that are never resampled scatter more."""
    model = ev.GPModel(K=covariance(60, 50.0), y=np.resize([9, 0, 0], 60), likelihood="poisson")
    prepared = Guided.of(prior_reference(model))
    spread = {}
    for resampling in (None, "systematic"):
        islands = run_weighted(prepared, 60, 64, SEED(2), resampling=resampling)
        spread[resampling] = islands.log_z[-1].std()
    assert spread["systematic"] < 0.9 * spread[None]


@pytest.mark.parametrize("resampling", ["multinomial", pytest.param(None, marks=pytest.mark.slow)])
def test_an_island_knows_its_variance(monkeypatch, resampling):
    """Mean of the islands' own variances against their spread: within 30 %."""
    monkeypatch.setattr(guiding, "_BLOCK", 2)
    model = ev.GPModel(K=covariance(12, 4.0), y=np.resize([4, 0, 1], 12), likelihood="poisson")
    prepared = Guided.of(prior_reference(model))
    islands = run_weighted(prepared, 300, 256, SEED(3), resampling=resampling)
    relative = np.exp(islands.log_z[-1] - islands.log_z[-1].max())
    spread = relative.var() / relative.mean() ** 2
    assert np.mean(islands.variance) == pytest.approx(spread, rel=0.3)


@pytest.mark.parametrize("likelihood", seldom(["probit", "poisson(exposure=1.5)"], 0))
def test_draws_survive_resampling(monkeypatch, likelihood):
    """Posterior means from 600 islands that resample after every value, z-scores below 5.

    From the prior, with data that contradict each other; islands count by their estimates.
    """
    monkeypatch.setattr(guiding, "_BLOCK", 1)
    model = small_model(likelihood)
    islands = run_weighted(
        Guided.of(prior_reference(model)), 600, 64, SEED(4), resampling="systematic", threshold=1.0
    )
    exact = exact_draws(np.random.default_rng(5), ev.fit_ep(model), 1.0, 20_000)
    share = np.exp(islands.log_z[-1] - islands.log_z[-1].max())
    share /= share.sum()
    for power in (1, 2):
        theirs = (exact - exact.mean(axis=0)) ** power
        per_island = ((islands.draws - exact.mean(axis=0)) ** power).mean(axis=1)
        mean = share @ per_island
        variance = share**2 @ (per_island - mean) ** 2 + theirs.var(axis=0) / len(theirs)
        assert (np.abs(mean - theirs.mean(axis=0)) < 5.0 * np.sqrt(variance)).all()


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_draws_are_posterior_draws(likelihood):
    """First and second moments against 5000 exact draws, z-scores below 5."""
    model = small_model(likelihood)
    result = ev.log_evidence(
        model, method="guided", n_islands=64, n_particles=64, random_seed=0, progressbar=False
    )
    exact = exact_draws(np.random.default_rng(1), ev.fit_ep(model), 1.0, 5000)
    centre = exact.mean(axis=0)
    for power in (1, 2):
        mine, theirs = (result.samples - centre) ** power, (exact - centre) ** power
        se = np.sqrt(mine.var(axis=0) / len(mine) + theirs.var(axis=0) / len(theirs))
        assert (np.abs(mine.mean(axis=0) - theirs.mean(axis=0)) < 5.0 * se).all()


@pytest.mark.slow
def test_islands_of_a_shared_net_know_their_spread():
    """Stated standard errors against the scatter of 40 runs; one island alone takes no net."""
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = ev.GPModel(X, np.where(X[:, 0] > 0.0, 1, -1), "9.0 * RBF(1.0)")
    words = {"method": "guided", "n_particles": 64, "progressbar": False}
    runs = [ev.log_evidence(model, n_islands=16, random_seed=i, **words) for i in range(40)]
    want = ev.log_orthant(model.K + np.eye(30), model.y, target_se=0.0005, random_seed=0)
    z = np.array([(r.logz - want.logp) / np.hypot(r.logz_se, want.se) for r in runs])
    assert 0.7 < np.sqrt(np.mean(z**2)) < 1.4  # 1.07 ± 0.12 are expected
    ones = [ev.log_evidence(model, n_islands=1, random_seed=i, **words) for i in range(40)]
    scatter, stated = np.std([r.logz for r in ones]), np.mean([r.logz_se for r in ones])
    assert 0.7 < stated / scatter < 1.4


@pytest.mark.slow
def test_many_values_against_minimax_tilting():
    """300 labels, log Z to 0.002 by both, which share truncated normals only."""
    X = np.random.default_rng(0).normal(size=(300, 2))
    model = ev.GPModel(X, np.where(X[:, 0] * X[:, 1] > 0.0, 1, -1), "20.0 * RBF(1.0)")
    result = ev.log_evidence(
        model, method="guided", target_se=0.002, random_seed=0, progressbar=False
    )
    want = ev.log_orthant(model.K + np.eye(300), model.y, target_se=0.004, random_seed=0)
    assert abs(result.logz - want.logp) < 4.5 * np.hypot(result.logz_se, want.se)
    assert not result.warnings


def test_other_models_are_sent_elsewhere():
    model = ev.DensityModel(lambda x: -0.5 * np.sum(x**2), 2)
    with pytest.raises(
        ValueError, match="needs a GPModel or a SparseModel, got a DensityModel; use method='smc'"
    ):
        ev.log_evidence(model, method="guided", reference="laplace", progressbar=False)


def test_islands_that_are_worth_little_say_so():
    """Sites of the prior against data that pull hard."""
    model = ev.GPModel(
        K=covariance(80, 400.0), y=np.resize([40.0, 0.0, 3.0], 80), likelihood="poisson"
    )
    result = ev.log_evidence(
        model, method="guided", reference="prior", n_islands=16, n_particles=64,
        random_seed=0, progressbar=False, resampling=None,
    )  # fmt: skip
    assert {"few-draws", "heavy-tail"} <= {warning.code for warning in result.warnings}


@pytest.mark.slow
def test_draws_of_a_net_are_still_independent():
    """One latent value: the mean of 1000 samples scatters as that of 1000 draws, over 20 seeds.

    A sum of 20 squares beyond 60: a false alarm in 10⁵.
    """
    model = ev.GPModel(K=[[4.0]], y=[1], likelihood="probit")
    words = {"method": "guided", "progressbar": False}
    samples = [ev.log_evidence(model, random_seed=s, **words).samples for s in range(20)]
    exact = exact_draws(np.random.default_rng(1), ev.fit_ep(model), 1.0, 100_000)[:, 0]
    z = [(x.mean() - exact.mean()) / (exact.std() / len(x) ** 0.5) for x in samples]
    assert np.sum(np.square(z)) < 60.0


class Halves:
    """Draws of two strata in turn, whose weights differ by far more than those within."""

    def weighted(self, rng, n):
        level = np.repeat([1.0, 3.0], n // 2)
        return np.zeros((n, 1)), np.log(level + 0.5 * rng.random(n))


def test_islands_of_a_mixture_count_what_components_differ_by_once():
    """Their border adds a fifth; counted draw by draw it would be fifty times too much."""
    islands = run_weighted(Proposed(Halves()), 400, 512, SEED(0))
    z = np.exp(islands.log_z[-1])
    assert 0.8 < islands.variance.mean() / (z.var() / z.mean() ** 2) < 1.6


class Walk:
    """Weights that gather in three stages; every draw remembers the island it began in."""

    log_z0 = 0.5

    def __init__(self, islands):
        self.islands = islands

    def draw(self, n, rng, between):
        log_w, home = np.zeros(n), np.arange(n) // (n // self.islands)
        for spread in (0.7, 0.9, 0.9):
            log_w += rng.normal(-0.5 * spread**2, spread, n)
            if (chosen := between(log_w)) is not None:
                home = home[chosen]
        return home[None], log_w

    def latent(self, drawn, kept, rng):
        return drawn[:, kept].T


def alike(count, n, rng):
    return Resampling(Walk.log_z0, (count, n), rng, "systematic")


@pytest.mark.slow
def test_islands_side_by_side_are_those_alone():
    rng, count, n = np.random.default_rng(0), 1000, 32
    log_z, ess, variances, _, draws = islands(Walk(count), alike(count, n, rng), 8)
    np.testing.assert_array_equal(draws[:, :, 0], np.repeat(np.arange(count)[:, None], 8, 1))
    one = [islands(Walk(1), alike(1, n, rng), 8) for _ in range(count)]
    alone = np.array([z for (z,), *_ in one])
    for z in (np.exp(log_z - 0.5), np.exp(alone - 0.5)):
        assert abs(z.mean() - 1.0) < 4.0 * z.std() / np.sqrt(count)
    assert np.std(log_z) == pytest.approx(np.std(alone), rel=0.15)
    told = np.mean([v for _, _, (v,), *_ in one])
    assert np.mean(variances) == pytest.approx(told, rel=0.1)
    assert np.mean(ess) == pytest.approx(np.mean([e for _, (e,), *_ in one]), rel=0.1)

"""Few data under many hyperparameters: EP's evidence as a density, and how far it is off."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from scipy.special import log_expit, logsumexp

import evidence as ev
from evidence.execution.clock import Stopped
from evidence.hyper.direct import EPEvidence, density_over
from evidence.results.evidence import EvidenceResult
from evidence.verbs.integrate import _corrected, chosen_priors

X, Y = np.array([[0.0], [0.7]]), np.array([1, -1])
KERNEL = "1.0 * RBF(1.0) * ExpSineSquared(1.0, 3.0)"
PRIORS = {
    "k1__k1__constant_value": stats.lognorm(0.7),
    "k1__k2__length_scale": stats.lognorm(0.7),
    "k2__length_scale": stats.lognorm(0.7),
    "k2__periodicity": stats.expon(scale=2.0),
}


def log_z_of_two(variance, correlation, order=100):
    """log Z of the two labels at each of many θ, by Gauss and Hermite."""
    z, w = np.polynomial.hermite_e.hermegauss(order)
    one, two = (part.ravel() for part in np.meshgrid(z, z))
    log_w = np.log(np.outer(w, w).ravel() / np.sum(w) ** 2)
    sd, rest = np.sqrt(variance)[:, None], np.sqrt(1.0 - correlation**2)[:, None]
    x = np.stack([sd * one, sd * (correlation[:, None] * one + rest * two)])
    return logsumexp(log_expit(Y[:, None, None] * x).sum(axis=0) + log_w, axis=1)


def correlations(length, smooth, period):
    away = X[1, 0] - X[0, 0]
    return np.exp(
        -0.5 * (away / length) ** 2 - 2.0 * (np.sin(np.pi * away / period) / smooth) ** 2
    )


def test_few_data_under_many_hyperparameters_are_a_density_by_ep():
    """All others are not: three hyperparameters, many data, likelihoods with several modes."""
    model = ev.GPModel(X, Y, KERNEL, likelihood="logit")
    density = density_over(model, chosen_priors(model, PRIORS, ()))
    assert isinstance(density.functions.logdensity, EPEvidence)
    three = {name: PRIORS[name] for name in list(PRIORS)[:3]}
    assert density_over(model, chosen_priors(model, three, ["k2__periodicity"])) is None
    many = ev.GPModel(np.arange(65.0)[:, None], np.ones(65), KERNEL, likelihood="logit")
    assert density_over(many, chosen_priors(many, PRIORS, ())) is None
    more = ev.GPModel(many.X, many.y, f"2.0 * RBF(9.0) + {KERNEL}", likelihood="logit")
    every = dict.fromkeys(more.hyperparameters.names, stats.lognorm(0.7))
    assert density_over(more, chosen_priors(more, every, ())) is not None
    robust = ev.GPModel(X, Y, KERNEL, likelihood="student_t")
    assert (
        density_over(
            robust, chosen_priors(robust, PRIORS, ["likelihood__df", "likelihood__scale"])
        )
        is None
    )


@pytest.mark.parametrize("word", ["n_particles", "n_islands", "n_draws"])
def test_numbers_are_for_islands_over_hyperparameters(word, monkeypatch):
    """Annealing of EP's evidence by so many particles took minutes."""
    asked = {}

    def density(model, priors, **words):
        asked.update(words)
        raise Stopped

    monkeypatch.setattr("evidence.verbs.integrate.density_over", density)
    model = ev.GPModel(X, Y, KERNEL, likelihood="logit")
    with pytest.raises(Stopped):
        ev.integrated_evidence(model, PRIORS, progressbar=False, **{word: 2})
    assert asked == {"by_ep": (0, 0)}
    asked.clear()
    with pytest.raises(Stopped):
        ev.integrated_evidence(model, PRIORS, progressbar=False)
    assert asked == {}


def test_gaps_are_unbiased():
    """E exp(gap) = Z / Z_EP, 4 sd."""
    model = ev.GPModel(X, Y, KERNEL, likelihood="logit")
    evidence = EPEvidence(model, chosen_priors(model, PRIORS, ()))
    theta = np.array([25.0, 2.0, 2.0, 2.5])
    truth = log_z_of_two(theta[:1], correlations(*theta[1:, None]))[0] - evidence(theta)
    ratio = np.exp(evidence.gaps(np.tile(theta, (400, 1)), np.random.default_rng(0), 32) - truth)
    noise = ratio.std() / np.sqrt(400)
    assert abs(ratio.mean() - 1.0) < 4.0 * noise < 0.5 * abs(truth)  # EP is off by more


def found(logz, logz_se):
    return EvidenceResult("importance", logz, logz_se, (), {}, {}, islands=np.array([1.0, 2.0]))


def test_evidence_is_corrected_by_the_mean_of_ratios():
    evidence = SimpleNamespace(gaps=lambda rows, rng: np.log(rows[:, 0]))
    corrected = _corrected(found(-3.0, 0.3), evidence, np.array([[1.0], [3.0]]), None)
    assert corrected.logz == pytest.approx(-3.0 + np.log(2.0))
    assert corrected.logz_se == pytest.approx(np.hypot(0.3, 0.5))  # sd √2 of two, about 2
    assert corrected.islands == pytest.approx(np.array([1.0, 2.0]) + np.log(2.0))


def test_without_ratios_it_is_an_approximation():
    def gaps(rows, rng):
        raise Stopped

    corrected = _corrected(found(-3.0, 0.3), SimpleNamespace(gaps=gaps), np.ones((2, 1)), None)
    assert (corrected.logz, np.isnan(corrected.logz_se)) == (-3.0, True)
    assert corrected.warnings[0].code == "approximation-only"


@pytest.mark.slow
def test_a_period_among_four_hyperparameters():
    """By draws of the prior; of four counts a surrogate took five minutes: ± .55."""
    rng, n = np.random.default_rng(0), 20_000
    theta = [PRIORS[name].rvs(n, random_state=rng) for name in PRIORS]
    parts = np.array_split(np.arange(n), 200)
    log_z = np.concatenate(
        [log_z_of_two(theta[0][k], correlations(*(t[k] for t in theta[1:]))) for k in parts]
    )
    z = np.exp(log_z - log_z.max())
    truth, se = log_z.max() + np.log(z.mean()), z.std() / z.mean() / np.sqrt(n)
    model = ev.GPModel(X, Y, KERNEL, likelihood="logit")
    words = dict(random_seed=0, progressbar=False)
    result = ev.integrated_evidence(model, PRIORS, **words)
    assert abs(result.logz - truth) < 4.0 * np.hypot(result.logz_se, se) < 0.25
    assert not result.warnings

"""Effects of groups that are integrated one by one, where likelihoods have several modes."""

import numpy as np
import pytest
from numpy.polynomial.legendre import leggauss
from scipy import stats
from scipy.special import gammaln

import evidence as ev
from evidence.hyper.direct import density_over
from evidence.hyper.effects import EffectsIntegrated
from scripts.catalogue.hyperparameters import random_hyperparameters
from scripts.catalogue.marginals import count_groups, student_groups

G = np.repeat(np.arange(5), [3, 2, 1, 3, 2])
Y = np.array([-2.1, 0.2, 0.7, 1.3, -0.9])[G]
Y = Y + 0.02 * stats.t(3).rvs(G.size, random_state=1)
X = np.random.default_rng(2).standard_normal(G.size)


def model_of(formula, held=(), **priors):
    data = {"y": Y, "x": X, "g": G}
    words = {
        "sd(1|g)": stats.halfnorm(scale=2.0),
        "likelihood__scale": stats.halfcauchy(scale=1.0),
    }
    common = {name: priors.pop(name) for name in ("Intercept", "x") if name in priors}
    made = ev.from_formula(formula, data, likelihood="student_t", priors=common | words | priors)
    return (
        made.at(dict(held)).with_priors(words | priors, fixed=list(dict(held))) if held else made
    )


@pytest.mark.parametrize("noise", [1e-3, 0.05, 30.0])
@pytest.mark.parametrize("tau", [1e-4, 1.5, 200.0])
def test_density_is_the_product_of_integrals_over_effects(tau, noise):
    """Groups of one to three data, whose peaks are apart or together, by a finer rule."""
    model = model_of("y ~ x + (1|g)", Intercept=stats.norm(0.0, 2.0), x=stats.norm(0.0, 0.5))
    density = density_over(model, model.priors)
    assert isinstance(density.functions.logdensity, EffectsIntegrated)
    z, df = np.array([0.4, -1.1]), 3.5
    eta = 2.0 * z[0] + 0.5 * z[1] * X
    theta = {"sd(1|g)": tau, "df": df, "scale": noise}
    row = np.r_[z, [theta[name] for name in model.priors.names]]
    (nodes, weights), total = leggauss(30), 0.0
    for group in range(5):
        away = (Y - eta)[group == G]

        ladder = np.r_[0.0, 0.5, 1.0, 2.0, 5.0, 12.0, 40.0, 200.0, 1e3, 1e4]
        ladder = np.r_[-ladder[::-1], ladder]
        places = np.sort(np.r_[tau * ladder, (away[:, None] + noise * ladder).ravel()])
        half = 0.5 * np.diff(places)[:, None]
        b = (places[:-1, None] + half * (1.0 + nodes)).ravel()
        log_p = stats.t(df, scale=noise).logpdf(away[:, None] - b).sum(axis=0)
        log_p += stats.norm(0, tau).logpdf(b) + np.log((half * weights).ravel() + 1e-300)
        total += np.logaddexp.reduce(log_p)
    assert density.functions.logdensity(row[None])[0] == pytest.approx(total, abs=1e-4)


@pytest.mark.parametrize("shape", [0.08, 1.7])
@pytest.mark.parametrize("tau", [0.2, 1.5, 12.0])
@pytest.mark.parametrize("family", ["hurdle_negative_binomial", "zero_inflated_negative_binomial"])
def test_counts_that_have_no_peak(family, tau, shape):
    """Behind a hurdle zeros say nothing of a mean, and ones are the likelier the smaller it is."""
    y, g = np.array([0, 0, 0, 1, 1, 0, 5, 1, 1]), np.repeat([0, 1, 2, 3], [3, 3, 2, 1])
    model = ev.from_formula("y ~ 1 + (1|g)", {"y": y, "g": g}, likelihood=family)
    density = density_over(model, model.priors)
    assert isinstance(density.functions.logdensity, EffectsIntegrated)
    theta = {"sd(1|g)": tau, "shape": shape, "hu": 0.3, "zi": 0.3}
    row = np.r_[0.7, [theta[name] for name in model.priors.names]]
    common = model.terms[0]
    intercept = common.mean[0] + 0.7 * common.sd[0]
    half, (nodes, weights), total = 0.05, leggauss(8), 0.0
    u = (np.arange(-12.0, 12.0, 2 * half)[:, None] + half * (1.0 + nodes)).ravel()
    ratio = intercept + tau * u - np.log(shape)  # of mean and shape, its log
    none = -shape * np.logaddexp(0.0, ratio)
    for group in range(4):
        log_p = stats.norm.logpdf(u) + np.log(half * np.tile(weights, u.size // nodes.size))
        for count in y[g == group]:
            own = gammaln(count + shape) - gammaln(shape) - gammaln(count + 1.0)
            own = own + none + count * (ratio - np.logaddexp(0.0, ratio))
            if family.startswith("hurdle"):
                behind = np.log(0.7) + own - np.log(-np.expm1(none))
                log_p += behind if count else np.log(0.3)
            else:
                inflated = np.log(0.7) + own
                log_p += inflated if count else np.logaddexp(inflated, np.log(0.3))
        total += np.logaddexp.reduce(log_p)
    assert density.functions.logdensity(row[None])[0] == pytest.approx(total, abs=1e-5)


@pytest.mark.parametrize("extreme", [0.0, 1e-300, 1e300, np.inf, np.nan])
@pytest.mark.parametrize("family", ["student_t", "hurdle_negative_binomial"])
def test_values_where_numbers_end_have_no_density_and_end_nothing(family, extreme):
    y, g = np.array([0, 2, 1, 3, 0, 1]), np.repeat([0, 1, 2], 2)
    model = ev.from_formula("y ~ 1 + (1|g)", {"y": y, "g": g}, likelihood=family)
    density = density_over(model, model.priors).functions.logdensity
    usual = np.full(1 + len(model.priors), 0.5)
    for row in np.where(np.eye(usual.size), extreme, usual):
        before, last = density(np.array([usual, row]))
        assert before > -np.inf
        assert not np.isnan(last)


@pytest.mark.slow
def test_narrow_scatter_about_groups_has_an_answer():
    """By the joint density this took minutes, or ended without an answer."""
    model = model_of("y ~ 0 + (1|g)", {"likelihood__df": 3.0})
    t = np.linspace(np.log(1e-4), np.log(1e3), 90)
    tau, scale = (v.ravel() for v in np.meshgrid(np.exp(t), np.exp(t), indexing="ij"))
    log_p = student_groups(Y, G, 3.0, 5)(np.zeros(tau.size), tau, scale)
    log_p += stats.halfnorm(scale=2.0).logpdf(tau) + stats.halfcauchy(scale=1.0).logpdf(scale)
    exact = np.logaddexp.reduce(log_p + np.log(tau * scale)) + 2.0 * np.log(t[1] - t[0])
    result = ev.integrated_evidence(model, effort="frugal", random_seed=0, progressbar=False)
    assert abs(result.logz - exact) < 4.0 * result.logz_se
    assert result.logz_se < 0.1
    assert not result.warnings


def test_groups_of_many_data_are_left_to_ep():
    y = stats.t(4).rvs(1000, random_state=3)
    data = {"y": y, "g": np.repeat(np.arange(10), 100)}
    model = ev.from_formula("y ~ 1 + (1|g)", data, likelihood="student_t")
    assert density_over(model, model.priors) is None


@pytest.mark.slow
def test_enormous_counts_keep_their_digits():
    """EP's sites, ten orders stronger than the prior, leave half a nat to rounding, unsaid."""
    rng, g = np.random.default_rng(7), np.repeat(np.arange(4), 3)
    y = rng.poisson(1e7 * np.exp(0.3 * rng.standard_normal(4))[g])
    prior = stats.halfnorm(scale=20.0)
    priors = {"sd(1|g)": prior}
    model = ev.from_formula("y ~ 0 + (1|g)", {"y": y, "g": g}, likelihood="poisson", priors=priors)
    t = np.linspace(np.log(3.0), np.log(300.0), 400)
    with np.errstate(all="ignore"):
        log_p = count_groups("poisson", y, g, 28)(np.zeros(t.size), np.exp(t))
    exact = np.logaddexp.reduce(log_p + prior.logpdf(np.exp(t)) + t) + np.log(t[1] - t[0])
    result = ev.integrated_evidence(model, effort="frugal", random_seed=0, progressbar=False)
    assert abs(result.logz - exact) < 4.0 * result.logz_se + 1e-2
    assert result.logz_se < 0.06
    assert not result.warnings


def test_a_search_begins_from_the_data_s_scales_as_well():
    """Whatever priors of the sd of groups and of the noise expect."""
    model = model_of("y ~ 1 + (1|g)", {"likelihood__df": 3.0})
    guesses = density_over(model, model.priors).guesses
    assert guesses.shape == (9, 3)
    assert (guesses[:, 0] == 0.0).all()
    wanted = np.multiply.outer([1.0, 0.1, 0.01], [np.std(Y)] * 2)
    np.testing.assert_allclose(np.sort(guesses[::4, 1:], axis=0), np.sort(wanted, axis=0))


@pytest.mark.slow
def test_a_mode_that_only_data_know_of_is_found():
    """Where prior and data contradict each other: the sd of groups is at 25 of the deviations that
    its prior has, and a search that begins from the prior alone is 7.4 nats wrong for any seed."""
    case = random_hyperparameters(1025)
    result = ev.integrated_evidence(case.model, random_seed=0, progressbar=False)
    assert not result.warnings
    assert abs(result.logz - case.truth) < 4.0 * result.logz_se
    assert result.logz_se < 0.05

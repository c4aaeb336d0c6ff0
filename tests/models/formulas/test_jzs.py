"""Standardised effects: columns and their scales, units of other families, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import evidence as ev
from evidence.models.formulas.jzs import OfCauchy, Ratios
from evidence.models.formulas.priors import OfSquare

from .cases import N, indicators, table

DATA = table()
A, G = indicators(DATA.a, list("pqr")), indicators(DATA.g, list("abcd"))


def columns(model, name):
    """What data see of a term."""
    return model.A.toarray()[:, model.slices[name]]


def products(a, b):
    return (a[:, :, None] * b[:, None, :]).reshape(len(a), -1)


def model_of(formula, **words):
    return ev.from_formula(formula, DATA, **{"priors": "jzs", **words})


def test_factors_have_orthonormal_contrasts():
    """And their products the products of these; groups have one for each."""
    model = model_of("y ~ a * g + (1 + a | h)")
    a, g, ag = (columns(model, name) for name in ("a", "g", "a:g"))
    for X, D, k in ((a, A, 3), (g, G, 4)):
        C = np.linalg.lstsq(D, X, rcond=None)[0]
        np.testing.assert_allclose(C @ C.T, np.eye(k) - 1.0 / k, atol=1e-12)
    np.testing.assert_allclose(ag, products(a, g), atol=1e-12)
    H = indicators(DATA.h, sorted(set(DATA.h)))
    np.testing.assert_allclose(columns(model, "1|h"), H, atol=1e-12)
    np.testing.assert_allclose(columns(model, "a|h"), products(H, a), atol=1e-12)
    assert model.names[:4] == ("Intercept", "a[1]", "a[2]", "g[1]")


def test_covariates_have_variance_one_together():
    """Whatever their units and origins; with a factor they are centred before."""
    model = model_of("y ~ x + z + x:z + a:x + (1 + x | g)")
    X = columns(model, "x+z+x:z")
    np.testing.assert_allclose(X.T @ X, N * np.eye(3), atol=1e-9)
    np.testing.assert_allclose(X.sum(axis=0), 0.0, atol=1e-9)
    own = np.column_stack([DATA.x, DATA.z, DATA.x * DATA.z])
    own -= own.mean(axis=0)
    np.testing.assert_allclose(own @ np.linalg.lstsq(own, X, rcond=None)[0], X, atol=1e-9)
    mixed = columns(model, "a:x")
    np.testing.assert_allclose(mixed.T @ mixed, N * np.eye(2), atol=1e-9)
    moved = ev.from_formula("y ~ a:x", DATA.assign(x=3.0 * DATA.x + 50.0), priors="jzs")
    np.testing.assert_allclose(columns(moved, "a:x"), mixed, atol=1e-6)
    centred = (DATA.x - DATA.x.mean()) / DATA.x.std(ddof=0)
    np.testing.assert_allclose(columns(model, "x|g"), G * centred.to_numpy()[:, None], atol=1e-9)


def test_new_rows_have_the_same_columns():
    model = model_of("y ~ a * x + (a | g) + offset(e)")
    some = DATA.iloc[[7, 3, 20]]
    np.testing.assert_allclose(model.design(some).toarray(), model.A.toarray()[[7, 3, 20]])
    known, offset, new = model.rows_of(some.assign(g="new"), "prior")
    assert new is not None
    assert new.toarray().any()
    assert not known[:, model.slices["1|g"]].toarray().any()
    np.testing.assert_allclose(offset, some.e)


def test_scales_by_word_and_number():
    """Those of R's BayesFactor."""
    assert ev.jzs() == ev.jzs("medium")
    medium, wide, ultra = (ev.jzs(word) for word in ("medium", "wide", "ultrawide"))
    np.testing.assert_allclose(medium.fixed, 0.5)
    np.testing.assert_allclose(wide.covariates, 0.5)
    np.testing.assert_allclose(ultra.mean, np.sqrt(2.0))
    assert medium.random == wide.random == 1.0
    assert ev.jzs(random="wide").random < 1.0
    assert ev.jzs(0.3).fixed == ev.jzs(0.3).mean == 0.3
    assert ev.jzs("wide", covariates=0.1).covariates == 0.1


def test_priors_are_of_ratios_to_the_noise():
    model = model_of("y ~ a + x + (1 | g)", priors=ev.jzs("wide"))
    names = ("sd(a)", "sd(x)", "sd(1|g)", "sigma")
    assert model.hyperparameters.names == names
    assert isinstance(model.priors, Ratios)
    theta = np.log([0.7, 0.2, 1.5, 2.0])
    want = 0.0
    for t, r in zip(theta[:3], (np.sqrt(0.5), 0.5, 1.0), strict=True):
        g = np.exp(2.0 * (t - theta[3]))
        want += stats.invgamma(0.5, scale=0.5 * r**2).logpdf(g) + np.log(2.0 * g)
    np.testing.assert_allclose(model.priors.log_density(theta), want)
    assert model.priors.log_density(theta + 0.3) == pytest.approx(want)


def test_quick_quantiles():
    quick, slow = (kind(stats.invgamma(0.5, scale=0.3)) for kind in (OfCauchy, OfSquare))
    q = np.array([1e-12, 0.01, 0.5, 0.99])
    np.testing.assert_allclose(quick.ppf(q), slow.ppf(q), rtol=1e-9)
    np.testing.assert_allclose(quick.isf(q), slow.isf(q), rtol=1e-9)


@pytest.mark.parametrize(
    ("formula", "likelihood", "unit"),
    [
        ("b ~ a", "bernoulli", 2.0),  # half of them are ones
        ("k ~ a + offset(z)", "poisson", DATA.k.mean() ** -0.5),
        ("s | trials(n) ~ a", "binomial", None),
        ("y ~ a", "student_t", None),
    ],
)
def test_units_of_other_families(formula, likelihood, unit):
    """The information of one datum at the mean; of Poisson counts that is the mean, offset or
    not."""
    model = model_of(formula, likelihood=likelihood)
    prior = model.priors.distributions[0].prior
    if unit is None:
        s, n = DATA.s.sum(), DATA.n.sum()
        unit = (s * (1 - s / n) / N) ** -0.5 if likelihood == "binomial" else DATA.y.std()
    tolerance = 0.5 if likelihood == "student_t" else 1e-3
    assert prior.kwds["scale"] == pytest.approx(0.125 * unit**2, rel=tolerance)
    assert any("units" in note for note in model.notes)
    assert not model.measure
    assert model.table.prior["Intercept"].startswith("norm")


@pytest.mark.parametrize(
    ("formula", "words", "message"),
    [
        ("y ~ 0 + a", {}, "only y ~ 1 against y ~ 0"),
        ("y ~ 0 + (1 | g)", {}, "only y ~ 1 against y ~ 0"),
        ("b ~ 0", {"likelihood": "bernoulli"}, "only y ~ 1"),
        ("y ~ a + ar1(t)", {}, r"ar1\(t\) is not standardised"),
        ("b ~ a + rw1(t)", {"likelihood": "bernoulli"}, r"rw1\(t\) is not standardised"),
        ("y ~ x + I(2 * x)", {}, "can be written by the other columns"),
        ("y ~ a", {"likelihood": ev.likelihoods.Gaussian(noise_std=1.0)}, "its noise not given"),
        ("y ~ a", {"priors": "jsz"}, "did you mean 'jzs'"),
        ("y ~ a", {"priors": 3}, "priors must map names"),
    ],
)
def test_what_is_refused(formula, words, message):
    with pytest.raises(ev.InputError, match=message):
        model_of(formula, **words)


@pytest.mark.parametrize(
    "draw",
    [
        ev.simulate,
        ev.replicate,
        ev.bidirectional,
        lambda model: ev.calibrate([model], 20),
        lambda model: ev.calibrate([model], 20, simulate=lambda rng: model.y),
        lambda model: ev.calibrate([model_of("y ~ x", priors="scaled"), model], 2),
        lambda model: ev.design(model_of("y ~ x", priors="scaled"), model, 2),
        lambda model: ev.design(model, model, 2, simulate=lambda rng, name: model.y),
    ],
)
def test_nothing_is_drawn_from_a_prior_without_mass(draw):
    with pytest.raises(ev.InputError, match=r"has a flat mean and Jeffreys' variance, .* nothing"):
        draw(model_of("y ~ x"))


@pytest.mark.slow
def test_what_has_a_mass_is_drawn():
    """A posterior, and a prior of other families."""
    model = model_of("y ~ 1")
    result = ev.log_evidence(model, effort="frugal", random_seed=0, progressbar=False)
    made = ev.replicate(model, result, random_seed=0).replicated
    assert abs(made.mean() - DATA.y.mean()) < DATA.y.std()
    other = model_of("b ~ x", likelihood="bernoulli")
    assert ev.replicate(other, draws=3, random_seed=0).replicated.shape == (3, N)
    given = model_of("y ~ x + (1 | g)", priors={"var(1|g)": "invgamma(3, scale=2)"})
    assert ev.replicate(given, draws=3, random_seed=0).replicated.shape == (3, N)


@pytest.mark.parametrize("scale", ["wid", -1.0, np.nan, "1"])
def test_bad_scales(scale):
    with pytest.raises(ev.InputError, match="fixed must be"):
        ev.jzs(scale)


def test_today_s_defaults_have_a_name():
    assert model_of("y ~ x + (1 | g)", priors="scaled").table.equals(
        ev.from_formula("y ~ x + (1 | g)", DATA).table
    )

"""Likelihoods of several predictors made from a user's function."""

from __future__ import annotations

import math
import pickle
from functools import cache

import numpy as np
import pytest
from numba import njit
from scipy import integrate, stats
from scipy.special import logsumexp

import evidence as ev
from evidence.models.likelihoods import Gaussian, Predicted, from_function
from evidence.models.likelihoods.softmax import Softmax

pytestmark = pytest.mark.usefixtures("small_searches")
QUIET = {"random_seed": 0, "progressbar": False}


def noisy(eta, y, unit):
    mu, log_s = eta
    z = (y - mu * unit) * math.exp(-log_s) / unit
    return -0.5 * z * z - log_s - math.log(unit) - 0.9189385332046727


COMPILED = njit(noisy)


def third_of_three(eta, y):
    top = max(eta[0], max(eta[1], eta[2]))
    total = 0.0
    for one in eta:
        total += math.exp(one - top)
    return eta[int(y)] - top - math.log(total)


def draw(eta, rng, unit):
    return unit * (eta[0] + np.exp(eta[1]) * rng.standard_normal(eta[0].shape))


def moments(eta, unit):
    return unit * eta[0], unit**2 * np.exp(2.0 * eta[1])


def made(function=COMPILED):
    return _made(function)


@cache
def _made(function):
    return from_function(
        function, name="noisy", params={"unit": 1.0}, predictors=["mu", "log_s"],
        simulate=draw, conditional_moments=moments,
    )  # fmt: skip


rng = np.random.default_rng(0)
X = np.linspace(0.0, 1.0, 24)
Y = np.sin(6 * X) + np.exp(-1.5 + X) * rng.normal(size=X.size)


@pytest.mark.parametrize("function", [pytest.param(noisy, marks=pytest.mark.slow), COMPILED])
def test_derivatives_are_those_of_the_family(function):
    lik, same = made(function), Predicted(Gaussian(), ("noise_std",))
    eta = rng.normal(size=(3, 2, X.size))
    np.testing.assert_allclose(lik.log_probs(Y, eta), same.log_probs(Y, eta), rtol=1e-12)
    for found, want in zip(lik.slopes(Y, eta), same.slopes(Y, eta), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-7)
    for found, want in zip(lik.expand(Y, eta[0])[:3], same.expand(Y, eta[0])[:3], strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


def scaled(eta, y, unit):
    return COMPILED((eta[0] / unit, eta[1] / unit), y, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1e-9, 1e6])
def test_derivatives_where_predictors_have_units(unit):
    """Slopes of a function of η/unit are 1/unit times as steep."""
    own, lik = from_function(
        scaled, params={"unit": unit}, predictors=["a", "b"], check_derivatives=False
    ), made()  # fmt: skip
    eta = rng.normal(size=(2, X.size))
    found, want = own.expand(Y, unit * eta), lik.expand(Y, eta)
    np.testing.assert_allclose(unit * found.slope, want.slope, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(unit**2 * found.curvature, want.curvature, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_three_predictors():
    lik, same = from_function(third_of_three, predictors=list("abc"), example_y=[0, 1, 2],
                              check=lambda y: y), Softmax(("a", "b", "c"))  # fmt: skip
    y, eta = rng.integers(0, 3, 9).astype(float), rng.normal(size=(3, 9))
    found, want = lik.expand(y, eta), same.expand(y, eta)
    np.testing.assert_allclose(found.value, want.value, rtol=1e-12)
    np.testing.assert_allclose(found.slope, want.slope, atol=1e-7)
    np.testing.assert_allclose(found.curvature, want.curvature, atol=1e-6)


@pytest.mark.slow
def test_the_first_predictor_given_the_others():
    """Normal: closed forms; tilted by nodes and by quadrature."""
    lik, same = made(), Predicted(Gaussian(), ("noise_std",))
    further = rng.normal(size=(X.size, 1))
    m, v = np.zeros(X.size), np.full(X.size, 0.3)
    found, want = (one.tilted_first(3, Y, further, m, v) for one in (lik, same))
    np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-8)
    one = lik.given(further.T)
    for found, want in zip(
        one.tilted(Y, m, v), same.given(further.T).tilted(Y, m, v), strict=True
    ):
        np.testing.assert_allclose(found, want, rtol=1e-7, atol=1e-9)
    found, want = one.predictive(m, v), same.given(further.T).predictive(m, v)
    np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_evidence_by_fields_against_the_family():
    words = {"mean": {"log_s": -1.0}}
    own = ev.PredictorsModel(
        X[::3], Y[::3], {"log_s": "RBF(1.0)", "mu": "RBF(0.3)"}, likelihood=made(noisy), **words
    )
    assert own.predictors == ("mu", "log_s")
    assert "noisy" in repr(own)
    same = ev.PredictorsModel(
        X[::3], Y[::3], {"mu": "RBF(0.3)", "sigma": "RBF(1.0)"}, mean={"sigma": -1.0}
    )
    found, want = (ev.log_evidence(m, target_se=0.1, **QUIET) for m in (own, same))
    assert abs(found.logz - want.logz) < 4.5 * np.hypot(found.logz_se, want.logz_se)
    assert pickle.loads(pickle.dumps(own)).identity()[0].shape == own.identity()[0].shape


@pytest.fixture(scope="module")
def formula():
    data, words = (
        {"x": X[:12], "y": Y[:12]},
        {"mu": stats.norm(0, 1.5), "s": stats.norm(-0.5, 0.7)},
    )
    model = ev.from_formula(
        "y ~ 1", data, likelihood=made(), predictors={"log_s": "1"},
        priors={"Intercept": words["mu"], "log_s:Intercept": words["s"]},
    )  # fmt: skip
    return model, words


def test_evidence_by_a_formula_against_quadrature(formula, tmp_path):
    model, priors = formula
    assert model.names == ("Intercept", "log_s:Intercept")
    mu, s = np.meshgrid(np.linspace(-8, 8, 401), np.linspace(-5, 4, 301), indexing="ij")
    log_p = priors["mu"].logpdf(mu) + priors["s"].logpdf(s)
    for y in model.y:
        log_p += stats.norm.logpdf(y, mu, np.exp(s))
    top = log_p.max()
    inner = integrate.trapezoid(np.exp(log_p - top), s[0], axis=1)
    truth = top + np.log(integrate.trapezoid(inner, mu[:, 0]))
    found = ev.log_evidence(model, random_seed=1, progressbar=False)
    assert found.logz_se < 0.02
    assert abs(found.logz - truth) < 4.5 * found.logz_se
    found.save(tmp_path / "result.npz")
    assert ev.load(tmp_path / "result.npz").logz == found.logz


@pytest.mark.slow
def test_predictions_and_data_of_a_formula(formula):
    model, _ = formula
    posterior = ev.log_evidence(model, **QUIET)
    prediction = ev.predict(model, {"x": [0.0, 1.0]}, posterior=posterior)
    same = ev.from_formula("y ~ 1", {"x": X[:12], "y": model.y}, predictors={"sigma": "1"})
    want = ev.predict(same, {"x": [0.0, 1.0]}, posterior=posterior.samples)
    np.testing.assert_allclose(prediction.y_mean, want.y_mean, atol=0.05)
    np.testing.assert_allclose(prediction.y_var, want.y_var, rtol=0.1)
    np.testing.assert_allclose(prediction.log_density([0.5, 0.1]), want.log_density([0.5, 0.1]),
                               atol=0.05)  # fmt: skip
    drawn = ev.simulate(model, random_seed=0)
    assert drawn.y.shape == (12,)
    assert np.isfinite(ev.loo(model, **QUIET).elpd)


def test_words_of_a_formula_and_kernels():
    lik = made()
    for words, match in [
        ({}, "predictors= must say what explains log_s, '1' where .*'log_s' is missing"),
        ({"predictors": {"s": "x"}}, "'log_s' is missing"),
        ({"predictors": {"log_s": "x", "mu": "x"}}, "'mu' is no such one"),
    ]:
        with pytest.raises(ev.InputError, match=match):
            ev.from_formula("y ~ x", {"x": X, "y": Y}, likelihood=lik, **words)
    with pytest.raises(ev.InputError, match="names of predictors, 'mu', 'log_s', to kernels"):
        ev.PredictorsModel(X, Y, {"mu": "RBF(0.3)", "s": "RBF(1.0)"}, likelihood=lik)
    with pytest.raises(ev.InputError, match=r"data of noisy\(unit=1\) see mu, log_s, .*ev.Predic"):
        ev.GPModel(X, Y, "RBF(0.3)", likelihood=lik)
    one = from_function(lambda x, y: (-0.5 * (x - y) ** 2, y - x, -1.0, 0.0))
    with pytest.raises(ev.InputError, match=r"It has none, and is a function, which takes pred"):
        ev.PredictorsModel(X, Y, {"mu": "RBF(0.3)", "s": "RBF(1.0)"}, likelihood=one)


@pytest.mark.parametrize(
    ("function", "words", "match"),
    [
        (noisy, {"predictors": "mu"}, "predictors must be two or more different words"),
        (noisy, {"predictors": ["mu", "mu"]}, "two or more different words"),
        (noisy, {"predictors": ["mu", "log s"]}, "two or more different words"),
        (
            lambda eta, y: eta[5],
            {},
            r"Numba cannot compile f\(eta, y\) -> log p, eta a tuple of 2",
        ),
        (lambda eta, y: math.nan, {}, r"function: not finite at any of eta = -2.3 to 1.9 for y"),
    ],
)
def test_what_is_refused(function, words, match):
    with pytest.raises(ev.InputError, match=match):
        from_function(function, **({"predictors": ["mu", "log_s"]} | words))


def test_an_impossible_place_has_no_density():
    def half(eta, y):
        return math.log(eta[0]) - eta[0] * abs(y - eta[1]) if eta[0] > 0.0 else -math.inf

    lik = from_function(half, predictors=["rate", "middle"])
    found = lik.log_probs(np.zeros(2), np.array([[[1.0, -1.0], [0.5, 0.5]]]))
    assert found.tolist() == [[-0.5, -math.inf]]
    assert logsumexp(found) == -0.5

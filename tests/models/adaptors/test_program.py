"""What all programs have in common, and what is said where their packages are missing."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import evidence as ev
from evidence.models.adaptors.program import ProgramModel, Report, check_words

pytestmark = pytest.mark.usefixtures("small_searches")


def exponential(**words):
    """Two shares of one exponential rate: one coordinate, two parameters; Z = 1."""

    def logdensity(x):
        return x[:, 0] - np.exp(x[:, 0])

    def both(x):
        return logdensity(x), 1.0 - np.exp(x)

    report = Report(
        lambda x: np.exp(x) * np.array([0.25, 0.75]),
        lambda theta: np.log(theta.sum(axis=1, keepdims=True)),
        ("a", "b"),
    )
    functions = {"logdensity": logdensity, "value_and_grad": both}
    functions["hessian"] = lambda x: -np.exp(x)[:, :, None]
    functions["third"] = lambda x, W: -np.exp(x) * W[:, 0]
    return ProgramModel(functions, 1, report, "shares", ["a note"], **words)


@pytest.mark.parametrize("name", ["pymc", "bridgestan"])
def test_a_missing_package_is_named_with_its_extra(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    adaptor = {"pymc": ev.from_pymc, "bridgestan": ev.from_stan}[name]
    extra = {"pymc": "pymc", "bridgestan": "stan"}[name]
    with pytest.raises(ImportError, match=rf"pip install 'log-evidence\[{extra}\]'"):
        adaptor("parameters { real x; } model { }")


@pytest.mark.parametrize(("word", "said"), [("grad", "derives these"), ("prior", "has its own")])
def test_words_that_the_program_decides_are_refused(word, said):
    with pytest.raises(ValueError, match=f"{word}.*{said}"):
        check_words({word: None, "check": True}, "ev.from_pymc")


def test_parameters_may_be_more_than_coordinates():
    model = exponential(check=True, sampler=lambda rng, n: rng.random((n, 1)) * [1.0, 3.0])
    theta = np.array([[[1.0, 3.0], [0.5, 1.5]]])
    x = model.unconstrain(theta)
    assert x.shape == (1, 2, 1)
    np.testing.assert_allclose(model.constrain(x), theta, rtol=1e-14)
    model.check_derivatives(theta[0])
    draws = ev.sample(model, draws=100, tune=50, chains=2, random_seed=0, progressbar=False)
    assert draws.x.shape == (2, 100, 2)
    assert draws.names == ("a", "b")
    np.testing.assert_allclose(draws.x[..., 1], 3.0 * draws.x[..., 0], rtol=1e-12)


@pytest.mark.parametrize("method", ["importance", "smc"])
def test_evidence_with_a_report(method):
    """|z| < 5 for one seed: false alarms below 1e-5 if errors are normal."""
    model = exponential()
    result = ev.log_evidence(model, method=method, random_seed=1, progressbar=False)
    assert abs(result.logz) < 5.0 * result.logz_se + 1e-6
    assert result.samples.shape[1] == 2
    assert "a note" in result.notes


def test_posterior_draws_come_back_as_parameters():
    model = exponential()
    theta = np.random.default_rng(0).exponential(size=(64, 1)) * np.array([0.25, 0.75])
    result = ev.log_evidence(
        model, method="ais", direction="both", posterior=theta, random_seed=0, progressbar=False
    )
    assert abs(result.logz) < 5.0 * result.logz_se + 1e-6  # as above
    with pytest.raises(ValueError, match="posterior must be an array of shape"):
        ev.log_evidence(
            model, method="ais", direction="both", posterior=theta[:, :1], progressbar=False
        )


def test_what_unconstrain_refuses():
    model = exponential()
    with pytest.raises(ValueError, match="outside their bounds"):
        model.unconstrain([-1.0, 0.5])
    with pytest.raises(ValueError, match=r"shape \(…, 2\), in the order of model.names"):
        model.unconstrain([1.0])


def test_a_sampler_of_coordinates_is_refused():
    model = exponential(sampler=lambda rng, size: rng.standard_normal((size, 1)))
    with pytest.raises(ValueError, match=r"sampler.* must be .* shape \(\d+, 2\)"):
        ev.log_evidence(model, progressbar=False)


def test_it_says_what_it_is():
    model = exponential()
    assert model.describe()["density"] == "shares"
    assert repr(model) == "DensityModel(shares, dim=1)"

"""Formulas with predictors of a likelihood's parameters."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

import evidence as ev

pytestmark = pytest.mark.usefixtures("small_searches")

rng = np.random.default_rng(0)
N = 40
DATA = {"x": rng.normal(size=N), "g": [f"g{i % 8}" for i in range(N)]}
DATA["y"] = 1.0 + 0.5 * DATA["x"] + np.exp(-0.4 + 0.3 * DATA["x"]) * rng.normal(size=N)
DATA["count"] = rng.poisson(2.0, N) * (rng.random(N) < 0.6)
PRIORS = {"Intercept": "norm(0, 2)", "x": "norm(0, 1)"}


def evidence_of(formula, **words):
    model = ev.from_formula(formula, DATA, **words)
    return ev.log_evidence(model, random_seed=0, progressbar=False)


def test_names_and_priors():
    model = ev.from_formula(
        "y ~ x + (1 + x | g)", DATA, predictors={"sigma": "x + (1 + x | g)"},
        priors={"sigma:x": "norm(0, 0.5)", "sigma:var(1|g)": "expon(scale=2)", "cor(g)": "lkj(2)"},
    )  # fmt: skip
    assert model.names[:4] == ("Intercept", "x", "1|g[g0]", "x|g[g0]")
    where = model.slices["sigma ~ common"]
    assert model.names[where] == ("sigma:Intercept", "sigma:x")
    assert model.names[where.stop] == "sigma:1|g[g0]"
    prior = model.table.prior
    assert prior["sigma:x"] == "norm(0, 0.5)"
    assert prior["cor(1,x|g)"] != prior["sigma:cor(1,x|g)"]
    assert "sd(1|g)" in prior
    assert "sigma:sd(1|g)" in prior
    assert "sigma" not in prior
    assert repr(model).startswith("FormulaModel('y ~ x + (1 + x | g)', sigma ~ x + (1 + x | g),")
    assert model.describe()["formula of sigma"] == "x + (1 + x | g)"
    data_of_sigma = model.designs(ev.models.formulas.model.as_frame(DATA))[1].toarray()
    assert not data_of_sigma[:, : where.start].any()
    np.testing.assert_allclose(data_of_sigma[:, where], np.column_stack([np.ones(N), DATA["x"]]))


def test_a_constant_predictor_is_a_hyperparameter():
    """log sigma ~ N(m, s²) is sigma with a lognormal prior."""
    own = PRIORS | {"sigma:Intercept": stats.norm(-0.3, 0.8)}
    one = evidence_of("y ~ x", predictors={"sigma": "1"}, priors=own)
    same = PRIORS | {"sigma": stats.lognorm(0.8, scale=np.exp(-0.3))}
    other = evidence_of("y ~ x", priors=same)
    se = np.hypot(one.logz_se, other.logz_se)
    assert se < 0.02
    assert abs(one.logz - other.logz) < 4 * se


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_units_of_the_response(unit):
    """y in other units, and priors that know: log Z is less by N log(unit)."""
    one = evidence_of("y ~ x + (1 | g)", predictors={"sigma": "x"}, priors={"sd(1|g)": 0.5})
    model = ev.from_formula(
        "y ~ x + (1 | g)", DATA | {"y": unit * DATA["y"]}, predictors={"sigma": "x"},
        priors={"sd(1|g)": 0.5 * unit},
    )  # fmt: skip
    other = ev.log_evidence(model, random_seed=0, progressbar=False)
    assert not other.warnings
    se = np.hypot(one.logz_se, other.logz_se)
    assert abs(one.logz - other.logz - N * np.log(unit)) < 4.0 * se < 0.2


@pytest.mark.slow
def test_hyperparameters_beside_predictors():
    """Zero inflation by a predictor, the shape held; against a sum over zi."""
    own = PRIORS | {"shape": 2.0}
    words = {"likelihood": "zero_inflated_negative_binomial"}
    given = own | {"zi:Intercept": stats.norm(-0.5, 0.7)}
    result = evidence_of("count ~ x", predictors={"zi": "1"}, priors=given, **words)
    z, w = np.polynomial.hermite_e.hermegauss(7)
    held = [
        evidence_of("count ~ x", priors=own | {"zi": float(v)}, **words)
        for v in expit(-0.5 + 0.7 * z)
    ]
    truth = np.logaddexp.reduce([r.logz for r in held] + np.log(w / w.sum()))
    assert result.logz_se < 0.02
    assert abs(result.logz - truth) < 4 * np.hypot(result.logz_se, held[0].logz_se)


@pytest.mark.slow
def test_groups_and_integrated_hyperparameters(tmp_path):
    model = ev.from_formula("y ~ x + (1 | g)", DATA, predictors={"sigma": "x + (1 | g)"})
    result = ev.log_evidence(model, random_seed=0, progressbar=False, n_islands=8, effort="frugal")
    assert result.names == ("sd(1|g)", "sigma:sd(1|g)")
    assert 0.0 < result.logz_se < 0.15
    held = model.at({"sd(1|g)": 0.2, "sigma:sd(1|g)": 0.2})
    one = ev.log_evidence(held, random_seed=0, progressbar=False)
    other = ev.log_evidence(held, method="smc", random_seed=1, progressbar=False)
    assert abs(one.logz - other.logz) < 4 * np.hypot(one.logz_se, other.logz_se)
    draws = ev.sample(held, draws=50, tune=50, chains=2, random_seed=0, progressbar=False)
    assert draws.x.shape[-1] == model.n
    again = ev.log_evidence(held, random_seed=0, progressbar=False, checkpoint=tmp_path / "run")
    assert again.logz == one.logz


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ({"predictors": {"sigmoid": "x"}}, "gaussian has no parameter 'sigmoid' to predict"),
        ({"predictors": {"sigma": "sigma ~ x"}}, "predictors must map parameters"),
        ({"predictors": {"sigma": "z"}}, "data have no column 'z'"),
        ({"predictors": {"sigma": "x"}, "priors": "jzs"}, "are for one predictor"),
        ({"predictors": {"sigma": "x"}, "priors": {"sigma": 0.3}}, "there is no 'sigma'"),
        ({"predictors": {"sigma": "x"}, "priors": {"sigma:z": "norm(0, 1)"}}, "'sigma:z'"),
    ],
)  # fmt: skip
def test_errors(words, match):
    with pytest.raises(ev.InputError, match=match):
        ev.from_formula("y ~ x", DATA, **words)

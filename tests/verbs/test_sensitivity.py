"""What other priors would do to log Z: from one run, and computed anew with them."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
from covering import seldom
from scipy import stats

import evidence as ev
from evidence.verbs.sensitivity import Rescaled

pytest.importorskip("formulae")
pytestmark = pytest.mark.usefixtures("small_searches", "no_layout")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(4)
    x = rng.normal(size=40)
    return {"y": 0.5 + 0.8 * x + 0.5 * rng.normal(size=40), "x": x, "g": np.repeat(range(8), 5)}


PRIORS = {"Intercept": stats.norm(0, 2), "x": stats.norm(0.5, 1)}


def logz(data, priors, formula="y ~ x"):
    model = ev.from_formula(formula, data, priors=priors)
    held = dict.fromkeys(model.hyperparameters.names, 0.5)
    return ev.log_evidence(model.at(held), method="ep").logz


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("factor", [0.5, 3.0])
def test_common_effects_in_closed_form(data, name, factor):
    model = ev.from_formula("y ~ x", data, priors=PRIORS).at({"noise_std": 0.5})
    table = ev.prior_sensitivity(model, scale=[factor]).table
    prior = PRIORS[name]
    other = PRIORS | {name: stats.norm(prior.mean(), factor * prior.std())}
    truth = logz(data, other) - logz(data, PRIORS)
    assert table.change[name] == pytest.approx(truth, abs=1e-6)
    assert abs(truth) > 0.1


def log_logistic(u, y):
    return -np.logaddexp(0.0, -(2 * y - 1) * u)


def poisson(u, y):
    return stats.poisson.logpmf(y, np.exp(np.minimum(u, 600.0)))


@pytest.mark.parametrize(
    ("family", "log_p", "y", "sd"),
    seldom([
        ("bernoulli", log_logistic, [1] * 5, 2.5), ("bernoulli", log_logistic, [1] * 20, 10.0),
        ("poisson", poisson, [0] * 5, 10.0), ("poisson", poisson, [100, 120], 1.0),
    ], 0, 3),
)  # fmt: skip
def test_effects_that_are_not_normal(family, log_p, y, sd):
    """Half a prior, and a conflict with it: a normal posterior moved had changes of .1 to 120
    nats, some of the wrong sign, and no error bar."""
    priors = {"Intercept": stats.norm(0.0, sd)}
    model = ev.from_formula("y ~ 1", {"y": y}, likelihood=family, priors=priors)
    table = ev.prior_sensitivity(model, random_seed=0, scale=[0.1, 0.5, 2.0]).table

    def log_z(factor):
        u = np.linspace(-14.0, 14.0, 20_001) * sd * max(factor, 1.0)
        terms = stats.norm.logpdf(u, 0.0, sd * factor) + sum(log_p(u, each) for each in y)
        return np.logaddexp.reduce(terms) + np.log(u[1] - u[0])

    change = [log_z(factor) - log_z(1.0) for factor in table.factor]
    assert (np.abs(table.change - change) < 3.0 * table.se + 0.01).all()
    assert set(table.how) == {"anew"}
    assert (table.se < 0.5).all()


@pytest.mark.parametrize("name", ["Intercept", "x"])
def test_a_default_intercept_is_of_the_predictor_at_means(data, name):
    """Wide enough in the middle: the covariate centred by hand, with priors given."""
    away = data | {"x": np.asarray(data["x"]) + 30.0}
    model = ev.from_formula("y ~ x", away, priors={"noise_std": 0.5})
    table = ev.prior_sensitivity(model, scale=[3.0]).table
    middle = {"x": away["x"] - np.mean(away["x"]), "y": data["y"]}
    y, x = np.asarray(data["y"]), middle["x"]
    own = {"Intercept": [y.mean(), 2.5 * y.std()], "x": [0.0, 2.5 * y.std() / x.std()]}
    base = logz(middle, {key: stats.norm(*pair) for key, pair in own.items()})
    own[name][1] *= 3.0
    truth = logz(middle, {key: stats.norm(*pair) for key, pair in own.items()}) - base
    assert table.change[name] == pytest.approx(truth, abs=1e-6)


@pytest.mark.slow
def test_hyperparameters_from_their_draws_and_anew(data):
    model = ev.from_formula("y ~ x + (1 | g)", data, priors=PRIORS)
    table = ev.prior_sensitivity(model, random_seed=0, scale=[0.5, 2.0]).table

    sd, noise = np.geomspace(1e-3, 5, 28), np.geomspace(0.3, 0.9, 10)
    priors = dict(model.priors.items())
    z = np.array([
        [ev.fit_ep(model.at({"sd(1|g)": s, "noise_std": t})).logz for t in noise] for s in sd
    ])  # fmt: skip
    z += priors["sigma"].logpdf(noise) + np.log(noise)

    def integral(factor):  # over sd and noise, on a grid
        scaled = Rescaled(priors["sd(1|g)"], factor)
        return np.logaddexp.reduce(z + (scaled.logpdf(sd) + np.log(sd))[:, None], axis=None)

    base = integral(1.0)
    for factor in (0.5, 2.0):
        row = table[(table.index == "sd(1|g)") & (table.factor == factor)].iloc[0]
        assert row.change == pytest.approx(integral(factor) - base, abs=0.02 + 4.0 * row.se)


@pytest.fixture(scope="module")
def comparison(data):
    models = {
        name: ev.from_formula(formula, data, priors=None)
        for name, formula in {"line": "y ~ x", "groups": "y ~ x + (1 | g)"}.items()
    }
    return ev.compare(models, target_se=0.1, random_seed=0, progressbar=False)


def test_several_models_and_figures(comparison, tmp_path):
    sensitivity = ev.prior_sensitivity(comparison.models, comparison, random_seed=0)
    assert set(sensitivity.table.model) == {"line", "groups"}
    alone = ev.prior_sensitivity(comparison, random_seed=0)
    assert alone.table.equals(sensitivity.table)
    one = ev.prior_sensitivity(comparison.results["groups"], random_seed=0).table
    assert set(one.index) == set(sensitivity.table[sensitivity.table.model == "groups"].index)
    labels = [text.get_text() for text in sensitivity.plot().get_yticklabels()]
    assert "groups: sd(1|g)" in labels
    sensitivity.save(tmp_path / "s.npz")
    assert ev.Sensitivity.load(tmp_path / "s.npz").table.equals(sensitivity.table)


def test_an_interrupt_leaves_the_priors_finished_by_then(data, monkeypatch):
    from evidence.verbs import sensitivity

    mean, calls = sensitivity.log_mean, []

    def interrupted(log_ratios):
        calls.append(1)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return mean(log_ratios)

    monkeypatch.setattr(sensitivity, "log_mean", interrupted)
    model = ev.from_formula("y ~ x", data, priors=PRIORS | {"sigma": 0.5})
    found = ev.prior_sensitivity(model, random_seed=0)
    assert len(found.table) in (2, 3)
    assert [warning.code for warning in found.warnings] == ["interrupted"]


def test_mistakes(data, comparison, tmp_path):
    model = ev.from_formula("y ~ x", data)
    with pytest.raises(ev.InputError, match="scale"):
        ev.prior_sensitivity(model, scale=[-1.0])
    with pytest.raises(ev.InputError, match="model"):
        ev.prior_sensitivity(3)
    held = {"sd(1|g)": 1.0, "sigma": 1.0}
    with pytest.raises(ev.InputError, match="model has no prior"):
        ev.prior_sensitivity(ev.from_formula("y ~ 0 + (1 | g)", data, priors=held))
    other = ev.log_evidence(ev.GPModel(K=np.eye(2), y=[1, -1]), method="ep")
    with pytest.raises(ev.InputError, match="result was made for another model"):
        ev.prior_sensitivity(model, other)
    result = comparison.results["groups"]
    result.save(tmp_path / "r.npz")
    read = ev.IntegratedEvidence.load(tmp_path / "r.npz", model=result.optimum.model)
    with pytest.raises(ev.InputError, match="model"):
        ev.prior_sensitivity(read)

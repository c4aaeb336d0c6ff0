"""Models side by side: exact evidences, Bayes factors and their errors."""

import matplotlib as mpl
import numpy as np
import pytest

import evidence as ev
from evidence.results.comparison import probabilities

mpl.use("Agg")

X = np.linspace(0.0, 3.0, 10)
Y = np.sin(2.0 * X)


def exact(model):
    """log N(y; 0, K + s²I)."""
    cov = model.K + model.likelihood.noise_std**2 * np.eye(model.n)
    _, logdet = np.linalg.slogdet(2.0 * np.pi * cov)
    return -0.5 * (logdet + model.y @ np.linalg.solve(cov, model.y))


@pytest.fixture(scope="module")
def models():
    base = ev.GPModel(X, Y, "1.0 * RBF(0.8)", likelihood="gaussian(noise_std=0.3)")
    return {"short": base.at({"length_scale": 0.2}), "right": base}


@pytest.fixture(scope="module")
def comparison(models):
    return ev.compare(models, prior={"short": 3.0, "right": 1.0}, random_seed=0, progressbar=False)


def test_against_closed_form(models, comparison):
    truth = {name: exact(model) for name, model in models.items()}
    table = comparison.table
    for name, value in truth.items():
        assert table.logz[name] == pytest.approx(value, abs=1e-6)
    odds = np.exp(truth["short"] - truth["right"]) * 3.0
    assert table.probability["right"] == pytest.approx(1.0 / (1.0 + odds), rel=1e-4)
    assert table.log_bayes_factor["short"] == pytest.approx(
        truth["short"] - truth["right"], abs=1e-5
    )
    assert list(table.index) == ["right", "short"]
    assert comparison.best == "right"
    assert set(comparison.results) == {"right", "short"}


def test_errors_are_carried_through():
    """Against 200,000 draws of the errors; a percent of Monte Carlo error."""
    logz, se, prior = (
        np.array([0.0, -0.5, -2.0]),
        np.array([0.02, 0.03, 0.05]),
        np.array([1, 2, 1]),
    )
    p, p_se = probabilities(logz, se, prior)
    draws = logz + se * np.random.default_rng(0).normal(size=(200_000, 3))
    weight = prior * np.exp(draws)
    sampled = weight / weight.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(p, prior * np.exp(logz) / np.sum(prior * np.exp(logz)))
    np.testing.assert_allclose(p_se, sampled.std(axis=0), rtol=0.02)


def test_a_close_race_is_said():
    rng = np.random.default_rng(3)
    base = ev.GPModel(rng.normal(size=(30, 1)), rng.choice([-1, 1], 30), "9.0 * RBF(0.3)")
    near = {"a": base, "b": base.at({"length_scale": 0.301})}
    words = {"reference": "prior", "n_islands": 4, "n_particles": 8, "random_seed": 0}
    close = ev.compare(near, method="importance", progressbar=False, **words)
    assert "close-race" in [warning.code for warning in close.warnings]
    alike = ev.compare({"a": base, "b": base}, random_seed=0, progressbar=False)
    assert alike.warnings == ()  # no Bayes factor that is worth a mention, and that is known
    silent = ev.compare(near, method="ep", progressbar=False)
    assert "no-error-bars" in [warning.code for warning in silent.warnings]


def test_shown(comparison):
    assert "right" in comparison.summary()
    assert "<table" in comparison._repr_html_()
    ax = comparison.plot()
    ax.figure.canvas.draw()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["right", "short"]


def test_saved_and_loaded(comparison, tmp_path):
    comparison.save(tmp_path / "comparison.npz")
    back = ev.Comparison.load(tmp_path / "comparison.npz")
    assert back.table.equals(comparison.table)
    assert back.summary() == comparison.summary()
    assert back.results["right"].summary() == comparison.results["right"].summary()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"models": {}}, "must map names to models"),
        ({"models": [], "data": {"y": Y}}, "models must map names to models"),
        ({"prior": {"right": 1.0}}, "prior must give one number for each"),
        ({"prior": {"right": 1.0, "short": -1.0}}, "prior\\['short'\\] must be a positive"),
        ({"checkpoint": "x"}, "checkpoint= is for one run"),
        ({"method": "nuts"}, "unknown method"),
    ],
)
def test_bad_input(models, change, message):
    arguments = {"models": models, "progressbar": False, **change}
    with pytest.raises(ValueError, match=message):
        ev.compare(arguments.pop("models"), **arguments)


def test_other_data_are_refused(models):
    other = ev.GPModel(X, -Y, "1.0 * RBF(0.8)", likelihood="gaussian")
    with pytest.raises(ValueError, match="other observations"):
        ev.compare({**models, "other": other})


def test_densities_have_no_observations_to_compare():
    models = {"gaussian": ev.examples.gaussian(2).model, "banana": ev.examples.banana(0.03).model}
    table = ev.compare(models, effort="frugal", random_seed=0, progressbar=False).table
    truth = {"gaussian": ev.examples.gaussian(2).logz, "banana": 0.0}
    for name, row in table.iterrows():
        assert abs(row.logz - truth[name]) < 4.0 * row.logz_se + 1e-9


@pytest.mark.slow
def test_programs_are_translated(monkeypatch):
    """PyMC's and NumPyro's models by their adaptors; both densities are exact here."""
    from evidence.verbs import compare as module

    class Program:
        """As a model of PyMC looks from outside."""

    Program.__module__ = "pymc.model.core"

    def density(shift):
        return ev.DensityModel(lambda x: shift - 0.5 * x @ x, dim=1, grad=lambda x: -x)

    monkeypatch.setattr(module, "from_pymc", lambda model: density(0.0))
    monkeypatch.setattr(module, "from_numpyro", lambda program, y: density(y))
    models = {"pymc": Program(), "numpyro": (lambda y: None, 1.0)}
    table = ev.compare(models, random_seed=0, progressbar=False).table
    gap = table.logz["numpyro"] - table.logz["pymc"] - 1.0
    assert abs(gap) < 4.0 * np.linalg.norm(table.logz_se) < 0.1
    with pytest.raises(ev.InputError, match="must be"):
        ev.compare({"a": (1, 2)}, progressbar=False)


def test_a_sequence_of_models_gets_names(models):
    pair = [models["short"], models["right"]]
    comparison = ev.compare(pair, baseline="model 1", random_seed=0, progressbar=False)
    assert list(comparison.table.index) == ["model 2", "model 1"]
    truth = exact(pair[1]) - exact(pair[0])
    assert comparison.bayes_factor("model 2").log == pytest.approx(truth, abs=1e-5)
    with pytest.raises(ev.InputError, match="unknown baseline 'short'"):
        ev.compare(pair, baseline="short")
    with pytest.raises(ev.InputError, match="a formula is there twice"):
        ev.compare(["y ~ 1", "y ~ 1"], {"y": [1.0, 2.0, 4.0]}, progressbar=False)


def test_leave_one_out_beside(models):
    comparison = ev.compare(models, loo=True, random_seed=0, progressbar=False)
    for name, model in models.items():
        alone = ev.loo(model, random_seed=0)
        assert comparison.table.elpd[name] == pytest.approx(alone.elpd, abs=1e-9)
        assert comparison.loo[name].pointwise.shape == (10,)
    assert comparison.table.stacking.sum() == pytest.approx(1.0)
    assert "stacking" in str(comparison)
    assert "stacking" not in str(ev.compare(models, random_seed=0, progressbar=False))
    density = {"gaussian": ev.examples.gaussian(2).model}
    with pytest.raises(ev.InputError, match="loo=True: models"):
        ev.compare(density, loo=True)


def test_where_a_covariate_has_its_zero_does_not_matter():
    """A default intercept's prior is of the predictor at the means of covariates."""
    rng = np.random.default_rng(0)
    age = rng.uniform(30, 60, 20)
    data = {"y": rng.normal(size=20), "age": age, "sex": list("fm") * 10}
    words = {"method": "ep", "progressbar": False, "priors": {"sigma": 1.0}}
    formulas = ["y ~ 1", "y ~ age", "y ~ age + sex"]
    found = ev.compare(formulas, data, **words).table.logz.sort_index()
    away = ev.compare(formulas, data | {"age": age - 1000.0}, **words).table.logz.sort_index()
    np.testing.assert_allclose(found, away, rtol=0.0, atol=1e-7)


@pytest.mark.slow
def test_effects_with_default_priors_are_told_of():
    """A Bayes factor of an effect whose prior is wide hangs on that; one of groups does not."""
    data = {"y": [1.2, 0.4, 2.2, 1.9, 1.1, 0.7], "x": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]}
    data["g"] = list("aabbcc")
    words = {"random_seed": 0, "progressbar": False, "effort": "frugal", "target_se": 0.5}
    told = ev.compare(["y ~ x", "y ~ 1"], data, **words).notes
    assert any("default priors" in note for note in told)
    for formulas, priors in [
        (["y ~ x", "y ~ x + (1 | g)"], None),
        (["y ~ x", "y ~ 1"], {"x": "norm(0, 0.5)"}),
    ]:
        notes = ev.compare(formulas, data, priors=priors, **words).notes
        assert not any("default priors" in note for note in notes)


@pytest.mark.slow
def test_formulas_may_share_a_predictor_of_the_noise():
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=40), "z": rng.normal(size=40)}
    data["y"] = data["x"] + np.exp(data["z"]) * rng.normal(size=40)
    words = {"data": data, "random_seed": 0, "progressbar": False, "target_se": 0.3}
    table = ev.compare(["y ~ x"], predictors={"sigma": "z"}, **words).table
    plain = ev.compare(["y ~ x"], **words).table
    assert table.logz["y ~ x"] > plain.logz["y ~ x"] + 3.0


@pytest.mark.slow
def test_held_beside_integrated_is_told(models):
    """What is held at an optimum looks better than it is."""
    y = next(iter(models.values())).y
    priors = dict.fromkeys(("length_scale", "constant_value", "noise_std"), "lognorm(1)")
    x = np.arange(float(len(y)))[:, None]
    held = ev.GPModel(x, y, "1.0 * RBF(1.0)", likelihood="gaussian(noise_std=0.3)")
    words = {"random_seed": 0, "progressbar": False, "target_se": 0.5}
    both = ev.compare({"held": held, "averaged": held.with_priors(priors)}, **words)
    assert any(note.startswith("hyperparameters of held are held") for note in both.notes)
    assert not any("are held" in note for note in ev.compare({"held": held}, **words).notes)

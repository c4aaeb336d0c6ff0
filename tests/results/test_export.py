"""What ArviZ gets: names, the data, fits of every draw, replicated data; its leave-one-out."""

from importlib import import_module

import numpy as np
import pytest
from covering import seldom
from problems import small_model
from scipy import stats
from sparse_problems import twins

import evidence as ev

pytestmark = pytest.mark.usefixtures("small_searches")

az = pytest.importorskip("arviz")


def table(n=48):
    rng = np.random.default_rng(0)
    x, g = rng.normal(size=n), np.arange(n) % 6
    y = rng.poisson(np.exp(0.8 + 0.4 * x + 0.5 * rng.normal(size=6)[g]))
    return {"y": y, "x": x, "g": np.array(list("abcdef"))[g]}


@pytest.fixture(scope="module")
def formula():
    return ev.from_formula("y ~ x + (1 | g)", table(), likelihood="poisson")


@pytest.fixture(scope="module")
def held(formula):
    return formula.at({"sd(1|g)": 0.5})


def log_likelihood(model, seen):
    flat = np.array(
        [model.likelihood.log_prob(x, model.y) for x in seen.reshape(-1, model.y.size)]
    )
    return flat.reshape(seen.shape)


def test_draws_with_their_model(held):
    draws = ev.sample(held, draws=500, tune=500, random_seed=1, progressbar=False)
    data = draws.to_arviz(held, random_seed=1)
    x = data["posterior"]["x"]
    assert x.dims == ("chain", "draw", "latent")
    assert tuple(x["latent"].values) == held.names
    np.testing.assert_array_equal(x.sel(latent="1|g[b]"), draws.x[..., held.names.index("1|g[b]")])
    fits = data["log_likelihood"]["y"]
    assert fits.dims == ("chain", "draw", "obs_id")
    seen = draws.x @ held.A.toarray().T + held.offset
    np.testing.assert_allclose(fits, log_likelihood(held, seen), rtol=1e-12)
    np.testing.assert_array_equal(data["observed_data"]["y"], held.y)
    replicated = data["posterior_predictive"]["y"]
    assert replicated.dims == ("chain", "draw", "obs_id")
    error = np.abs(replicated.mean(("chain", "draw")) - np.exp(seen).mean(axis=(0, 1)))
    assert error.max() < 6.0 * np.sqrt(replicated.var() / 300)
    again = draws.to_arviz(held, random_seed=1)["posterior_predictive"]["y"]
    np.testing.assert_array_equal(replicated, again)
    assert (draws.to_arviz(held, random_seed=2)["posterior_predictive"]["y"] != again).any()
    theirs, ours = az.loo(data, pointwise=True), ev.loo(held, posterior=draws)
    elpd = theirs.elpd_loo if hasattr(theirs, "elpd_loo") else theirs.elpd  # 0.x, 1.x
    assert float(elpd) == pytest.approx(ours.elpd, abs=0.05)
    np.testing.assert_allclose(theirs.pareto_k, ours.pareto_k, atol=0.3)


def test_samples_of_an_estimate_with_the_evidence(held):
    result = ev.log_evidence(held, random_seed=0, progressbar=False)
    bare = result.to_arviz()
    assert tuple(bare["posterior"]["latent"].values) == held.names
    assert "log_likelihood" not in bare
    data = result.to_arviz(held)
    for attrs in (bare["posterior"].attrs, data["posterior"].attrs):
        assert attrs["log_evidence"] == result.logz
        assert attrs["log_evidence_se"] == result.logz_se
    assert data["log_likelihood"]["y"].shape == (1, 1000, 48)
    az.loo(data)


def test_parameters_of_a_density_keep_a_variable_each():
    def logdensity(theta):
        return -0.5 * np.sum(theta**2, axis=-1)

    model = ev.DensityModel(logdensity, 2, names=["a", "b"])
    words = {"draws": 20, "tune": 20, "random_seed": 0, "progressbar": False}
    draws = ev.sample(model, reference="laplace", **words)
    assert set(draws.to_arviz()["posterior"].data_vars) == {"a", "b"}
    with pytest.raises(ev.InputError, match="model must be"):
        draws.to_arviz(model)


def test_unnamed_latent_values():
    sparse, dense = twins("poisson")
    for model in (sparse, dense):
        draws = ev.sample(model, draws=30, tune=30, random_seed=0, progressbar=False)
        data = draws.to_arviz(model)
        assert data["posterior"]["x"].dims[2] == "latent"
        np.testing.assert_array_equal(data["posterior"]["latent"], np.arange(model.n))
        seen = draws.x if model is dense else draws.x @ model.A.toarray().T + model.offset
        fits = data["log_likelihood"]["y"]
        np.testing.assert_allclose(fits, log_likelihood(model, seen), rtol=1e-12)
    with pytest.raises(ev.InputError, match="posterior was made for another model"):
        draws.to_arviz(small_model("probit"))


def test_draws_of_hyperparameters_have_their_own_likelihood():
    x = np.linspace(0.0, 3.0, 10)
    model = ev.GPModel(x, np.sin(2.0 * x), "RBF(1.0)", likelihood="gaussian(noise_std=0.3)")
    priors = {"length_scale": stats.lognorm(0.5), "noise_std": stats.lognorm(0.5, scale=0.3)}
    draws = ev.sample_hyperparameters(
        model, priors, draws=60, tune=60, keep=20, random_seed=0, progressbar=False
    )
    assert draws.to_arviz()["posterior"]["likelihood__noise_std"].shape == (2, 60)
    data = draws.to_arviz(model, random_seed=0)
    noise = data["posterior"]["likelihood__noise_std"].values[..., None]
    assert data["posterior"]["x"].shape == (2, 20, 10)
    exact = stats.norm.logpdf(model.y, draws.x, noise)
    np.testing.assert_allclose(data["log_likelihood"]["y"], exact, rtol=1e-10)
    np.testing.assert_allclose(exact.sum(axis=2), data["sample_stats"]["loglik"], rtol=1e-8)
    z = (data["posterior_predictive"]["y"] - draws.x) / noise
    assert stats.kstest(z.values.ravel(), "norm").pvalue > 1e-3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Estimated shape parameter")  # so few draws may well have one
def test_integrated_evidence():
    formula = ev.from_formula("y ~ x + (1 | g)", table(24), likelihood="poisson")
    result = ev.log_evidence(
        formula, effort="frugal", target_se=0.3, random_seed=0, progressbar=False
    )
    bare = result.to_arviz()
    np.testing.assert_array_equal(bare["posterior"]["sd(1|g)"], result.samples[None, :, 0])
    assert bare["posterior"].attrs["log_evidence"] == result.logz
    data = result.to_arviz(formula, random_seed=0, max_draws=100)
    for group, name in (("posterior", "sd(1|g)"), ("log_likelihood", "y")):
        assert data[group][name].shape[:2] == (1, 100)
    az.loo(data, reff=1.0)
    ours = ev.loo(formula, posterior=result)
    fits = data["log_likelihood"]["y"].values[0]
    fitted = np.log(np.exp(fits).mean(axis=0))  # the error of 100 draws is about 0.1 each
    np.testing.assert_allclose(fitted, ours.fitted, atol=0.4)
    assert abs(fitted.sum() - ours.fitted.sum()) < 2.0


@pytest.mark.parametrize("names", [*seldom([(("x", "y"),), (("y",),)]), ("chain", "b")])
def test_parameters_may_be_called_as_axes_are(names):
    prior = [stats.norm(0.0, 2.0)] * len(names)
    model = ev.DensityModel(lambda t: -np.sum((t - 1.0) ** 2), prior=prior, names=names)
    result = ev.log_evidence(model, effort="frugal", random_seed=0, progressbar=False)
    posterior = result.to_arviz()["posterior"]
    assert set(posterior.data_vars) == {f"{n}_" if n == "chain" else n for n in names}
    assert list(result.to_frame().columns[2:]) == list(posterior.data_vars)


@pytest.mark.slow
def test_a_row_a_draw_with_its_names(formula, held, monkeypatch):
    """Every setting of a hyperparameter stands with its own draws, and sizes count settings."""
    from_integral = import_module("evidence.verbs.sample_hyperparameters")._from_integral
    monkeypatch.setattr(from_integral, "__kwdefaults__", {"se": 0.3, "settings": 16, "guided": 8})
    words = {"draws": 90, "random_seed": 0, "progressbar": False}
    drawn = ev.sample_hyperparameters(formula, keep=30, **words)
    frame = drawn.to_frame()
    assert list(frame.columns) == ["chain", "draw", *drawn.names, *formula.names]
    assert frame["draw"].tolist() == [*range(0, 90, 3)] * 2
    np.testing.assert_array_equal(frame["x"], drawn.x[..., formula.names.index("x")].ravel())
    np.testing.assert_array_equal(frame[drawn.names[0]], drawn.values[:, ::3, 0].ravel())
    settings = len(np.unique(drawn.theta))
    assert drawn.ess[0] < 2.0 * settings < drawn.theta.size
    held_frame = ev.sample(held, tune=60, **words).to_frame()
    assert list(held_frame.columns) == ["chain", "draw", *formula.names]
    fixed = ev.from_formula("y ~ x", table(), likelihood="poisson")
    with pytest.raises(ev.InputError, match=r"no free hyperparameters.*ev.sample"):
        ev.sample_hyperparameters(fixed, random_seed=0, progressbar=False)

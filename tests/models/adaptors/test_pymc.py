"""PyMC models: evidence against closed forms and quadrature, by JAX and by PyTensor."""

from __future__ import annotations

import itertools
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import evidence as ev

pm = pytest.importorskip("pymc", reason="PyMC is not installed: pip install 'log-evidence[pymc]'")
pytensor = pytest.importorskip("pytensor")
pytest.importorskip("jax")

Y = np.array([0.3, -1.1, 2.0, 0.8])
_SINGLE = 1e-7  # PyTensor takes the logarithm of a constant such as 3.0 in single precision
SCHOOLS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12]) / 10.0
ERRORS = np.array([15.0, 10, 16, 11, 9, 11, 10, 18]) / 10.0

pytestmark = pytest.mark.filterwarnings("ignore::Warning:pytensor.*", "ignore::Warning:pymc.*")


@pytest.fixture
def interpreted():
    """PyTensor without a C compiler: slower runs, no compilation."""
    with pytensor.config.change_flags(mode="FAST_COMPILE", cxx=""):
        yield


@cache
def rich():
    """Every kind of shape and change of variables; limits that are parameters themselves."""
    ordered = pm.distributions.transforms.ordered
    with pm.Model() as program:
        mu = pm.Normal("mu", 0.5, 2.0)
        sigma = pm.HalfNormal("sigma", 2.0)
        pm.Uniform("low", mu, mu + sigma)
        beta = pm.Normal("beta", mu, sigma, shape=(2, 2))
        pm.Dirichlet("share", np.array([1.0, 2.0, 3.0]))
        pm.Normal("cut", 0.0, 1.0, shape=2, transform=ordered, initval=[0.0, 1.0])
        pm.Normal("y", beta.ravel(), 1.0, observed=Y)
    return program


@cache
def rich_model():
    return ev.from_pymc(rich())


def near(result, truth):
    """Five standard errors: false alarms below 1e-6 per test, if errors are normal."""
    assert result.logz_se < 0.2
    assert abs(result.logz - truth) < 5.0 * result.logz_se + 1e-6


def test_conjugate_mean():
    with pm.Model() as program:
        mu = pm.Normal("mu", 1.0, 2.0)
        pm.Normal("y", mu, 1.0, observed=Y)
    model = ev.from_pymc(program, check=True)
    truth = stats.multivariate_normal(np.ones(4), np.eye(4) + 4.0).logpdf(Y)
    x = np.linspace(-20.0, 20.0, 2001)
    assert logsumexp(model.log_prob(x[:, None])) + np.log(0.02) == pytest.approx(
        truth, abs=_SINGLE
    )
    result = ev.log_evidence(model, random_seed=0, progressbar=False)
    near(result, truth)
    assert result.names == ("mu",)
    assert result.notes[0] == "PyMC model: density and derivatives by JAX"
    assert result.model["density"] == "PyMC model"


@pytest.mark.parametrize("method", ["auto", "smc"])
def test_mean_and_half_normal_scale(method):
    with pm.Model() as program:
        mu = pm.Normal("mu", 0.0, 3.0)
        sigma = pm.HalfNormal("sigma", 2.0)
        pm.Normal("y", mu, sigma, observed=Y)
    model = ev.from_pymc(program)
    mu, s = np.linspace(-15.0, 15.0, 501)[:, None], np.linspace(-6.0, 3.0, 501)[None]
    log_p = stats.norm.logpdf(mu, 0.0, 3.0) + stats.halfnorm.logpdf(np.exp(s), scale=2.0) + s
    log_p = log_p + stats.norm.logpdf(Y, mu[..., None], np.exp(s)[..., None]).sum(axis=-1)
    grid = np.stack(np.broadcast_arrays(mu, s), axis=-1).reshape(-1, 2)
    np.testing.assert_allclose(model.log_prob(grid), log_p.ravel(), rtol=1e-12, atol=_SINGLE)
    truth = logsumexp(log_p) + np.log(30.0 / 500 * 9.0 / 500)
    near(ev.log_evidence(model, method=method, random_seed=0, progressbar=False), truth)


def test_eight_schools():
    """Ten dimensions with a funnel in them; the truth has the schools' effects integrated out."""
    with pm.Model() as program:
        mu = pm.Normal("mu", 0.0, 2.0)
        tau = pm.HalfNormal("tau", 1.0)
        theta = pm.Normal("theta", mu, tau, shape=8)
        pm.Normal("y", theta, ERRORS, observed=SCHOOLS)
    m, t = np.linspace(-10.0, 10.0, 401)[:, None, None], np.linspace(0.0, 8.0, 801)[1:, None]
    log_p = stats.norm.logpdf(m, 0.0, 2.0) + stats.halfnorm.logpdf(t)
    scale = np.sqrt(t * t + ERRORS**2)
    log_p = log_p[..., 0] + stats.norm.logpdf(SCHOOLS, m, scale).sum(axis=-1)
    edge = stats.norm.logpdf(m[:, 0, 0], 0.0, 2.0) + stats.halfnorm.logpdf(0.0)
    edge += stats.norm.logpdf(SCHOOLS, m[:, 0], ERRORS).sum(axis=-1)
    truth = np.logaddexp(logsumexp(log_p), logsumexp(edge) - np.log(2.0)) + np.log(0.05 * 0.01)
    model = ev.from_pymc(program)
    assert model.names[:3] == ("mu", "tau", "theta[0]")
    near(ev.log_evidence(model, method="smc", random_seed=0, progressbar=False), truth)


def test_priors_are_normalised():
    """A model without data has Z = 1; every coordinate by quadrature, the others held."""
    priors = {
        "half": lambda name: pm.HalfNormal(name, 2.0),
        "gamma": lambda name: pm.Gamma(name, 3.0, 2.0),
        "beta": lambda name: pm.Beta(name, 2.0, 3.0),
        "uniform": lambda name: pm.Uniform(name, -1.0, 2.0),
        "t": lambda name: pm.StudentT(name, nu=8, mu=1.0, sigma=2.0),
        "cut": lambda name: pm.Truncated(name, pm.Normal.dist(0.0, 1.0), lower=0.5),
    }
    with pm.Model() as program:
        for name, prior in priors.items():
            prior(name)
    model = ev.from_pymc(program)
    base = model.log_prob(np.zeros((1, 6)))[0]
    x, h = np.linspace(-60.0, 60.0, 24_001, retstep=True)
    total = 0.0
    for i in range(6):
        rows = np.zeros((x.size, 6))
        rows[:, i] = x
        total += logsumexp(model.log_prob(rows)) + np.log(h) - base
    assert total + base == pytest.approx(0.0, abs=2e-6)  # the t beyond ±60 holds 1e-12


@pytest.mark.parametrize(("kind", "mass"), [("dirichlet", 1.0), ("ordered", 0.5)])
def test_vectors_in_the_plane(kind, mass):
    """Both by quadrature; ``ordered`` keeps half of the mass, as the docstring says."""
    with pm.Model() as program:
        if kind == "dirichlet":
            pm.Dirichlet("w", np.array([2.0, 3.0, 4.0]))
        else:
            ordered = pm.distributions.transforms.ordered
            pm.Normal("w", 0.0, 1.0, shape=2, transform=ordered, initval=[0.0, 1.0])
    model = ev.from_pymc(program)
    x, h = np.linspace(-24.0, 24.0, 401, retstep=True)
    grid = np.array(list(itertools.product(x, x)))
    assert np.exp(logsumexp(model.log_prob(grid))) * h * h == pytest.approx(mass, abs=1e-4)


def test_potentials_and_data_count():
    with pm.Model() as program:
        data = pm.Data("data", Y)
        mu = pm.Normal("mu")
        pm.Normal("y", mu, 1.0, observed=data)
    plain = ev.from_pymc(program)
    x = plain.probes()
    with program:
        pm.Potential("weight", mu * 0.0 + 1.5)
    np.testing.assert_allclose(ev.from_pymc(program).log_prob(x), plain.log_prob(x) + 1.5)
    with program:
        pm.set_data({"data": Y + 1.0})
    shifted = ev.from_pymc(program)
    expected = 1.5 + stats.norm.logpdf(x[:, 0])
    expected += stats.norm.logpdf(Y + 1.0, x).sum(axis=1)
    np.testing.assert_allclose(shifted.log_prob(x), expected)


def test_parameters_that_make_no_sense_have_no_density():
    """A share above one has a finite formula, which PyMC's own checks keep out; so does JAX."""
    with pm.Model() as program:
        share = pm.Normal("share", 0.5, 1.0)
        pm.Bernoulli("seen", share, observed=[1, 1])
    value = ev.from_pymc(program, backend="jax").log_prob(np.array([[0.5], [1.5], [-0.5]]))
    assert np.isneginf(value).tolist() == [False, True, True]


def test_names_and_parameters():
    model = rich_model()
    assert model.n == 11
    assert model.names == (
        *("mu", "sigma", "low", "beta[0,0]", "beta[0,1]", "beta[1,0]", "beta[1,1]"),
        *("share[0]", "share[1]", "share[2]", "cut[0]", "cut[1]"),
    )
    theta = model.sampler(np.random.default_rng(0), 400)
    assert theta.shape == (400, 12)
    np.testing.assert_array_equal(theta, model.sampler(np.random.default_rng(0), 400))
    assert not np.array_equal(theta, model.sampler(np.random.default_rng(1), 400))
    # draws of the prior, in the right places: means within 5 standard errors
    mean, sd = theta.mean(axis=0), theta.std(axis=0) / 20.0
    expected = {0: 0.5, 1: 2.0 * np.sqrt(2.0 / np.pi), 3: 0.5, 7: 1 / 6, 8: 2 / 6, 9: 3 / 6}
    for i, value in expected.items():
        assert abs(mean[i] - value) < 5.0 * sd[i], model.names[i]
    assert (theta[:, 2] > theta[:, 0]).all()
    ranked = np.concatenate([theta[:, :10], np.sort(theta[:, 10:], axis=1)], axis=1)
    x = model.unconstrain(ranked)
    np.testing.assert_allclose(model.constrain(x), ranked, rtol=1e-9, atol=1e-12)


def test_the_density_is_the_one_of_pymc(interpreted):
    """Value variables in the order of model.value_vars, row by row, Jacobians included."""
    program, model = rich(), rich_model()
    logp = program.compile_fn(program.logp(), inputs=program.value_vars)
    sizes = [1, 1, 1, 4, 2, 2]
    assert [value.name for value in program.value_vars][3:5] == ["beta", "share_simplex__"]
    x = model.probes()
    for row, value in zip(x, model.log_prob(x), strict=True):
        parts = np.split(row, np.cumsum(sizes)[:-1])
        point = {
            var.name: part.reshape({0: (), 1: part.shape, 2: (2, 2)}[var.ndim])
            for var, part in zip(program.value_vars, parts, strict=True)
        }
        assert value == pytest.approx(float(logp(point)), rel=1e-12)


def test_derivatives_by_jax():
    rich_model().check_derivatives()


def test_without_jax_pytensor_takes_over(monkeypatch, interpreted):
    by_jax = rich_model()
    x = by_jax.probes()
    W = np.random.default_rng(0).standard_normal((len(x), 11, 11))
    W += np.swapaxes(W, 1, 2)
    expected = (
        *by_jax.log_prob_and_gradient(x),
        by_jax.hessian(x),
        by_jax.hessian_slope(x, W),
        by_jax.hessian_along(x, W[:, 0]),
        by_jax.constrain(x),
    )
    monkeypatch.setitem(sys.modules, "jax", None)
    model = ev.from_pymc(rich())
    assert model.notes == (
        "PyMC model: density and derivatives by PyTensor (JAX is not installed: pip install "
        "'log-evidence[jax]')",
    )
    found = (
        *model.log_prob_and_gradient(x),
        model.hessian(x),
        model.hessian_slope(x, W),
        model.hessian_along(x, W[:, 0]),
        model.constrain(x),
    )
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-7)
    np.testing.assert_allclose(model.unconstrain(model.constrain(x)), x, rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match=r"backend='jax' does not work.*JAX is not installed"):
        ev.from_pymc(rich(), backend="jax")


def test_evidence_by_pytensor_on_threads(interpreted):
    with pm.Model() as program:
        sigma = pm.HalfNormal("sigma", 2.0)
        pm.Normal("y", 0.0, sigma, observed=Y)
    model = ev.from_pymc(program, backend="pytensor")
    assert model.notes == ("PyMC model: density and derivatives by PyTensor",)
    s = np.linspace(-8.0, 4.0, 4001)
    log_p = stats.halfnorm.logpdf(np.exp(s), scale=2.0) + s
    log_p += stats.norm.logpdf(Y, 0.0, np.exp(s)[:, None]).sum(axis=1)
    x = np.linspace(-3.0, 2.0, 200)[:, None]
    alone = model.log_prob_and_gradient(x)
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda _: model.log_prob_and_gradient(x), range(8)))
    for value, slope in together:  # compiled functions have storage of their own, only one
        np.testing.assert_array_equal(value, alone[0])
        np.testing.assert_array_equal(slope, alone[1])
    result = ev.log_evidence(model, random_seed=0, progressbar=False)
    near(result, logsumexp(log_p) + np.log(12.0 / 4000))


def test_operations_that_jax_does_not_know(interpreted):
    class Own(pytensor.graph.op.Op):
        itypes = otypes = (pytensor.tensor.dscalar,)

        def perform(self, node, inputs, outputs):
            outputs[0][0] = np.array(-(inputs[0] ** 2))

    with pm.Model() as program:
        mu = pm.Normal("mu")
        pm.Potential("own", Own()(mu))
    model = ev.from_pymc(program)
    assert "by PyTensor (JAX cannot translate it: NotImplementedError" in model.notes[0]
    assert "PyMC model: no gradient" in model.notes[1]
    assert not model.has_gradient
    x = np.array([[0.0], [2.0]])
    np.testing.assert_allclose(model.log_prob(x), stats.norm.logpdf([0.0, 2.0]) - [0.0, 4.0])
    result = ev.log_evidence(model, random_seed=0, progressbar=False)
    near(result, -0.5 * np.log(3.0))


def test_an_improper_prior_has_no_draws():
    with pm.Model() as program:
        mu = pm.Flat("mu")
        pm.Normal("y", mu, 1.0, observed=Y)
    model = ev.from_pymc(program)
    assert model.sampler is None
    assert "no draws from the prior to start from" in model.notes[1]
    truth = stats.norm.logpdf(Y, Y.mean(), 1.0).sum() + 0.5 * np.log(2.0 * np.pi / 4.0)
    near(ev.log_evidence(model, random_seed=0, progressbar=False), truth)


def test_a_metric_written_in_jax():
    with pm.Model() as program:
        pm.Normal("mu", 0.0, 0.5, shape=2)
    model = ev.from_pymc(program, metric=lambda x: 4.0 * (1.0 + x @ x) * np.eye(2), check=True)
    np.testing.assert_allclose(model.curvature(np.ones((1, 2)))[0], 12.0 * np.eye(2))


def test_what_is_refused():
    with pm.Model() as discrete:
        pm.Poisson("count", 3.0)
        pm.Normal("mu")
    with pytest.raises(ValueError, match=r"discrete free variables \(count\)"):
        ev.from_pymc(discrete)
    with pytest.raises(ValueError, match="no free variables"):
        ev.from_pymc(pm.Model())
    with pytest.raises(ValueError, match=r"model must be a pymc\.Model"):
        ev.from_pymc(lambda x: x)
    with pytest.raises(ValueError, match="backend must be 'jax', 'pytensor' or None, got 'tf'"):
        ev.from_pymc(rich(), backend="tf")
    with pytest.raises(ValueError, match="bounds: the program given to ev"):
        ev.from_pymc(rich(), bounds=[(0, 1)])
    with pytest.raises(ValueError, match="metric must be"):
        ev.from_pymc(rich(), metric="euclid")
    theta = rich_model().sampler(np.random.default_rng(0), 1)[0]
    theta[1] = -1.0
    with pytest.raises(ValueError, match="outside their bounds"):
        rich_model().unconstrain(theta)


def test_it_stays_in_its_process():
    with pytest.raises(TypeError, match=r"ev\.from_pymc cannot be sent to other processes"):
        pickle.dumps(rich_model())


def test_posterior_draws_of_a_simplex_come_back():
    with pm.Model() as program:
        share = pm.Dirichlet("share", np.ones(3))
        pm.Multinomial("seen", 10, share, observed=[2, 3, 5])
    model = ev.from_pymc(program)
    posterior = stats.dirichlet([3, 4, 6]).rvs(200, random_state=0)
    truth = stats.dirichlet_multinomial([1, 1, 1], 10).logpmf([2, 3, 5])
    result = ev.log_evidence(
        model, method="ais", direction="both", posterior=posterior, random_seed=0,
        progressbar=False,
    )  # fmt: skip
    near(result, truth)
    draws = ev.sample(model, draws=400, tune=200, random_seed=0, progressbar=False)
    error = 5.0 * draws.x.std(axis=(0, 1)) / np.sqrt(draws.ess_by_coordinate)
    assert (abs(draws.x.mean(axis=(0, 1)) - np.array([3, 4, 6]) / 13) < error).all()


def test_dimensions_keep_their_names_and_draws_find_them():
    schools, years = ["Choate", "Deerfield"], [2001, 2002, 2003]
    with pm.Model(coords={"school": schools, "year": years, "alike": ["a", "a"]}) as program:
        pm.Normal("mu")
        pm.Normal("theta", dims="school")
        pm.Normal("slope", dims=("school", "year"))
        pm.Normal("twice", dims="alike")
        pm.Normal("plain", shape=2)
        pm.Normal("y", 0.0, 1.0, observed=Y)
    model = ev.from_pymc(program, backend="pytensor")
    assert model.names[:3] == ("mu", "theta[Choate]", "theta[Deerfield]")
    assert model.names[3:5] == ("slope[Choate,2001]", "slope[Choate,2002]")
    assert model.names[9:] == ("twice[0]", "twice[1]", "plain[0]", "plain[1]")
    rng, shapes = np.random.default_rng(0), {"mu": (), "theta": (2,), "slope": (2, 3)}
    shapes |= {"twice": (2,), "plain": (2,)}
    draws = {name: rng.normal(size=(2, 300, *shape)) for name, shape in shapes.items()}
    words = {"random_seed": 0, "progressbar": False}
    exact = stats.norm.logpdf(Y).sum()
    named = ev.evidence_from_draws(draws, model, **words)
    assert named.logz == pytest.approx(exact, abs=0.1)
    columns = [draws[name].reshape(2, 300, -1) for name in shapes]
    flat = dict(zip(model.names, np.moveaxis(np.concatenate(columns, axis=2), 2, 0), strict=True))
    assert ev.evidence_from_draws(flat, program, **words).logz == pytest.approx(exact, abs=0.1)

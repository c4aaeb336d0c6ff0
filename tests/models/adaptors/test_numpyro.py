"""NumPyro models: evidence against closed forms and quadrature; what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import evidence as ev

numpyro = pytest.importorskip(
    "numpyro", reason="NumPyro is not installed: pip install 'log-evidence[numpyro]'"
)
dist = pytest.importorskip("numpyro.distributions")

Y = np.array([0.3, -1.1, 2.0, 0.8])


def conjugate(y, sd=1.0):
    mu = numpyro.sample("mu", dist.Normal(0.5, 2.0))
    with numpyro.plate("data", len(y)):
        numpyro.sample("y", dist.Normal(mu, sd), obs=y)


def rich(y):
    """Shapes and changes of variables; limits that are other parameters."""
    mu = numpyro.sample("mu", dist.Normal(0.5, 2.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2.0))
    numpyro.sample("low", dist.Uniform(mu, mu + sigma))
    beta = numpyro.sample("beta", dist.Normal(mu, 1.0).expand([2, 2]).to_event(2))
    numpyro.sample("share", dist.Dirichlet(np.array([1.0, 2.0, 3.0])))
    numpyro.deterministic("twice", 2.0 * beta)
    numpyro.sample("y", dist.Normal(beta.ravel(), sigma), obs=y)


def test_conjugate_in_closed_form():
    for sd in (1.0, 0.5):
        model = ev.from_numpyro(conjugate, Y, kwargs={"sd": sd})
        truth = stats.multivariate_normal(
            np.full(4, 0.5), sd**2 * np.eye(4) + 4.0 * np.ones((4, 4))
        ).logpdf(Y)
        result = ev.log_evidence(model, random_seed=0, progressbar=False)
        assert result.logz_se < 0.05
        assert abs(result.logz - truth) < 4.5 * result.logz_se + 1e-6


def test_all_shapes_against_quadrature():
    """μ and σ on a grid; given these every β is conjugate, and the others integrate to one."""
    model = ev.from_numpyro(rich, Y)
    mu, sigma = np.linspace(-9, 10, 801), np.geomspace(1e-3, 12, 801)
    prior = stats.norm(0.5, 2.0).logpdf(mu)[:, None] + stats.halfnorm(scale=2.0).logpdf(sigma)
    sd = np.sqrt(1.0 + sigma**2)
    each = stats.norm.logpdf(Y[:, None, None], mu[:, None], sd).sum(axis=0)
    width = (mu[1] - mu[0]) * sigma * np.log(sigma[1] / sigma[0])
    truth = logsumexp(prior + each + np.log(width))
    result = ev.log_evidence(model, random_seed=0, progressbar=False)
    assert result.logz_se < 0.1
    assert abs(result.logz - truth) < 4.5 * result.logz_se + 1e-4


def test_coordinates_and_names():
    model = ev.from_numpyro(rich, Y)
    assert model.names == (
        "mu", "sigma", "low", "beta[0,0]", "beta[0,1]", "beta[1,0]", "beta[1,1]",
        "share[0]", "share[1]", "share[2]",
    )  # fmt: skip
    assert model.n == 9
    theta = model.sampler(np.random.default_rng(0), 5)
    np.testing.assert_allclose(model.constrain(model.inward(theta)), theta, atol=1e-10)
    assert (theta[:, 2] > theta[:, 0]).all()
    assert ((theta[:, 7:].sum(axis=1) - 1.0) ** 2 < 1e-20).all()


def test_factors_are_named():
    def program():
        x = numpyro.sample("x", dist.Normal())
        numpyro.factor("more", -(x**2))

    assert "more" in ev.from_numpyro(program).notes[0]


@pytest.mark.parametrize(
    ("prior", "match"),
    [
        (lambda: dist.Bernoulli(0.5), "discrete"),
        (lambda: dist.ImproperUniform(dist.constraints.real, (), ()), "ImproperUniform"),
    ],
)
def test_priors_without_an_evidence(prior, match):
    def program():
        numpyro.sample("x", prior())

    with pytest.raises(ev.InputError, match=match):
        ev.from_numpyro(program)


def test_mistakes():
    with pytest.raises(ev.InputError, match="model"):
        ev.from_numpyro(3)
    with pytest.raises(ev.InputError, match="param"):
        ev.from_numpyro(lambda: numpyro.param("p", 0.0))
    with pytest.raises(ev.InputError, match="nothing to integrate"):
        ev.from_numpyro(lambda: numpyro.sample("y", dist.Normal(), obs=0.0))
    with pytest.raises(ev.InputError, match="prior"):
        ev.from_numpyro(conjugate, Y, prior=1)

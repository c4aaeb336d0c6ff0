from __future__ import annotations

import numba
import numpy as np
import pytest
import report_pseudocode as report
from paths.curvature import metric
from problems import LIKELIHOODS, small_model

import evidence as ev
from evidence.approximations.reference import prior_reference
from evidence.paths.gp import _tilt_and_gradient, thin_tilt_and_slope

pytestmark = pytest.mark.interpreted
COMPILED = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="EP by quadrature, interpreted")

REFERENCES = {"ep": ev.fit_ep, "laplace": ev.fit_laplace, "prior": prior_reference}


def make_path(likelihood, reference, n=5):
    return ev.Path(REFERENCES[reference](small_model(likelihood, n)))


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_density_and_gradient_from_their_definitions(likelihood, reference):
    path = make_path(likelihood, reference)
    model, (c, nu, tau) = path.model, path.reference.sites
    rng = np.random.default_rng(1)
    x = 1.5 * rng.standard_normal((4, path.n))
    beta = np.array([0.0, 0.3, 0.8, 1.0])
    expected = [
        model.log_prior(row)
        + b * model.likelihood.log_prob(row, model.y).sum()
        + (1 - b) * np.sum(c + nu * row - 0.5 * tau * row**2)
        for row, b in zip(x, beta, strict=True)
    ]
    np.testing.assert_allclose(path.log_density(x, beta), expected, rtol=1e-10, atol=1e-9)
    h = 1e-5
    numeric = np.empty_like(x)
    for n in range(path.n):
        step = np.zeros(path.n)
        step[n] = h
        numeric[:, n] = (path.log_density(x + step, beta) - path.log_density(x - step, beta)) / (
            2 * h
        )
    np.testing.assert_allclose(path.gradient(x, beta), numeric, rtol=1e-5, atol=1e-6)
    tilt, slope = path.tilt_and_gradient(x)
    np.testing.assert_allclose(tilt, path.tilt(x), rtol=1e-13)
    np.testing.assert_allclose(
        slope,
        np.array([model.likelihood.derivatives(row, model.y)[1] for row in x]) - nu + tau * x,
        atol=1e-10,
    )


@pytest.mark.parametrize("reference", REFERENCES)
def test_ends_of_the_path(reference):
    """β = 0 is Z_q q(x); β = 1 is the joint density, whatever the reference."""
    path = make_path("probit", reference)
    x = np.random.default_rng(2).standard_normal((3, path.n))
    q = path.reference
    r = x - q.mean
    log_q = -0.5 * (
        np.einsum("mi,mi->m", r, np.linalg.solve(q.cov, r.T).T)
        + np.linalg.slogdet(2 * np.pi * q.cov)[1]
    )
    np.testing.assert_allclose(path.log_density(x, 0.0), q.logz + log_q, rtol=1e-9)
    joint = path.model.log_prior(x) + [
        path.model.likelihood.log_prob(row, path.model.y).sum() for row in x
    ]
    np.testing.assert_allclose(path.log_density(x, 1.0), joint, rtol=1e-10)


@pytest.mark.parametrize("reference", ["ep", "prior"])
@pytest.mark.parametrize("beta", [0.2, 1.0])
def test_against_the_report(reference, beta):
    """Density, gradient, metric, Hamiltonian and its gradient, as Algorithms 2-4 have them."""
    model = ev.GPModel(K=small_model("probit", 5).K, y=np.resize([1, -1, 1], 5))
    path = ev.Path(REFERENCES[reference](model))
    q, prior = path.reference, reference == "prior"
    rng = np.random.default_rng(3)
    x, p = 2.0 * rng.standard_normal((2, 5))
    L_Sigma = np.linalg.cholesky(q.cov)
    logdet_Sigma = np.linalg.slogdet(q.cov)[1]
    with np.errstate(divide="ignore"):
        Sigma_tilde = 1.0 / q.sites.tau
    found = report.riemann_metric(
        x, model.y, model.K, model.chol, model.prior.logdet, q.mean, Sigma_tilde, L_Sigma,
        logdet_Sigma, beta, prior,
    )  # fmt: skip
    value, gradient, G_inv, logdet_G, dg = found
    # the report's q is normalised; the path carries Z_q at weight 1 - β
    ours = path.log_density(x, beta)[0] - (1 - beta) * q.logz
    assert ours == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(path.gradient(x, beta)[0], gradient, rtol=1e-7, atol=1e-9)
    G = metric(path, x, beta)
    np.testing.assert_allclose(G.inverse @ p, G_inv @ p, rtol=1e-8, atol=1e-10)
    assert G.logdet == pytest.approx(logdet_G, rel=1e-9)
    np.testing.assert_allclose(G.half_trace, 0.5 * dg * np.diag(G_inv), rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(G.d_prime, dg, rtol=1e-8, atol=1e-12)
    H, dH = report.hamiltonian_and_gradient(*found, p)
    w = G.inverse @ p
    ours_dH = G.half_trace - 0.5 * w * w * G.d_prime - path.gradient(x, beta)[0]
    assert 0.5 * p @ w + 0.5 * G.logdet - ours == pytest.approx(H, rel=1e-9)
    np.testing.assert_allclose(ours_dH, dH, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_metric_is_the_negative_hessian(likelihood):
    path = make_path(likelihood, "ep")
    x = np.random.default_rng(4).standard_normal(path.n)
    beta = 0.6
    G = metric(path, x, beta)
    dense = np.linalg.inv(path.model.K) + np.diag(G.d)
    np.testing.assert_allclose(G.inverse, np.linalg.inv(dense), rtol=1e-8)
    assert G.logdet == pytest.approx(np.linalg.slogdet(dense)[1], rel=1e-10)
    if not path.model.likelihood.log_concave:
        return  # its metric is the expected curvature, constant in x
    h = 1e-5
    hessian = np.array(
        [
            (path.gradient(x + h * e, beta)[0] - path.gradient(x - h * e, beta)[0]) / (2 * h)
            for e in np.eye(path.n)
        ]
    )
    np.testing.assert_allclose(-hessian, dense, rtol=1e-5, atol=1e-5)
    for n, e in enumerate(np.eye(path.n)):
        up, down = metric(path, x + h * e, beta).d, metric(path, x - h * e, beta).d
        np.testing.assert_allclose((up - down)[n] / (2 * h), G.d_prime[n], rtol=1e-5, atol=1e-8)


def test_gradient_leaves_its_input_alone():
    path = make_path("probit", "ep")
    x = np.ones((2, path.n))
    path.gradient(x, 0.5)
    path.tilt(x)
    np.testing.assert_array_equal(x, 1.0)


@pytest.mark.parametrize(
    ("likelihood", "n"),
    [
        pytest.param(likelihood, n, marks=COMPILED if n > 3 and likelihood != "probit" else ())
        for likelihood in ("probit", "student_t(df=4, scale=0.5)", "poisson(exposure=1.5)")
        for n in (1, 3, 64, 70, 131)
    ],
)
def test_few_rows_and_many_rows_agree(likelihood, n):
    """The hand-written products of small batches against general ones."""
    path = make_path(likelihood, "ep", n)
    frame = path.coordinates("base")
    a = np.random.default_rng(3).standard_normal((40, n))
    tilt, slope = path.tilt_and_slope(frame, a)
    for rows in (1, 2, 3, 4):
        few_tilt, few_slope = path.tilt_and_slope(frame, a[:rows])
        np.testing.assert_allclose(few_tilt, tilt[:rows], rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(few_slope, slope[:rows], rtol=1e-10, atol=1e-10)


def _somewhere(rng, arrays):
    """The same arrays one after another in one block of memory, in any order, with any gaps."""
    memory = np.empty(sum(a.size + 128 for a in arrays))
    placed, at = [None] * len(arrays), 0
    for k in rng.permutation(len(arrays)):
        placed[k] = memory[at : at + arrays[k].size].reshape(arrays[k].shape)
        placed[k][:] = arrays[k]
        at += arrays[k].size + int(rng.choice([0, 1, 2, 8, 128]))
    return placed


@pytest.mark.parametrize("n", [4, 5, 8, 12, 33])
@pytest.mark.parametrize("likelihood", ["logit", "student_t(df=4, scale=0.5)"])
def test_tilts_do_not_depend_on_where_arrays_lie_in_memory(likelihood, n):
    rng, path = np.random.default_rng(0), make_path(likelihood, "laplace", n)
    kernel, theta, *sites = path.tilt_arguments
    x, mean, T = rng.standard_normal((3, n)), rng.standard_normal(n), rng.standard_normal((n, n))
    known, total, out = [np.asarray(theta), *sites, mean], np.empty(3), np.empty((3, n))
    whole, thin = set(), set()
    for _ in range(100):
        *given, at, tilt = _somewhere(rng, [*known, x, total])
        _tilt_and_gradient(kernel, *given, at, tilt)
        whole.add(tilt.tobytes() + at.tobytes())
        *given, to, tilt, slope = _somewhere(rng, [*known, T, x, out, total, out])
        thin_tilt_and_slope(kernel, *given, to, tilt, slope)
        thin.add(tilt.tobytes() + to.tobytes() + slope.tobytes())
    assert len(whole) == len(thin) == 1

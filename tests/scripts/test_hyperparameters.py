"""Random models with free hyperparameters: truths by two routes, and what rows are counted as."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from scipy.special import gamma, kv, logsumexp

from scripts.benchmarks import random_hyperparameters as benchmark
from scripts.catalogue import hyperparameters, marginals
from scripts.catalogue.cubature import log_integral

RNG = np.random.default_rng(5)
G = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 3])
H = np.array([0, 1, 0, 1, 0, 1, 1, 0, 0, 1])
Y = RNG.normal(2.0, 1.5, 10)
X = RNG.normal(size=10)
TAU, S = np.array([0.3, 2.0]), np.array([0.7, 1.1])


def normal(covariance: list[np.ndarray]) -> list[float]:
    return [stats.multivariate_normal(np.zeros(10), K).logpdf(Y) for K in covariance]


def test_normal_marginals_are_multivariate_normals() -> None:
    same_g, same_h = (np.equal.outer(c, c) for c in (G, H))
    noise = [s**2 * np.eye(10) for s in S]
    groups = [4.0 + t**2 * same_g + e for t, e in zip(TAU, noise, strict=True)]
    one = np.ones((10, 1))
    found = marginals.one_factor(Y, one, np.array([2.0]), G)(TAU, S)
    np.testing.assert_allclose(found, normal(groups), rtol=1e-10)
    np.testing.assert_allclose(marginals.factors(Y, 2.0, G)(TAU, S), found, rtol=1e-10)
    both = np.stack([one[:, 0], X], axis=1)
    found = marginals.one_factor(Y, both, np.array([2.0, 0.5]), G)(TAU, S)
    slopes = [K + 0.25 * np.outer(X, X) for K in groups]
    np.testing.assert_allclose(found, normal(slopes), rtol=1e-10)
    found = marginals.factors(Y, 2.0, G, H)(TAU, TAU[::-1], S)
    crossed = [K + t**2 * same_h for K, t in zip(groups, TAU[::-1], strict=True)]
    np.testing.assert_allclose(found, normal(crossed), rtol=1e-10)
    series = np.linalg.cholesky(0.6 ** np.abs(np.subtract.outer(range(10), range(10))))
    found = marginals.factors(Y, 2.0, series)(TAU, S)
    pairs = zip(TAU, noise, strict=True)
    level = [4.0 + t**2 * series @ series.T + e for t, e in pairs]
    np.testing.assert_allclose(found, normal(level), rtol=1e-10)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, np.inf])
def test_processes(nu: float) -> None:
    """Matérn functions by their definition."""
    r = np.abs(X[:, None] - X) / 0.8 + 1e-14
    K = stats.norm.pdf(r) / stats.norm.pdf(0.0)
    if nu < np.inf:
        z = np.sqrt(2.0 * nu) * r
        K = 2.0 ** (1.0 - nu) / gamma(nu) * z**nu * kv(nu, z)
    K = 1.7 * (K + (1e-6 + 0.09 / 1.7) * np.eye(10))
    found = marginals.gaussian_process(X, Y, nu)(*(np.array([v]) for v in (1.7, 0.8, 0.3)))
    np.testing.assert_allclose(found, normal([K]), rtol=1e-7)


def test_likelihoods_are_those_of_scipy() -> None:
    b, a = np.array([0.3, -0.4]), np.array([2.5, 4e3])
    for i in range(2):
        found = marginals.student(Y, b, a, S)[i]
        assert found == pytest.approx(stats.t.logpdf(Y, a[i], b[i], S[i]).sum(), rel=1e-9)
        y = np.exp(X)
        expected = stats.gamma.logpdf(y, a[i], scale=np.exp(b[i]) / a[i]).sum()
        assert marginals.gamma(y, b, a)[i] == pytest.approx(expected, rel=1e-9)
        cut = np.array([-np.inf, 0.0, TAU[i], TAU[i] + S[i], np.inf])
        p = np.diff(stats.logistic.cdf(cut - b[i]))
        found = marginals.ordinal(np.arange(10) % 4, b, TAU, S)[i]
        assert found == pytest.approx(np.log(p[np.arange(10) % 4]).sum(), rel=1e-9)


@pytest.mark.parametrize("family", ["poisson", "bernoulli", "negative_binomial", "student"])
@pytest.mark.parametrize("tau", [0.05, 1.0, 30.0])
def test_integrals_over_groups(family: str, tau: float) -> None:
    """By plain sums of SciPy's densities."""
    m, r, y = 0.8, 1.7, np.array([0, 0, 0, 1, 1, 3, 0, 7, 2, 0])
    if family == "bernoulli":
        y = np.minimum(y, 1)
    b = np.linspace(m - 9.0 * tau, m + 9.0 * tau, 30_001)[:, None]
    log_p = {
        "poisson": lambda: stats.poisson.logpmf(y, np.exp(np.minimum(b, 50.0))),
        "bernoulli": lambda: -np.logaddexp(0.0, (1 - 2 * y) * b),
        "negative_binomial": lambda: stats.nbinom.logpmf(y, r, 1.0 / (1.0 + np.exp(b) / r)),
        "student": lambda: stats.t.logpdf(y, 3.0, b, r),
    }[family]()
    each = np.stack([log_p[:, g == G].sum(axis=1) for g in range(4)], axis=1)
    expected = (logsumexp(each + stats.norm.logpdf(b, m, tau), axis=0) + np.log(b[1] - b[0])).sum()
    theta = [np.array([m]), np.array([tau])]
    if family == "student":
        found = marginals.student_groups(y.astype(float), G, 3.0, 6)(*theta, np.array([r]))
    else:
        own = [np.array([r])] * (family == "negative_binomial")
        found = marginals.count_groups(family, y, G, 24)(*theta, *own)
    assert found[0] == pytest.approx(expected, abs=2e-4)


def test_cubature_finds_all_of_a_mixture() -> None:
    at, sd = np.array([[-7.0, 3.0], [5.5, -8.2]]), np.array([0.05, 0.4])

    def f(x: np.ndarray) -> np.ndarray:
        each = [stats.norm.logpdf(x, m, s).sum(axis=1) for m, s in zip(at, sd, strict=True)]
        return logsumexp(each, axis=0)

    found = log_integral(f, [np.linspace(-15.0, 15.0, 20)] * 2, 1e4, 1e-5, 200_000)
    assert found.value == pytest.approx(np.log(2.0), abs=1e-4)
    assert found.error < 1e-5


@pytest.mark.slow
def test_truths_are_sums_over_grids() -> None:
    """Normal ones by their covariance, and those of a level, with steps of a fifth."""
    logs = np.arange(-13.0, 13.0, 0.2), np.arange(-4.0, 5.0, 0.2)
    tau, s = (v.ravel() for v in np.exp(np.meshgrid(*logs, indexing="ij")))
    priors = {"sd": stats.halfcauchy(scale=2.0), "noise": stats.gamma(2.0, scale=0.3)}
    weight = sum(
        p.logpdf(v) + np.log(v * 0.2) for p, v in zip(priors.values(), (tau, s), strict=True)
    )
    K = 4.0 + tau[:, None, None] ** 2 * np.equal.outer(G, G) + s[:, None, None] ** 2 * np.eye(10)
    square = (Y * np.linalg.solve(K, np.broadcast_to(Y[:, None], (len(K), 10, 1)))[..., 0]).sum(1)
    log_p = -0.5 * (square + np.linalg.slogdet(K)[1] + 10 * np.log(2.0 * np.pi))
    marginal = marginals.one_factor(Y, np.ones((10, 1)), np.array([2.0]), G)
    problem = hyperparameters.Problem(lambda: None, priors, (1.0, 1.0), lambda _: marginal, 10)
    found, accuracy = hyperparameters.truth(problem)
    assert found == pytest.approx(logsumexp(log_p + weight), abs=1e-4)
    assert accuracy < 1e-4
    m = np.linspace(-15.0, 15.0, 301)[:, None, None]
    tails = -0.5 * (tau + 1.0) * np.log1p((m - Y[:, None]) ** 2 / (tau * s**2)).sum(axis=1)
    log_p = (
        tails + Y.size * stats.t.logpdf(0.0, tau, scale=s) + stats.norm.logpdf(m[..., 0], 0.0, 2.0)
    )
    problem = problem._replace(
        marginal=lambda _: lambda m, df, s: marginals.student(Y, m, df, s), level=(2.0, 1.5, 0.5)
    )
    found, accuracy = hyperparameters.truth(problem)
    assert found == pytest.approx(logsumexp(log_p + weight) + np.log(0.1), abs=1e-4)
    assert accuracy < 1e-3


@pytest.mark.slow
def test_every_kind_is_drawn() -> None:
    cases = [hyperparameters.random_hyperparameters(n) for n in (6, 1, 14, 3, 4, 11)]
    assert [c.kind for c in cases] == list(hyperparameters.KINDS)
    for case in cases:
        assert case.model.priors is not None
        assert np.isfinite(case.truth)
        assert case.accuracy < hyperparameters.ACCURATE


def test_rows_and_verdicts() -> None:
    case = hyperparameters.HyperCase("a", "groups", None, -3.0, 1e-6, 9, "none")
    answer = SimpleNamespace(logz=-2.5, logz_se=0.05, islands=np.zeros(16), warnings=())
    row = benchmark.measured(case, 0, lambda model, **words: answer)
    assert row["error"] == 0.5
    assert benchmark.verdict(row) == "silent miss"
    kinds = [
        benchmark.verdict(row | changed)
        for changed in (
            {"z": 1.0}, {"error": 4e-3, "accuracy": 1e-3}, {"warnings": "few"},
            {"warnings": "few", "z": 1.0}, {"warnings": "few", "z": 1.0, "se": 0.2},
            {"warnings": "few", "se": np.nan}, {"failure": "ValueError"},
        )
    ]  # fmt: skip
    assert kinds == [
        "right", "right", "wrong, warned", "false alarm", "warned", "no answer", "crash",
    ]  # fmt: skip

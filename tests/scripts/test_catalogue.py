"""Random densities: dressed as said, with their own gradients and the log Z that they tell."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from covering import seldom
from scipy.special import logsumexp
from scipy.stats import kstest

from scripts.benchmarks import random_densities
from scripts.catalogue import FAMILIES, Case, random_density
from scripts.catalogue.dressing import dress
from scripts.catalogue.halving import halve
from scripts.catalogue.named import named

_LOG_2PI = float(np.log(2.0 * np.pi))
case_of = cache(random_density)


def best_points(case: Case, few: int = 5) -> np.ndarray:
    """Those with the most likelihood, of many from the prior."""
    x = case.seen.prior_sample(np.random.default_rng(1), 2000)
    return x[np.argsort(-case.seen.log_likelihood(x))[:few]]


def coordinates(case: Case, x: np.ndarray) -> np.ndarray:
    """The model's, of points that a referee has in his own."""
    theta, model = case.seen.parameters(x), case.model
    if "transform" not in case.dressing:
        return model.unconstrain(theta)
    if "turned" not in case.dressing:
        return x
    at = model.arguments(np.zeros((1, case.dim)))
    return (theta - at) @ np.linalg.inv(model.arguments(np.eye(case.dim)) - at)


@pytest.mark.parametrize("number", seldom(range(2 * len(FAMILIES)), *{*range(52)} - {11}))
def test_model_is_what_the_referee_sees(number: int) -> None:
    """Likelihood and prior, or, of a density, their product with the Jacobian between the two."""
    case = case_of(number)
    x = best_points(case)
    u, prior = coordinates(case, x), case.model.prior
    with np.errstate(all="ignore"):
        mine, told = case.seen.log_likelihood(x), case.model.log_likelihood(u)
    assert case.model.n == case.dim
    if prior is not None:
        apart = np.sum(np.linalg.solve(prior.chol, (u - prior.mean).T) ** 2, axis=0)
        np.testing.assert_allclose(apart, np.sum(x**2, axis=1), rtol=1e-6)
    else:
        mine = mine - 0.5 * (np.sum(x**2, axis=1) + case.dim * _LOG_2PI)
        h = 1e-6 * np.eye(case.dim)
        slopes = [(case.seen.parameters(x + e) - case.seen.parameters(x - e)) / 2e-6 for e in h]
        told = told + np.linalg.slogdet(np.stack(slopes, axis=-1))[1]
    np.testing.assert_allclose(told, mine, rtol=1e-6, atol=1e-5)


def test_gradients_and_kinds() -> None:
    """By differences along a line, in units of the prior; and every kind of prior comes."""
    kinds = set()
    for number in {*range(60)} - {11}:  # whose truth takes seconds, and which has no gradient
        case = case_of(number)
        kinds.add(case.dressing.split()[0])
        if not case.model.has_gradient or abs(case.truth) > 1e5:
            continue
        x = best_points(case, 2)
        one, two = coordinates(case, x), coordinates(case, x + 1e-6)
        value, slope = case.model.log_prob_and_gradient(one)
        change = case.model.log_prob(two) - case.model.log_prob(2.0 * one - two)
        expected = 2.0 * np.sum(slope * (two - one), axis=1)
        np.testing.assert_allclose(change, expected, rtol=1e-3, atol=1e-7)
        np.testing.assert_allclose(value, case.model.log_prob(one), rtol=1e-12)
    assert kinds == {"gaussian", "box", "scipy", "transform", "bare"}


def test_same_number_same_case_and_all_sizes() -> None:
    cases = [case_of(n) for n in range(26, 52)]
    assert [c.truth for c in cases[:5]] == [random_density(n).truth for n in range(26, 31)]
    assert {c.family for c in cases} == set(FAMILIES)
    sizes = np.digitize([c.dim for c in cases], [4, 9])
    assert (np.bincount(sizes) >= 6).all()


@pytest.mark.slow
def test_named_cases() -> None:
    """One of each kind, with the log Z that tables have."""
    truths = {
        "hard: eight schools 10": -31.8207, "hard: shells 2": -1.7456,
        "exact: half-space, logit": -0.98618, "dimensions: two modes 50-D": -149.787,
        "necks: groups 8 × 1": -18.3929,
        "smooth: conjugate regression": -84.2377,
    }  # fmt: skip
    for name, logz in truths.items():
        case = named[name]()
        assert case.name == name
        assert case.truth == pytest.approx(logz, abs=1e-3)
        assert case.model.n == case.dim


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", [1, 2])
def test_truths_in_few_dimensions(family: str, seed: int) -> None:
    """Importance sampling from normals around a referee's draws: one in 15,000 fails by chance.

    Seeds are such that no needle is too narrow for the referee.
    """
    rng = np.random.default_rng([seed, 78])
    problem = FAMILIES[family](rng, seed)
    case = dress(rng, problem, family, family)
    assert case.dim <= 3
    logz, se = importance(case, seed)
    assert se < 0.05
    assert abs(logz - case.truth) < 4.0 * se + 1e-4 + case.truth_se


def importance(case: Case, seed: int, centres: int = 400, draws: int = 40_000) -> tuple:
    """log Z and its error: the proposal has normals as wide as their centre is from its
    neighbours, and a tenth of the prior."""
    d, rng = case.dim, np.random.default_rng(seed)
    seen = case.seen
    found = halve(seen.prior_sample, seen.log_likelihood, seed, particles=1000, steps=40).draws
    root = np.linalg.cholesky(np.atleast_2d(np.cov(found.T)))  # ridges are made round
    at = np.unique(found, axis=0) @ np.linalg.inv(root).T
    at = at[rng.permutation(len(at))[:centres]]
    apart = np.sqrt(((at[:, None] - at) ** 2).sum(axis=2))
    width = 1.5 * np.sort(apart, axis=1)[:, 8] + 1e-12
    which = rng.integers(len(at), size=draws)
    x = (at[which] + width[which, None] * rng.standard_normal((draws, d))) @ root.T
    x[: draws // 10] = rng.standard_normal((draws // 10, d))
    log_q, round_x = np.empty(draws), x @ np.linalg.inv(root).T
    for some in np.array_split(np.arange(draws), draws // 2000):
        square = ((round_x[some, None] - at) ** 2).sum(axis=2) / width**2
        log_q[some] = logsumexp(-0.5 * square - d * np.log(width), axis=1) - np.log(len(at))
    log_q -= np.log(np.diag(root)).sum()
    prior = -0.5 * np.sum(x**2, axis=1)
    log_q = np.logaddexp(np.log(0.9) + log_q, np.log(0.1) + prior)
    log_w = seen.log_likelihood(x) + prior - log_q
    logz = logsumexp(log_w) - np.log(draws)
    return float(logz), float(np.exp(log_w - logz).std() / np.sqrt(draws))


def test_halving() -> None:
    """Its draws are those of N(1, 1/2), a posterior whose log Z is known."""
    found = halve(
        lambda rng, n: rng.standard_normal((n, 2)),
        lambda x: -0.5 * np.sum((x - 2.0) ** 2, axis=1), particles=1000, steps=30,
    )  # fmt: skip
    assert abs(found.logz - (-np.log(2.0) - 2.0)) < 4.0 * found.logz_se < 0.5
    draws = (found.draws[:, 0] - 1.0) * np.sqrt(2.0)
    assert kstest(np.unique(draws), "norm").pvalue > 1e-4


@pytest.mark.slow
def test_rows_and_verdicts(monkeypatch, tmp_path, capsys) -> None:
    """A case that answers, one that fails, and what rows are counted as."""
    words = ["--cases", "34:35", "--seconds", "20", "--out", str(tmp_path)]
    monkeypatch.setattr("sys.argv", ["random_densities", *words])
    monkeypatch.setattr(random_densities, "guarded", _here)
    random_densities.main()
    told = capsys.readouterr().out
    assert "conflict 1, number 34" in told
    assert "of 1" in told
    row = {"failure": "", "z": 5.0, "error": 0.1, "se": 0.02, "truth_se": 0.0, "warnings": 0}
    kinds = [
        random_densities.verdict(row | changed)
        for changed in (
            {}, {"z": 1.0}, {"error": 1e-4}, {"warnings": 1}, {"z": 1.0, "warnings": 1},
            {"z": 1.0, "warnings": 1, "se": 0.2}, {"se": np.nan, "z": np.nan, "warnings": 1},
            {"se": np.nan, "z": np.nan}, {"failure": "no answer in 9 s"},
        )
    ]  # fmt: skip
    assert kinds == [
        "silent miss", "right", "right", "wrong, warned", "false alarm", "warned", "no answer",
        "silent miss", "failure",
    ]  # fmt: skip


def _here(number: int, options) -> dict:
    """In this process, a known answer."""
    case = random_density(number)
    row = random_densities.measured(case, options)
    return {"case": number, "name": case.name, "truth_se": 0.0, "failure": "", **row}

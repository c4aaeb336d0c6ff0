"""Effects of groups: covariances, and the LKJ density by partial correlations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

import evidence as ev
from evidence import precisions


def correlation(partials):
    """A matrix from partial correlations, by the textbook's recursion (three effects)."""
    a, b, c = partials
    r = a * b + c * np.sqrt((1 - a * a) * (1 - b * b))
    return np.array([[1, a, b], [a, 1, r], [b, r, 1]])


def test_covariance_of_a_group():
    sd, partials = np.array([0.5, 2.0, 1.3]), (0.6, -0.3, 0.8)
    prior = precisions.effects(3, ("1", "x", "z"), sd, partials)
    K = sd[:, None] * correlation(partials) * sd
    np.testing.assert_allclose(prior.root() @ prior.root().T, K, atol=1e-14)
    assert np.all(np.triu(prior.root(), 1) == 0.0)
    np.testing.assert_allclose(
        prior.matrix().toarray(), np.kron(np.eye(3), np.linalg.inv(K)), atol=1e-12
    )


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_hyperparameters_round_trip(k):
    rng = np.random.default_rng(k)
    names = [f"e{i}" for i in range(k)]
    pairs = k * (k - 1) // 2
    prior = precisions.effects(4, names, rng.uniform(0.1, 3.0, k), rng.uniform(-0.9, 0.9, pairs))
    assert prior.theta.size == len(prior.hyperparameters) == len(prior.bounds) == k + pairs
    again = prior.clone_with_theta(prior.theta)
    np.testing.assert_allclose(again.matrix().toarray(), prior.matrix().toarray(), rtol=1e-10)
    other = prior.clone_with_theta(prior.theta + 0.3)
    np.testing.assert_allclose(other.sigmas, prior.sigmas * np.exp(0.3))
    odds = (1 + prior.partials) / (1 - prior.partials) * np.exp(0.3)
    np.testing.assert_allclose(other.partials, (odds - 1) / (odds + 1))
    assert np.linalg.eigvalsh(other.matrix().toarray()).min() > 0.0
    R = other.root() @ other.root().T / np.outer(other.sigmas, other.sigmas)
    np.testing.assert_allclose(np.diag(R), 1.0)
    np.testing.assert_allclose(R[1:, 0], [other.partials[i * (i - 1) // 2] for i in range(1, k)])


def test_the_pattern_does_not_depend_on_values():
    one = precisions.effects(3, ("1", "x"), 1.0, 0.0).matrix()
    two = precisions.effects(3, ("1", "x"), (1.0, 2.0), 0.5).matrix()
    np.testing.assert_array_equal(one.indices, two.indices)
    np.testing.assert_array_equal(one.indptr, two.indptr)


@pytest.mark.parametrize("eta", [0.5, 1.0, 2.5])
def test_betas_of_partial_correlations_are_lkj(eta):
    """For three effects, p(R) ∝ |R|^(η-1); it integrates to one over the elements of R."""
    shapes = np.array([eta + 0.5, eta + 0.5, eta])

    def log_lkj(partials):
        """log density of R's elements: that of partials, less the change of variables."""
        a, b, _ = partials
        log_p = stats.beta.logpdf((np.asarray(partials) + 1) / 2, shapes, shapes) - np.log(2)
        return log_p.sum() - 0.5 * np.log((1 - a * a) * (1 - b * b))

    rng = np.random.default_rng(0)
    gaps = []
    for partials in rng.uniform(-0.95, 0.95, (50, 3)):
        root = precisions.effects(1, ("1", "x", "z"), 1.0, partials).root()
        R = root @ root.T
        np.testing.assert_allclose(R, correlation(partials), atol=1e-12)
        gaps.append(log_lkj(partials) - (eta - 1) * np.linalg.slogdet(R)[1])
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-9)
    if eta > 1.0:  # of all matrices, by their elements

        def density(r23, r13, r12):
            det = 1 + 2 * r12 * r13 * r23 - r12**2 - r13**2 - r23**2
            return np.exp(gaps[0]) * det ** (eta - 1) if det > 0.0 else 0.0

        def ends(r13, r12):
            middle, half = r12 * r13, np.sqrt((1 - r12**2) * (1 - r13**2))
            return middle - half, middle + half

        total, _ = integrate.tplquad(
            density, -1, 1, -1, 1, lambda p, q: ends(q, p)[0], lambda p, q: ends(q, p)[1],
            epsabs=1e-4, epsrel=1e-4,
        )  # fmt: skip
        assert total == pytest.approx(1.0, abs=2e-3)


def test_the_priors_of_formulas_are_these():
    data = {"y": np.arange(8.0), "x": [0.0, 1, 0, 2] * 2, "z": [1.0, 0, 3, 1] * 2, "g": [1, 2] * 4}
    model = ev.from_formula("y ~ (1 + x + z | g)", data, priors={"cor(g)": "lkj(2.5)"})
    found = dict(model.priors.items())
    shapes = [found[f"cor({pair}|g)"].args[0] for pair in ("1,x", "1,z", "x,z")]
    assert shapes == [3.0, 3.0, 2.5]


def test_fixed_values_are_not_free():
    prior = precisions.effects(2, ("1", "x"), (1.0, 2.0), 0.3, sigma_bounds="fixed")
    assert prior.theta.size == prior.bounds.size == 0
    assert all(p.fixed for p in prior.hyperparameters)
    assert prior.clone_with_theta([]) is prior


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"groups": 0}, "groups"),
        ({"groups": 2.5}, "groups"),
        ({"names": "x"}, "names"),
        ({"names": ()}, "names"),
        ({"names": ("x", "x")}, "names"),
        ({"sigma": -1.0}, "sigma"),
        ({"sigma": (1.0, 2.0, 3.0)}, "sigma"),
        ({"cor": 1.0}, "cor"),
        ({"cor": (0.1, 0.2)}, "cor"),
        ({"cor": np.nan}, "cor"),
        ({"sigma_bounds": (2.0, 1.0)}, "sigma_bounds"),
    ],
)
def test_bad_input(words, message):
    with pytest.raises(ev.InputError, match=message):
        precisions.effects(**({"groups": 3, "names": ("1", "x")} | words))

"""Chains of kernels against scikit-learn's matrices."""

from __future__ import annotations

import numpy as np
import pytest

import evidence as ev
from evidence.gaussians.markov import MarkovPrior
from evidence.models.kernels.parse import parse_kernel
from evidence.models.kernels.statespace import chain, has_chain, terms

KERNELS = (
    "4.0 * Matern(0.7, nu=0.5)",
    "Matern(1.3, nu=1.5)",
    "2.0 * Matern(1.3, nu=2.5)",
    "2.0 * Matern(2.0, nu=2.5) + 0.5 * Matern(0.3, nu=0.5) + 3.0",
    "(2.0 + 1.0) * (Matern(2.0, nu=1.5) + 4.0) + WhiteKernel(0.3) * 2.0",
)


@pytest.mark.parametrize("text", KERNELS)
def test_covariances_of_any_inputs(text):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (40, 1))
    X[:3], X[20], X[30] = X[3], X[4] + 1e-12, 1e5
    kernel = parse_kernel(text)
    K = kernel(X)
    prior = MarkovPrior(np.zeros(40), chain(kernel, X))
    found = np.column_stack([prior.times(unit) for unit in np.eye(40)])
    np.testing.assert_allclose(found, K, atol=1e-13 * K.max())
    np.testing.assert_allclose(prior.variances, np.diag(K), rtol=1e-13)


@pytest.mark.parametrize("text", KERNELS)
def test_jitter_is_relative_to_the_diagonal(text):
    kernel, X = parse_kernel(text), np.array([[0.0], [1.0], [1.0]])
    prior = MarkovPrior(np.zeros(3), chain(kernel, X, jitter=0.01))
    np.testing.assert_allclose(prior.variances, 1.01 * kernel.diag(X), rtol=1e-13)


@pytest.mark.parametrize(("nu", "rate"), [(0.5, 2.0), (1.5, 4.0 / 3.0), (2.5, 16.0 / 60.0)])
def test_noise_keeps_its_digits_where_times_nearly_meet(nu, rate):
    """To first order f's noise is that of an integrated Wiener process, q a^(2p-1) / …."""
    gap = 1e-9
    made = chain(parse_kernel(f"Matern(1.0, nu={nu})"), np.array([[0.0], [gap]]))
    a = np.sqrt(2.0 * nu) * gap
    assert made.noises[0, 0, 0] == pytest.approx(rate * a ** (2.0 * nu), rel=1e-6)


def test_equal_terms_are_one():
    found = terms(parse_kernel("Matern(2.0, nu=1.5) + 3.0 * Matern(2.0, nu=1.5) + 1.0 + 2.0"))
    assert found == {("matern", 1.5, 2.0): 4.0, ("constant", 0.0, 0.0): 3.0}


REFUSED = (
    "RBF(1.0)",
    "Matern(1.0, nu=1.0)",
    "Matern([1.0, 2.0], nu=1.5)",
    "Matern(1.0, nu=0.5) * Matern(2.0, nu=0.5)",
    "Matern(1.0, nu=1.5) + DotProduct(1.0)",
    "2.0 + WhiteKernel(1.0)",
)


@pytest.mark.parametrize("text", REFUSED)
def test_kernels_without_a_chain(text):
    kernel, X = parse_kernel(text), np.zeros((3, 1))
    assert not has_chain(kernel, X)
    with pytest.raises(ev.InputError, match=r"kernel .*Matern with nu=0.5"):
        chain(kernel, X)


def test_inputs_are_on_a_line():
    kernel, X = parse_kernel("Matern(1.0, nu=0.5)"), np.zeros((3, 2))
    assert not has_chain(kernel, X)
    with pytest.raises(ev.InputError, match=r"structure='markov' .* \(3, 2\)"):
        chain(kernel, X)

"""Kernel gradients in reverse mode against scikit-learn's own."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)

from evidence.models.kernels.gradients import contract

ARD = [0.7, 1.9, 3.0]
KERNELS = {
    "constant": ConstantKernel(2.5),
    "white": WhiteKernel(0.3),
    "rbf": RBF(1.3),
    "rbf ard": RBF(ARD),
    "matern 1/2": Matern(1.1, nu=0.5),
    "matern 1/2 ard": Matern(ARD, nu=0.5),
    "matern 3/2": Matern(1.1, nu=1.5),
    "matern 3/2 ard": Matern(ARD, nu=1.5),
    "matern 5/2": Matern(1.1, nu=2.5),
    "matern 5/2 ard": Matern(ARD, nu=2.5),
    "matern inf": Matern(1.1, nu=np.inf),
    "matern inf ard": Matern(ARD, nu=np.inf),
    "rational quadratic": RationalQuadratic(0.8, alpha=1.7),
    "rational quadratic, alpha fixed": RationalQuadratic(0.8, 1.7, alpha_bounds="fixed"),
    "periodic": ExpSineSquared(0.8, 2.3),
    "periodic, length fixed": ExpSineSquared(0.8, 2.3, length_scale_bounds="fixed"),
    "dot product": DotProduct(0.6),
    "pairwise": PairwiseKernel(gamma=0.4, metric="rbf"),
    "all fixed": ConstantKernel(2.0, "fixed") * RBF(1.0, "fixed"),
    "amplitude": 4.0 * RBF(ARD),
    "amplitude fixed": ConstantKernel(4.0, "fixed") * RBF(ARD),
    "sum": 4.0 * RBF(2.0) + 0.5 * Matern(ARD, nu=1.5) + WhiteKernel(0.1),
    "product": RBF(2.0) * Matern(ARD, nu=2.5) * ExpSineSquared(1.2, 2.0),
    "white inside a product": 2.0 * (RBF(1.0) + WhiteKernel(0.2)) * RationalQuadratic(),
    "power": (0.5 * RBF(1.5) + ConstantKernel(0.3)) ** 2,
    "power of a constant": ConstantKernel(1.7) ** 3,
    "nested": ((0.5 * RBF(1.5) + DotProduct(0.4)) ** 2 * Matern(0.8) + 0.1) ** 0.5,
    "fallback inside": 2.0 * PairwiseKernel(gamma=0.4, metric="laplacian") + RBF(ARD),
}


def symmetric(rng, n):
    W = rng.normal(size=(n, n))
    return W + W.T


def inputs(rng, n=23):
    X = rng.normal(size=(n, 3))
    X[4] = X[3]  # Matern 1/2 has a kink there
    return X


@pytest.mark.parametrize("name", KERNELS)
def test_against_scikit_learn(name):
    rng = np.random.default_rng(1)
    X, W, kernel = inputs(rng), symmetric(rng, 23), KERNELS[name]
    gradient = kernel(X, eval_gradient=True)[1]
    scale = np.abs(W[:, :, None] * gradient).sum((0, 1))
    got = contract(kernel, X, W)
    assert got.shape == kernel.theta.shape
    assert (np.abs(got - np.einsum("ij,ijp->p", W, gradient)) <= 1e-12 * scale).all()


def test_inputs_far_from_the_origin():
    rng = np.random.default_rng(1)
    X, W = inputs(rng), symmetric(rng, 23)
    for kernel in (RBF(ARD), Matern(ARD, nu=0.5), Matern(ARD, nu=0.3)):
        far = contract(kernel, X + 1e3, W)
        np.testing.assert_allclose(far, contract(kernel, X, W), rtol=1e-9)


def test_general_matern_against_finite_differences():
    """Here scikit-learn differences K itself with a step of 1e-10."""
    rng = np.random.default_rng(2)
    X, W = rng.normal(size=(15, 2)), symmetric(rng, 15)
    for kernel in (Matern(1.1, nu=0.8), Matern([1.1, 0.4], nu=3.3)):
        h, numeric = 1e-3, []
        for p in range(kernel.theta.size):
            e = h * np.eye(kernel.theta.size)[p]
            at = {j: kernel.clone_with_theta(kernel.theta + j * e)(X) for j in (-2, -1, 1, 2)}
            slope = (at[-2] - 8 * at[-1] + 8 * at[1] - at[2]) / (12 * h)
            numeric.append(np.vdot(W, slope))
        np.testing.assert_allclose(contract(kernel, X, W), numeric, rtol=1e-9)


@pytest.mark.parametrize("length", [1e-3, 1e3])
def test_extreme_length_scales_keep_their_digits(length):
    """One length scale per column needs a difference of large terms; isotropic code does not."""
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.normal(size=(20, 2)), rng.normal(size=(20, 2))])
    X[20:] = X[:20] + 1e-3 * rng.normal(size=(20, 2))  # neighbours within the short scale
    W = np.abs(symmetric(rng, 40))
    both = contract(RBF([length, length]), X, W)
    np.testing.assert_allclose(both.sum(), contract(RBF(length), X, W)[0], rtol=1e-8)


def test_what_cannot_be_differentiated_is_an_error():
    X, W = np.zeros((2, 1)), np.eye(2)
    with pytest.raises(ValueError, match="need a scikit-learn kernel"):
        contract(lambda a, b: np.eye(2), X, W)
    with pytest.raises(ValueError, match="CompoundKernel"):
        contract(CompoundKernel([RBF(), RBF()]), X, W)
    with pytest.raises(ValueError, match="W must be 2 x 2"):
        contract(RBF(), X, np.eye(3))

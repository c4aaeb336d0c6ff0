r"""Gradients of :math:`\sum_{ij} W_{ij} K_{ij}(\theta)` in the logs of a kernel's parameters.

Any scalar that depends on θ through K has such a gradient, with W its derivative in K. Reverse
mode: every node of a kernel expression gives its matrix and a *pullback*, a function that takes
W to :math:`\sum_{ij} W_{ij}\, \partial K_{ij}/\partial\theta_p`. A sum hands W down as it is, a
product :math:`K_1 \circ K_2` hands down :math:`W \circ K_2` and :math:`W \circ K_1`, a power
:math:`W \circ p K^{p-1}`; nothing of shape (N, N, P) arises.

An RBF or Matérn kernel is a function k(r) of :math:`r^2 = \sum_d (x_d - x'_d)^2/l_d^2`, and

.. math:: \sum_{ij} W_{ij} \frac{\partial K_{ij}}{\partial \log l_d}
          = \sum_{ij} V_{ij} \frac{(x_{id} - x_{jd})^2}{l_d^2}
          = \frac{2}{l_d^2} \Big(\sum_i x_{id}^2 \sum_j V_{ij} - x_d^T V x_d\Big),
          \quad V = W \circ \frac{-k'(r)}{r},

one matrix product for all length scales. The diagonal of V contributes nothing and is dropped,
and X is centred: both keep the difference from losing its digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.spatial.distance import pdist, squareform
from scipy.special import kv

from ...execution.arguments import shown
from ...execution.lazy import Kernel
from ...execution.lazy import kernels as k
from ...messages import InputError
from ...numerics.arrays import Array

Pullback = Callable[[Array], Array]
Value = Array | float  # a constant stays a number


def contract(kernel: Kernel, X: Array, W: Array) -> Array:
    r"""Return :math:`\sum_{ij} W_{ij}\, \partial K_{ij}/\partial\theta_p`, shape (P,).

    Parameters
    ----------
    kernel : scikit-learn kernel
        Sums, products and powers are taken apart. Leaves other than ``ConstantKernel``,
        ``WhiteKernel``, ``RBF``, ``Matern``, ``RationalQuadratic``, ``ExpSineSquared`` and
        ``DotProduct`` are asked for their own gradient, ``kernel(X, eval_gradient=True)``, of
        shape (N, N, P).
    X : array (N, D)
    W : array (N, N)
        Symmetric.

    Returns
    -------
    array (P,)
        In the order of ``kernel.theta``: natural logarithms of what is not fixed.

    >>> from sklearn.gaussian_process.kernels import RBF
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> W = np.ones((3, 3))
    >>> kernel = 2.0 * RBF(1.5)
    >>> bool(np.allclose(contract(kernel, X, W), kernel(X, eval_gradient=True)[1].sum((0, 1))))
    True
    """
    if not hasattr(kernel, "theta"):
        raise InputError(
            "kernel: gradients need a scikit-learn kernel, or one with its interface "
            f"(theta, hyperparameters, eval_gradient), got {shown(kernel)}"
        )
    if np.shape(W) != (len(X), len(X)):
        raise InputError(f"W must be {len(X)} x {len(X)}, as the kernel is, got {np.shape(W)}")
    return _reverse(kernel, X)[1](W)


def _reverse(kernel: Kernel, X: Array) -> tuple[Value, Pullback]:
    """The kernel's matrix on X and its pullback."""
    return _rules().get(type(kernel), _asked)(kernel, X)


def _rules() -> dict[type, Callable[[Kernel, Array], tuple[Value, Pullback]]]:
    return {
        k.Sum: _sum, k.Product: _product, k.Exponentiation: _power, k.CompoundKernel: _compound,
        k.ConstantKernel: _constant, k.WhiteKernel: _white, k.RBF: _stationary,
        k.Matern: _stationary, k.RationalQuadratic: _rational_quadratic,
        k.ExpSineSquared: _periodic, k.DotProduct: _dot_product,
    }  # fmt: skip


def _sum(kernel: Kernel, X: Array) -> tuple[Value, Pullback]:
    (first, pull_first), (second, pull_second) = _reverse(kernel.k1, X), _reverse(kernel.k2, X)
    return first + second, lambda W: np.concatenate([pull_first(W), pull_second(W)])


def _product(kernel: Kernel, X: Array) -> tuple[Value, Pullback]:
    (first, pull_first), (second, pull_second) = _reverse(kernel.k1, X), _reverse(kernel.k2, X)
    return first * second, lambda W: np.concatenate(
        [pull_first(W * second), pull_second(W * first)]
    )


def _power(kernel: Kernel, X: Array) -> tuple[Value, Pullback]:
    base, pull = _reverse(kernel.kernel, X)
    p = kernel.exponent
    return base**p, lambda W: pull(W * (p * base ** (p - 1)))


def _compound(kernel: Kernel, X: Array) -> tuple[Value, Pullback]:
    raise InputError(
        "kernel: a CompoundKernel stands for several covariances; pass one of them, or their sum"
    )


def _asked(kernel: Kernel, X: Array) -> tuple[Value, Pullback]:
    K, gradient = kernel(X, eval_gradient=True)
    return K, lambda W: np.einsum("ij,ijp->p", W, gradient)


def _leaf(kernel: Kernel, K: Value, **slopes: Callable[[Array], float]) -> tuple[Value, Pullback]:
    """K, and what W makes of the parameters that are not fixed, in the kernel's order."""
    free = [name for name in slopes if not getattr(kernel, f"hyperparameter_{name}").fixed]
    return K, lambda W: np.array([slopes[name](W) for name in free])


def _constant(kernel: Kernel, X: Array) -> tuple[Value, Pullback]:
    c = float(kernel.constant_value)
    return _leaf(kernel, c, constant_value=lambda W: c * W.sum())


def _white(kernel: Kernel, X: Array) -> tuple[Value, Pullback]:
    c = float(kernel.noise_level)
    return _leaf(kernel, c * np.eye(len(X)), noise_level=lambda W: c * np.trace(W))


def _dot_product(kernel: Kernel, X: Array) -> tuple[Value, Pullback]:
    s2 = float(kernel.sigma_0) ** 2
    return _leaf(kernel, X @ X.T + s2, sigma_0=lambda W: 2.0 * s2 * W.sum())


def _rational_quadratic(kernel: Kernel, X: Array) -> tuple[Value, Pullback]:
    alpha = kernel.alpha
    t = squareform(pdist(X / kernel.length_scale, "sqeuclidean")) / (2.0 * alpha)
    K = (1.0 + t) ** -alpha
    slope = alpha * t / (1.0 + t)
    return _leaf(
        kernel, K,
        alpha=lambda W: np.vdot(W, K * (slope - alpha * np.log1p(t))),
        length_scale=lambda W: 2.0 * np.vdot(W, K * slope),
    )  # fmt: skip


def _periodic(kernel: Kernel, X: Array) -> tuple[Value, Pullback]:
    angle = np.pi / kernel.periodicity * squareform(pdist(X))
    sine = np.sin(angle) / kernel.length_scale
    turned = angle * np.cos(angle) / kernel.length_scale
    K = np.exp(-2.0 * sine**2)
    return _leaf(
        kernel, K,
        length_scale=lambda W: 4.0 * np.vdot(W, K * sine**2),
        periodicity=lambda W: 4.0 * np.vdot(W, K * sine * turned),
    )  # fmt: skip


def _stationary(kernel: Kernel, X: Array) -> tuple[Value, Pullback]:
    """RBF and Matern, one length scale or one per column."""
    nu = getattr(kernel, "nu", math.inf)
    scaled = X / kernel.length_scale
    r2 = pdist(scaled, "sqeuclidean")
    upper, drop = _profile(r2, nu)
    K = squareform(upper)
    np.fill_diagonal(K, 1.0)

    def pull(W: Array) -> Array:
        if kernel.hyperparameter_length_scale.fixed:
            return np.zeros(0)
        if not kernel.anisotropic:
            return np.array([np.vdot(W, squareform(drop * r2))])
        V = W * squareform(drop)  # its diagonal is zero
        x = scaled - scaled.mean(axis=0)
        return 2.0 * (V.sum(axis=1) @ (x * x) - np.einsum("id,id->d", x, V @ x))

    return K, pull


def _profile(r2: Array, nu: float) -> tuple[Array, Array]:
    """k(r) and -k'(r)/r (at r = 0 as well, where K does not depend on the length scales)."""
    if nu == math.inf:
        K = np.exp(-0.5 * r2)
        return K, K
    if nu in (0.5, 1.5, 2.5):
        z = np.sqrt(2.0 * nu * r2)
        decay = np.exp(-z)
        if nu == 0.5:
            return decay, np.divide(decay, z, out=np.zeros_like(z), where=z > 0.0)
        if nu == 1.5:
            return (1.0 + z) * decay, 3.0 * decay
        return (1.0 + z + z * z / 3.0) * decay, 5.0 / 3.0 * (1.0 + z) * decay
    z = np.sqrt(2.0 * nu * np.maximum(r2, np.finfo(float).eps ** 2))
    c = 2.0 ** (1.0 - nu) / math.gamma(nu)
    drop = 2.0 * nu * c * z ** (nu - 1.0) * kv(nu - 1.0, z)
    return c * z**nu * kv(nu, z), np.where(r2 > 0.0, drop, 0.0)

r"""Regression by a neural network with one hidden layer, its width to be judged by evidence.

.. math:: f(x) = \sum_{h=1}^H v_h \tanh(a_h^T x + b_h),\qquad y_n \sim N(f(x_n), \sigma^2)

Every unit has the same prior whatever the width, so that a superfluous one has to be silenced
by the data, which costs evidence:

.. math:: a_{hj} \sim N(0, s_1^2 / D),\quad b_h \sim N(0, s_1^2),\quad v_h \sim N(0, s_2^2)

Where the noise is learnt, :math:`\log\sigma \sim N(\log 0.3, 1)` is the last parameter. The
posterior has :math:`2^H H!` equal modes: exchanged units, and units whose signs are turned.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...execution.arguments import check_count, check_memory, check_positive, number, seed_sequence
from ...numerics.arrays import Array
from ..density.autodiff import from_jax
from ..density.priors import GaussianPrior
from .example import LOG_2PI, Example, check_data


class Network:
    """The log likelihood of one point θ = (a, b, v[, log σ]), in JAX."""

    __name__ = "neural network"

    def __init__(self, width: int, X: Array, y: Array, noise: float | None) -> None:
        self.width, self.X, self.y, self.noise = width, X, y, noise

    @property
    def dim(self) -> int:
        return self.width * (self.X.shape[1] + 2) + (self.noise is None)

    def mean(self, theta: Any) -> Any:
        """f at the inputs, (N,)."""
        import jax.numpy as jnp

        H, D = self.width, self.X.shape[1]
        a = theta[: H * D].reshape(D, H)
        b, v = theta[H * D : H * D + H], theta[H * D + H : H * D + 2 * H]
        return jnp.tanh(self.X @ a + b) @ v

    def __call__(self, theta: Any) -> Any:
        import jax.numpy as jnp

        log_noise = theta[-1] if self.noise is None else np.log(self.noise)
        misfit = jnp.sum((self.y - self.mean(theta)) ** 2)
        n = len(self.y)
        return -0.5 * misfit * jnp.exp(-2.0 * log_noise) - n * (log_noise + 0.5 * LOG_2PI)

    def prior(self, inner: float, outer: float) -> GaussianPrior:
        log_noise = float(np.log(0.3))
        H, D = self.width, self.X.shape[1]
        sd = [inner / np.sqrt(D)] * (H * D) + [inner] * H + [outer] * H
        mean = np.zeros(self.dim)
        if self.noise is None:
            sd, mean[-1] = [*sd, 1.0], log_noise
        return GaussianPrior(mean, np.square(sd))

    def names(self) -> list[str]:
        H, D = self.width, self.X.shape[1]
        names = [f"a[{h},{j}]" for j in range(D) for h in range(H)]
        names += [f"b[{h}]" for h in range(H)] + [f"v[{h}]" for h in range(H)]
        return names + ["log noise"] * (self.noise is None)


def neural_network(
    width: int,
    X: ArrayLike,
    y: ArrayLike,
    noise: float | None = None,
    inner: float = 2.0,
    outer: float = 3.0,
) -> Example:
    """A network of ``width`` hidden units; needs JAX.

    Parameters
    ----------
    width : int
        Number of hidden units H.
    X, y : array
        Inputs (N, D) and outputs (N,), of a scale near 1.
    noise : float, optional
        Standard deviation of the noise; without it, it is learnt.
    inner, outer : float
        Scales s₁ and s₂ of the priors.

    Examples
    --------
    >>> X = np.linspace(-2.0, 2.0, 20)[:, None]
    >>> neural_network(3, X, np.sin(X[:, 0]), noise=0.1).model
    DensityModel(neural network, dim=9, prior=Gaussian)
    """
    check_count("width", width, optional=False)
    check_positive("noise", noise)
    inner, outer = number("inner", inner, above=0.0), number("outer", outer, above=0.0)
    X, y = check_data(X, y)
    check_memory("width", width, width, width, X.shape[1] + 2, X.shape[1] + 2)
    density = Network(width, X, y, noise)
    prior = density.prior(inner, outer)
    model = from_jax(density, density.dim, prior=prior, names=density.names())
    return Example(model, None, None, f"neural network of width {width} on {len(y)} points")


def simulated_network(n: int = 60, noise: float = 0.2, seed: int = 0) -> tuple[Array, Array]:
    """Data of a network of two units that make a lopsided bump: X (N, 1) and y (N,).

    >>> X, y = simulated_network()
    >>> X.shape, y.shape
    ((60, 1), (60,))
    """
    check_count("n", n, optional=False)
    check_memory("n", n, n)
    noise = number("noise", noise, above=0.0)
    X = np.linspace(-2.0, 2.0, n)[:, None]
    f = 2.0 * np.tanh(2.0 * X[:, 0] + 2.0) - 1.5 * np.tanh(2.0 * X[:, 0] - 2.0)
    return X, f + noise * np.random.default_rng(seed_sequence(seed)).standard_normal(n)

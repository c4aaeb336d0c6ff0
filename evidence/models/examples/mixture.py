r"""A mixture of Gaussians with unequal weights, in correlated components.

.. math:: p(x) = \sum_k w_k\, N(x; m_k, \Sigma_k),\qquad w_k \propto K + 1 - k

With responsibilities :math:`r_k = w_k N_k / p`, :math:`g_k = -\Sigma_k^{-1}(x - m_k)` and
:math:`g = \sum_k r_k g_k`, the Hessian of log p is
:math:`\sum_k r_k (g_k g_k^T - \Sigma_k^{-1}) - g g^T`, and
:math:`\nabla r_k = r_k (g_k - g)` gives the next order.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from ...execution.arguments import check_count, check_memory, check_size, number
from ...numerics.arrays import Array, Indices
from .example import LOG_2PI, Example, Smooth
from .gaussian import rotation

_ARRANGEMENTS = 200


class Mixture(Smooth):
    """Means (K, d), roots (K, d, d) of the covariances, weights (K,)."""

    def __init__(self, means: Array, roots: Array, weights: Array) -> None:
        self.means, self.roots, self.weights = means, roots, weights
        self.dim = means.shape[1]
        inverse = np.linalg.inv(roots)
        self.precisions = np.swapaxes(inverse, 1, 2) @ inverse
        half = np.linalg.slogdet(roots)[1]
        self.constants = np.log(weights) - half - 0.5 * self.dim * LOG_2PI

    def _components(self, x: Array) -> tuple[Array, Array]:
        """log w_k N_k (M, K) and g_k (K, M, d)."""
        away = x - self.means[:, None, :]
        slopes = -away @ self.precisions
        return self.constants + 0.5 * np.einsum("kmi,kmi->mk", away, slopes), slopes

    def _parts(self, x: Array) -> tuple[Array, Array, Array]:
        """r_k (M, K), g_k (K, M, d) and g (M, d)."""
        logs, slopes = self._components(x)
        r = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        return r, slopes, np.einsum("mk,kmi->mi", r, slopes)

    def value_and_grad(self, x: Array) -> tuple[Array, Array]:
        logs, slopes = self._components(x)
        value = logsumexp(logs, axis=1)
        return value, np.einsum("mk,kmi->mi", np.exp(logs - value[:, None]), slopes)

    def hessian(self, x: Array) -> Array:
        return self._hessian(*self._parts(x))

    def _hessian(self, r: Array, slopes: Array, g: Array) -> Array:
        H = np.einsum("mk,kmi,kmj->mij", r, slopes, slopes)
        H -= np.einsum("mk,kij->mij", r, self.precisions)
        return H - g[:, :, None] * g[:, None, :]

    def third(self, x: Array, W: Array) -> Array:
        r, slopes, g = self._parts(x)
        Wg = np.einsum("mij,kmj->kmi", W, slopes)
        own = np.einsum("kmi,kmi->mk", slopes, Wg) - np.einsum("mij,kij->mk", W, self.precisions)
        out = np.einsum("mk,kmi->mi", r * own, slopes) - (r * own).sum(axis=1)[:, None] * g
        out -= 2.0 * np.einsum("mk,kij,kmj->mi", r, self.precisions, Wg)
        H = self._hessian(r, slopes, g)
        return out - 2.0 * np.einsum("mij,mjk,mk->mi", H, W, g)

    def assign(self, x: Array) -> Indices:
        return self._components(np.atleast_2d(x))[0].argmax(axis=1)

    def draws(self, rng: np.random.Generator, size: int) -> Array:
        k = rng.choice(self.weights.size, size=size, p=self.weights)
        z = rng.standard_normal((size, self.dim))
        return self.means[k] + np.einsum("mij,mj->mi", self.roots[k], z)


def gaussian_mixture(dim: int = 2, n_modes: int = 3, separation: float = 10.0) -> Example:
    """Gaussians whose means are at least ``separation`` apart; the same every time.

    Standard deviations lie between 0.5 and 2. ``example.weights`` has the modes' shares and
    ``example.assign(draws)`` tells which mode each draw belongs to.

    Examples
    --------
    >>> example = gaussian_mixture(dim=2)
    >>> example.logz, np.round(example.weights, 3).tolist()
    (0.0, [0.5, 0.333, 0.167])
    >>> modes = example.assign(example.draws(np.random.default_rng(0), 1000))
    >>> np.bincount(modes).size
    3
    """
    seed = 33
    spread = 4.0  # largest variance of a component; the smallest is 1 / 4
    check_count("dim", dim, optional=False)
    check_size("n_modes", n_modes, n_modes, _ARRANGEMENTS)
    check_memory("dim", dim, dim, dim + _ARRANGEMENTS, n_modes)
    separation = number("separation", separation, above=0.0)
    rng = np.random.default_rng(seed)
    means = separation * _arrange(rng, n_modes, dim)
    sds = np.sqrt(np.geomspace(1.0 / spread, spread, dim)) if dim > 1 else np.ones(1)
    roots = np.array([rotation(rng, dim) * sds for _ in range(n_modes)])
    weights = np.arange(n_modes, 0, -1.0)
    density = Mixture(means, roots, weights / weights.sum())
    about = f"{n_modes} Gaussians in {dim} dimensions, {separation:g} apart, unequal weights"
    return Example(density.model(), 0.0, density.draws, about, density.weights, density.assign)


def _arrange(rng: np.random.Generator, n: int, dim: int) -> Array:
    """The most even of many random arrangements, scaled to a smallest distance of 1."""
    if n == 1:
        return rng.standard_normal((1, dim))
    points = rng.standard_normal((_ARRANGEMENTS, n, dim))
    i, j = np.triu_indices(n, 1)
    away = np.linalg.norm(points[:, i] - points[:, j], axis=2)
    best = (away.min(axis=1) / away.max(axis=1)).argmax()
    return points[best] / away[best].min()

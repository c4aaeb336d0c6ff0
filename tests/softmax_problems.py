"""Small models with several classes and their exact answers."""

from __future__ import annotations

import numpy as np
from problems import covariance
from scipy.special import logsumexp

from evidence import SoftmaxModel


def small_model(n: int = 2, classes: int = 3, shared: bool = False) -> SoftmaxModel:
    """Fields of different size and smoothness, a different mean for each class."""
    K = [covariance(n, 1.5 + k, 1.0 + 0.5 * k) for k in range(classes)]
    y = np.resize([1, 2, 0, 0, 2], n) % classes
    return SoftmaxModel(
        K=K[0] if shared else np.array(K),
        y=y,
        classes=np.arange(classes),
        mean=np.linspace(-0.3, 0.5, classes),
    )


def dense(model: SoftmaxModel) -> np.ndarray:
    """The prior covariance of all latent values at once."""
    n, C = model.n_data, model.n_classes
    out = np.zeros((C, n, C, n))
    for k in range(C):
        out[k, :, k] = model.K[k]
    return out.reshape(C * n, C * n)


def dense_curvature(pi: np.ndarray, s: float = 1.0) -> np.ndarray:
    """W, entry by entry, for π that sum to s over classes."""
    C, n = pi.shape
    W = np.zeros((C, n, C, n))
    for i in range(n):
        W[:, i, :, i] = np.diag(pi[:, i]) - np.outer(pi[:, i], pi[:, i]) / s
    return W.reshape(C * n, C * n)


def log_z_by_quadrature(model: SoftmaxModel, nodes: int = 30) -> float:
    """log Z by tensor Gauss–Hermite over differences to the last class: (C - 1)·N dimensions."""
    n, C = model.n_data, model.n_classes
    D = np.zeros((C - 1, n, C, n))
    for k in range(C - 1):
        D[k, :, k] = np.eye(n)
        D[k, :, C - 1] = -np.eye(n)
    D = D.reshape((C - 1) * n, C * n)
    values, vectors = np.linalg.eigh(D @ dense(model) @ D.T)
    t, w = np.polynomial.hermite_e.hermegauss(nodes)
    grid = _tensor(t, len(values))
    log_w = _tensor(np.log(w / w.sum()), len(values)).sum(axis=1)
    d = (D @ model.mean + (grid * np.sqrt(values)) @ vectors.T).reshape(-1, C - 1, n)
    x = np.concatenate([d, np.zeros((len(d), 1, n))], axis=1)
    own = np.take_along_axis(x, model.codes[None, None, :], axis=1)[:, 0]
    return float(logsumexp(log_w + (own - logsumexp(x, axis=1)).sum(axis=1)))


def _tensor(values: np.ndarray, dimensions: int) -> np.ndarray:
    return np.stack(np.meshgrid(*[values] * dimensions), axis=-1).reshape(-1, dimensions)


def exact_draws(model: SoftmaxModel, m: int, seed: int) -> np.ndarray:
    """Posterior draws by rejection from the prior: the likelihood is at most 1."""
    rng = np.random.default_rng(seed)
    L = np.linalg.cholesky(dense(model))
    kept: list[np.ndarray] = []
    while sum(map(len, kept)) < m:
        x = model.mean + rng.standard_normal((200_000, model.n)) @ L.T
        fields = x.reshape(len(x), model.n_classes, model.n_data)
        own = np.take_along_axis(fields, model.codes[None, None, :], axis=1)[:, 0]
        log_p = (own - logsumexp(fields, axis=1)).sum(axis=1)
        kept.append(x[np.log(rng.random(len(x))) < log_p])
    return np.concatenate(kept)[:m]

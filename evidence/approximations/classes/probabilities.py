r"""Class probabilities under Gaussian latent values, :math:`E[\mathrm{softmax}(x)]`."""

from __future__ import annotations

import numpy as np

from ...numerics.arrays import Array


def normal_nodes(C: int, least: int, components: int = 1) -> Array:
    """Quasi-random normals for each of S components, ``least`` or more in all: (S, R, C).

    >>> normal_nodes(3, 1024).shape, normal_nodes(3, 1024, 300).shape, normal_nodes(3, 8, 9).shape
    ((1, 1024, 3), (300, 4, 3), (9, 1, 3))
    """
    from scipy.special import ndtri
    from scipy.stats import qmc

    each = -(-least // components)
    u = qmc.Sobol(C, seed=0).random_base2((each * components - 1).bit_length())
    z = ndtri(np.clip(u, 1e-12, 1.0 - 1e-12))
    return z[: each * components].reshape(components, each, C)


def expected_softmax(mean: Array, cov: Array, z: Array) -> Array:
    """E[softmax(x)] at b points, shape (b, C), under a mixture of S Gaussians.

    Means (S, b, C), the covariance (b, C, C) of every component, normals (S, R, C).
    """
    from scipy.special import softmax

    if not cov.any():
        return softmax(mean, axis=-1).mean(axis=0)
    s, U = np.linalg.eigh(cov)  # covariances may be singular
    root = U * np.sqrt(np.maximum(s, 0.0))[:, None, :]
    x = np.einsum("src,bkc->srbk", z, root, optimize=True) + mean[:, None]
    return softmax(x, axis=-1).mean(axis=(0, 1))

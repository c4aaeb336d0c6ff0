r"""The gradient of EP's log Z in the hyperparameters.

At its fixed point EP's log Z is stationary in the sites, so that only explicit dependence on
the hyperparameters counts. With :math:`b = \nu - \tau m`, :math:`T = \mathrm{diag}(\tau)`,
:math:`a = K^{-1}(\mu - m)` and :math:`R = (K + T^{-1})^{-1} = T - T \Sigma T`,

.. math:: d \log Z_{EP} = \tfrac12 \mathrm{tr}\big[(a a^T - R)\, dK\big]
          + \sum_n \partial_\varphi \log \hat Z_n \, d\varphi,

where :math:`\hat Z_n` is the integral of the n-th likelihood against its cavity and φ are the
logs of the likelihood's parameters. The first term is a contraction with the kernel's
derivatives (:mod:`evidence.models.kernels.gradients`); the second a difference of one-dimensional
integrals, so that a likelihood needs no derivatives of its own.
"""

from __future__ import annotations

import math

import numpy as np

from ...messages import InputError
from ...models.differences import central
from ...numerics.arrays import Array
from ..predictors.ep import block_gradient
from ..predictors.laplace import fit_block_laplace
from ..predictors.reference import BlockReference
from ..reference import GaussianReference
from .exact import has_closed_form

# The integrals are good to 1e-11 and the stencil's error is h⁴/30: both give about 1e-9.
_STEP = 6e-3


def log_evidence_gradient(reference: GaussianReference | BlockReference) -> Array:
    r"""Gradient of EP's log Z in ``model.hyperparameters.theta``, shape (P,).

    It is as exact as the fixed point: sites that are off by ε leave an error of order ε.

    Parameters
    ----------
    reference : GaussianReference or BlockReference
        Made by :func:`evidence.fit_ep`; where data see several predictors, also Laplace's, whose
        gradient is by differences.

    >>> from evidence import GPModel, fit_ep
    >>> model = GPModel([[0.0], [1.0]], [0.5, 1.0], "RBF(1.0)", likelihood="gaussian")
    >>> gradient = log_evidence_gradient(fit_ep(model))
    >>> dict(zip(model.hyperparameters.names, gradient.round(4).tolist()))
    {'length_scale': 0.132, 'likelihood__noise_std': -0.8713}
    """
    several = isinstance(reference, BlockReference)
    if reference.name != "ep" and not (several and reference.name == "laplace"):
        raise InputError(
            f"gradients are for EP only, got the {reference.name} reference; use ev.fit_ep(model)"
        )
    model = reference.model
    free = model.hyperparameters
    if not len(free):
        raise InputError(
            "the model has no free hyperparameters: its kernel has no theta (or all of it is "
            "fixed) and its likelihood has nothing to learn"
        )
    if isinstance(reference, BlockReference):
        if reference.name == "ep":
            return block_gradient(reference)
        near = reference.gaussian.mean

        def log_z(theta: Array) -> float:
            return fit_block_laplace(model.at(theta), start=near).logz

        return central(log_z, free.theta, range(len(free)), _STEP)
    pieces = [_likelihood_part(reference)]
    if free.n_kernel:
        pieces.insert(0, model.prior_gradient(reference.gaussian))
    return np.concatenate(pieces)


def _likelihood_part(reference: GaussianReference) -> Array:
    """Σ_n ∂ log Ẑ_n / ∂φ at the cavities, by a central difference of fourth order.

    Of normal noise s, whose cavities may be rounding, :math:`\\sum_n s^2 a_n^2 - s^2 R_{nn}`.
    """
    model, (_, nu, tau) = reference.model, reference.sites
    free = model.hyperparameters
    mean, var = reference.predictors
    if has_closed_form(model):
        each = reference.gaussian.dual**2 / tau - 1.0 + tau * var
        return np.full(len(free) - free.n_kernel, each.sum())
    v = 1.0 / (1.0 / var - tau)
    m = v * (mean / var - nu)

    def log_masses(theta: Array) -> float:
        return free.likelihood_at(theta).tilted(model.y, m, v)[0].sum()

    names, at = free.names[free.n_kernel :], free.theta[free.n_kernel :]
    ends = [model.likelihood.limits.get(n.removeprefix("likelihood__"), (0.0,)) for n in names]
    room = [0.25 * (t - math.log(low)) for t, (low, *_) in zip(at, ends, strict=True) if low > 0.0]
    step = min([_STEP, *room])  # what has to be above 1, a shape, stays there
    return central(log_masses, free.theta, range(free.n_kernel, len(free)), step)

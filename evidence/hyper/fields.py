r"""Latent fields: what schemes need to know of a model with hyperparameters.

A field is C independent blocks of N latent values, x of shape (C, N), with prior
:math:`x_c \sim N(m_c, K_c(\theta))`, and a log likelihood :math:`f(x; \theta)`. θ is the whole
vector of logs, of what is sampled and of what is fixed.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Protocol, runtime_checkable

import numpy as np

from ..approximations.reference import GaussianReference
from ..messages import InputError
from ..models.gp import GPModel
from ..models.hyperparameters import Hyperparameters, kernel_parameters
from ..models.predictors import PredictorsModel
from ..numerics.arrays import Array, Indices
from ..numerics.jit import jit
from .at_theta import COARSE, ep_at
from .covariances import covariance_functions


@runtime_checkable
class LatentField(Protocol):
    """Gaussian blocks and a log likelihood; :class:`GPField` is the field of a GPModel.

    Attributes
    ----------
    n : int
        Latent values per block.
    mean : array
        Prior means, shape (C, N).
    groups : tuple[Indices, ...]
        Per block, which hyperparameters move with it; each belongs to one block.
    """

    n: int
    mean: Array
    groups: tuple[Indices, ...]

    @property
    def hyperparameters(self) -> Hyperparameters:
        """Names and starting logs of all hyperparameters."""

    def covariance(self, block: int, theta: Array) -> Array:
        """K of a block, a new C-contiguous symmetric array; anything if there is none."""

    def loglik(self, x: Array, theta: Array) -> tuple[float, Array]:
        """f and its gradient in x, of shapes () and (C, N)."""


@singledispatch
def field_of(model: object) -> LatentField:
    """The latent field of ``model``; a field stands for itself."""
    if isinstance(model, LatentField):
        return model
    raise InputError(
        "model must be a GPModel, a SparseModel, a PredictorsModel or a SoftmaxModel, got "
        f"{type(model).__name__}"
    )


@jit
def _loglik(kernel, theta, x, gradient):
    n = x.size
    out = np.empty((4, n))
    kernel(x.ctypes, theta.ctypes, n, n, 1, 1, out.ctypes)
    total = 0.0
    for i in range(n):
        total += out[0, i]
        gradient[i] = out[1, i]
    return total


@field_of.register(GPModel)
class GPField:
    """One block: the field of a :class:`~evidence.models.gp.GPModel`.

    >>> model = GPModel([[0.0], [1.0]], [1, -1], "4.0 * RBF(1.5)", likelihood="logit")
    >>> field = GPField(model)
    >>> value, gradient = field.loglik(np.zeros((1, 2)), field.hyperparameters.theta)
    >>> round(value, 4), gradient.tolist()
    (-1.3863, [[0.5, -0.5]])
    """

    def __init__(self, model: GPModel) -> None:
        self.model = model
        self.n = model.n
        self.hyperparameters = model.hyperparameters
        self.mean = model.mean[None]
        self.groups = (np.arange(len(self.hyperparameters)),)
        self._n_kernel = self.hyperparameters.n_kernel
        self._kernel = model.likelihood.kernel
        if self._n_kernel:
            kernels, jitter = [model.kernel], model.relative_jitter
            (self._covariance,) = covariance_functions(kernels, model.X, jitter)
        else:
            self._covariance = lambda theta: model.K.copy()

    def covariance(self, block: int, theta: Array) -> Array:
        return self._covariance(theta[: self._n_kernel])

    def loglik(self, x: Array, theta: Array) -> tuple[float, Array]:
        parameters = self.model.theta
        if theta.size > self._n_kernel:
            parameters = self.hyperparameters.likelihood_at(theta).theta(self.model.y)
        gradient = np.empty_like(x)
        return _loglik(self._kernel, parameters, x[0], gradient[0]), gradient

    def reference(self, theta: Array) -> GaussianReference:
        """EP's Gaussian at θ, a function of θ alone."""
        return ep_at(self.model, theta, tol=COARSE)


@field_of.register(PredictorsModel)
class PredictorsField:
    """A block per predictor: the field of a :class:`~evidence.models.predictors.PredictorsModel`.

    Parameters of the likelihood move with the last block.

    >>> from evidence.models.classes import SoftmaxModel
    >>> field = PredictorsField(SoftmaxModel([[0.0], [1.0]], [0, 1], "4.0 * RBF(1.5)"))
    >>> field.n, field.mean.shape, [group.tolist() for group in field.groups]
    (2, (2, 2), [[0, 1], [2, 3]])
    """

    def __init__(self, model: PredictorsModel) -> None:
        self.model = model
        self.n = model.n_data
        self.hyperparameters = model.hyperparameters
        self.mean = model.mean.reshape(model.n_fields, model.n_data)
        self._sizes = [len(kernel_parameters(kernel)[0]) for kernel in model.kernels]
        every = np.arange(len(self.hyperparameters))
        self.groups = tuple(np.split(every, np.cumsum(self._sizes[:-1])))
        self._covariances = covariance_functions(model.kernels, model.X, model.relative_jitter)

    def covariance(self, block: int, theta: Array) -> Array:
        return self._covariances[block](theta[self.groups[block][: self._sizes[block]]])

    def loglik(self, x: Array, theta: Array) -> tuple[float, Array]:
        likelihood = self.hyperparameters.likelihood_at(theta) or self.model.likelihood
        value, slope = likelihood.slopes(self.model.observed, x[None])
        return float(value.sum()), slope[0]

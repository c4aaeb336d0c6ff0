"""The model: a Gaussian prior over latent values and a likelihood for each datum."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.lapack import dpotrf

from . import likelihoods
from .hyperparameters import Hyperparameters, free_parameters
from .likelihoods.base import Likelihood

Array = NDArray[np.float64]

_KERNEL_JITTER = 1e-6


class CovarianceError(ValueError):
    """The prior covariance is not positive definite."""


class GPModel:
    r"""A latent Gaussian model, :math:`x \sim N(m, K)`, :math:`y_n \sim p(y_n|x_n)`.

    Parameters
    ----------
    X : array (N, D), optional
        Inputs. Not needed when ``K`` is given.
    y : array (N,)
        Observations, validated by the likelihood.
    kernel : scikit-learn kernel, callable or str
        A callable gets ``(X, X)`` and returns an (N, N) matrix. A string such as
        ``"4.0 * RBF(1.5)"`` is parsed (never evaluated) into a scikit-learn kernel.
    likelihood : str or Likelihood
        ``"probit"``, ``"logit"``, ``"gaussian"``, ``"student_t"``, ``"poisson"``,
        ``"negative_binomial"``, with parameters as in ``"student_t(df=4, scale=0.5)"``,
        or an object from :mod:`evidence.likelihoods`.
    K : array (N, N), optional
        The prior covariance itself, instead of ``kernel``.
    mean : float or array (N,)
        Fixed prior mean (an offset of the latent function).
    jitter : float, optional
        Added to the diagonal, relative to its mean. Default 1e-6 with a kernel, 0 with ``K``.
        It is never raised behind your back: what was added is in ``model.jitter``, and a
        matrix that is still not positive definite is an error.

    Examples
    --------
    >>> import numpy as np
    >>> model = GPModel(K=np.eye(2), y=[1, -1])
    >>> model.n, model.likelihood.name
    (2, 'probit')
    """

    def __init__(
        self,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        kernel: Callable[..., Any] | str | None = None,
        *,
        likelihood: str | Likelihood = "probit",
        K: ArrayLike | None = None,
        mean: float | ArrayLike = 0.0,
        jitter: float | None = None,
    ) -> None:
        if y is None:
            raise ValueError("y is missing; pass the N observations")
        self.likelihood = likelihoods.get(likelihood)
        observed = np.asarray(y)
        if observed.ndim != 1 or observed.size == 0:
            raise ValueError(
                f"y must be a non-empty vector of N observations, got shape {observed.shape}"
            )
        self.y, notes = self.likelihood.check(observed)
        self.X = None if X is None else _check_inputs(X, self.n)
        if (kernel is None) == (K is None):
            raise ValueError(
                "give exactly one of kernel= (with X) and K= (the covariance matrix); "
                f"got {'neither' if K is None else 'both'}"
            )
        if K is None and self.X is None:
            raise ValueError("X is missing; a kernel needs the N x D inputs")
        if kernel is not None:
            notes += _notes_on_inputs(self.X)
            if isinstance(kernel, str):
                from .kernels import parse_kernel

                kernel = parse_kernel(kernel)
        self.kernel = kernel
        if jitter is None:
            jitter = 0.0 if kernel is None else _KERNEL_JITTER
        if not (np.isfinite(jitter) and jitter >= 0):
            raise ValueError(f"jitter must be a finite number ≥ 0, got {jitter}")
        #: jitter relative to the mean of the prior's diagonal
        self.relative_jitter = float(jitter)
        self._set_prior(K)
        self.mean = _check_mean(mean, self.n)
        self.theta = self.likelihood.theta(self.y)
        #: what a careful reader should know about the data, in words
        self.notes = notes

    def _set_prior(self, K: ArrayLike | None) -> None:
        """K, or what the kernel says, with its jitter and Cholesky factor."""
        name = "kernel(X)" if K is None else "K"
        prior = _check_covariance(_call_kernel(self.kernel, self.X) if K is None else K, name)
        if prior.shape[0] != self.n:
            raise ValueError(
                f"{name} is {prior.shape[0]} x {prior.shape[1]} but y has {self.n} observations"
            )
        #: what was added to the diagonal of the prior covariance, in its own units
        self.jitter = float(self.relative_jitter * np.mean(np.diag(prior)))
        prior.flat[:: self.n + 1] += self.jitter
        factor, info = dpotrf(prior, lower=1, clean=1)
        if info != 0:
            raise CovarianceError(
                f"{name} is not positive definite (Cholesky stopped at row {info} of {self.n}, "
                f"jitter {self.jitter:.3g}); pass a larger relative jitter, e.g. jitter=1e-6, "
                "or remove duplicated rows of X"
            )
        #: prior covariance, jitter included
        self.K = prior
        #: lower Cholesky factor of K
        self.chol: Array = factor

    @cached_property
    def hyperparameters(self) -> Hyperparameters:
        """What is free in kernel and likelihood: names, logs, bounds."""
        return free_parameters(self.kernel, self.likelihood)

    def at(self, theta: ArrayLike | Mapping[str, float]) -> GPModel:
        """The same data under other hyperparameters.

        Parameters
        ----------
        theta : array (P,) or mapping
            Their natural logarithms in the order of ``model.hyperparameters.names``, or natural
            *values* by name, the others staying as they are.

        >>> model = GPModel([[0.0], [1.0]], [1, -1], "4.0 * RBF(1.5)")
        >>> model.at({"length_scale": 3.0}).kernel
        2**2 * RBF(length_scale=3)
        """
        model = copy.copy(self)
        for name in ("logdet", "hyperparameters"):
            model.__dict__.pop(name, None)
        model.kernel, model.likelihood = self.hyperparameters.at(theta)
        if self.hyperparameters.n_kernel:
            model._set_prior(None)
        model.theta = model.likelihood.theta(model.y)
        return model

    @property
    def n(self) -> int:
        """Number of latent values."""
        return int(self.y.size)

    @cached_property
    def logdet(self) -> float:
        """log |K|."""
        return 2.0 * float(np.log(np.diag(self.chol)).sum())

    def bare(self) -> GPModel:
        """The same model without inputs and kernel: all that computing needs, light to send."""
        model = copy.copy(self)
        model.kernel, model.X = None, None
        return model

    def log_prior(self, x: ArrayLike) -> Array:
        """log N(x; mean, K) for a batch ``x`` of shape (..., N)."""
        from scipy.linalg import solve_triangular

        white = solve_triangular(self.chol, np.atleast_2d(x - self.mean).T, lower=True)
        value = -0.5 * (np.sum(white**2, axis=0) + self.logdet + self.n * np.log(2 * np.pi))
        return value.reshape(np.shape(x)[:-1])

    def describe(self) -> dict[str, Any]:
        """What a result tells of its model, in plain words and numbers."""
        return {
            "N": self.n,
            "likelihood": likelihoods.describe(self.likelihood),
            "kernel": "K given" if self.kernel is None else str(self.kernel),
            "jitter": float(f"{self.jitter:.6g}"),
        }

    def identity(self) -> tuple[Array, ...]:
        """Arrays that tell this model from others."""
        return self.K, self.mean, self.theta

    def __repr__(self) -> str:
        kernel = "K" if self.kernel is None else str(self.kernel)
        return f"GPModel(N={self.n}, {kernel}, {likelihoods.describe(self.likelihood)})"


def _check_inputs(X: ArrayLike, n: int) -> Array:
    try:
        X = np.array(X, dtype=float, order="C")
    except (TypeError, ValueError):
        raise ValueError(
            "X must be numeric; encode text columns as numbers before fitting"
        ) from None
    if X.ndim == 1:
        X = X[:, None]
    if X.ndim != 2:
        raise ValueError(f"X must be N x D, got an array of shape {X.shape}")
    if X.shape[0] != n:
        raise ValueError(f"X has {X.shape[0]} rows but y has {n} observations")
    if not np.isfinite(X).all():
        bad = int((~np.isfinite(X)).any(axis=1).sum())
        raise ValueError(f"X contains NaN or inf in {bad} row(s); drop or impute them first")
    return X


def _notes_on_inputs(X: Array) -> tuple[str, ...]:
    notes = []
    duplicated = X.shape[0] - np.unique(X, axis=0).shape[0]
    if duplicated:
        notes.append(
            f"X: {duplicated} duplicated row(s); the covariance is singular but for the jitter"
        )
    constant = np.flatnonzero(np.ptp(X, axis=0) == 0) if X.shape[0] > 1 else []
    if len(constant):
        listed = ", ".join(str(i) for i in constant[:5]) + (", …" if len(constant) > 5 else "")
        notes.append(f"X: constant column(s) {listed} carry no information")
    return tuple(notes)


def _call_kernel(kernel: Callable[..., Any], X: Array) -> Any:
    if not callable(kernel):
        raise ValueError(
            f"kernel must be a scikit-learn kernel, a callable or a string, got {kernel!r}"
        )
    # scikit-learn kernels treat kernel(X) and kernel(X, X) differently: only the first adds
    # the noise of a WhiteKernel.
    return kernel(X) if hasattr(kernel, "get_params") else kernel(X, X)


def _check_covariance(K: Any, name: str) -> Array:
    K = np.array(K, dtype=float, order="C")
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise ValueError(f"{name} must be a square matrix, got shape {K.shape}")
    if not np.isfinite(K).all():
        raise ValueError(f"{name} contains NaN or inf")
    asymmetry = float(np.max(np.abs(K - K.T), initial=0.0))
    if asymmetry > 1e-8 * float(np.max(np.abs(K), initial=0.0)):
        raise ValueError(
            f"{name} is not symmetric (largest difference {asymmetry:.3g}); "
            "pass (K + K.T) / 2 if that is what you mean"
        )
    return 0.5 * (K + K.T)


def _check_mean(mean: float | ArrayLike, n: int) -> Array:
    value = np.asarray(mean, dtype=float)
    if value.shape not in ((), (n,)):
        raise ValueError(f"mean must be a number or a vector of length {n}, got {value.shape}")
    if not np.isfinite(value).all():
        raise ValueError("mean contains NaN or inf")
    return np.array(np.broadcast_to(value, (n,)))

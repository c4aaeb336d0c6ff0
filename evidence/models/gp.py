"""The model: a Gaussian prior over latent values and a likelihood for each datum."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..execution.arguments import array, rows
from ..execution.keywords import hinted
from ..gaussians.base import Gaussian, Prior
from ..gaussians.dense import DenseGaussian, DensePrior
from ..messages import InputError
from ..numerics.arrays import Array
from . import likelihoods, structures
from .covariance import CovarianceError as CovarianceError
from .covariance import as_kernel, call_kernel, check_source, factorise, notes_on_inputs
from .hyperparameters import Hyperparameters, free_parameters
from .identity import rounded, sketch, sketch_prior
from .kernels.gradients import contract
from .latent import LatentModel, check_mean, check_noise, megabytes, observations
from .likelihoods.base import Likelihood


class GPModel(LatentModel):
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
        ``"probit"``, ``"logit"``, ``"cloglog"``, ``"gaussian"``, ``"student_t"``, ``"gamma"``,
        ``"poisson"``, ``"negative_binomial"``, ``"geometric"``, ``"zero_inflated_poisson"``,
        ``"zero_inflated_negative_binomial"``, ``"hurdle_poisson"``,
        ``"hurdle_negative_binomial"``, ``"binomial"``, ``"beta_binomial"``, ``"beta"``,
        ``"exponential"``, ``"lognormal"``, ``"weibull"``, ``"log_logistic"``,
        ``"asymmetric_laplace"``, ``"ordinal"``, with parameters as in
        ``"student_t(df=4, scale=0.5)"`` or ``"ordinal(gaps=(1, 0.5))"``, or an object from
        :mod:`evidence.models.likelihoods`.
    K : array (N, N), optional
        The prior covariance itself, instead of ``kernel``.
    mean : float or array (N,)
        Fixed prior mean (an offset of the latent function).
    jitter : float, optional
        Added to the diagonal, relative to its mean. Default 1e-6 with a kernel, 0 with ``K``
        and for structures that need none. It is never raised behind your back: what was added is
        in ``model.jitter``, and a matrix that is still not positive definite is an error.
    structure : {"auto", "dense", "markov", "vecchia"}
        How the prior is stored. ``"dense"``: as a matrix, for any kernel; fits cost N³ operations
        and 10 N² numbers. ``"markov"``: as a Markov chain of states, exact and of cost N, for
        inputs on a line (in any order, with any spacing, repeated or not) and ``Matern`` kernels
        with ``nu`` of 0.5, 1.5 or 2.5, constants times these, their sums, and sums with a
        ``ConstantKernel`` or ``WhiteKernel``. ``"vecchia"``, or ``"vecchia(m=60)"``: as a sparse
        precision whose graph joins each latent value to its m (30) nearest neighbours among those
        before it, for any kernel in up to three dimensions: an approximation, better with more
        neighbours (:func:`.log_evidence` reports how log Z changes from m/2 to m); equal
        inputs share a latent value, with its jitter. ``"auto"``: dense up to N = 2000; above, a
        chain where the kernel has one; else dense while memory and about an hour for a fit
        suffice. What is too large is an error before memory is taken.

    Attributes
    ----------
    X, y, kernel, likelihood, mean
        As given, checked and in their final form.
    K, chol : array (N, N)
        The prior covariance, jitter included, and its lower Cholesky factor, where
        ``model.structure`` is ``"dense"``.
    jitter : float
        What was added to the diagonal of the prior covariance, in its own units.
    relative_jitter : float
        The same relative to the mean of the diagonal.
    notes : tuple of str
        What a careful reader should know about the data, in words.

    Examples
    --------
    >>> import numpy as np
    >>> model = GPModel(K=np.eye(2), y=[1, -1])
    >>> model.n, model.likelihood.name
    (2, 'probit')
    >>> GPModel([[0.0], [1.0], [2.0]], [3, 0, 1], "4.0 * RBF(1.5)", likelihood="poisson")
    GPModel(N=3, 2**2 * RBF(length_scale=1.5), poisson(exposure=1, offset=0))
    """

    @hinted
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
        structure: str = "auto",
    ) -> None:
        self.likelihood = likelihoods.get(likelihood)
        if several := getattr(self.likelihood, "predictors", ()):
            raise InputError(
                f"likelihood: data of {self.likelihood} see {', '.join(several)}, and a GPModel "
                "has one latent value for each: use ev.PredictorsModel"
            )
        self.y, notes = observations(self.likelihood, y)
        self.kernel = as_kernel(kernel)
        source = check_source(X, self.n, self.kernel, K, jitter, structure)
        self.X, self.relative_jitter, more, self.structure = source
        self.mean: Array = np.broadcast_to(array("mean", mean, (), (self.n,)), (self.n,)).copy()
        self._set_prior(K)
        check_mean("mean", self.prior)
        check_noise("mean", self)
        self.theta = self.likelihood.theta(self.y)
        self.notes = notes + more
        #: what is free in kernel and likelihood: names, logs, bounds
        self.hyperparameters: Hyperparameters = free_parameters({"": self.kernel}, self.likelihood)

    def _set_prior(self, K: ArrayLike | None) -> None:
        """K, or what the kernel says, with its jitter and Cholesky factor; or its structure."""
        if self.structure != "dense":
            assert self.X is not None
            like = getattr(self, "_prior", None)
            words = (self.structure, self.kernel, self.X, self.mean, self.relative_jitter, like)
            self._prior, self.jitter = structures.make(*words)
            return
        given, name = (call_kernel(self.kernel, self.X), "kernel(X)") if K is None else (K, "K")
        prior = factorise(given, name, self.n, self.relative_jitter)
        self.K, self.jitter, self.chol = prior

    def prior_gradient(self, q: Gaussian) -> Array:
        r"""Σ_ij W_ij ∂K_ij for every free parameter of the kernel, :math:`W = (aa^T - R)/2`.

        It is how log Z_q depends on the prior where the sites do not change; differenced where
        there is no matrix.
        """
        assert self.kernel is not None  # otherwise there is no parameter
        assert self.X is not None
        if not isinstance(q, DenseGaussian):
            return super().prior_gradient(q)
        W = 0.5 * (np.outer(q.dual, q.dual) - q.inner)
        W.flat[:: self.n + 1] += self.relative_jitter * np.trace(W) / self.n
        return contract(self.kernel, self.X, W)

    @property
    def prior(self) -> Prior:
        """N(mean, K), as approximations see it."""
        if self.structure != "dense":
            return self._prior
        return DensePrior(self.mean, self.K, self.chol)

    def from_latent(self, u: Array) -> Array:
        design = self.prior.design
        return u if design is None else np.ascontiguousarray((design @ u.T).T) + self.mean

    def to_latent(self, x: Array) -> Array:
        design = self.prior.design
        if design is None:
            return x
        if design.shape[0] != design.shape[1]:
            raise InputError(
                "a Markov chain has states of several values, which draws of x do not tell; build "
                "the model with structure='dense'"
            )
        return np.ascontiguousarray((design.T @ (x - self.mean).T).T)

    def __getattr__(self, name: str) -> Any:
        if name in ("K", "chol"):
            raise AttributeError(
                f"a GPModel with structure={self.__dict__.get('structure')!r} has no matrix "
                f"{name}; ask model.prior (times, variances, …), or use structure='dense'"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def at(self, theta: Sequence[float] | Array | Mapping[str, float]) -> GPModel:
        """The same data under other hyperparameters.

        Parameters
        ----------
        theta : array (P,) or mapping
            Their natural logarithms in the order of ``model.hyperparameters.names``, or natural
            *values* by name (or its ending; ``"sigma"`` for normal and Student-t noise), the
            others staying as they are.

        >>> model = GPModel([[0.0], [1.0]], [1, -1], "4.0 * RBF(1.5)")
        >>> model.at({"length_scale": 3.0}).kernel
        2**2 * RBF(length_scale=3)
        """
        model = self._moved(theta)
        (model.kernel,) = model.hyperparameters.kernels
        if model.hyperparameters.n_kernel:
            model._set_prior(None)
        model.theta = model.likelihood.theta(model.y)
        return model

    def without(self, rows: ArrayLike) -> GPModel:
        """The same prior without some of the data, given by their numbers.

        >>> model = GPModel([[0.0], [1.0], [2.0]], [3, 0, 1], "RBF(1.5)", likelihood="poisson")
        >>> model.without(1).y
        array([3., 1.])
        """
        rest, model = self._cut(rows, self.n)
        model.y, model.mean = self.y[rest], self.mean[rest]
        model.theta = model.likelihood.theta(model.y)
        vars(model).pop("_prior", None)
        model._set_prior(None if self.kernel else self.K[np.ix_(rest, rest)])
        return model

    def with_data(self, y: Array) -> Self:
        new = super().with_data(y)
        if self.kernel is not None:
            new.notes += tuple(notes_on_inputs(self.X, self.structure))
        return new

    def restructured(self, structure: str) -> GPModel:
        """The same prior and data in another ``structure``."""
        model = copy.copy(self)
        model.structure = structures.choose(structure, self.n, self.kernel, self.X)
        model._set_prior(None)
        return model

    @property
    def orthant(self) -> bool:
        return self.likelihood.name == "probit"

    @property
    def n(self) -> int:
        """Number of latent values."""
        return int(self.y.size)

    def bare(self) -> GPModel:
        """The same model without inputs and kernel: all that computing needs, light to send."""
        model = copy.copy(self)
        model.kernel, model.X = None, None
        model.hyperparameters = free_parameters({"": None}, self.likelihood)
        return model

    def without_matrices(self) -> GPModel:
        """The same model but for what :meth:`at` builds anew: light to send where θ changes."""
        model = copy.copy(self)
        if self.hyperparameters.n_kernel and self.structure == "dense":
            model.K = model.chol = np.empty((0, 0))
        return model

    def log_prior(self, x: ArrayLike) -> Array:
        """log N(x; mean, K) for a batch ``x`` of shape (..., N)."""
        batch, shape = rows("x", x, self.n, "latent values")
        return self.prior.log_density(batch).reshape(shape)

    def describe(self) -> dict[str, Any]:
        """What a result tells of its model, in plain words and numbers."""
        told = {
            "N": self.n,
            "likelihood": likelihoods.describe(self.likelihood),
            "kernel": "K given" if self.kernel is None else str(self.kernel),
            "jitter": float(f"{self.jitter:.6g}"),
        }
        if (design := self.prior.design) is None:
            return told
        size = megabytes(self.prior.memory, design.shape[1])
        return told | {"structure": self.structure, "memory (MB)": size}

    def identity(self) -> tuple[NDArray[Any], ...]:
        """Arrays that tell this model from others: see :mod:`evidence.models.identity`."""
        prior = self.prior
        likelihood = self.likelihood.identity(self.y, self.mean, np.sqrt(prior.variances))
        drawn = sketch(self.K) if self.structure == "dense" else sketch_prior(prior)
        return *drawn, rounded(self.jitter), self.mean, self.y, *likelihood

    def __repr__(self) -> str:
        kernel = "K" if self.kernel is None else str(self.kernel)
        words = f"N={self.n}, {kernel}, {likelihoods.describe(self.likelihood)}"
        dense = self.structure == "dense"
        return f"GPModel({words})" if dense else f"GPModel({words}, structure={self.structure!r})"

"""Latent Gaussian models with a sparse prior precision: mixed models, maps, series, surfaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csc_array, csr_array, eye_array, issparse

from ..execution.arguments import array, machine_memory, rows, shown
from ..execution.keywords import hinted
from ..gaussians.base import Gaussian, NotPositiveDefinite
from ..gaussians.sparse import (
    Pattern,
    SparseGaussian,
    SparsePrior,
    check_constraints,
    null_in_words,
    padded,
)
from ..messages import InputError
from ..numerics.arrays import Array
from ..numerics.sparse import Factor
from . import likelihoods
from .differences import central
from .hyperparameters import free_parameters
from .identity import rounded
from .latent import LatentModel, check_mean, check_noise, megabytes, observations
from .likelihoods.base import Likelihood
from .precisions.base import Precision, sparse

_SMALL = 400  # latent values up to which all eigenvalues are found


class SparseModel(LatentModel):
    r"""A latent Gaussian model with a sparse prior precision.

    .. math:: x \sim N(m, Q^{-1}),\qquad \eta = A x + o,\qquad y_i \sim p(y_i|\eta_i)

    Parameters
    ----------
    Q : sparse matrix (n, n) or an object of :mod:`evidence.models.precisions`
        The prior precision, symmetric. A singular one (an intrinsic prior) needs constraints.
    y : array (N,)
        Observations, validated by the likelihood.
    likelihood : str or Likelihood
        As for :class:`.GPModel`; ``"binomial(n=50)"`` too.
    A : sparse matrix or array (N, n), or a list of them, optional
        Which latent values a datum sees. By default each sees its own (then N = n), or what the
        precision object says. A list, of one per predictor, where the likelihood has several
        (:class:`~evidence.models.likelihoods.predicted.Predicted`).
    mean : float or array (n,)
        Prior mean of x.
    offset : float or array (N,)
        Known part o of the linear predictors; (P, N) where these are several.
    constraints : array (J, n), or a pair of it and the right-hand sides (J,), optional
        Linear constraints C x = r (r = 0 unless given). Log Z is then of the density on that
        set: it depends neither on the scale of C nor on the choice of rows that span the same.

    Attributes
    ----------
    Q, A, y, likelihood, offset
        As given, checked and in their final form.
    mean : array (n,)
        Prior mean, constraints included.

    Examples
    --------
    Two groups of counts about a common level:

    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> Q = sp.diags_array([0.01, 1.0, 1.0])
    >>> A = np.array([[1, 1, 0], [1, 1, 0], [1, 0, 1], [1, 0, 1]])
    >>> SparseModel(Q, [3, 5, 0, 1], A=A, likelihood="poisson")
    SparseModel(n=3, N=4, poisson(exposure=1, offset=0))
    """

    @hinted
    def __init__(
        self,
        Q: csc_array | Precision,
        y: ArrayLike,
        *,
        likelihood: str | Likelihood = "probit",
        A: object = None,
        mean: float | ArrayLike = 0.0,
        offset: float | ArrayLike = 0.0,
        constraints: object = None,
    ) -> None:
        self.likelihood = likelihoods.get(likelihood)
        self.y, self.notes = observations(self.likelihood, y)
        self.precision = Q if hasattr(Q, "clone_with_theta") else None
        self.Q = _precision_matrix(Q.matrix() if self.precision else Q)
        n, N = self.Q.shape[0], self.y.size
        given = getattr(self.precision, "design", None) if A is None else A
        P = self.n_predictors
        self.A = _design(given, N, n) if P == 1 else _designs(given, P, N, n)
        shapes = [(), (N,)] if P == 1 else [(), (P, N)]
        offset = array("offset", offset, *shapes)
        self.offset: Array = np.broadcast_to(offset, shapes[-1]).flatten()
        self._mean: Array = np.broadcast_to(array("mean", mean, (), (n,)), (n,)).copy()
        self.constraints = _constraints(self.precision, constraints, n)
        null = getattr(self.precision, "null", None)
        if null is None:
            null = _null_space(self.Q, None if self.constraints is None else self.constraints[0])
        self._null = np.asarray(null, float)
        _check_pairs(self.A)
        if P == 1:
            _check_free(self.A, self.constraints)
        self.theta = self.likelihood.theta(self.y)
        self._pattern = Pattern.of(self.Q, self.A, null=self._null)
        if self.memory > machine_memory():
            raise InputError(
                f"Q and A leave {self._pattern.analysis.nnz:,} entries in the factor of their "
                f"posterior precision: EP needs about {self.memory / 1e9:.3g} GB of memory, where "
                f"this machine has {machine_memory() / 1e9:.3g} GB; a coarser grid, fewer "
                "neighbours or fewer latent values would do"
            )
        if self.precision is None and n > _SMALL:
            more = _further_null(self.Q, self._pattern, self._null)
            if more.shape[1]:
                self._null = np.hstack([self._null, more])
                self._pattern = Pattern.of(self.Q, self.A, null=self._null)
        _check_proper(self._null, self.constraints)
        self._set_prior()
        check_mean("mean= or offset=", self.prior)
        check_noise("mean= or offset=", self)
        self.hyperparameters = free_parameters({"": self.precision}, self.likelihood)

    def _set_prior(self, *, most: float = 0.03) -> None:
        """``most``: nats of log |Q| that may be rounding."""
        numbers = self._pattern.analysis.assemble(self.Q)
        words = (self._pattern, self.constraints, self._null)
        try:
            self._prior = SparsePrior(self._mean, numbers, self.A, self.offset, *words)
            if self._prior.rounding > most:
                raise NotPositiveDefinite("most of a pivot is rounding")
        except NotPositiveDefinite:
            if self.precision is not None:
                raise InputError(
                    f"Q, {self.precision}, is singular to within rounding: its hyperparameters "
                    "are too extreme, or its times too close; a GPModel with structure='markov' "
                    "takes times as close as they come"
                ) from None
            raise InputError(
                "Q is not positive definite; check its signs, or add to its diagonal; a singular "
                "one needs a constraint for every null vector"
            ) from None
        self.mean = self._prior.latent_mean

    @property
    def prior(self) -> SparsePrior:
        """Of the linear predictors."""
        return self._prior

    @property
    def n(self) -> int:
        """Number of latent values."""
        return int(self.Q.shape[0])

    def at(self, theta: Sequence[float] | Array | Mapping[str, float]) -> SparseModel:
        """The same data under other hyperparameters; as :meth:`.GPModel.at`."""
        model = self._moved(theta)
        free = model.hyperparameters
        (precision,) = free.kernels
        model.precision = precision
        if free.n_kernel:
            assert precision is not None
            model.Q = precision.matrix()  # as the one that was checked
            model._set_prior()
        if len(free) > free.n_kernel:
            model.theta = model.likelihood.theta(model.y)
        return model

    def prior_gradient(self, q: Gaussian) -> Array:
        """By differences of Q alone."""
        assert isinstance(q, SparseGaussian)
        assert self.precision is not None
        clone, free = self.precision.clone_with_theta, self.hyperparameters
        theta = free.theta[: free.n_kernel]
        return central(lambda own: q.along(clone(own).matrix()), theta, range(theta.size))

    def without(self, rows: ArrayLike) -> SparseModel:
        """The same prior without some of the data, given by their numbers."""
        N = self.y.size
        rest, model = self._cut(rows, N)
        seen = np.add.outer(N * np.arange(self.n_predictors), rest).ravel()
        model.y, model.A, model.offset = self.y[rest], self.A[seen], self.offset[seen]
        model.theta = model.likelihood.theta(model.y)
        model._pattern = Pattern.of(model.Q, model.A, null=self._null)
        model._set_prior()
        return model

    def bare(self) -> SparseModel:
        """The same model without what computing does not need."""
        return self

    def log_prior(self, x: ArrayLike) -> Array:
        """log density of the prior for a batch ``x`` of shape (..., n)."""
        batch, shape = rows("x", x, self.n, "latent values")
        return self.prior.log_latent(batch).reshape(shape)

    def predictors(self, x: Array) -> Array:
        """A x + o of rows of latent values."""
        return self.prior.predictors(x)

    seen = predictors

    def from_prior(self, rng: np.random.Generator) -> Array:
        return self.prior.draw_latent(rng.standard_normal((self.n, 1)))[:, 0]

    def describe(self) -> dict[str, Any]:
        """What a result tells of its model, in plain words and numbers."""
        analysis = self._pattern.analysis
        return {
            "N": int(self.y.size),
            "latent values": self.n,
            "likelihood": likelihoods.describe(self.likelihood),
            "precision": "Q given" if self.precision is None else str(self.precision),
            "constraints": 0 if self.constraints is None else len(self.constraints[1]),
            "nonzeros of its Cholesky factor": int(analysis.nnz),
            "memory (MB)": megabytes(self.memory, self.n),
        }

    @property
    def memory(self) -> float:
        """About how many bytes EP needs at its largest."""
        return self._pattern.memory

    def identity(self) -> tuple[NDArray[Any], ...]:
        """Arrays that tell this model from others: see :mod:`evidence.models.identity`."""
        Q, A = self.Q, self.A
        parts = [rounded(Q.data), Q.indices, Q.indptr, rounded(A.data), A.indices, A.indptr]
        parts += [rounded(self.mean), rounded(self.offset), self.y]
        if self.constraints is not None:
            parts += [rounded(self.constraints[0]), rounded(self.constraints[1])]
        sd = np.sqrt(self.prior.variances)
        return *parts, *self.likelihood.identity(self.y, self.prior.mean, sd)

    def __repr__(self) -> str:
        precision = "" if self.precision is None else f"{self.precision}, "
        words = likelihoods.describe(self.likelihood)
        return f"SparseModel(n={self.n}, N={self.y.size}, {precision}{words})"


def _precision_matrix(Q: csc_array, *, symmetric: float = 1e-10) -> csc_array:
    """``symmetric``: relative difference between Q and its transpose."""
    if not issparse(Q):
        raise InputError(
            f"Q must be a SciPy sparse matrix or an object of ev.precisions, got {shown(Q)}; for "
            "a dense matrix use scipy.sparse.csc_array(Q), or GPModel(K=…)"
        )
    if Q.ndim != 2 or Q.shape[0] != Q.shape[1] or not Q.shape[0]:
        raise InputError(f"Q must be square, got shape {Q.shape}")
    out = csc_array(sparse("Q", Q))
    out.sort_indices()
    difference = abs(out - out.T)
    if difference.nnz and difference.max() > symmetric * abs(out).max():
        raise InputError(
            f"Q must be symmetric, but differs from its transpose by {difference.max():.3g}; pass "
            "(Q + Q.T) / 2 if that is meant"
        )
    diagonal = out.diagonal()
    if diagonal.min() < 0.0:
        raise InputError(f"Q has {diagonal.min():.3g} on its diagonal, which no precision has")
    return out


def _design(A: object, N: int, n: int) -> csr_array:
    if A is None:
        if n != N:
            raise InputError(
                f"y has {N} observations but Q has {n} latent values; pass A (N × n) to say "
                "which of them a datum sees"
            )
        return csr_array(eye_array(n, format="csr"))
    out = _shaped(A, N, n)
    empty = np.flatnonzero(np.diff(out.indptr) == 0)
    if empty.size:
        raise InputError(
            f"A has {empty.size} empty row(s), first number {empty[0]}: such a datum sees no "
            "latent value; drop it, or give it one"
        )
    return out


def _designs(A: object, P: int, N: int, n: int) -> csr_array:
    """One design per predictor, one after the other, of which some rows may see nothing."""
    if not isinstance(A, list | tuple) or len(A) != P:
        raise InputError(
            f"A must be a list of {P} designs, one for each predictor, got {shown(A)}"
        )
    return padded([_shaped(own, N, n) for own in A])


def _shaped(A: object, N: int, n: int) -> csr_array:
    out = sparse("A", A)
    if out.shape != (N, n):
        raise InputError(
            f"A must have shape ({N}, {n}), or hold such designs: a row for each of y's "
            f"observations, a column for each latent value of Q; got {out.shape}"
        )
    out.eliminate_zeros()
    out.sort_indices()
    return out


def _constraints(precision: object, given: Any, n: int) -> tuple[Array, Array] | None:
    """C and r, the precision's own and further ones."""
    both = []
    own = getattr(precision, "constraints", None)
    if own is not None:
        C, r = own
        both.append((C.toarray() if issparse(C) else np.asarray(C, float), np.asarray(r, float)))
    if given is not None:
        if isinstance(given, tuple) and len(given) != 2:
            raise InputError(
                f"constraints must be an array, or a pair of it and the right-hand sides, got a "
                f"tuple of {len(given)}"
            )
        C, r = given if isinstance(given, tuple) else (given, None)
        C = C.toarray() if issparse(C) else C
        C = np.atleast_2d(array("constraints", C, ("J", n), (n,)))
        r = np.zeros(len(C)) if r is None else array("constraints[1]", r, (len(C),))
        both.append((C, r))
    if not both:
        return None
    C, r = np.concatenate([c for c, _ in both]), np.concatenate([r for _, r in both])
    norms = np.linalg.norm(C, axis=1)
    if not norms.min() > 0.0:
        raise InputError("constraints has a row of zeros; leave it out")
    C, r = C / norms[:, None], r / norms
    values = np.linalg.eigvalsh(C @ C.T)
    if values[0] < 1e-10 * values[-1]:
        raise InputError("constraints repeat each other: their rows are linearly dependent")
    return C, r


def _null_space(Q: csc_array, C: Array | None, *, null_share: float = 1e-10) -> Array:
    """Null vectors of a precision that is given as a matrix, (n, d).

    Of a large one those that are constant in every part of the graph, or in the span of C's rows.

    ``null_share``: eigenvalues of Q relative to its diagonal that count as zero.
    """
    n, scale = Q.shape[0], float(Q.diagonal().max())
    if n <= _SMALL:
        values, vectors = np.linalg.eigh(Q.toarray())
        return vectors[:, np.abs(values) < null_share * scale]
    sums = np.abs(Q @ np.ones(n))
    if C is None and np.count_nonzero(sums < null_share * scale) < n // 2:
        return np.zeros((n, 0))
    from scipy.sparse.csgraph import connected_components

    count, labels = connected_components(Q, directed=False)
    parts = np.zeros((n, count))
    parts[np.arange(n), labels] = 1.0
    null = parts[:, np.abs(Q @ parts).max(axis=0) < null_share * scale]
    if C is None:
        return null
    null /= np.linalg.norm(null, axis=0)
    basis, sizes, _ = np.linalg.svd(C.T - null @ (null.T @ C.T), full_matrices=False)
    basis = basis[:, sizes > 1e-6]
    image = Q @ basis
    values, vectors = np.linalg.eigh(image.T @ image)
    return np.hstack([null, basis @ vectors[:, values < (null_share * scale) ** 2]])


def _further_null(
    Q: csc_array, pattern: Pattern, known: Array, *, shift: float = 1e-13, rounding: float = 2e-15,
    at_once: int = 8, iterations: int = 4,
) -> Array:  # fmt: skip
    """Null vectors of a large Q beyond those known: inverse iteration with Q + δI, (n, d).

    ``shift``: of Q, relative, in a search for further null vectors; ``rounding``: what is zero
    there; ``at_once``: null vectors that are searched for; ``iterations``: of that search.
    """
    n, scale = Q.shape[0], float(Q.diagonal().max())
    numbers = pattern.analysis.assemble(Q)
    numbers[pattern.analysis.diagonal] += shift * scale
    try:
        factor = Factor.of(pattern.analysis, numbers)
    except np.linalg.LinAlgError:  # no precision at all, which is refused when it is factorised
        return np.zeros((n, 0))
    known = np.linalg.qr(known)[0]
    v = np.random.default_rng(0).standard_normal((n, at_once))
    for _ in range(iterations):
        v = factor.solve(np.linalg.qr(v - known @ (known.T @ v))[0])
    v = np.linalg.qr(v - known @ (known.T @ v))[0]
    image = Q @ v
    _, sizes, rotation = np.linalg.svd(image, full_matrices=False)
    return np.asarray(v @ rotation[sizes < rounding * scale].T, float)


def _check_pairs(A: csr_array, *, pair: float = 12.0, entry: float = 36.0) -> None:
    """That there is room for the pairs of latent values that data tie to each other.

    ``pair``: bytes of a pair of entries of a row of A; ``entry``: of an entry of AᵀA.
    """
    seen = np.diff(A.indptr).astype(float)
    gigabytes = (pair * np.sum(seen * seen) + entry * seen.max() ** 2) / 1e9
    there = machine_memory() / 1e9
    if gigabytes > there:
        raise InputError(
            f"A has rows that see up to {seen.max():,.0f} latent values, all pairs of which are "
            f"then tied: {gigabytes:,.3g} GB, where this machine has {there:,.3g} GB; put what "
            "very many latent values have in common into one more latent value, or let data see "
            "fewer"
        )


def _check_free(
    A: csr_array, constraints: tuple[Array, Array] | None, *, negligible: float = 1e-12
) -> None:
    """Refuse constraints that leave nothing open of what a datum sees.

    ``negligible``: squared length of a row of A beyond the constraints, relative to its own.
    """
    if constraints is None:
        return
    basis = np.linalg.qr(constraints[0].T)[0]
    size = A.multiply(A).sum(axis=1)
    left = size - np.sum((A @ basis) ** 2, axis=1)
    fixed = np.flatnonzero(left <= negligible * size)
    if fixed.size:
        raise InputError(
            f"constraints determine the linear predictors of {fixed.size} data, first number "
            f"{fixed[0]}: their likelihoods are known numbers; leave these data out"
        )


def _check_proper(null: Array, constraints: tuple[Array, Array] | None) -> None:
    if not null.shape[1]:
        return
    if constraints is None:
        raise InputError(
            f"Q is singular (its null space has dimension {null.shape[1]}; a null vector is "
            f"{null_in_words(null[:, 0])}) and the prior improper: pass constraints=, for example "
            "np.ones(n) for values that sum to zero"
        )
    check_constraints(constraints[0], null)

r"""Kernels on a line as Markov chains.

A Matérn kernel with ν = p - ½, variance σ² and λ = √(2ν)/l is the covariance of the first
coordinate of :math:`(f, f'/\lambda, \dots, f^{(p-1)}/\lambda^{p-1})`, driven by white noise:
:math:`(d/ds + 1)^p f = \text{noise}` in units s = λt. With A the companion matrix of that and
N = A + I, which is nilpotent, a step of a = λ dt has

.. math:: F = e^{-a} \sum_{j<p} N^j a^j / j!,\qquad
          Q = q \int_0^a g(s) g(s)^T ds,\qquad g(s) = e^{-s} \sum_{j<p} N^j e_p\, s^j / j!,

so that Q consists of incomplete gamma functions: differences P - F P Fᵀ would lose all digits
where times nearly meet. A constant is a state that never moves, white noise one that forgets at
once; states of sums lie side by side. At last the first coordinate is replaced by what data see,
the sum of all values.

Reference: J. Hartikainen and S. Särkkä, Kalman filtering and smoothing solutions to temporal
Gaussian process regression models (2010).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy.linalg import block_diag
from scipy.special import gammainc

from ...execution.lazy import kernels as k
from ...gaussians.markov import Chain
from ...messages import InputError
from ...numerics.arrays import Array, Indices

FORMS = (
    "Matern with nu=0.5, 1.5 or 2.5, constants times these, their sums, and sums with a "
    "ConstantKernel or WhiteKernel"
)
Term = tuple[str, float, float]


def has_chain(kernel: object, X: Array | None) -> bool:
    """Whether there is a Markov chain for this kernel and these inputs."""
    if X is None or X.shape[1] != 1:
        return False
    try:
        terms(kernel)
    except InputError:
        return False
    return True


def terms(kernel: object) -> dict[Term, float]:
    """Variances of the terms of a sum: by kind, smoothness ν and length scale.

    >>> from evidence.models.kernels.parse import parse_kernel
    >>> terms(parse_kernel("4.0 * Matern(2.0, nu=1.5) + 3.0 + 2.0"))
    {('matern', 1.5, 2.0): 4.0, ('constant', 0.0, 0.0): 5.0}
    """
    out: dict[Term, float] = {}
    for variance, term in _terms(kernel):
        out[term] = out.get(term, 0.0) + variance
    if not any(kind == "matern" for kind, *_ in out):
        raise InputError(f"kernel {kernel} has no Matern term; Markov chains exist for {FORMS}")
    return dict(sorted(out.items(), key=lambda item: item[0][0], reverse=True))


def _terms(kernel: object) -> Iterator[tuple[float, Term]]:
    match kernel:
        case k.Sum():
            yield from _terms(kernel.k1)
            yield from _terms(kernel.k2)
            return
        case k.Product():
            first, second = list(_terms(kernel.k1)), list(_terms(kernel.k2))
            if any(kind != "constant" for _, (kind, *_) in first):
                first, second = second, first
            if all(kind == "constant" for _, (kind, *_) in first):
                scale = sum(variance for variance, _ in first)
                yield from ((scale * variance, term) for variance, term in second)
                return
        case k.ConstantKernel():
            yield float(kernel.constant_value), ("constant", 0.0, 0.0)
            return
        case k.WhiteKernel():
            yield float(kernel.noise_level), ("white", 0.0, 0.0)
            return
        case k.Matern() if kernel.nu in (0.5, 1.5, 2.5) and np.size(kernel.length_scale) == 1:
            yield 1.0, ("matern", float(kernel.nu), float(np.ravel(kernel.length_scale)[0]))
            return
    raise InputError(f"kernel has no Markov chain for {kernel}; there is one for {FORMS}")


def chain(kernel: object, X: Array, jitter: float = 0.0, *, some: int = 1000) -> Chain:
    """The chain of a kernel at inputs (N, 1); jitter relative to its variance.

    Equal inputs share a state, unless each has white noise of its own.

    ``some``: gaps that tell whether many are equal.
    """
    if X.shape[1] != 1:
        raise InputError(
            f"structure='markov' needs inputs on a line, X of shape (N, 1), got {X.shape}"
        )
    parts = terms(kernel)
    t = X[:, 0]
    if jitter > 0.0:
        noise, variance = ("white", 0.0, 0.0), sum(parts.values())
        parts[noise] = parts.pop(noise, 0.0) + jitter * variance
    if any(kind == "white" for kind, *_ in parts):
        order = np.argsort(t, kind="stable")
        times, state = t[order], np.argsort(order)
    else:
        times, state = _unique(t)
    gaps, which = np.diff(times), np.arange(times.size - 1)
    if np.unique(gaps[:some]).size < 0.5 * gaps[:some].size:  # equal ones share their numbers
        gaps, which = np.unique(gaps, return_inverse=True)
    blocks = [_block(term, variance, gaps) for term, variance in parts.items()]
    if len(blocks) == 1:
        return Chain(*blocks[0], which.reshape(-1), state.reshape(-1))
    start, moves, noises = (block_diag(*kind) for kind in zip(*blocks, strict=True))
    # in place of the first coordinate, the sum of those that data see
    rotate = np.eye(len(start))
    rotate[0, np.cumsum([0, *(len(first) for first, *_ in blocks[:-1])])] = 1.0
    back = np.linalg.inv(rotate)
    start, noises = rotate @ start @ rotate.T, np.ascontiguousarray(rotate @ noises @ rotate.T)
    moves = np.ascontiguousarray(rotate @ moves @ back)
    return Chain(start, moves, noises, which.reshape(-1), state.reshape(-1))


def _unique(t: Array) -> tuple[Array, Indices]:
    """Sorted values and where each is among them; nothing is to be done where they are sorted."""
    if (t[1:] > t[:-1]).all():
        return t, np.arange(t.size)
    return np.unique(t, return_inverse=True)


def _block(term: Term, variance: float, gaps: Array) -> tuple[Array, Array, Array]:
    """Stationary covariance, F and Q for all gaps."""
    kind, nu, scale = term
    one, many = np.ones((1, 1)), np.ones((gaps.size, 1, 1))
    if kind == "constant":
        return variance * one, many, 0.0 * many
    if kind == "white":
        return variance * one, 0.0 * many, variance * many
    return matern(nu, math.sqrt(2.0 * nu) / scale * gaps, variance)


def matern(
    nu: float, a: Array, variance: float = 1.0, *, faded: float = 800.0
) -> tuple[Array, Array, Array]:
    """The same of a Matérn process, ν = p - ½, for all steps a.

    ``faded``: from which on exp(-a) is zero.
    """
    p = round(nu + 0.5)
    companion = np.diag(np.ones(p - 1), 1)
    companion[-1] = [-math.comb(p, j) for j in range(p)]
    N = companion + np.eye(p)
    powers = np.array([np.linalg.matrix_power(N, j) / math.factorial(j) for j in range(p)])
    a = np.minimum(a, faded)
    moves = np.einsum("u,uj,jik->uik", np.exp(-a), a[:, None] ** np.arange(p), powers)
    P = _driven(powers[:, :, -1], np.array([np.inf]))[0]
    q = variance / P[0, 0]
    return q * P, moves, q * _driven(powers[:, :, -1], a)


def _driven(g: Array, a: Array) -> Array:
    """∫_0^a g gᵀ exp(-2s) ds for polynomials with coefficients ``g`` (power, coordinate)."""
    j = np.arange(2 * len(g) - 1)
    whole = np.array([math.factorial(k) / 2.0 ** (k + 1) for k in j])
    rest = (gammainc(k + 1.0, 2.0 * a) for k in j[1:])
    moments = whole * np.column_stack([-np.expm1(-2.0 * a), *rest])
    degree = np.add.outer(np.arange(len(g)), np.arange(len(g)))
    return np.ascontiguousarray(np.einsum("ji,kl,ujk->uil", g, g, moments[:, degree]))

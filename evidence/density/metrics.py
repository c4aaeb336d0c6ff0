"""What a model's Riemannian metric is made of; :mod:`evidence.moves.dense` computes with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

METRICS = ("softabs", "hessian")


@dataclass(frozen=True)
class SoftAbs:
    r"""Eigenvalues of the negative Hessian made positive, smoothly (Betancourt 2013).

    .. math:: \lambda \to \lambda \coth(\alpha\lambda) \approx |\lambda|

    A large α follows \|λ\| closely; 1/α is the smallest eigenvalue the metric can have.
    """

    alpha: float = 1e6

    def __post_init__(self) -> None:
        if not self.alpha > 0.0:
            raise ValueError(f"alpha must be positive, got {self.alpha!r}")


@dataclass(frozen=True)
class Hessian:
    """The negative Hessian itself: for log-concave densities. Elsewhere proposals fail."""


@dataclass(frozen=True)
class Fisher:
    """A metric of the user's own, such as the Fisher information plus a prior's precision.

    Parameters
    ----------
    matrix : callable
        x → G(x), positive definite. Where the model has a ``prior=``, that of the likelihood.
    slope : callable
        (x, W) → ∇⟨W, G(x)⟩ for a symmetric matrix W.
    along : callable, optional
        (x, w) → ∇(wᵀG(x)w), where that is cheaper.
    """

    matrix: Callable[..., Any]
    slope: Callable[..., Any]
    along: Callable[..., Any] | None = None


def check_metric(metric: object) -> SoftAbs | Hessian | Fisher:
    """A metric from its name; an object is returned as it is."""
    if isinstance(metric, SoftAbs | Hessian | Fisher):
        return metric
    if metric == "softabs":
        return SoftAbs()
    if metric == "hessian":
        return Hessian()
    raise ValueError(
        f"metric must be 'softabs', 'hessian', ev.SoftAbs(alpha), or ev.Fisher(matrix, slope); "
        f"got {metric!r}"
    )

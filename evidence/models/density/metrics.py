"""What a model's Riemannian metric is made of; :mod:`~evidence.moves.riemannian.dense` uses it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...execution.arguments import check_function, number, shown
from ...messages import InputError


@dataclass(frozen=True)
class SoftAbs:
    r"""Eigenvalues of the negative Hessian made positive, smoothly (Betancourt 2013).

    .. math:: \lambda \to \lambda \coth(\alpha\lambda) \approx |\lambda|

    Parameters
    ----------
    alpha : float
        A large α follows :math:`|\lambda|` closely; 1/α is the smallest eigenvalue that the
        metric can have.

    Examples
    --------
    No eigenvalue of this metric is below a tenth:

    >>> from evidence import DensityModel, SoftAbs
    >>> DensityModel(lambda x: -float(x @ x) ** 2, dim=2, metric=SoftAbs(alpha=10.0)).metric
    SoftAbs(alpha=10.0)
    """

    alpha: float = 1e6

    def __post_init__(self) -> None:
        number("alpha", self.alpha, above=0.0)


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

    Examples
    --------
    A logarithmic scale, y ~ N(0, e^θ) for n data, has the constant Fisher information n/2:

    >>> import numpy as np
    >>> from evidence import DensityModel, Fisher
    >>> y = np.array([0.5, -1.0, 2.0])
    >>> information = Fisher(lambda x: np.array([[1.5]]), lambda x, W: np.zeros(1))
    >>> model = DensityModel(
    ...     lambda x: float(np.sum(-0.5 * y**2 * np.exp(-x) - 0.5 * x)), dim=1,
    ...     grad=lambda x: np.array([np.sum(0.5 * y**2 * np.exp(-x) - 0.5)]),
    ...     metric=information,
    ... )
    >>> model.has_metric
    True
    """

    matrix: Callable[..., Any]
    slope: Callable[..., Any]
    along: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        for name, function in vars(self).items():
            check_function(name, function, optional=name == "along")


_BY_NAME: dict[object, Callable[[], SoftAbs | Hessian]] = {"softabs": SoftAbs, "hessian": Hessian}


def check_metric(metric: object) -> SoftAbs | Hessian | Fisher:
    """A metric from its name; an object is returned as it is."""
    if isinstance(metric, SoftAbs | Hessian | Fisher):
        return metric
    if isinstance(metric, str) and metric in _BY_NAME:
        return _BY_NAME[metric]()
    raise InputError(
        f"metric must be 'softabs', 'hessian', ev.SoftAbs(alpha), or ev.Fisher(matrix, slope); "
        f"got {shown(metric)}"
    )

"""What each kind of model brings: the references one may start from, and its path.

A new kind of model is one entry here. The model itself has ``n``, ``notes``, ``bare()``,
``describe()`` and ``identity()``; a reference has ``name``, ``model``, ``mean``, ``logz``,
``converged``, ``seconds`` and ``warnings``; the path is a
:class:`~evidence.path.TemperedPath`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .approximations.density_fit import fit_density, fit_gaussian
from .approximations.density_modes import fit_density_laplace
from .approximations.density_reference import DensityReference, density_prior_reference
from .approximations.ep import fit_ep
from .approximations.laplace import fit_laplace
from .approximations.reference import GaussianReference, prior_reference
from .approximations.softmax_laplace import fit_softmax_laplace, fit_wide_laplace
from .approximations.softmax_reference import (
    LARGEST_DENSE,
    SoftmaxReference,
    softmax_prior_reference,
)
from .density.model import DensityModel
from .density_path import DensityPath
from .model import GPModel
from .moves.riemann import RiemannMove
from .path import Path, TemperedPath
from .softmax import SoftmaxModel
from .softmax_path import SoftmaxPath


class Family(NamedTuple):
    """References by name, the preferred one for a move, those always reported; path and move."""

    fits: Mapping[str, Callable[[Any], Any]]
    preferred: Callable[[Any, Any], str]
    reported: tuple[str, ...]
    reference: type
    path: Callable[[Any], TemperedPath]
    move: Callable[[Any], str] = lambda model: "mgrad"
    """The move unless told otherwise."""


_FAMILIES: dict[type, Family] = {
    GPModel: Family(
        {"ep": fit_ep, "laplace": fit_laplace, "prior": prior_reference},
        lambda model, move: "ep",
        ("laplace", "ep"),
        GaussianReference,
        Path,
    ),
    SoftmaxModel: Family(
        {
            "wide": fit_wide_laplace,
            "laplace": fit_softmax_laplace,
            "prior": softmax_prior_reference,
        },
        lambda model, move: "wide" if model.n <= LARGEST_DENSE else "prior",
        ("laplace",),
        SoftmaxReference,
        SoftmaxPath,
    ),
    DensityModel: Family(
        {
            "fitted": fit_density,
            "gaussian": fit_gaussian,
            "laplace": fit_density_laplace,
            "prior": density_prior_reference,
        },
        lambda model, move: "gaussian" if isinstance(move, RiemannMove) else "fitted",
        ("laplace",),
        DensityReference,
        DensityPath,
        lambda model: "splitting" if model.has_gradient else "elliptical",
    ),
}


def family(model: Any) -> Family:
    """The entry of ``model``, or an error that lists what there is."""
    for kind, entry in _FAMILIES.items():
        if isinstance(model, kind):
            return entry
    *first, last = (f"a {kind.__name__}" for kind in _FAMILIES)
    known = f"{', '.join(first)} or {last}"
    raise ValueError(f"model must be {known}, got {type(model).__name__}")


def make_path(reference: Any) -> TemperedPath:
    """The path from ``reference`` to its model's posterior."""
    return family(reference.model).path(reference)


def is_probit(model: Any) -> bool:
    """Whether Z is an orthant probability."""
    return isinstance(model, GPModel) and model.likelihood.name == "probit"

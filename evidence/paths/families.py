"""What each kind of model brings: the references one may start from, and its path.

A new kind of model is one entry here. The model itself has ``n``, ``names``, ``notes``,
``priors``, ``n_predictors``, ``stepped``, ``orthant``, ``bare()``, ``describe()`` and
``identity()``; a reference has ``name``, ``model``, ``mean``, ``logz``,
``converged``, ``seconds`` and ``warnings``; the path is a
:class:`~evidence.paths.base.TemperedPath`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ..approximations.density.fitted import fit_density, fit_gaussian
from ..approximations.density.modes import fit_density_laplace
from ..approximations.density.reference import DensityReference, density_prior_reference
from ..approximations.gp.ep import fit_ep
from ..approximations.gp.laplace import fit_laplace
from ..approximations.gp.modes import extend_mixture, fit_mixture
from ..approximations.mixture import Mixture
from ..approximations.predictors.averaged import fit_averaged
from ..approximations.predictors.ep import MOST, fit_block_ep
from ..approximations.predictors.laplace import fit_block_laplace
from ..approximations.predictors.reference import (
    LARGEST_DENSE,
    BlockReference,
    block_prior_reference,
)
from ..approximations.reference import GaussianReference, prior_reference
from ..execution.arguments import check_choice
from ..messages import InputError
from ..models.base import DataModel
from ..models.density.checking import first_finite
from ..models.density.model import DensityModel
from ..models.gp import GPModel
from ..models.latent import LatentModel
from ..models.likelihoods.checks import Noisy
from ..models.predictors import PredictorsModel
from ..models.sparse import SparseModel
from .base import TemperedPath
from .density import DensityPath
from .gp import Path
from .predictors import PredictorsPath, SteppedPredictorsPath
from .shared import SharedPath
from .stepped import SteppedPath

Reference = GaussianReference | BlockReference | DensityReference | Mixture


class Family(NamedTuple):
    """References by name, the preferred one for a move, those always reported; path and move."""

    fits: Mapping[str, Callable[..., Any]]
    preferred: Callable[[Any, Any], str]
    reported: tuple[str, ...]
    reference: type[Any] | tuple[type[Any], ...]
    path: Callable[[Any], TemperedPath]
    move: Callable[[Any], str] = lambda model: "mgrad"
    """The move unless told otherwise."""
    after: Mapping[str, str] = MappingProxyType({})
    """Fits that take another one, by its name, as their second argument where it is there."""
    seeded: tuple[str, ...] = ()
    """Fits that search at random, and take a seed and what else :func:`fit_reference` is given."""
    referee: str = "plain"
    """Who decides what is done (:mod:`evidence.methods`)."""
    counted: bool = False
    """Whether a user's own function is called, whose evaluations are counted."""
    ceiling: Callable[[Any], float] = lambda model: math.inf
    """What log Z cannot exceed."""
    extend: Callable[[Mixture, Any], Mixture] | None = None
    """A mixture with further components, found from points; itself where there are none."""


def _latent_path(reference: GaussianReference) -> TemperedPath:
    if is_stepped(reference.model):
        return SteppedPath(reference)
    return (Path if reference.share is None else SharedPath)(reference)


def _ep_after(
    model: LatentModel, laplace: GaussianReference | None = None, *, close: float = 1e-6
) -> GaussianReference:
    """EP; a log-concave likelihood has one fixed point, which is near Laplace's sites.

    log Z is stationary there: moments to ``close`` leave N times its square.
    """
    if laplace is None or not (laplace.converged and model.likelihood.log_concave):
        return fit_ep(model)
    return fit_ep(model, start=laplace.surrender(), tol=close)


_LATENT = Family(
    {"ep": _ep_after, "laplace": fit_laplace, "prior": prior_reference, "mixture": fit_mixture},
    lambda model, move: "ep" if model.likelihood.log_concave else "mixture",
    ("laplace", "ep"), (GaussianReference, Mixture), _latent_path,
    after={"ep": "laplace", "mixture": "ep"}, seeded=("mixture",), extend=extend_mixture,
    ceiling=lambda model: model.likelihood.ceiling(model.y),
)  # fmt: skip


def _highest(model: PredictorsModel | SparseModel) -> float:
    r"""What log Z of several predictors cannot exceed.

    A density of noise about mu integrates to one over mu, too, whatever the noise is: where each
    datum has its own mu, :math:`p(y) = E \int p(y|x, \theta) N(x; m, K)\,dx` is at most the
    largest density that the prior has.
    """
    highest, base = model.likelihood.ceiling(model.observed), getattr(model.likelihood, "base", 0)
    if not isinstance(base, Noisy) or model.prior.design is not None:
        return highest
    first = model.field_priors[0]
    return min(highest, float(first.log_density(first.mean)))


_FEW_PREDICTORS = Family(
    {"ep": fit_block_ep, "laplace": fit_block_laplace, "prior": block_prior_reference},
    lambda model, move: "ep",
    ("laplace", "ep"),
    BlockReference,
    lambda q: (SteppedPredictorsPath if is_stepped(q.model) else PredictorsPath)(q),
    after={"ep": "laplace"},
    ceiling=_highest,
)
_MANY_PREDICTORS = _FEW_PREDICTORS._replace(
    fits={"averaged": fit_averaged, "laplace": fit_block_laplace, "prior": block_prior_reference},
    preferred=lambda model, move: "averaged" if model.n <= LARGEST_DENSE else "prior",
    reported=("laplace",),
    after={"averaged": "laplace"},
)


_DENSITY = Family(
    {
        "fitted": fit_density, "gaussian": fit_gaussian, "laplace": fit_density_laplace,
        "prior": density_prior_reference,
    },
    lambda model, move: "gaussian" if getattr(move, "riemannian", False) else "fitted",
    ("laplace",), (DensityReference, Mixture), DensityPath,
    lambda model: "splitting" if model.has_gradient else "elliptical",
    after={"fitted": "laplace", "gaussian": "laplace"}, seeded=("fitted", "gaussian"),
    referee="density", counted=True,
)  # fmt: skip
_FAMILIES: dict[type[DataModel] | type[DensityModel], Family] = {
    GPModel: _LATENT, SparseModel: _LATENT, PredictorsModel: _FEW_PREDICTORS,
    DensityModel: _DENSITY,
}  # fmt: skip


def family(model: Any) -> Family:
    """The entry of ``model``, or an error that lists what there is."""
    for kind in type(model).__mro__:
        if kind in _FAMILIES:
            if not sees_several(model):
                return _FAMILIES[kind]
            return _FEW_PREDICTORS if model.n_predictors <= MOST else _MANY_PREDICTORS
    *first, last = (f"a {kind.__name__}" for kind in _FAMILIES)
    known = f"{', '.join(first)} or {last}"
    wrap = "; wrap a log density: ev.DensityModel(function, dim=…)" * callable(model)
    raise InputError(f"model must be {known}, got {type(model).__name__}{wrap}")


def make_path(reference: Reference) -> TemperedPath:
    """The path from ``reference`` to its model's posterior."""
    return family(reference.model).path(reference)


def sees_several(model: DataModel | DensityModel) -> bool:
    """Whether a datum sees several predictors."""
    return model.n_predictors > 1


def is_stepped(model: DataModel | DensityModel) -> bool:
    """Whether latent values have a sparse order in which they are drawn."""
    return model.stepped


def check_probit(model: DataModel | DensityModel, method: str) -> None:
    if is_stepped(model):
        raise InputError(
            f"method={method!r} needs the covariance as a matrix, which {model!r} does not have; "
            "use method='guided'"
        )
    if not model.orthant:
        raise InputError(
            f"method={method!r} is for the probit likelihood only (Z is then an orthant "
            f"probability), got {model!r}; use method='smc'"
        )


def fit_reference(
    model: DataModel | DensityModel, reference: object,
    fitted: Mapping[str, Reference] | None = None, move: object = None, seed: int = 0,
    **search: object,
) -> Any:  # fmt: skip
    """The reference by name, from ``fitted`` where it is there; an object is checked.

    ``None`` stands for what suits the model, and the move, best; ``seed`` is that of searches.
    """
    entry = family(model)
    if isinstance(reference, entry.reference):
        if reference.model is not model:
            raise InputError("reference was fitted to another model; fit it to this one")
        return reference
    if reference is None:
        reference = entry.preferred(model, move)
    reference = check_choice("reference", reference, tuple(entry.fits))
    fitted = fitted or {}
    if reference in fitted:
        return fitted[reference]
    if entry.counted:  # of one that is zero everywhere a search would not end
        first_finite(model, np.random.default_rng(0))  # type: ignore[arg-type]
    first = fitted.get(entry.after.get(reference, ""))
    options = {"seed": seed, **search} if reference in entry.seeded else {}
    return entry.fits[reference](model, *([] if first is None else [first]), **options)


def search_seed(seed: np.random.SeedSequence) -> int:
    """A seed for the search of modes."""
    child = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 99))
    return int(child.generate_state(1)[0])

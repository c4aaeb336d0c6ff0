"""What is known of the latent values at the data: a Gaussian reference, or posterior draws.

Draws of hyperparameters fall into parts, one for every setting of the hyperparameters.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..approximations.mixture import Mixture
from ..execution.arguments import check_choice
from ..messages import InputError
from ..models.types import Described
from ..paths.families import family
from ..results.at_draws import check_same, draws_of, full_theta
from ..results.hyper import HyperDraws, IntegratedEvidence
from ..verbs._call import ROUGH
from ..verbs.integrate import fits_over_theta, integrated_evidence
from ..verbs.reference import explored
from .mixture import AtData


class Known(NamedTuple):
    """What is known of the latent values under hyperparameters θ, and how much it counts."""

    model: Described
    """With these hyperparameters."""
    posterior: AtData
    """A reference, or draws (S, C·N)."""
    weight: float


def known_at_data(
    model: Described, posterior: object, max_draws: int | None, *, draws: int = 200,
    settings: int = 48,
) -> list[Known]:  # fmt: skip
    """What is known, in one part or several; ``posterior`` is as :func:`evidence.predict` takes
    it, and what is only named is fitted.

    ``draws``: of hyperparameters that are used by default; ``settings``: the same of those that
    were integrated out.
    """
    if posterior is None and model.priors:
        posterior = integrated_evidence(model, target_se=ROUGH, random_seed=0, progressbar=False)
    if isinstance(posterior, IntegratedEvidence):
        fits = fits_over_theta(model, posterior, max_draws or settings)
        return [Known(q.model, q, 1.0) for q in fits]
    if isinstance(posterior, HyperDraws):
        return _by_hyperparameters(model, posterior, max_draws or draws)
    entry = family(model)
    if posterior is None:
        posterior = entry.preferred(model, None) if "ep" in entry.fits else "laplace"
    if isinstance(posterior, str):
        check_choice("posterior", posterior, tuple(entry.fits))
        posterior = explored(model, posterior, np.random.SeedSequence(0))[0]
    if not isinstance(posterior, entry.reference):
        others = *map(repr, entry.fits), "a fitted reference"
        return [Known(model, draws_of(model, posterior, *others).reshape(-1, model.n), 1.0)]
    if posterior.model is not model:
        raise InputError("posterior was fitted to another model; fit it to this one")
    if isinstance(posterior, Mixture):
        parts = zip(posterior.components, posterior.probable, strict=True)
        return [Known(model, part, weight) for part, weight in parts if weight]
    return [Known(model, posterior, 1.0)]


def _by_hyperparameters(model: Described, draws: HyperDraws, max_draws: int) -> list[Known]:
    """Every different θ among the kept draws, evenly spaced, with its draws of x."""
    check_same(model, draws)
    x = draws.x.reshape(-1, model.n)
    theta = full_theta(model, draws, draws.theta[:, draws.kept]).reshape(len(x), -1)
    chosen = np.linspace(0, len(x) - 1, min(max_draws, len(x))).round().astype(int)
    theta, x = theta[chosen], x[chosen]
    starts = np.flatnonzero((theta[1:] != theta[:-1]).any(axis=1)) + 1
    parts = zip(theta[np.r_[0, starts]], np.split(x, starts), strict=True)
    return [Known(model.at(at), draws, len(draws)) for at, draws in parts]

"""The reference that everything else starts from, by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..approximations.mixture import Mixture
from ..drivers.scout import explore, unexplained
from ..execution.arguments import seed_sequence
from ..execution.clock import interruptible
from ..execution.keywords import hinted
from ..messages import Message
from ..moves.base import Move
from ..numerics.threads import blas_for
from ..paths import families
from ..paths.families import Reference

if TYPE_CHECKING:
    from ..models.types import Model


@hinted
def fit_reference(model: Model, *, random_seed: int | np.random.Generator | None = None) -> Any:
    """The Gaussian, or the :class:`.Mixture` of Gaussians, that estimates start from.

    A mixture where the posterior may have several modes: where a likelihood is not log-concave.

    Parameters
    ----------
    model : GPModel, SoftmaxModel or DensityModel
    random_seed : int or Generator, optional
        Of the search for modes; same seed, same reference.

    Returns
    -------
    reference or Mixture
        What ``reference=`` of :func:`evidence.log_evidence` and others takes. A mixture has
        ``.components``, each with ``.sites``, ``.mean``, …, and ``.weights``; the prior is the
        last of them, for what all others have missed.

    Examples
    --------
    Two groups of data that contradict each other, under noise with heavy tails:

    >>> from evidence import GPModel, fit_reference
    >>> model = GPModel(
    ...     K=100.0 * np.ones((6, 6)) + 1e-3 * np.eye(6),
    ...     y=[-8.0, -8.0, -8.0, 8.0, 8.0, 8.0],
    ...     likelihood="student_t(df=3, scale=0.5)",
    ... )
    >>> mixture = fit_reference(model, random_seed=0)
    >>> sorted(round(float(component.mean[0])) for component in mixture.components)
    [-8, 0, 8]
    """
    families.family(model)  # an error for what is no model
    return explored(model, None, seed_sequence(random_seed))[0]


def explored(
    model: Model, reference: object, seed: np.random.SeedSequence, move: Move | None = None
) -> tuple[Reference, list[Message]]:
    """The reference, extended by what scouts see where it is a mixture, and what they cannot
    explain."""
    with interruptible(), blas_for(model.n):
        base = families.fit_reference(model, reference, move=move, seed=families.search_seed(seed))
        if not isinstance(base, Mixture):
            return base, []
        mixture, scouted = explore(base, np.random.default_rng(seed.spawn(1)[0]))
        return mixture, [] if scouted is None else unexplained(scouted.logz - mixture.logz)

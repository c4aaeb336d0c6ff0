r"""Data that a formula fits exactly, where nothing keeps the noise from zero: log Z is infinite.

Where r effects fit k + r data exactly and a parameter a of their noise tends to its end, what is
left of the likelihood grows as :math:`a^{pk}`. The prior of effects on log a, which has the tail
that their scale's prior has, must fall faster, as a normal one does where the scale is known: it
is looked at where doubles can no longer tell noise from none. (Where all data have one noise:
:mod:`evidence.hyper.scatter`.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial, singledispatch
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import lsqr
from scipy.stats import norm

from ...messages import InputError
from ...numerics.arrays import Array
from ..base import DataModel
from ..likelihoods.base import family
from ..likelihoods.predicted import Predicted
from ..priors import Distribution
from .model import FormulaModel, parameters_of
from .terms import Common


@singledispatch
def check_ties(model: DataModel, priors: Mapping[str, Any]) -> None:
    """Refuse to integrate hyperparameters with these priors where log Z would be infinite."""


@check_ties.register
def _of_effects_on_noise(
    model: FormulaModel, priors: Mapping[str, Any], *, digits: float = 16.0, level: float = 0.05
) -> None:
    """``digits``: nats of noise relative to the data, about what doubles have; ``level``: power
    that is none, as of :math:`K_0(x) \\approx e^{-x} x^{-1/2}`, a half-normal scale's tail."""
    lik = model.likelihood
    if not isinstance(lik, Predicted) or family(lik).counts:
        return
    N = model.y.size
    z, first = lik.location(model.y)[:N] - model.offset[:N], csr_array(model.A[:N])
    for word, power, name, log_p, rows in _parts(model, lik, priors):
        rise = log_p(digits + 1.0) - log_p(digits)
        if rows.size and (spare := _spare(first[rows], z[rows])) and rise + power * spare > -level:
            raise InputError(
                f"y is fitted exactly in data {', '.join(map(str, rows[:4]))}, …: nothing keeps "
                f"the noise ({word}) from vanishing there, and log Z is infinite; hold it, or "
                f"give {name} a prior that leaves no room for that, or say how y was rounded with "
                "cens()"
            )


def _parts(
    model: FormulaModel, lik: Predicted, priors: Mapping[str, Any]
) -> Iterator[tuple[str, float, str, Callable[[float], float], Array]]:
    """Effects on parameters of the noise: what these are, |p|, whose prior it is, its logarithm
    by the size of the effect, and data that have it."""
    # |p|, at least, of parameters that may make a density as high as they like
    powers = {"noise_std": 1.0, "scale": 1.0, "sigma": 1.0, "shape": 0.5, "phi": 0.5}
    N, slices = model.y.size, model.slices
    for j, (word, own) in enumerate(zip(model.further, lik.names, strict=True), 1):
        for term in model.terms if own in powers else ():
            if term.of_predictor != word:
                continue
            part = csr_array(model.A[j * N : (j + 1) * N, slices[term.name]]).tocsc()
            names = [n for n in parameters_of(term) if n in priors and "sd(" in n]
            for i, (start, end) in enumerate(pairwise(part.indptr)):
                rows = part.indices[start:end]
                if isinstance(term, Common):
                    log_p = partial(norm.logpdf, loc=0.0, scale=term.sd[i])
                    yield word, powers[own], term.words[i], log_p, rows
                elif names:
                    log_p = partial(_of_effects, priors[names[0]])
                    yield word, powers[own], names[0], log_p, rows


def _spare(A: csr_array, z: Array, *, exact: float = 1e-9, dense: int = 10**6) -> int:
    """How many data more than effects are fitted exactly; none where they are not.

    ``exact``: share of the largest response up to which residuals are rounding; ``dense``: entries
    of a matrix whose rank is computed.
    """
    A = csr_array(A[:, np.unique(A.indices)])
    close = exact * np.abs(z).max(initial=0.0)
    if A.shape[0] * A.shape[1] > dense:
        found = lsqr(A, z, atol=0.0, btol=exact, iter_lim=200)[0]
        return (A.shape[0] - min(A.shape)) * bool(np.abs(z - A @ found).max() <= close)
    found, _, rank, _ = np.linalg.lstsq(A.toarray(), z, rcond=None)
    return (z.size - int(rank)) * bool(np.abs(z - A @ found).max(initial=0.0) <= close)


def _of_effects(prior: Distribution, at: float) -> float:
    """log density of an effect so large, over what its scale may be."""
    scales = np.geomspace(1e-3, 1e3, 400)
    with np.errstate(all="ignore"):
        log_p = prior.logpdf(scales) + norm.logpdf(at, 0.0, scales) + np.log(scales)
    return float(np.logaddexp.reduce(np.nan_to_num(log_p, nan=-np.inf)))

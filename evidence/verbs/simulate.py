"""Data simulated from a model, and the exact posterior draw that comes with them.

With x ~ N(m, K) and y ~ p(y|x), x is a draw from the posterior given y.
"""

from __future__ import annotations

from contextlib import suppress
from functools import singledispatch

import numpy as np

from ..execution.arguments import check_kind, seed_sequence
from ..execution.keywords import hinted
from ..messages import InputError
from ..models.base import DataModel
from ..models.density.model import DensityModel
from ..models.formulas.jzs import check_proper
from ..models.priors import Flat
from ..models.scales import to_line
from ..models.types import Described
from ..numerics.arrays import Array, Indices
from ..results.at_draws import AtDraws
from ..results.simulated import Simulated

_RANKED = 4  # effects, latent values or parameters of a model


@hinted
def simulate(model: Described, random_seed: int | np.random.Generator | None = None) -> Simulated:
    """Draw x ~ N(m, K) and y ~ p(y|x), and put y in the place of the model's data.

    The new model shares all but the data with the old one; nothing is factorised again.

    Parameters
    ----------
    model : GPModel, SparseModel, PredictorsModel or SoftmaxModel
    random_seed : int or Generator, optional
        Same seed, same data.

    Returns
    -------
    Simulated
        ``simulated.model``, ``simulated.x``, ``simulated.y``.

    Examples
    --------
    >>> from evidence import GPModel
    >>> model = GPModel(K=np.eye(3), y=[0, 0, 0], likelihood="poisson")
    >>> simulated = simulate(model, random_seed=1)
    >>> simulated.y, simulated.model.K is model.K
    (array([2., 3., 2.]), True)
    """
    check_kind("model", model, Described)
    check_proper("model", model)
    rng = np.random.default_rng(seed_sequence(random_seed))
    x = model.from_prior(rng)
    new = model.with_data(model.likelihood.simulate(model.seen(x[None])[0], rng))
    return Simulated(new, x, new.y)


@singledispatch
def from_prior(model: object, rng: np.random.Generator) -> tuple[Array, Array]:
    """Hyperparameters (on the line), latent values or parameters from their prior, those of
    :func:`ranked`; and data from them, where the model is not a density."""
    raise TypeError(type(model))


@from_prior.register
def _with_data(
    model: Described, rng: np.random.Generator, *, tries: int = 100
) -> tuple[Array, Array]:
    """``tries``: draws of priors, of which extremes leave no model."""
    where = ranked(model)[1]
    priors = {} if model.priors is None else dict(model.priors.items())
    lows = np.zeros(0) if model.priors is None else model.priors.lows
    for _ in range(tries):
        values = [
            float(Flat(low).ppf(rng.random()) if isinstance(d, str) else d.rvs(random_state=rng))
            for d, low in zip(priors.values(), lows, strict=True)
        ]
        with suppress(InputError):  # of numbers too large for a covariance, or for counts
            at = model.at(dict(zip(priors, values, strict=True))) if priors else model
            drawn = simulate(at, rng)
            log_p = log_likelihood(drawn.model, drawn.x)
            return np.r_[to_line(values, lows), drawn.x[where], log_p], drawn.model.observed
    raise InputError(
        f"model: of {tries} draws from its prior none could be simulated: {model!r} is too wide"
    )


@from_prior.register
def _parameters_alone(model: DensityModel, rng: np.random.Generator) -> tuple[Array, Array]:
    return model.from_prior(rng)[ranked(model)[1]], np.zeros(0)


@singledispatch
def ranked(model: object) -> tuple[list[str], Indices]:
    """Names of what :func:`from_prior` draws, and which latent values or parameters these are:
    the first effects of a formula, of others some that are far apart. The log likelihood, which
    knows all of the data, comes last (M. Modrák et al., Bayesian Anal. 20 (2025) 461)."""
    raise TypeError(type(model))


@ranked.register
def _of_latent_values(model: DataModel) -> tuple[list[str], Indices]:
    free = () if model.priors is None else model.priors.names
    where = np.arange(min(model.n, _RANKED)) if model.names else _apart(model.n)
    labels = model.names or [f"x[{i}]" for i in range(model.n)]
    return [*free, *(labels[i] for i in where), "log likelihood"], where


@ranked.register
def _of_parameters(model: DensityModel) -> tuple[list[str], Indices]:
    where = _apart(len(model.names))
    return [model.names[i] for i in where], where


def _apart(size: int) -> Indices:
    return np.unique(np.linspace(0, size - 1, _RANKED).astype(int))


def log_likelihood(model: Described, x: Array) -> float:
    """log p(y|x) of all data."""
    return float(AtDraws.of(model, x[None]).log_likelihood().sum())

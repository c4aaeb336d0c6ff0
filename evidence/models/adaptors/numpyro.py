"""Models written in NumPyro."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...execution.arguments import shown
from ...execution.lazy import needed
from ...messages import InputError
from ...numerics.arrays import Array
from ..density.autodiff import Compiled, from_jax
from .derived import Here
from .program import ProgramModel, Report, check_words, indexed, pieces

if TYPE_CHECKING:
    from jax import Array as JaxArray


def from_numpyro(
    model: Callable[..., Any], *args: object, kwargs: Mapping[str, Any] | None = None, **words: Any
) -> ProgramModel:
    """A :class:`~evidence.models.density.model.DensityModel` from a NumPyro model.

    Z is the model's marginal likelihood p(observed data): NumPyro's distributions are normalised.
    What is not, is what you leave unnormalised yourself with ``numpyro.factor``.

    Parameters
    ----------
    model : callable
        A function with ``numpyro.sample`` inside. All sites that are not observed must be
        continuous.
    *args
        What the model is called with.
    kwargs : mapping, optional
        What it is called with by name.
    **words
        ``sampler``, ``metric``, ``check``, as for :func:`evidence.from_jax`.

    Returns
    -------
    ProgramModel
        A density in NumPyro's unconstrained coordinates, site after site as the model samples
        them. Draws are values of these sites on their natural scale, named ``"beta[0]"``,
        ``"sigma"``, … The reference is fitted from draws of the prior.

    Notes
    -----
    Such a model stays in its process: run it on threads, the default.

    Examples
    --------
    >>> import pytest
    >>> numpyro = pytest.importorskip("numpyro")
    >>> from numpyro import distributions as dist
    >>> def program(y):
    ...     sigma = numpyro.sample("sigma", dist.HalfNormal(2.0))
    ...     numpyro.sample("y", dist.Normal(0.0, sigma), obs=y)
    >>> model = from_numpyro(program, np.array([0.5, -1.2, 0.3]))
    >>> model.names, model.constrain([[0.0]]).tolist()
    (('sigma',), [[1.0]])
    """
    needed("numpyro", "ev.from_numpyro needs NumPyro", "numpyro")
    import jax
    from numpyro import handlers
    from numpyro.infer import Predictive, util

    if not callable(model):
        raise InputError(
            f"model must be a function with numpyro.sample inside, got {shown(model)}"
        )
    check_words(words, "ev.from_numpyro")
    given = dict(kwargs or {})
    with jax.enable_x64(True):
        seeded = handlers.seed(model, jax.random.PRNGKey(0))
        try:
            trace = handlers.trace(seeded).get_trace(*args, **given)
        except NotImplementedError:
            raise InputError(
                "model: one of its priors has no draws, such as ImproperUniform, which leaves a "
                "model without an evidence; give it a proper one"
            ) from None
        values, notes = _latent(trace)
        inside = _shapes(util.unconstrain_fn(model, args, given, values), values)
    outside = _shapes(values, values)

    def log_density(x: JaxArray) -> JaxArray:
        return -util.potential_energy(model, args, given, pieces(x, inside))

    def outward(x: JaxArray) -> JaxArray:
        return _flat(jax, util.constrain_fn(model, args, given, pieces(x, inside)), values)

    def inward(theta: JaxArray) -> JaxArray:
        return _flat(jax, util.unconstrain_fn(model, args, given, pieces(theta, outside)), values)

    def prior(rng: np.random.Generator, size: int) -> Array:
        key = jax.random.PRNGKey(int(rng.integers(2**31)))
        with jax.enable_x64(True):
            drawn = Predictive(model, num_samples=size)(key, *args, **given)
        parts = [np.asarray(drawn[name], float).reshape(size, -1) for name in values]
        return np.concatenate(parts, axis=1)

    metric = words.pop("metric", "softabs")
    dim = sum(map(prod, inside.values()))
    derived = from_jax(Here(log_density), dim, metric=metric)
    names = [name for site, shape in outside.items() for name in indexed(site, shape)]
    both = Compiled("logdensity", Here(outward)), Compiled("logdensity", Here(inward))
    report = Report(*both, tuple(names))
    words.setdefault("sampler", Here(prior))
    title = f"NumPyro model {getattr(model, '__name__', '')}".strip()
    functions = derived.functions._asdict()
    return ProgramModel(functions, dim, report, title, notes, metric=derived.metric, **words)


def _latent(trace: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Values of the sites to integrate over, in the model's order, and what to tell of others."""
    from numpyro.distributions import Unit

    values, notes = {}, []
    for name, site in trace.items():
        if site["type"] == "param":
            raise InputError(f"model: numpyro.param {name!r} has no prior; make it a sample site")
        if site["type"] != "sample":
            continue
        fn = site["fn"]
        if site["is_observed"]:
            if isinstance(fn, Unit):
                notes.append(f"NumPyro model: the factor {name!r} counts as it is")
            continue
        if fn.support.is_discrete:
            raise InputError(
                f"model: {name!r} is discrete, over which no density can be integrated; sum it "
                "out first (numpyro.distributions.MixtureSameFamily)"
            )
        values[name] = site["value"]
    if not values:
        raise InputError("model: every site is observed: there is nothing to integrate")
    return values, notes


def _shapes(parts: Mapping[str, Any], order: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(np.shape(parts[name])) for name in order}


def _flat(jax: ModuleType, parts: Mapping[str, Any], order: Mapping[str, Any]) -> JaxArray:
    return jax.numpy.concatenate([jax.numpy.ravel(parts[name]) for name in order])

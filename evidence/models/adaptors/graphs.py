"""A PyMC model as graphs of one vector: log density, parameters, and the way back.

The vector holds the value variables (PyMC's unconstrained coordinates) in the order of
``model.value_vars``, each row by row. Everything here is symbolic; nothing is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from ...messages import InputError
from .program import indexed, pieces

if TYPE_CHECKING:
    from pymc import Model
    from pytensor.tensor import TensorVariable


class Graphs(NamedTuple):
    """Inputs and outputs, all vectors but ``logp``."""

    x: TensorVariable
    """Coordinates."""
    logp: TensorVariable
    """The model's log density, Jacobians included: a number."""
    outward: TensorVariable
    """Parameters from ``x``."""
    theta: TensorVariable
    """Parameters, as an input."""
    inward: TensorVariable
    """Coordinates from ``theta``."""
    dim: int
    names: tuple[str, ...]
    """Of parameters, with the labels of their dimensions,"""
    numbered: tuple[str, ...]
    """and with indices alone."""


def graphs_of(model: Model) -> Graphs:
    """The graphs of a ``pymc.Model`` whose free variables are continuous."""
    import pytensor.tensor as pt
    from pytensor.graph.replace import graph_replace

    free, values = model.free_RVs, model.value_vars
    _check_types(free, values)
    transforms = [model.rvs_to_transforms[rv] for rv in free]
    shapes = model.eval_rv_shapes()
    inside = [shapes[value.name] for value in values]
    outside = [shapes[rv.name] for rv in free]

    def flat(parts: list[Any]) -> TensorVariable:
        return pt.concatenate([part.ravel() for part in parts])

    def through(way: str, given: Sequence[Any]) -> list[Any]:
        """Values by the transforms of their variables, where these have one."""
        triples = zip(free, transforms, given, strict=True)
        return [x if f is None else getattr(f, way)(x, *rv.owner.inputs) for rv, f, x in triples]

    constrained = through("backward", values)
    constrained = model.replace_rvs_by_values(constrained)  # limits may be other parameters
    x, theta = pt.vector("x", dtype="float64"), pt.vector("theta", dtype="float64")
    pieces = _split(x, values, inside)
    given = _split(theta, free, outside)
    forward = through("forward", [given[rv] for rv in free])
    log_p = graph_replace([_bounded(model)], pieces, strict=False)[0]
    outward = flat(graph_replace(constrained, pieces, strict=False))
    inward = flat(graph_replace(forward, given, strict=False))
    names = (_names(free, outside, labels) for labels in (_labels(model), {}))
    return Graphs(x, log_p, outward, theta, inward, int(sum(map(prod, inside))), *names)


def _names(free: list[Any], shapes: list[Any], labels: dict[str, list[Any]]) -> tuple[str, ...]:
    pairs = zip((rv.name for rv in free), shapes, strict=True)
    return tuple(one for n, shape in pairs for one in indexed(n, shape, labels.get(n, ())))


def _labels(model: Model) -> dict[str, list[Any]]:
    """The coordinates of every variable's dimensions, None where a dimension has none."""
    coords, every = model.coords, model.named_vars_to_dims.items()
    return {name: [coords.get(dim) for dim in dims or ()] for name, dims in every}


def _bounded(model: Model) -> TensorVariable:
    """The log density, -inf where a distribution's own parameters make no sense."""
    logp = model.logp()
    if not model.check_bounds:
        return logp
    from pymc.logprob.utils import local_check_parameter_to_ninf_switch
    from pytensor.graph.rewriting.basic import in2out
    from pytensor.graph.rewriting.utils import rewrite_graph

    # JAX cannot raise errors from values, and would drop the assertions
    switch = in2out(local_check_parameter_to_ninf_switch)
    return rewrite_graph(logp, include=("none",), custom_rewrite=switch)


def _split(vector: TensorVariable, variables: list[Any], shapes: list[Any]) -> dict[Any, Any]:
    """Consecutive pieces of the vector in the variables' shapes."""
    split = pieces(vector, dict(zip(variables, shapes, strict=True)))
    return {v: v.type.filter_variable(own, allow_convert=True) for v, own in split.items()}


def _check_types(free: list[Any], values: list[Any]) -> None:
    if not free:
        raise InputError("the PyMC model has no free variables: there is nothing to integrate")
    pairs = zip(free, values, strict=True)
    discrete = [rv.name for rv, value in pairs if not value.dtype.startswith("float")]
    if discrete:
        raise InputError(
            f"the PyMC model has discrete free variables ({', '.join(discrete)}), over which no "
            "density can be integrated; sum them out first (pymc.Mixture, or marginalize of "
            "pymc-extras)"
        )
    if any(value.dtype != "float64" for value in values):
        raise InputError(
            "the PyMC model was built in single precision; set pytensor.config.floatX = 'float64'"
        )

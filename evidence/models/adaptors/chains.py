"""Posterior draws from anywhere: arrays, mappings of names to arrays, and ArviZ's containers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from ...execution.arguments import array, listed, shown
from ...messages import InputError, suggest
from ...numerics.arrays import Array


@dataclass(frozen=True, eq=False)
class Chains:
    """Draws (chains, draws, d), the names of the d numbers, and the variables they belong to."""

    x: Array
    names: tuple[str, ...]
    shapes: dict[str, tuple[int, ...]]
    """Of the variables, in their order; empty where draws came as one array"""

    def by_name(self, rows: Array) -> Any:
        """Rows (m, d) as the variables (m, ...) they are of; one row (d,) as one of each."""
        if not self.shapes:
            return rows
        sizes = [int(np.prod(shape)) for shape in self.shapes.values()]
        parts = np.split(rows, np.cumsum(sizes)[:-1], axis=-1)
        values = zip(self.shapes.items(), parts, strict=True)
        return {name: part.reshape(part.shape[:-1] + shape)[()] for (name, shape), part in values}

    def of(self, names: Sequence[str], numbered: Sequence[str] = ()) -> Chains:
        """The same draws for a model whose parameters have these names, in this order, or those
        with numbers in the place of words."""
        if numbered and not set(names) <= set(self.names):
            names = numbered
        if not self.shapes and self.x.shape[2] == len(names):
            return Chains(self.x, tuple(names), {})
        listed = self.names if set(names) <= set(self.names) else _from_one(self.names)
        for name in names:
            if name not in listed:
                raise InputError(
                    f"draws must have {shown(name)}, which the model has"
                    f"{suggest(name, self.names)} They have {shown(self.names)}"
                )
        return Chains(self.x[..., [listed.index(name) for name in names]], tuple(names), {})

    def without_draws(self) -> Chains:
        """Names and shapes alone."""
        return Chains(self.x[:0], self.names, self.shapes)


def read_chains(draws: object, var_names: Sequence[str] | None = None) -> Chains:
    """Draws in whatever form they come.

    >>> draws = {"mu": np.zeros((4, 100)), "theta": np.ones((4, 100, 2))}
    >>> chains = read_chains(draws)
    >>> chains.x.shape, chains.names
    ((4, 100, 3), ('mu', 'theta[0]', 'theta[1]'))
    >>> {name: value.shape for name, value in chains.by_name(chains.x[0]).items()}
    {'mu': (100,), 'theta': (100, 2)}
    """
    variables = _variables(draws)
    if variables is None:
        if var_names is not None:
            raise InputError("var_names chooses among named draws; draws came as one array")
        x = array("draws", draws, ("chains", "draws", "d"), ("draws", "d"))
        x = x if x.ndim == 3 else x[None]
        return Chains(x, tuple(f"x[{i}]" for i in range(x.shape[2])), {})
    chosen = list(variables) if var_names is None else listed("var_names", var_names)
    for name in chosen:
        if name not in variables:
            raise InputError(
                f"var_names has {shown(name)}, which draws have not{suggest(name, variables)}"
            )
    if not chosen:
        raise InputError(f"draws hold no variables, got {shown(draws)}")
    columns: list[Array] = []
    names: list[str] = []
    shapes: dict[str, tuple[int, ...]] = {}
    for name in chosen:
        value = array(f"draws[{shown(name)}]", variables[name])
        value = value[None] if value.ndim == 1 else value
        if value.ndim < 2 or value.shape[:2] != (columns[0] if columns else value).shape[:2]:
            raise InputError(
                f"draws[{shown(name)}] must have shape (chains, draws, ...), chains and draws "
                f"the same for all variables; got {value.shape}"
            )
        shapes[name] = value.shape[2:]
        columns.append(value.reshape(*value.shape[:2], -1))
        entries = product(*map(range, shapes[name]))
        names += [f"{name}[{','.join(map(str, i))}]" if i else name for i in entries]
    return Chains(np.concatenate(columns, axis=2), tuple(names), shapes)


def _variables(draws: object) -> dict[str, Any] | None:
    """Arrays (chains, draws, ...) by name, or None where draws are no such thing."""
    if hasattr(draws, "posterior"):  # InferenceData
        draws = draws.posterior
    elif hasattr(draws, "children") and "posterior" in draws.children:  # DataTree
        draws = draws.children["posterior"]
    if hasattr(draws, "data_vars"):
        found = draws.data_vars
        return {str(k): v.transpose("chain", "draw", ...).values for k, v in found.items()}
    return {str(k): v for k, v in draws.items()} if isinstance(draws, Mapping) else None


def _from_one(names: Sequence[str]) -> tuple[str, ...]:
    """Names with indices that begin at one, as Stan has them.

    >>> _from_one(["mu", "theta[0,1]"])
    ('mu', 'theta[1,2]')
    """
    return tuple(re.sub(r"\d+(?=[],])", lambda i: str(int(i[0]) + 1), name) for name in names)

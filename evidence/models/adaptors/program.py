"""A density that a program defines in unconstrained coordinates and reports in its parameters.

Programs change variables themselves and include the Jacobian, so moves work where the program
does. What is reported (draws, ``posterior=``) are the program's own parameters, which may be more
than there are coordinates: a simplex of three parts has two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...messages import InputError
from ...numerics.arrays import Array
from ..density.autodiff import check_derived
from ..density.model import DensityModel

if TYPE_CHECKING:
    from jax import Array as JaxArray
    from pytensor.tensor import TensorVariable


class Report(NamedTuple):
    """How coordinates (M, d) become parameters (M, k), the way back, and their k names."""

    outward: Callable[[Array], Array]
    inward: Callable[[Array], Array]
    names: tuple[str, ...]
    numbered: tuple[str, ...] = ()
    """The same with indices, where names have words that the program gives to them."""


class ProgramModel(DensityModel):
    """A :class:`~evidence.models.density.model.DensityModel` whose parameters a program names.

    Parameters
    ----------
    functions : dict
        ``logdensity`` and derivatives, of batches of coordinates, as DensityModel takes them.
    dim : int
        Number of coordinates.
    report : Report
        What users see.
    program : str
        What the model is, in words.
    notes : sequence of str
        What users should know of how it was made.
    **words
        ``sampler`` (of parameters), ``metric``, ``check``, as for DensityModel.

    Examples
    --------
    >>> report = Report(np.exp, np.log, ("rate",))
    >>> model = ProgramModel({"logdensity": lambda x: -x[:, 0] ** 2}, 1, report, "a program")
    >>> model.constrain([[0.0]]).tolist(), model.log_prob(np.ones((1, 1))).tolist(), model.names
    ([[1.0]], [-1.0], ('rate',))
    """

    def __init__(
        self, functions: dict[str, Callable[..., Any] | None], dim: int, report: Report,
        program: str, notes: Sequence[str] = (), **words: Any,
    ) -> None:  # fmt: skip
        self.report, self.program = report, program
        super().__init__(dim=dim, vectorized=True, **functions, **words)  # type: ignore[arg-type]
        self.names = report.names
        self.notes = tuple(notes)

    def outward(self, x: Array) -> Array:
        """The program's parameters (M, k) from coordinates (M, d)."""
        with np.errstate(all="ignore"):
            return self.report.outward(x)

    def inward(self, theta: Array) -> Array:
        """Coordinates (M, d) of the program's parameters (M, k)."""
        with np.errstate(all="ignore"):
            return self.report.inward(theta)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "density": self.program}


def pieces(
    vector: JaxArray | TensorVariable, shapes: Mapping[Any, Sequence[Any]]
) -> dict[Any, Any]:
    """Consecutive pieces of a vector, of whatever library, in these shapes."""
    parts, start = {}, 0
    for name, shape in shapes.items():
        stop = start + prod(shape)
        parts[name], start = vector[start:stop].reshape(shape), stop
    return parts


def indexed(name: str, shape: tuple[int, ...], labels: Sequence[Any] = ()) -> list[str]:
    """``beta`` for a number, ``beta[0]``, …, ``W[0,1]``, … for arrays; labels of an axis take the
    place of its numbers where there is a different one for each.

    >>> indexed("theta", (2, 2), [["Choate", "Deerfield"], None])
    ['theta[Choate,0]', 'theta[Choate,1]', 'theta[Deerfield,0]', 'theta[Deerfield,1]']
    """
    if not shape:
        return [name]
    axes = [list(map(str, range(int(size)))) for size in shape]
    for axis, words in zip(axes, labels, strict=False):
        if words is not None and len({*map(str, words)}) == len(axis):
            axis[:] = map(str, words)
    return [f"{name}[{','.join(index)}]" for index in product(*axes)]


def check_words(words: dict[str, Any], adaptor: str) -> None:
    """An error for what the program itself decides."""
    check_derived(words, adaptor)
    if own := sorted({"prior", "bounds", "names"} & set(words)):
        raise InputError(f"{', '.join(own)}: the program given to {adaptor} has its own")

r"""Derivatives by PyTensor, one point at a time.

With the gradient g, the Hessian comes as products :math:`Hv = \nabla(g^\top v)`, and third
derivatives as :math:`\nabla(w^\top H w)`; for a symmetric matrix
:math:`W = \sum_k \lambda_k u_k u_k^\top` then
:math:`\nabla\langle W, H\rangle = \sum_k \lambda_k \nabla(u_k^\top H u_k)`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import numpy as np

from ...numerics.arrays import Array


class Here:
    """A function that cannot leave this process."""

    __name__ = "program"

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *arguments: object) -> Any:
        return self.function(*arguments)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a model from ev.from_pymc or ev.from_numpyro cannot be sent to other processes or be "
            "pickled; run it on threads (leave executor= out), or build it anew in every process"
        )


class Graph(Here):
    """A function compiled by PyTensor when first called; threads take turns."""

    def __init__(self, inputs: list[Any], outputs: object, mode: str | None = None) -> None:
        self.inputs, self.outputs, self.mode = inputs, outputs, mode
        self._lock = threading.Lock()
        self._compiled: Callable[..., Any] | None = None

    def __call__(self, *arguments: object) -> Any:
        with self._lock:  # its storage is shared between calls
            if self._compiled is None:
                from pymc.pytensorf import compile

                words = {"mode": self.mode, "on_unused_input": "ignore"}
                self._compiled = compile(self.inputs, self.outputs, **words)
            return self._compiled(*arguments)


def derive(logp: object, x: object) -> tuple[dict[str, Callable[..., Any] | None], str]:
    """Functions of batches for DensityModel, and what could not be derived, in words."""
    import pytensor.tensor as pt
    from pytensor.gradient import NullTypeGradError
    from pytensor.graph.utils import MethodNotDefined

    missing = (NotImplementedError, MethodNotDefined, NullTypeGradError)
    v = pt.vector("v", dtype="float64")
    functions: dict[str, Callable[..., Any] | None] = {"logdensity": rowwise(Graph([x], logp))}

    def slope(y: object) -> Any:
        return pt.grad(y, x, consider_constant=[v], disconnected_inputs="ignore")

    try:
        g = slope(logp)
        functions["value_and_grad"] = Here(partial(_pairs, Graph([x], [logp, g])))
        product = slope((g * v).sum())
        functions["hessian"] = Here(partial(_hessian, Graph([x, v], product)))
        third = slope((product * v).sum())
    except missing as error:
        lost = "third derivatives" if "hessian" in functions else "second derivatives"
        return functions, f"no {lost if 'value_and_grad' in functions else 'gradient'}: {error}"
    along = Graph([x, v], third)
    functions["along"] = rowwise(along)
    functions["third"] = Here(partial(_third, along))
    return functions, ""


def rowwise(graph: Graph) -> Here:
    """Its values at batches of points."""
    return Here(lambda *x: np.array([graph(*rows) for rows in zip(*x, strict=True)]))


def _pairs(graph: Graph, x: Array) -> tuple[Array, Array]:
    pairs = [graph(row) for row in x]
    return np.array([value for value, _ in pairs]), np.array([slope for _, slope in pairs])


def _hessian(product: Graph, x: Array) -> Array:
    basis = np.eye(x.shape[1])
    H = np.array([[product(row, e) for e in basis] for row in x])
    return 0.5 * (H + np.swapaxes(H, 1, 2))


def _third(along: Graph, x: Array, W: Array) -> Array:
    triples = zip(x, *np.linalg.eigh(W), strict=True)
    rows = [sum(c * along(row, u) for c, u in zip(s, U.T, strict=True)) for row, s, U in triples]
    return np.array(rows)

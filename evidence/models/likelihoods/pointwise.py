"""Kernels of functions of one point: log p(y|x) and its derivatives."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from numba import carray

from ...numerics.jit import kernel

_Compiled = Callable[..., Any]


class Pointwise:
    """The kernel of a compiled ``f(x, theta) -> (l, l1, l2, l3)``; theta has ``rows`` numbers.

    Where a loop ``first_order(x, theta, step, out)`` fills the first two of all points, f is that
    of the others, (l2, l3). As an attribute of a class it is compiled when first asked for: files
    hold several families.
    """

    def __init__(
        self, function: _Compiled, rows: int, first_order: _Compiled | None = None
    ) -> None:
        self.function, self.rows, self.first_order = function, rows, first_order

    def __get__(self, likelihood: object, owner: type) -> Any:
        return self.kernel

    @cached_property
    def kernel(self) -> Any:
        if self.first_order is None:
            return _around(self.function, self.rows)
        return _after(self.first_order, self.function, self.rows)


def _around(function: _Compiled, rows: int) -> Any:
    @kernel
    def compiled(x_, theta_, n, stride, step, order, out_):
        x, theta, out = carray(x_, n), carray(theta_, (rows, stride)), carray(out_, (4, n))
        for i in range(n):
            out[0, i], out[1, i], out[2, i], out[3, i] = function(x[i], theta[:, i * step])

    return compiled


def _after(first_order: _Compiled, bends: _Compiled, rows: int) -> Any:
    @kernel
    def compiled(x_, theta_, n, stride, step, order, out_):
        x, theta, out = carray(x_, n), carray(theta_, (rows, stride)), carray(out_, (4, n))
        if step:  # a constant: vector instructions
            first_order(x, theta, 1, out)
        else:
            first_order(x, theta, 0, out)
        for i in range(n if order > 1 else 0):
            out[2, i], out[3, i] = bends(x[i], theta[:, i * step])

    return compiled

"""Kernels of functions of one point: log p(y|x) and three derivatives as a tuple."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from numba import carray

from ...numerics.jit import kernel


class Pointwise:
    """The kernel of a compiled ``f(x, theta) -> (l, l1, l2, l3)``; theta has ``rows`` numbers.

    As an attribute of a class it is compiled when first asked for: files hold several families.
    """

    def __init__(self, function: Callable[..., Any], rows: int) -> None:
        self.function, self.rows = function, rows

    def __get__(self, likelihood: object, owner: type) -> Any:
        return self.kernel

    @cached_property
    def kernel(self) -> Any:
        return _around(self.function, self.rows)


def _around(function: Callable[..., Any], rows: int) -> Any:
    @kernel
    def compiled(x_, theta_, n, stride, step, order, out_):
        x, theta, out = carray(x_, n), carray(theta_, (rows, stride)), carray(out_, (4, n))
        for i in range(n):
            out[0, i], out[1, i], out[2, i], out[3, i] = function(x[i], theta[:, i * step])

    return compiled

"""Kernel expressions: ``"4.0 * RBF(1.5)"`` to a scikit-learn kernel, without ``eval``."""

from __future__ import annotations

import ast
import inspect
import math
import operator
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...execution.arguments import shown
from ...execution.lazy import Kernel, kernels
from ...messages import InputError, suggest
from ..expressions import quoted, readable, tree_of

_NAMES = (
    "ConstantKernel", "DotProduct", "ExpSineSquared", "Matern", "PairwiseKernel", "RBF",
    "RationalQuadratic", "WhiteKernel",
)  # fmt: skip
_MEANT = {
    "constant": "ConstantKernel", "gaussian": "RBF", "linear": "DotProduct",
    "noise": "WhiteKernel", "periodic": "ExpSineSquared", "rq": "RationalQuadratic", "se": "RBF",
    "squaredexponential": "RBF", "white": "WhiteKernel",
}  # fmt: skip
_METRICS = ("additive_chi2", "chi2", "cosine", "laplacian", "linear", "poly", "rbf", "sigmoid")
_NOT_OFFERED = ("pairwise_kernels_kwargs",)
_ONE_SCALE_PER_COLUMN = ("Matern", "RBF")
_ARITHMETIC = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_GRAMMAR = (
    "only numbers, + * ** and kernel calls such as 4.0 * RBF(1.5) + WhiteKernel(0.1) are allowed"
)


def parse_kernel(text: str) -> Kernel:
    r"""Return the scikit-learn kernel that ``text`` describes.

    The squared exponential :math:`\sigma^2 \exp(-|x-x'|^2 / 2l^2)` is ``"sigma**2 * RBF(l)"``
    with numbers in the places of ``sigma`` and ``l``.

    Parameters
    ----------
    text : str
        Numbers, ``+``, ``*``, ``**`` and calls of scikit-learn's kernels with literal
        arguments. A number next to a kernel, or alone, is a ``ConstantKernel``.

    Returns
    -------
    scikit-learn kernel

    Examples
    --------
    >>> parse_kernel("2**2 * RBF([1, 2.5]) + WhiteKernel(noise_level=0.1)")
    2**2 * RBF(length_scale=[1, 2.5]) + WhiteKernel(noise_level=0.1)
    >>> parse_kernel("RFB(1.5)")
    Traceback (most recent call last):
    ...
    evidence.InputError: kernel: unknown name 'RFB'; did you mean 'RBF'? Known: ConstantKernel, ...
    """
    if not isinstance(text, str):
        raise InputError(f"kernel: expected a string such as '4.0 * RBF(1.5)', got {shown(text)}")
    text = text.strip()
    if not text:
        raise InputError("kernel: the expression is empty; write for example '4.0 * RBF(1.5)'")
    try:
        with readable("kernel", text):
            tree, read = tree_of(text), _Expression(text)
            return read.kernel(tree, read.value(tree))
    except InputError:
        raise
    except SyntaxError as error:
        where = f" at character {error.offset}" if error.offset else ""
        raise InputError(f"kernel: cannot read {quoted(text)}: {error.msg}{where}") from None
    except ValueError as error:  # null bytes
        raise InputError(f"kernel: cannot read {quoted(text)}: {error}") from None


class _Expression(NamedTuple):
    """What the parts of an expression stand for; errors quote the part that is wrong."""

    text: str

    def wrong(self, node: ast.expr, before: str, after: str = "") -> InputError:
        part = quoted(ast.get_source_segment(self.text, node) or self.text)
        return InputError(f"kernel: {before}{part}{after}")

    def value(self, node: ast.expr) -> float | Kernel:
        """A number (float) or a kernel."""
        sizes = (8, 16, 32, 64)
        scalars = tuple(f"{kind}{n}" for kind in ("float", "int", "uint") for n in sizes)
        match node:
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                return self.finite(node, lambda: float(number))
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
                value = self.value(operand)
                if isinstance(value, float):
                    return -value if isinstance(node.op, ast.USub) else value
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                compute, a, b = _ARITHMETIC[type(op)], self.value(left), self.value(right)
                if isinstance(a, float) and isinstance(b, float):
                    return self.finite(node, lambda: compute(a, b))
                if isinstance(op, ast.Pow) and isinstance(b, float):
                    return a ** self.positive(right, b)
                if isinstance(op, ast.Add | ast.Mult):
                    return compute(self.kernel(left, a), self.kernel(right, b))
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="np" | "numpy"), attr=kind),
                args=[inside],
                keywords=[],
            ) if kind in scalars and isinstance(value := self.value(inside), float):
                return value  # as NumPy prints its numbers
            case ast.Call(func=ast.Name(id=name)):
                return self.called(_known(name), node)
            case ast.Name(id=name):
                raise InputError(f"kernel: {_known(name)} needs brackets, write {name}(…)")
        raise self.wrong(node, "cannot use ", f"; {_GRAMMAR}")

    def finite(self, node: ast.expr, compute: Callable[[], object]) -> float:
        try:
            value = compute()
        except (OverflowError, ZeroDivisionError):
            value = math.inf
        if not isinstance(value, float) or not math.isfinite(value):  # a root may be complex
            raise self.wrong(node, "", " is not a finite real number")
        return value

    def positive(self, node: ast.expr, value: float | Kernel) -> float:
        if isinstance(value, float) and value > 0.0:
            return value
        raise self.wrong(node, "", " must be a positive number for a covariance to result")

    def positives(self, nodes: list[ast.expr]) -> list[float]:
        return [self.positive(node, self.value(node)) for node in nodes]

    def kernel(self, node: ast.expr, value: float | Kernel) -> Kernel:
        if not isinstance(value, float):
            return value
        return kernels.ConstantKernel(self.positive(node, value))

    def called(self, name: str, node: ast.Call) -> Kernel:
        cls = getattr(kernels, name)
        known = tuple(p for p in inspect.signature(cls).parameters if p not in _NOT_OFFERED)
        if len(node.args) > len(known):
            raise InputError(
                f"kernel: {name} takes at most {len(known)} arguments ({', '.join(known)}), "
                f"got {len(node.args)}"
            )
        given: list[tuple[str | None, ast.expr]] = list(zip(known, node.args, strict=False))
        given += [(keyword.arg, keyword.value) for keyword in node.keywords]
        arguments: dict[str, float | str | Sequence[float]] = {}
        for key, value in given:
            if key is None or isinstance(value, ast.Starred):
                raise self.wrong(node, "cannot use ", f"; {_GRAMMAR}")
            if key not in known:
                raise InputError(
                    f"kernel: {name} has no parameter {key!r}{suggest(key, known, _MEANT)} "
                    f"It takes {', '.join(known)}"
                )
            if key in arguments:
                raise InputError(f"kernel: {name} got {key} twice")
            arguments[key] = self.argument(name, key, value)
        return cls(**arguments)

    def argument(self, name: str, key: str, node: ast.expr) -> float | str | Sequence[float]:
        literal = node.value if isinstance(node, ast.Constant) else 0.0
        items = node.elts if isinstance(node, ast.List | ast.Tuple) else []
        wanted = "a number"
        if key == "metric":
            wanted = f"one of {', '.join(map(repr, _METRICS))}"
            if literal in _METRICS:
                return literal
        elif key.endswith("_bounds"):
            wanted = "'fixed' or a pair of numbers"
            if literal == "fixed":
                return literal
            if len(items) == 2:
                return tuple(self.positives(items))
        elif items and key == "length_scale" and name in _ONE_SCALE_PER_COLUMN:
            return self.positives(items)
        elif isinstance(literal, int | float) and not isinstance(node, ast.List | ast.Tuple):
            number = self.value(node)
            return 0.0 if key == "sigma_0" and number == 0.0 else self.positive(node, number)
        raise self.wrong(node, f"{key} of {name} must be {wanted}, got ")


def _known(name: str) -> str:
    if name in _NAMES:
        return name
    raise InputError(
        f"kernel: unknown name {name!r}{suggest(name, _NAMES, _MEANT)} Known: {', '.join(_NAMES)}"
    )

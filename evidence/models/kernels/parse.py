"""Kernel expressions: ``"4.0 * RBF(1.5)"`` to a scikit-learn kernel, without ``eval``."""

from __future__ import annotations

import ast
import inspect
import math
import operator
import warnings
from typing import Any, NoReturn

from ...messages import InputError, suggest

_NAMES = (
    "ConstantKernel",
    "DotProduct",
    "ExpSineSquared",
    "Matern",
    "PairwiseKernel",
    "RBF",
    "RationalQuadratic",
    "WhiteKernel",
)
_MEANT = {
    "constant": "ConstantKernel",
    "gaussian": "RBF",
    "linear": "DotProduct",
    "noise": "WhiteKernel",
    "periodic": "ExpSineSquared",
    "rq": "RationalQuadratic",
    "se": "RBF",
    "squaredexponential": "RBF",
    "white": "WhiteKernel",
}
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
_LONGEST = 2000
_GRAMMAR = (
    "only numbers, + * ** and kernel calls such as 4.0 * RBF(1.5) + WhiteKernel(0.1) are allowed"
)


def parse_kernel(text: str) -> Any:
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
        raise InputError(f"kernel: expected a string such as '4.0 * RBF(1.5)', got {text!r}")
    text = text.strip()
    if not text:
        raise InputError("kernel: the expression is empty; write for example '4.0 * RBF(1.5)'")
    if len(text) > _LONGEST:
        raise InputError(f"kernel: {len(text)} characters are too many (limit {_LONGEST})")
    try:
        tree = _syntax_tree(text)
        return _as_kernel(_value(tree, text), tree, text)
    except (RecursionError, MemoryError):
        raise InputError("kernel: the expression is nested too deeply") from None


def _syntax_tree(text: str) -> ast.expr:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Python would warn about is refused below
            return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        where = f" at character {error.offset}" if error.offset else ""
        raise InputError(f"kernel: cannot read {_shown(text)}: {error.msg}{where}") from None
    except ValueError as error:  # null bytes
        raise InputError(f"kernel: cannot read {_shown(text)}: {error}") from None


def _value(node: ast.expr, text: str) -> Any:
    """A number (float) or a kernel."""
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return _finite(lambda: float(value), node, text)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            return _signed(node.op, _value(operand, text), node, text)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return _combined(_value(left, text), op, _value(right, text), node, text)
        case ast.Call(func=ast.Name(id=name)):
            return _called(_known_name(name), node, text)
        case ast.Name(id=name):
            known = _known_name(name)
            raise InputError(f"kernel: {known} needs brackets, write {known}(…)")
    _refuse(node, text)


def _signed(op: ast.unaryop, value: Any, node: ast.expr, text: str) -> float:
    if not isinstance(value, float):
        _refuse(node, text)
    return -value if isinstance(op, ast.USub) else value


def _combined(left: Any, op: ast.operator, right: Any, node: ast.BinOp, text: str) -> Any:
    if isinstance(left, float) and isinstance(right, float):
        return _finite(lambda: _ARITHMETIC[type(op)](left, right), node, text)
    if isinstance(op, ast.Pow) and isinstance(right, float):
        return left ** _positive(right, node.right, text)
    if isinstance(op, ast.Add | ast.Mult):
        return _ARITHMETIC[type(op)](
            _as_kernel(left, node.left, text), _as_kernel(right, node.right, text)
        )
    _refuse(node, text)


def _called(name: str, node: ast.Call, text: str) -> Any:
    from sklearn.gaussian_process import kernels

    cls = getattr(kernels, name)
    known = tuple(p for p in inspect.signature(cls).parameters if p not in _NOT_OFFERED)
    if len(node.args) > len(known):
        raise InputError(
            f"kernel: {name} takes at most {len(known)} arguments ({', '.join(known)}), "
            f"got {len(node.args)}"
        )
    given: list[tuple[str | None, ast.expr]] = list(zip(known, node.args, strict=False))
    given += [(keyword.arg, keyword.value) for keyword in node.keywords]
    arguments: dict[str, Any] = {}
    for key, value in given:
        if key is None or isinstance(value, ast.Starred):
            _refuse(node, text)
        if key not in known:
            raise InputError(
                f"kernel: {name} has no parameter {key!r}{suggest(key, known, _MEANT)} "
                f"It takes {', '.join(known)}"
            )
        if key in arguments:
            raise InputError(f"kernel: {name} got {key} twice")
        arguments[key] = _argument(name, key, value, text)
    return cls(**arguments)


def _argument(name: str, key: str, node: ast.expr, text: str) -> Any:
    items = node.elts if isinstance(node, ast.List | ast.Tuple) else None
    if key == "metric":
        return _metric(node, text)
    if key.endswith("_bounds"):
        if isinstance(node, ast.Constant) and node.value == "fixed":
            return "fixed"
        if items and len(items) == 2:
            return tuple(_positive(_value(item, text), item, text) for item in items)
        raise InputError(
            f"kernel: {key} of {name} must be 'fixed' or a pair of numbers, "
            f"got {_source(node, text)}"
        )
    if key == "length_scale" and items and name in _ONE_SCALE_PER_COLUMN:
        return [_positive(_value(item, text), item, text) for item in items]
    text_or_none = isinstance(node, ast.Constant) and not isinstance(node.value, int | float)
    if items is not None or text_or_none:
        raise InputError(f"kernel: {key} of {name} must be a number, got {_source(node, text)}")
    number = _value(node, text)
    return 0.0 if key == "sigma_0" and number == 0.0 else _positive(number, node, text)


def _metric(node: ast.expr, text: str) -> str:
    value = node.value if isinstance(node, ast.Constant) else None
    if value in _METRICS:
        return value
    raise InputError(
        f"kernel: metric must be one of {', '.join(map(repr, _METRICS))}, "
        f"got {_source(node, text)}"
    )


def _as_kernel(value: Any, node: ast.expr, text: str) -> Any:
    if not isinstance(value, float):
        return value
    from sklearn.gaussian_process.kernels import ConstantKernel

    return ConstantKernel(_positive(value, node, text))


def _positive(value: Any, node: ast.expr, text: str) -> float:
    if isinstance(value, float) and value > 0.0:
        return value
    raise InputError(
        f"kernel: {_source(node, text)} must be a positive number for a covariance to result"
    )


def _finite(compute: Any, node: ast.expr, text: str) -> float:
    try:
        value = compute()
    except (OverflowError, ZeroDivisionError):
        value = math.inf
    if not isinstance(value, float) or not math.isfinite(value):  # a root may be complex
        raise InputError(f"kernel: {_source(node, text)} is not a finite real number")
    return value


def _known_name(name: str) -> str:
    if name in _NAMES:
        return name
    raise InputError(
        f"kernel: unknown name {name!r}{suggest(name, _NAMES, _MEANT)} Known: {', '.join(_NAMES)}"
    )


def _source(node: ast.expr, text: str) -> str:
    return _shown(ast.get_source_segment(text, node) or text)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "…")


def _refuse(node: ast.expr, text: str) -> NoReturn:
    raise InputError(f"kernel: cannot use {_source(node, text)}; {_GRAMMAR}")

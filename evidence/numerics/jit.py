"""The one place where compilation is configured.

Every compiled function of the package is made by one of the decorators below, so that
caching, GIL and floating-point rules are the same everywhere.

A likelihood reaches compiled code as a *kernel*: a C function on whole vectors with the
signature ``KERNEL``. All kernels have the same Numba type, so a routine that takes one as an
argument is compiled once for all likelihoods and found in the disk cache by the next process.
"""

from __future__ import annotations

import ctypes
import hashlib
import warnings
from collections.abc import Callable
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.ccallback import CFunc
from numba.core.typing.typeof import typeof_impl

_Update = Callable[[bytes], None]
_PACKAGE = __name__.partition(".")[0]
_POINTER = types.CPointer(types.float64)

#: ``kernel(x, theta, n, stride, step, order, out)``; see :func:`kernel`.
KERNEL = types.void(_POINTER, _POINTER, types.intp, types.intp, types.intp, types.intp, _POINTER)


class _Stamped(IndexDataCacheFile):
    """A cache file that is valid for what the function and all it calls compute.

    Numba itself looks at the file of a function only, not at the files of what it calls: after
    an upgrade in place it would mix old code with new.
    """

    def __init__(self, path: str, base: str, function: Callable[..., Any]) -> None:
        super().__init__(path, base, None)
        self._function = function

    @property
    def _source_stamp(self) -> str:  # when needed: callees may be defined after their callers
        return fingerprint(self._function)

    @_source_stamp.setter
    def _source_stamp(self, value: None) -> None: ...


class _Cache(FunctionCache):
    """Numba's disk cache; where it cannot be written, code stays in memory, said once.

    A compiled function made inside another one, around a compiled function (its closure), has a
    file for each of these.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        names = [f"{cell.__module__.rpartition('.')[2]}.{cell.__qualname__}" for cell in cells]
        base = "-".join([self._impl.filename_base, *names])
        self._cache_file = _Stamped(self._cache_path, base, function)

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        key = super()._index_key(sig, codegen)
        if self._py_func.__closure__:  # Numba would ask for the same objects in every process
            key = key[:2]
        return (*key, *map(_fields, getattr(sig, "args", sig)))

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _warn_uncached(str(error))


def _fields(kind: Any) -> Any:
    """Names of a named tuple's fields, at any depth: their order is part of compiled code."""
    if isinstance(kind, types.BaseTuple):
        return (getattr(kind, "fields", ()), *map(_fields, kind))
    return ()


@cache
def _warn_uncached(reason: str) -> None:
    warnings.warn(
        f"compiled code cannot be kept on disk ({reason}), so that every process compiles anew; "
        "set NUMBA_CACHE_DIR to a folder that can be written",
        RuntimeWarning,
        stacklevel=2,
    )


def _cached(compiled: Any, function: Callable[..., Any]) -> Any:
    """Turn on the disk cache where there is a place for it."""
    try:
        compiled._cache = _Cache(function)
    except RuntimeError as error:
        _warn_uncached(str(error))
    return compiled


@cache
def fingerprint(function: Callable[..., Any]) -> str:
    """A digest of what a function computes: its code and constants, and those of all it calls.

    Comments, docstrings and other functions of the file do not count.
    """
    digest = hashlib.sha256()
    _walk(function, digest.update, set())
    return digest.hexdigest()


def _walk(value: Any, update: _Update, seen: set[int]) -> None:
    value = getattr(value, "py_func", getattr(value, "_pyfunc", value))
    if isinstance(value, FunctionType):
        update(value.__qualname__.encode())
        if id(value) not in seen:
            seen.add(id(value))
            _walk_code(value.__code__, value.__doc__, value.__globals__, update, seen)
            for cell in value.__closure__ or ():
                _walk(cell.cell_contents, update, seen)
    elif isinstance(value, np.ndarray):
        update(f"{value.dtype} {value.shape}".encode() + value.tobytes())
    elif isinstance(value, tuple):
        for item in value:
            _walk(item, update, seen)
    elif isinstance(value, type):
        update(f"{value.__qualname__} {getattr(value, '_fields', '')}".encode())
    elif isinstance(value, int | float | complex | str | bytes | None):
        update(repr(value).encode())
    else:  # modules, external functions, types of Numba: by name
        name = getattr(value, "symbol", getattr(value, "__name__", type(value).__name__))
        update(str(name).encode())


def _walk_code(
    code: CodeType,
    doc: Any,
    known: dict[str, Any],
    update: Callable[[bytes], None],
    seen: set[int],
) -> None:
    update(code.co_code)
    update(repr((code.co_names, code.co_varnames)).encode())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _walk_code(constant, None, known, update, seen)
        elif constant is not doc:
            _walk(constant, update, seen)
    for name in code.co_names:
        if name in known:
            _walk(known[name], update, seen)
        module = known.get(name)
        if isinstance(module, ModuleType) and module.__name__.startswith(_PACKAGE):
            for inner in sorted(vars(module).keys() & set(code.co_names)):  # ``module.function``
                _walk(vars(module)[inner], update, seen)


def jit(function: Callable[..., Any]) -> Any:
    """Compile on first use, cache on disk, release the GIL; division by zero follows IEEE."""
    if numba.config.DISABLE_JIT:
        return function
    return _cached(numba.njit(function, nogil=True, error_model="numpy"), function)


def vector_loop(function: Callable[..., Any]) -> Any:
    """As :func:`jit`, for branch-free loops over arrays: multiply-adds may be fused."""
    if numba.config.DISABLE_JIT:
        return function
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
    return _cached(numba.njit(function, **options), function)


def reduction(function: Callable[..., Any]) -> Any:
    """As :func:`vector_loop`, and sums may be reordered: for dot products."""
    if numba.config.DISABLE_JIT:
        return function
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "reassoc"}}
    return _cached(numba.njit(function, **options), function)


class Kernel(CFunc):
    """A compiled kernel: its type is known, and calls need not find it out."""


_KERNEL_TYPE = types.FunctionType(KERNEL)
typeof_impl.register(Kernel, lambda value, context: _KERNEL_TYPE)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a likelihood kernel ``(x, theta, n, stride, step, order, out)``.

    ``x`` holds ``n`` latent values. Parameter ``p`` of latent ``i`` is
    ``theta[p * stride + i * step]``: ``step = 1`` walks along the data, ``step = 0`` evaluates
    one datum at many latent values. ``out`` is ``(4, n)``: log p(y|x) and, up to ``order``,
    its first, second and third derivatives in x (``order`` is 1 or 3).
    """
    if numba.config.DISABLE_JIT:
        return _interpreted(function)
    options = {"nopython": True, "error_model": "numpy"}
    compiled = _cached(
        Kernel(function, numba.core.sigutils.normalize_signature(KERNEL), {}, options), function
    )
    compiled.compile()
    return compiled


def _interpreted(function: Callable[..., Any]) -> Any:
    """The kernel as plain Python, for debuggers and coverage (``NUMBA_DISABLE_JIT=1``)."""
    pointer = ctypes.POINTER(ctypes.c_double)

    def call(x: Any, theta: Any, *sizes: Any) -> None:
        *sizes, out = sizes
        function(x.data_as(pointer), theta.data_as(pointer), *sizes, out.data_as(pointer))

    return call

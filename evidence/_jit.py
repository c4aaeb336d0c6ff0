"""The one place where compilation is configured.

Every compiled function of the package is made by one of the decorators below, so that
caching, GIL and floating-point rules are the same everywhere.

A likelihood reaches compiled code as a *kernel*: a C function on whole vectors with the
signature ``KERNEL``. All kernels have the same Numba type, so a routine that takes one as an
argument is compiled once for all likelihoods and found in the disk cache by the next process.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba import types
from numba.core.ccallback import CFunc

_POINTER = types.CPointer(types.float64)

#: ``kernel(x, theta, n, stride, step, order, out)``; see :func:`kernel`.
KERNEL = types.void(_POINTER, _POINTER, types.intp, types.intp, types.intp, types.intp, _POINTER)


def _package_stamp() -> tuple[str, ...]:
    """Size and modification time of every source file of the package."""
    stamps = []
    for folder, _, names in os.walk(Path(__file__).parent):
        for name in names:
            if name.endswith(".py"):
                status = os.stat(os.path.join(folder, name))
                stamps.append(f"{name} {status.st_size} {status.st_mtime_ns}")
    return tuple(sorted(stamps))


_STAMP = _package_stamp()


def _cached(compiled: Any) -> Any:
    """Turn on the disk cache, valid for exactly these sources of the whole package.

    Numba itself looks at the file of a function only, not at the files of what it calls: after
    an upgrade in place it would mix old code with new.
    """
    compiled.enable_caching()
    compiled._cache._cache_file._source_stamp = _STAMP
    return compiled


def jit(function: Callable[..., Any]) -> Any:
    """Compile on first use, cache on disk, release the GIL; division by zero follows IEEE."""
    if numba.config.DISABLE_JIT:
        return function
    return _cached(numba.njit(function, nogil=True, error_model="numpy"))


def vector_loop(function: Callable[..., Any]) -> Any:
    """As :func:`jit`, for branch-free loops over arrays: multiply-adds may be fused."""
    if numba.config.DISABLE_JIT:
        return function
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
    return _cached(numba.njit(function, **options))


def reduction(function: Callable[..., Any]) -> Any:
    """As :func:`vector_loop`, and sums may be reordered: for dot products."""
    if numba.config.DISABLE_JIT:
        return function
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "reassoc"}}
    return _cached(numba.njit(function, **options))


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
        CFunc(function, numba.core.sigutils.normalize_signature(KERNEL), {}, options)
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

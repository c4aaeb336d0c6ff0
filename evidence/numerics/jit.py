"""The one place where compilation is configured.

Every compiled function of the package is made by one of the decorators below, so that
caching, GIL and floating-point rules are the same everywhere.

Compiled code is kept on disk. It is valid for what a function and all that it calls compute
(:func:`fingerprint`), not for a file: edits of other functions, comments and docstrings recompile
nothing, edits of a called function or a constant in another file recompile all that depends on
it. Where the disk is full, damaged or cannot be written, code is compiled anew.

A likelihood reaches compiled code as a *kernel*: a C function on whole vectors with the
signature ``KERNEL``. All kernels have the same Numba type, so a routine that takes one as an
argument is compiled once for all likelihoods and found in the disk cache by the next process.
"""

from __future__ import annotations

import ctypes
import gc
import glob
import hashlib
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum, EnumMeta
from functools import cache, cached_property, partial, update_wrapper
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any
from uuid import uuid4

import numba
import numpy as np
from llvmlite.binding import Linkage
from numba import types
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.ccallback import CFunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags
from numba.core.cpu import CPUContext
from numba.core.registry import CPUDispatcher
from numba.core.typing.typeof import typeof_impl

_INTERPRETED: bool = numba.config.DISABLE_JIT
_LIBRARIES = {"numpy", "numba", "llvmlite", "scipy", "math", "cmath", "builtins"}  # known by name
_SCHEME = 2  # of compiling; what is kept by another is compiled anew
_POINTER = types.CPointer(types.float64)

#: ``kernel(x, theta, n, stride, step, order, out)``; see :func:`kernel`.
KERNEL = types.void(_POINTER, _POINTER, types.intp, types.intp, types.intp, types.intp, _POINTER)


# -- what a function computes -----------------------------------------------------------------


def fingerprint(function: object) -> str:
    """A digest of what a function computes: its code, constants, defaults, compiler options, and
    those of all it calls, in whatever module they are.

    Comments, docstrings and other functions of the file do not count. Functions of NumPy, SciPy
    and Numba count by name.
    """
    digest = hashlib.sha256()
    for word in _words(function, set()):
        digest.update(repr(word).encode() + b"\0")
    return digest.hexdigest()


def _words(value: object, seen: set[int]) -> Iterator[object]:
    """All that compiled code may have taken from a value when it was compiled."""
    options = getattr(getattr(value, "_compiler", None), "targetoptions", None)
    value = getattr(value, "py_func", getattr(value, "_pyfunc", value))
    yield type(value).__qualname__
    if isinstance(value, FunctionType):
        yield value.__qualname__
        yield from _words(options, seen)
        if id(value) not in seen and not _in_library(str(value.__module__)):
            seen.add(id(value))
            yield from _words((value.__defaults__, value.__kwdefaults__), seen)
            for cell in value.__closure__ or ():
                with suppress(ValueError):  # it is empty
                    yield from _words(cell.cell_contents, seen)
            yield from _words_of_code(value.__code__, value.__doc__, value.__globals__, seen)
    elif isinstance(value, partial):
        yield from _words((value.func, value.args, value.keywords), seen)
    elif isinstance(value, tuple | list):
        yield len(value)
        for item in value:
            yield from _words(item, seen)
    elif isinstance(value, dict):
        yield from _words(sorted(value.items(), key=repr), seen)
    elif isinstance(value, set | frozenset):
        yield sorted(map(repr, value))
    elif isinstance(value, np.ndarray | np.generic):
        yield value.dtype.str, value.shape, value.tobytes()
    elif isinstance(value, EnumMeta):
        yield value.__qualname__, list(value.__members__.items())
    elif isinstance(value, type):  # of a named tuple, for example
        yield value.__qualname__, getattr(value, "_fields", ())
    elif isinstance(value, int | float | complex | str | bytes | Enum | None):
        yield value
    elif isinstance(value, types.Type):
        yield str(value), str(getattr(value, "sig", ""))
    else:  # modules, functions of libraries
        yield getattr(value, "__name__", "")


def _words_of_code(
    code: CodeType, doc: str | None, known: dict[str, Any], seen: set[int]
) -> Iterator[object]:
    yield code.co_code, code.co_exceptiontable, code.co_flags, code.co_names, code.co_varnames
    yield code.co_argcount, code.co_kwonlyargcount, code.co_freevars, code.co_cellvars
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _words_of_code(constant, None, known, seen)
        elif constant is not doc:
            yield from _words(constant, seen)
    yield from _words_of_names(code.co_names, known, set(), seen)


def _words_of_names(
    names: tuple[str, ...], known: dict[str, Any], inside: set[int], seen: set[int]
) -> Iterator[object]:
    """Of globals, and of what is reached as ``module.name`` or ``package.module.name``."""
    for name in names:
        if name not in known:
            continue
        value = known[name]
        yield name
        yield from _words(value, seen)
        module = isinstance(value, ModuleType) and not _in_library(value.__name__)
        if module and id(value) not in inside:
            yield from _words_of_names(names, vars(value), inside | {id(value)}, seen)


def _in_library(module: str) -> bool:
    return module.partition(".")[0] in _LIBRARIES


# -- what is kept on disk ---------------------------------------------------------------------


class _Stamped(IndexDataCacheFile):
    """A cache file that is valid for what the function and all it calls compute.

    Numba itself looks at the file of a function only, not at the files of what it calls: after
    an upgrade in place it would mix old code with new. And it numbers the files of compiled code,
    so that processes that compile at the same time may be given each other's: here no two files
    have the same name.
    """

    def __init__(self, path: str, base: str, function: Callable[..., Any]) -> None:
        super().__init__(path, base, None)
        self._base, self._function = base, function

    @property
    def _source_stamp(self) -> str:  # when needed: callees may be defined after their callers
        return f"{_SCHEME} {fingerprint(self._function)}"

    @_source_stamp.setter
    def _source_stamp(self, value: None) -> None: ...

    def _load_index(self) -> dict[Any, str]:
        try:
            return dict(super()._load_index())
        except Exception:  # damaged, or it names classes of another version
            return {}

    def save(self, key: object, data: object) -> None:
        overloads = self._load_index()
        if not overloads and os.path.exists(self._index_path):  # out of date
            for file in Path(self._cache_path).glob(f"{glob.escape(self._base)}.*.nbc"):
                file.unlink(missing_ok=True)
        overloads[key] = f"{self._base}.{uuid4().hex}.nbc"
        self._save_data(overloads[key], data)
        self._save_index(overloads)


class _Cache(FunctionCache):
    """Numba's disk cache; where it cannot be written, code stays in memory, said once.

    A compiled function made inside another one, around compiled functions (its closure, and
    theirs), has a file for each choice of these.
    """

    def __init__(self, compiled: CPUDispatcher | CFunc, function: Callable[..., Any]) -> None:
        super().__init__(function)
        base = self._impl.filename_base
        if isinstance(compiled, _Part):
            base += "-part"
        if "<locals>" not in function.__qualname__:  # the name is enough, the line may change
            base = base.replace(f"-{function.__code__.co_firstlineno}.", ".")
        if around := "-".join(_around(function)):
            base += f"-{hashlib.sha256(around.encode()).hexdigest()[:16]}"
        self._cache_file = _Stamped(self._cache_path, base, compiled)

    def _index_key(self, sig: Iterable[types.Type], codegen: object) -> tuple[Any, ...]:
        key = super()._index_key(sig, codegen)
        if self._py_func.__closure__:  # Numba would ask for the same objects in every process
            key = key[:2]
        return (*key, *map(_fields, getattr(sig, "args", sig)))

    def load_overload(self, sig: object, target_context: object) -> object:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # damaged
            return None

    def save_overload(self, sig: object, data: object) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _warn_uncached(error.strerror or str(error))


def _around(function: Callable[..., Any], *outer: Callable[..., Any]) -> Iterator[str]:
    """Names of the functions in a closure, and in theirs."""
    for cell in getattr(function, "__closure__", None) or ():
        with suppress(ValueError):  # it is empty
            inner = getattr(cell.cell_contents, "py_func", cell.cell_contents)
            if hasattr(inner, "__qualname__"):
                yield f"{inner.__module__}.{inner.__qualname__}"
                if inner not in (function, *outer):  # it may call itself
                    yield from _around(inner, function, *outer)


def _fields(kind: types.Type) -> tuple[Any, ...]:
    """Names of a named tuple's fields, at any depth: their order is part of compiled code."""
    if isinstance(kind, types.BaseTuple):
        return (getattr(kind, "fields", ()), *(_fields(part) for part in kind.types))
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
        compiled._cache = _Cache(compiled, function)
    except RuntimeError:  # Numba has found none
        _warn_uncached("there is no folder that can be written")
    return compiled


# -- what is compiled with what ---------------------------------------------------------------


class _Finished(JITCodeLibrary):
    """Machine code that shares nothing with that of other functions.

    Numba leaves its copies of what a function calls open to others, and of all the copies in a
    process the first is used: last digits would depend on what had been called before.

    What is ``long``, in instructions, stays a function: as part of the one that calls it, it would
    take up to twice as long to optimise, and run no faster.
    """

    def _optimize_final_module(self, long: int = 100) -> None:
        for function in self._final_module.functions:
            if function.linkage == Linkage.linkonce_odr and not function.is_declaration:
                function.linkage = "internal"
                if sum(1 for block in function.blocks for _ in block.instructions) > long:
                    function.add_function_attribute("noinline")
        super()._optimize_final_module()


class _Unfinished(JITCodeLibrary):
    """Code that is optimised, and becomes machine code, together with what calls it."""

    codegen = property(lambda self: self)

    def set_env(self, name: str, environment: object) -> None:
        """Of the interpreter's objects none are needed before that."""

    def _optimize_final_module(self) -> None: ...

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def serialize_using_object_code(self) -> object:
        return self.serialize_using_bitcode()


class _Flags(Flags):
    """Options, by which Numba finds again what it has compiled, compared in one step: it would
    ask for all of them, one by one, of all that it knows."""

    def __hash__(self) -> int:
        return hash(_Flags)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Flags) and bool(self._values == other._values)


class _CompilerOfWholes(Compiler):
    library: type[JITCodeLibrary] = _Finished

    def __init__(self, typing: object, target: CPUContext, _: object, *rest: object) -> None:
        super().__init__(typing, target, self.library(target.codegen(), "code"), *rest)
        self.state.flags = _Flags(self.state.flags)
        self.state.library.enable_object_caching()

    def _compile_bytecode(self) -> object:
        """Number functions by what they compute.

        Numba counts those that a process has met. Copies of one that are numbered differently
        would not be known as the same where two parts bring them; and of two functions of the
        same name and number, one of them from the disk cache, one would be called for both.
        """
        known = self.state.func_id
        known.unique_id = int(fingerprint(known.func)[:16], 16)
        known.unique_name = f"{known.func_qualname}${known.unique_id}"
        return super()._compile_bytecode()


class _CompilerOfParts(_CompilerOfWholes):
    library = _Unfinished


class _Part(CPUDispatcher):
    """A function as compiled code calls it; Python cannot."""


class _Whole(CPUDispatcher):
    """A function as Python calls it.

    What it calls is compiled as parts of it: by itself Numba would optimise a function again
    wherever it is called, directly or not, and make a way in from Python for each. That takes a
    third of the time, and runs no faster.
    """

    @cached_property
    def part(self) -> _Part:
        options = {**self.targetoptions, "no_cpython_wrapper": True}
        return _cached(_Part(self.py_func, {}, options, _CompilerOfParts), self.py_func)

    @property
    def _numba_type_(self) -> types.Dispatcher:
        return types.Dispatcher(self.part)

    def compile(self, signature: object) -> object:
        with _no_garbage():
            return super().compile(signature)


class _Light(_Whole):
    """What is called a few times and has little to do is interpreted, with all that it calls."""

    # Numbers in all arguments. So many take one or two milliseconds, compiling .2 to 3 s; in the
    # evidence of a formula of 40 rows there are 240 calls of .1 ms. More for what is done once.
    little, rest = 1000, 8000

    @cached_property
    def plain(self) -> Callable[..., Any]:
        function = self.py_func
        known = dict(function.__globals__)
        for name in function.__code__.co_names:
            if isinstance(known.get(name), _Light):
                known[name] = known[name].plain
        return FunctionType(function.__code__, known)

    def __call__(self, *args: object) -> Any:
        size = _size(args)
        if not self.overloads and size <= max(self.little, self.rest):
            self.rest -= size
            return self.plain(*args)
        return super().__call__(*args)


def _size(value: object) -> int:
    return sum(map(_size, value)) if isinstance(value, tuple) else getattr(value, "size", 1)


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Python does not look for cycles: an eighth of the time of compiling."""
    looks = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if looks:
            gc.enable()


# -- decorators -------------------------------------------------------------------------------


def _compiled(function: Callable[..., Any], kind: type[_Whole] = _Whole, **options: object) -> Any:
    if _INTERPRETED:
        return function
    # a second way in, for callbacks, would take a tenth longer to compile
    options |= {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    options |= {"nopython": True, "boundscheck": None}
    whole = kind(function, {}, options, _CompilerOfWholes)
    update_wrapper(whole, function)
    return _cached(whole, function)


def jit(function: Callable[..., Any]) -> Any:
    """Compile on first use, cache on disk, release the GIL; division by zero follows IEEE."""
    return _compiled(function)


def light_jit(function: Callable[..., Any]) -> Any:
    """As :func:`jit` where there is enough to do that compiling is worth while, interpreted
    elsewhere: for what is done once or once a fit, such as the pattern of a sparse matrix."""
    return _compiled(function, _Light)


def vector_loop(function: Callable[..., Any]) -> Any:
    """As :func:`jit`, for branch-free loops over arrays: multiply-adds may be fused."""
    return _compiled(function, fastmath={"contract"})


def reduction(function: Callable[..., Any]) -> Any:
    """As :func:`vector_loop`, and sums may be reordered: for dot products.

    A loop that sums stores nothing: where a loop does both, compiled code asks at run time how far
    its arrays are apart in memory and sums in one order or another, so that a repeated call would
    give other last bits.
    """
    return _compiled(function, fastmath={"contract", "reassoc"})


_PROTOTYPE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_ssize_t] * 4, ctypes.c_void_p
)


class Kernel(CFunc):
    """A kernel that is compiled when it is needed; calls need not find its type out."""

    @property
    def address(self) -> int | None:
        if super().address is None:
            with _no_garbage():
                self.compile()
        return super().address


_KERNEL_TYPE = types.FunctionType(KERNEL)
typeof_impl.register(Kernel, lambda value, context: _KERNEL_TYPE)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a likelihood kernel ``(x, theta, n, stride, step, order, out)``.

    ``x`` holds ``n`` latent values. Parameter ``p`` of latent ``i`` is
    ``theta[p * stride + i * step]``: ``step = 1`` walks along the data, ``step = 0`` evaluates
    one datum at many latent values. ``out`` is ``(4, n)``: log p(y|x) and, up to ``order``,
    its first, second and third derivatives in x (``order`` is 1 or 3).
    """
    if _INTERPRETED:
        return _interpreted(function)
    options = {"nopython": True, "error_model": "numpy"}
    signature = numba.core.sigutils.normalize_signature(KERNEL)
    return _cached(Kernel(function, signature, {}, options, _CompilerOfWholes), function)


def _interpreted(function: Callable[..., Any]) -> Any:
    """The kernel as plain Python, for debuggers and coverage (``NUMBA_DISABLE_JIT=1``)."""
    pointer = ctypes.POINTER(ctypes.c_double)

    def call(x: Any, theta: Any, *rest: Any) -> None:
        *sizes, out = rest
        function(x.data_as(pointer), theta.data_as(pointer), *sizes, out.data_as(pointer))

    return call


def from_python(compiled: Any) -> Callable[..., None]:
    """A kernel, which takes ``array.ctypes``, without the interpreter's lock."""
    return compiled if _INTERPRETED else _PROTOTYPE(compiled.address)

"""Models written in Stan."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...execution.arguments import shown
from ...execution.lazy import needed
from ...messages import InputError
from ...numerics.arrays import Array
from .program import ProgramModel, Report, check_words

_NEEDED = (
    "log_density", "log_density_gradient", "log_density_hessian", "param_constrain",
    "param_unconstrain", "param_names", "param_unc_num",
)  # fmt: skip
_THREADED = "STAN_THREADS=true"


def from_stan(program: object, data: object = None, **words: Any) -> ProgramModel:
    r"""A :class:`~evidence.models.density.model.DensityModel` from a Stan program, by BridgeStan.

    All constants are kept (``propto=False``) and Jacobians are included, so that Z is the integral
    of the ``model`` block as written. Stan does not normalise what declarations cut off:
    ``real<lower=0> sigma; sigma ~ normal(0, 1);`` has half the mass of a half-normal prior, and
    log Z comes out log 2 too small; write ``sigma ~ normal(0, 1) T[0, ];``.

    Parameters
    ----------
    program : str, path or bridgestan.StanModel
        The program's text, a ``.stan`` file, a library compiled by BridgeStan, or an open model.
    data : dict, JSON text or path of a .json file, optional
        What the ``data`` block asks for; not with an open model, which has its own.
    **words
        ``sampler`` (of parameters), ``metric``, ``check``, as for DensityModel.

    Returns
    -------
    ProgramModel
        A density in Stan's unconstrained parameters, with gradient and Hessian. Draws are the
        parameters as declared, named as Stan counts, ``"beta[1]"``. Where the program raises an
        error (``reject``, a negative scale) the density is zero.

    Notes
    -----
    Models compiled here run on all threads; others take turns unless built with
    ``STAN_THREADS=true``. Compiling takes BridgeStan's sources (downloaded at first use, or found
    by the environment variable ``BRIDGESTAN``), a C++ compiler and make; the text of a program
    is compiled once and kept in the user's cache folder.

    Examples
    --------
    >>> from evidence import from_stan
    >>> text = "parameters { real x; } model { x ~ normal(0, 1); }"
    >>> model = from_stan(text)  # doctest: +SKIP
    >>> model.names  # doctest: +SKIP
    ('x',)
    """
    check_words(words, "ev.from_stan")
    stan = _opened(program, data)
    functions = Program(stan)
    d = stan.param_unc_num()
    if d < 1:
        raise InputError("the Stan program has no parameters: there is nothing to integrate")
    names = tuple(_bracketed(name) for name in stan.param_names())
    report = Report(functions.outward, functions.inward, names)
    given: dict[str, Callable[..., Any] | None] = {
        "logdensity": functions.value,
        "value_and_grad": functions.value_and_grad,
        "hessian": functions.hessian,
    }
    model = ProgramModel(given, d, report, "Stan program", **words)
    functions.check(model.probes())
    return model


class Program:
    """BridgeStan's functions for batches, on one thread unless the library was built for more."""

    def __init__(self, stan: Any) -> None:
        self.stan = stan
        info = stan.model_info() if hasattr(stan, "model_info") else ""
        many = _THREADED in info.replace(" ", "")
        self._turn: AbstractContextManager[object] = nullcontext() if many else threading.Lock()

    def __reduce__(self) -> tuple[Callable[..., Program], tuple[str, str, int]]:
        stan = self.stan
        if not hasattr(stan, "lib_path"):
            raise TypeError(
                f"{type(stan).__name__} has no lib_path, so no other process can open it"
            )
        return _reopened, (stan.lib_path, stan.data, stan.seed)

    def _each(self, x: Array, call: Callable[[Array], Any], failed: object) -> list[Any]:
        """``call`` of every row, or ``failed`` where the program says that it is outside."""
        found = []
        for row in np.ascontiguousarray(x):
            try:
                with self._turn:
                    found.append(call(row))
            except RuntimeError:  # how a Stan program says that the density is zero here
                found.append(failed)
        return found

    def value(self, x: Array) -> Array:
        return np.array(self._each(x, partial(self.stan.log_density, propto=False), -np.inf))

    def value_and_grad(self, x: Array) -> tuple[Array, Array]:
        nowhere = -np.inf, np.full(x.shape[1], np.nan)
        call = partial(self.stan.log_density_gradient, propto=False)
        pairs = self._each(x, call, nowhere)
        slopes = np.array([slope for _, slope in pairs]).reshape(x.shape)
        return np.array([value for value, _ in pairs], dtype=float), slopes

    def hessian(self, x: Array) -> Array:
        call = partial(self.stan.log_density_hessian, propto=False)
        nowhere = None, None, np.full((x.shape[1], x.shape[1]), np.nan)
        matrices = [H for _, _, H in self._each(x, call, nowhere)]
        return np.array(matrices).reshape(*x.shape, x.shape[1])

    def outward(self, x: Array) -> Array:
        with self._turn:
            return np.array([self.stan.param_constrain(row) for row in np.ascontiguousarray(x)])

    def inward(self, theta: Array) -> Array:
        outside = np.full(self.stan.param_unc_num(), np.nan)
        rows = self._each(theta, self.stan.param_unconstrain, outside)
        return np.array(rows).reshape(len(theta), outside.size)

    def check(self, x: Array) -> None:
        """An error where the program fails wherever it is tried: that is no limit but a bug."""
        for row in x:
            try:
                self.stan.log_density(row, propto=False)
                return
            except RuntimeError as error:
                last = error
        raise InputError(f"the Stan program fails at all {len(x)} points tried: {last}")


def _reopened(library: str, data: str, seed: int) -> Program:
    return Program(_bridgestan().StanModel(library, data, seed=seed, warn=False))


def _opened(program: object, data: object) -> Any:
    """An open model from whatever was given."""
    if all(hasattr(program, name) for name in _NEEDED):
        if data is not None:
            raise InputError("data= belongs to a program; an open Stan model has its own")
        return program
    if not isinstance(program, str | os.PathLike):
        raise InputError(
            "program must be the text of a Stan program, a .stan file, a library compiled by "
            f"BridgeStan, or a bridgestan.StanModel; got {shown(program)}"
        )
    bridgestan = _bridgestan()
    is_text = isinstance(program, str) and "{" in program
    path = _kept(str(program)) if is_text else Path(program)
    if not path.exists():
        raise InputError(f"program: there is no file {str(path)!r}")
    options = {"make_args": ["STAN_THREADS=true"]} if path.suffix == ".stan" else {}
    try:
        # a library may well be open already: several data sets, one program
        return bridgestan.StanModel(path, data, warn=False, **options)
    except ValueError as error:
        if "BridgeStan" not in str(error):
            raise
        raise RuntimeError(
            f"BridgeStan needs its sources to compile a program: {error} Put them somewhere and "
            "name the folder in the environment variable BRIDGESTAN, or compile the program "
            "elsewhere and pass the library"
        ) from error


def _kept(text: str) -> Path:
    """A file with this text that stays, so that it is compiled once."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "evidence" / "stan" / hashlib.sha256(text.encode()).hexdigest()[:16]
    path = folder / "program.stan"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return path


def _bracketed(name: str) -> str:
    """``beta.1`` as ``beta[1]``, ``W.1.2`` as ``W[1,2]``."""
    head, *indices = name.split(".")
    if not indices or not all(index.isdigit() for index in indices):
        return name
    return f"{head}[{','.join(indices)}]"


def _bridgestan() -> Any:
    return needed("bridgestan", "ev.from_stan needs BridgeStan", "stan")

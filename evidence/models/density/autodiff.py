"""Derivatives by JAX: nothing but the density has to be written.

Value, gradient, Hessian and the contraction of third derivatives are compiled by JAX for whole
batches, in double precision whatever JAX's own setting. Batches are padded to powers of two, so
that a compiled function serves many sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...execution.arguments import check_function
from ...messages import InputError
from ...numerics.arrays import Array
from .functions import Functions
from .metrics import Fisher
from .model import DensityModel

_SMALLEST = 4


def from_jax(logdensity: Callable[[Any], Any], dim: int, **words: Any) -> DensityModel:
    """A :class:`~evidence.models.density.model.DensityModel` from a function written in JAX.

    Parameters
    ----------
    logdensity : callable
        θ → log density (or, with ``prior``, log likelihood) of one point (d,), in ``jax.numpy``.
    dim : int
        Number of parameters.
    **words
        ``prior``, ``bounds``, ``sampler``, ``names``, ``check`` and ``metric``, as for
        DensityModel; ``metric`` may also be x → G(x) written in JAX, a metric of your own,
        which is differentiated too.

    Returns
    -------
    DensityModel

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> model = from_jax(lambda x: -jnp.sum(jnp.cosh(x)), dim=2)
    >>> value, slope = model.log_prob_and_gradient(np.zeros((1, 2)))
    >>> value.tolist(), (slope == 0.0).all().item()
    ([-2.0], True)
    """
    check_derived(words, "JAX")
    check_function("logdensity", logdensity, optional=False)
    metric = words.get("metric")
    if callable(metric):
        words["metric"] = _derive_metric(metric)
    return DensityModel(dim=dim, vectorized=True, **_derive(logdensity), **words)


def check_derived(words: Mapping[str, Any], adaptor: str) -> None:
    """An error for what is derived from the density."""
    if given := sorted({*Functions._fields[1:], "vectorized"} & set(words)):
        raise InputError(f"{', '.join(given)}: {adaptor} derives these; leave them out")


class Compiled:
    """One of the derivatives, made by JAX when first called; pickled as what it is made from."""

    def __init__(self, kind: str, function: Callable[..., Any]) -> None:
        self.kind, self.function = kind, function
        self.__name__ = getattr(function, "__name__", "density")
        self._compiled: Any = None

    def __getstate__(self) -> tuple[str, Callable[..., Any]]:
        return self.kind, self.function

    def __setstate__(self, state: tuple[str, Callable[..., Any]]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def __call__(self, *batch: Array) -> Any:
        jax = _import()
        if self._compiled is None:
            self._compiled = jax.jit(jax.vmap(_KINDS[self.kind](jax, self.function)))
        m = len(batch[0])
        size = max(_SMALLEST, 1 << (m - 1).bit_length())
        padded = [np.concatenate([a, np.repeat(a[-1:], size - m, axis=0)]) for a in batch]
        with jax.enable_x64(True):
            out = self._compiled(*padded)
        if isinstance(out, tuple):
            return tuple(np.asarray(part)[:m] for part in out)
        return np.asarray(out)[:m]


def _third(jax: Any, f: Callable[..., Any]) -> Callable[..., Any]:
    """∇⟨W, H⟩: one gradient of a number, no tensor of third order."""
    return jax.grad(lambda x, W: (W * jax.hessian(f)(x)).sum())


def _along(jax: Any, f: Callable[..., Any]) -> Callable[..., Any]:
    """∇(wᵀHw): the gradient of a second directional derivative, no Hessian either."""

    def second(x: Any, w: Any) -> Any:
        def first(t: Any) -> Any:
            return jax.jvp(f, (t,), (w,))[1]

        return jax.jvp(first, (x,), (w,))[1]

    return jax.grad(second)


_KINDS: dict[str, Callable[[Any, Callable[..., Any]], Callable[..., Any]]] = {
    "logdensity": lambda jax, f: f,
    "value_and_grad": lambda jax, f: jax.value_and_grad(f),
    "hessian": lambda jax, f: jax.hessian(f),
    "third": _third,
    "along": _along,
    "slope": lambda jax, G: jax.grad(lambda x, W: (W * G(x)).sum()),
    "slope along": lambda jax, G: jax.grad(lambda x, w: w @ G(x) @ w),
}


def _derive(f: Callable[..., Any]) -> dict[str, Any]:
    _import()
    names = ("logdensity", "value_and_grad", "hessian", "third", "along")
    return {name: Compiled(name, f) for name in names}


def _derive_metric(G: Callable[..., Any]) -> Fisher:
    return Fisher(Compiled("logdensity", G), Compiled("slope", G), Compiled("slope along", G))


def _import() -> Any:
    try:
        import jax
    except ImportError:
        raise ImportError(
            "ev.from_jax needs JAX, which is not installed: pip install 'log-evidence[jax]'"
        ) from None
    return jax

"""Derivatives by JAX: nothing but the density has to be written.

Value, gradient and the contraction of third derivatives are compiled by JAX for whole batches,
Hessians are differences of the gradients, in double precision whatever JAX's own setting. Batches
are padded to powers of two, so that a compiled function serves many sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...execution.arguments import check_function
from ...execution.clock import check_interrupt
from ...execution.lazy import needed
from ...messages import InputError
from ...numerics.arrays import Array
from .functions import Functions
from .metrics import Fisher
from .model import DensityModel

if TYPE_CHECKING:
    from jax import Array as JaxArray


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
        self._compiled: Callable[..., Any] | None = None

    def __getstate__(self) -> tuple[str, Callable[..., Any]]:
        return self.kind, self.function

    def __setstate__(self, state: tuple[str, Callable[..., Any]]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def __call__(self, *batch: Array) -> Any:
        smallest = 4
        jax = _import()
        if self._compiled is None:
            self._compiled = jax.jit(jax.vmap(_KINDS[self.kind](jax, self.function)))
        m = len(batch[0])
        size = max(smallest, 1 << (m - 1).bit_length())
        padded = [np.concatenate([a, np.repeat(a[-1:], size - m, axis=0)]) for a in batch]
        with jax.enable_x64(True):
            out = self._compiled(*padded)
        if isinstance(out, tuple):
            return tuple(np.asarray(part)[:m] for part in out)
        return np.asarray(out)[:m]


def _third(jax: ModuleType, f: Callable[..., Any]) -> Callable[..., Any]:
    """∇⟨W, H⟩: one gradient of a number, no tensor of third order."""
    return jax.grad(lambda x, W: (W * jax.hessian(f)(x)).sum())


def _along(jax: ModuleType, f: Callable[..., Any]) -> Callable[..., Any]:
    """∇(wᵀHw): the gradient of a second directional derivative, no Hessian either."""

    def second(x: JaxArray, w: JaxArray) -> JaxArray:
        def first(t: JaxArray) -> JaxArray:
            return jax.jvp(f, (t,), (w,))[1]

        return jax.jvp(first, (x,), (w,))[1]

    return jax.grad(second)


_KINDS: dict[str, Callable[[Any, Callable[..., Any]], Callable[..., Any]]] = {
    "logdensity": lambda jax, f: f,
    "value_and_grad": lambda jax, f: jax.value_and_grad(f),
    "third": _third,
    "along": _along,
    "slope": lambda jax, G: jax.grad(lambda x, W: (W * G(x)).sum()),
    "slope along": lambda jax, G: jax.grad(lambda x, w: w @ G(x) @ w),
}


class Differences:
    """Hessians by central differences of gradients, of fourth order.

    XLA's own of a likelihood with a Cholesky factor of 200 × 200 took minutes a call, and
    nothing ends it meanwhile; its gradient took milliseconds. The first ones tell the curvature,
    and where steps are long beside it shorter ones follow, of a hundredth of its deviation.
    """

    def __init__(self, both: Callable[[Array], tuple[Array, Array]]) -> None:
        self.both = both

    def __call__(self, x: Array) -> Array:
        step = 1e-4  # of differences
        share = 0.01  # at most, in standard deviations at the point's curvature
        tries = 6  # of shorter ones: tails tell too little curvature
        resolved = 1e-9  # of a coordinate, the shortest step that rounding leaves
        h = step * np.maximum(1.0, np.abs(x))
        H, shortest = self._at(x, h), resolved * np.abs(x) + np.finfo(float).tiny
        for _ in range(tries):
            with np.errstate(all="ignore"):
                shorter = share / np.sqrt(np.abs(np.einsum("mii->mi", H)))
            shorter = np.maximum(np.fmin(shorter, h), shortest)
            short = (shorter < 0.5 * h).any(axis=1) & np.isfinite(H).all(axis=(1, 2))
            if not short.any():
                break
            h[short] = shorter[short]
            H[short] = self._at(x[short], h[short])
        return H

    def _at(self, x: Array, h: Array) -> Array:
        """One column after the other, the four points of all rows at once."""
        points = np.array([-2.0, -1.0, 1.0, 2.0])
        weights = np.array([1.0, -8.0, 8.0, -1.0]) / 12.0
        H, (m, d) = np.empty((*x.shape, x.shape[1])), x.shape
        for i in range(d):
            check_interrupt()
            moved = np.repeat(x[None], len(points), axis=0)
            moved[:, :, i] += points[:, None] * h[:, i]
            slopes = self.both(moved.reshape(-1, d))[1].reshape(-1, m, d)
            H[:, :, i] = np.tensordot(weights, slopes, 1) / h[:, i, None]
        return 0.5 * (H + H.swapaxes(1, 2))


def _derive(f: Callable[..., Any]) -> dict[str, Any]:
    _import()
    names = ("logdensity", "value_and_grad", "third", "along")
    derived: dict[str, Any] = {name: Compiled(name, f) for name in names}
    return derived | {"hessian": Differences(derived["value_and_grad"])}


def _derive_metric(G: Callable[..., Any]) -> Fisher:
    return Fisher(Compiled("logdensity", G), Compiled("slope", G), Compiled("slope along", G))


def _import() -> ModuleType:
    return needed("jax", "ev.from_jax needs JAX", "jax")

r"""Hyperparameters: the free parameters of a kernel and a likelihood as one vector of logs.

Kernels are scikit-learn's, and so are the conventions: ``theta`` holds natural logarithms,
bounds may be ``"fixed"``, names are ``k1__constant_value``, ``k2__length_scale``. A likelihood
adds its own, ``likelihood__noise_std``. Any unambiguous ending of a name does.

>>> from evidence.models.kernels.parse import parse_kernel
>>> from evidence.models.likelihoods import Gaussian
>>> free = free_parameters(parse_kernel("4.0 * RBF(1.5)"), Gaussian(noise_std=0.5))
>>> free.names
('k1__constant_value', 'k2__length_scale', 'likelihood__noise_std')
>>> free.index("length_scale"), free.values.tolist()
(1, [4.0, 1.5, 0.5])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..execution.arguments import array, number
from ..messages import InputError, suggest
from .likelihoods.base import Likelihood

Array = NDArray[np.float64]

_PREFIX = "likelihood__"


@dataclass(frozen=True, eq=False)
class Hyperparameters:
    """Names, values and bounds of what is free, and the way back to kernel and likelihood."""

    names: tuple[str, ...]
    theta: Array
    """Natural logarithms, shape (P,)."""
    bounds: Array
    """Of ``theta``, shape (P, 2)."""
    kernel: Any
    likelihood: Likelihood | None
    """None where the model has none with parameters."""
    n_kernel: int
    """How many of them, from the first on, are the kernel's."""

    def __len__(self) -> int:
        return len(self.names)

    @property
    def values(self) -> Array:
        """exp(theta)."""
        return np.exp(self.theta)

    def index(self, name: str) -> int:
        """Position of ``name``, or of the one name that ends with it."""
        if not isinstance(name, str):
            raise InputError(f"a hyperparameter's name is a string, got {name!r}")
        exact = [i for i, known in enumerate(self.names) if known == name]
        found = exact or [
            i
            for i, known in enumerate(self.names)
            if known.endswith(f"__{name}") or known.partition("[")[0].endswith(f"__{name}")
        ]
        if len(found) == 1:
            return found[0]
        listed = ", ".join(self.names) or "none"
        if found:
            meant = ", ".join(self.names[i] for i in found)
            raise InputError(f"hyperparameter {name!r} is ambiguous: it may be {meant}")
        raise InputError(
            f"unknown hyperparameter {name!r}{suggest(name, self.names)} Free: {listed}"
        )

    def vector(self, theta: ArrayLike | Mapping[str, float]) -> Array:
        """``theta`` as a vector of logs; a mapping gives *natural* values of some names."""
        if not isinstance(theta, Mapping):
            return array("theta", theta, (len(self),))
        out = self.theta.copy()
        for name, value in theta.items():
            out[self.index(name)] = np.log(number(f"hyperparameter {name!r}", value, above=0.0))
        return out

    def likelihood_at(self, theta: Array) -> Any:
        """The likelihood with its own among all these logs."""
        own = zip(self.names[self.n_kernel :], theta[self.n_kernel :], strict=True)
        changes = {name.removeprefix(_PREFIX): float(np.exp(value)) for name, value in own}
        return replace(self.likelihood, **changes) if changes else self.likelihood  # type: ignore[type-var]

    def moved(self, theta: ArrayLike | Mapping[str, float]) -> Hyperparameters:
        """The same ones at other values, in kernel and likelihood too."""
        theta, kernel = self.vector(theta), self.kernel
        if self.n_kernel:
            kernel = kernel.clone_with_theta(theta[: self.n_kernel])
        likelihood, rounded = self.likelihood_at(theta), np.log(np.exp(theta))
        return replace(self, theta=rounded, kernel=kernel, likelihood=likelihood)


def kernel_parameters(kernel: Any) -> tuple[tuple[str, ...], Array, Array]:
    """Names, logs and their bounds of what is free in a kernel."""
    names = tuple(
        f"{parameter.name}[{i}]" if parameter.n_elements > 1 else parameter.name
        for parameter in getattr(kernel, "hyperparameters", ())
        for i in range(0 if parameter.fixed else parameter.n_elements)
    )
    return (names, kernel.theta, kernel.bounds) if names else ((), np.zeros(0), np.zeros((0, 2)))


def free_parameters(kernel: Any, likelihood: Likelihood) -> Hyperparameters:
    """What is free in a kernel (anything without scikit-learn's ``theta`` has nothing)."""
    names, theta, bounds = kernel_parameters(kernel)
    # one value per datum is given, not free
    own = [name for name in likelihood.free if np.ndim(getattr(likelihood, name)) == 0]
    return Hyperparameters(
        (*names, *(_PREFIX + name for name in own)),
        np.array([*theta, *(np.log(getattr(likelihood, name)) for name in own)]),
        np.array([*bounds, *(np.log(likelihood.free[name]) for name in own)]).reshape(-1, 2),
        kernel, likelihood, len(names),
    )  # fmt: skip

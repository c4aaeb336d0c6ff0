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

import numbers
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
        if isinstance(theta, Mapping):
            out = self.theta.copy()
            for name, value in theta.items():
                number = isinstance(value, numbers.Real)
                if not (number and np.isfinite(value) and value > 0.0):
                    raise InputError(f"hyperparameter {name!r} must be positive, got {value!r}")
                out[self.index(name)] = np.log(float(value))
            return out
        try:
            out = np.array(theta, dtype=float)
        except (TypeError, ValueError):
            raise InputError(
                f"theta must be a vector of logs or a mapping from names to values, got {theta!r}"
            ) from None
        if out.shape != self.theta.shape:
            raise InputError(
                f"theta must hold the logs of {len(self)} hyperparameters "
                f"({', '.join(self.names)}), got shape {out.shape}"
            )
        if not np.isfinite(out).all():
            raise InputError("theta contains NaN or inf")
        return out

    def at(self, theta: ArrayLike | Mapping[str, float]) -> tuple[Any, Any]:
        """Kernel and likelihood with these hyperparameters."""
        theta = self.vector(theta)
        kernel = self.kernel
        if self.n_kernel:
            kernel = kernel.clone_with_theta(theta[: self.n_kernel])
        changes = {
            name.removeprefix(_PREFIX): float(np.exp(value))
            for name, value in zip(
                self.names[self.n_kernel :], theta[self.n_kernel :], strict=True
            )
        }
        likelihood = replace(self.likelihood, **changes) if changes else self.likelihood  # type: ignore[type-var]
        return kernel, likelihood

    def moved(self, theta: ArrayLike | Mapping[str, float]) -> Hyperparameters:
        """The same ones at other values."""
        kernel, likelihood = self.at(theta)
        values = np.exp(self.vector(theta))
        return replace(self, theta=np.log(values), kernel=kernel, likelihood=likelihood)


def kernel_parameters(kernel: Any) -> tuple[tuple[str, ...], list[float], list[list[float]]]:
    """Names, logs and their bounds of what is free in a kernel."""
    names = []
    for parameter in getattr(kernel, "hyperparameters", ()):
        if parameter.fixed:
            continue
        several = parameter.n_elements > 1
        names += [
            f"{parameter.name}[{i}]" if several else parameter.name
            for i in range(parameter.n_elements)
        ]
    if not names:
        return (), [], []
    return tuple(names), kernel.theta.tolist(), kernel.bounds.tolist()


def free_parameters(kernel: Any, likelihood: Likelihood) -> Hyperparameters:
    """What is free in a kernel (anything without scikit-learn's ``theta`` has nothing)."""
    found, theta, bounds = kernel_parameters(kernel)
    names, n_kernel = list(found), len(found)
    for name, limits in likelihood.free.items():
        value = getattr(likelihood, name)
        if np.ndim(value) == 0:  # one value per datum is known, not free
            names.append(_PREFIX + name)
            theta.append(float(np.log(value)))
            bounds.append(np.log(limits).tolist())
    return Hyperparameters(
        tuple(names),
        np.array(theta, dtype=float),
        np.array(bounds, dtype=float).reshape(-1, 2),
        kernel,
        likelihood,
        n_kernel,
    )

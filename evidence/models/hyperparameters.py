r"""Hyperparameters: the free parameters of a kernel and a likelihood as one real vector.

Kernels are scikit-learn's, and so are the conventions: ``theta`` holds natural logarithms
(log-odds of correlations and shares: :mod:`evidence.models.scales`), bounds may be ``"fixed"``,
names are ``k1__constant_value``, ``k2__length_scale``. A likelihood adds its own,
``likelihood__noise_std``. Any unambiguous ending of a name does, and ``likelihood__sigma`` is the
scale of normal and Student-t noise.

>>> from evidence.models.kernels.parse import parse_kernel
>>> from evidence.models.likelihoods import Gaussian
>>> free = free_parameters({"": parse_kernel("4.0 * RBF(1.5)")}, Gaussian(noise_std=0.5))
>>> free.names
('k1__constant_value', 'k2__length_scale', 'likelihood__noise_std')
>>> free.index("length_scale"), free.values.tolist()
(1, [4.0, 1.5, 0.5])
>>> free.names[free.index("sigma")]
'likelihood__noise_std'
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..execution.arguments import array, number, shown
from ..execution.lazy import Kernel
from ..messages import InputError, suggest
from ..numerics.arrays import Array, Indices
from .likelihoods.base import Likelihood, family
from .scales import natural, to_line

_PREFIX = "likelihood__"
_ENTRY = re.compile(r"\[\d+\]$")
_ALSO = {("gaussian", "noise_std"): "sigma", ("student_t", "scale"): "sigma"}  # brms, lme4, Bambi


def synonym(likelihood: Likelihood, parameter: str) -> str:
    """What other packages call a parameter of a likelihood."""
    return _ALSO.get((family(likelihood).name, parameter), parameter)


@dataclass(frozen=True, eq=False)
class Hyperparameters:
    """Names, values and bounds of what is free, and the way back to kernel and likelihood."""

    names: tuple[str, ...]
    theta: Array
    """Natural logarithms, or log-odds, shape (P,)."""
    bounds: Array
    """Of ``theta``, shape (P, 2)."""
    kernels: tuple[Any, ...]
    likelihood: Likelihood | None
    """None where the model has none with parameters."""
    n_kernel: int
    """How many of them, from the first on, are the kernels'."""
    lows: Array
    """Where intervals (low, 1) begin, shape (P,); NaN for positive numbers."""

    def __len__(self) -> int:
        return len(self.names)

    @property
    def values(self) -> Array:
        """What ``theta`` stands for."""
        return natural(self.theta, self.lows)

    def with_logs(self, places: Indices | list[int], logs: Array) -> Array:
        """``theta`` with others at some places."""
        out = self.theta.copy()
        out[places] = logs
        return out

    def index(self, name: str) -> int:
        """Position of ``name``, or of the one name that ends with it."""
        found = self.every(name)
        if len(found) > 1:
            raise self._ambiguous(name, found)
        return found[0]

    def _ambiguous(self, name: str, found: list[int]) -> InputError:
        own = [_PREFIX + word for word in scalars(self.likelihood)]
        several = ", ".join([*self.names[: self.n_kernel], *own][i] for i in found)
        return InputError(
            f"hyperparameter {name!r} is ambiguous: it may be {several}; name each of them"
        )

    def every(self, name: str) -> list[int]:
        """Positions of ``name``, or of names that end with it: several only where they are one
        kernel's, as the length scales of its inputs are."""
        if not isinstance(name, str):
            raise InputError(f"a hyperparameter's name is a string, got {shown(name)}")
        found = self.meant_by(name)
        if len({_ENTRY.sub("", self.names[i]) for i in found}) > 1:
            raise self._ambiguous(name, found)
        if found:
            return found
        listed = ", ".join(self.names) or "none"
        raise InputError(
            f"unknown hyperparameter {shown(name)}{suggest(name, self.names)} Free: {listed}"
        )

    def meant_by(self, name: str) -> list[int]:
        """Positions of ``name``, or of all names that end with it."""
        if name in self.names:
            return [self.names.index(name)]
        every, end = [[known] for known in self.names], f"__{name}"
        for names, own in zip(every[self.n_kernel :], scalars(self.likelihood), strict=True):
            assert self.likelihood is not None
            names += [_PREFIX + word for word in (own, synonym(self.likelihood, own))]

        def meant(known: str) -> bool:
            return known == name or known.endswith(end) or known.partition("[")[0].endswith(end)

        return [i for i, names in enumerate(every) if any(map(meant, names))]

    def vector(self, theta: ArrayLike | Mapping[str, float]) -> Array:
        """``theta`` as it is, if a vector; a mapping gives *natural* values of some names."""
        if not isinstance(theta, Mapping):
            return array("theta", theta, (len(self),))
        out = self.theta.copy()
        for name, value in theta.items():
            for i in self.every(name):
                positive = np.isnan(self.lows[i])
                ends = {"above": 0.0} if positive else {"above": float(self.lows[i]), "below": 1.0}
                out[i] = to_line(number(f"hyperparameter {name!r}", value, **ends), self.lows[i])
        return out

    def likelihood_at(self, theta: Array) -> Any:
        """The likelihood with its own among all these logs."""
        values = natural(theta[self.n_kernel :], self.lows[self.n_kernel :])
        changes = dict(zip(scalars(self.likelihood), values.tolist(), strict=True))
        return self.likelihood.changed(changes) if self.likelihood and changes else self.likelihood

    def of_data(self, rows: Indices) -> Hyperparameters:
        """The same ones where only some of the data are there."""
        return replace(self, likelihood=self.likelihood and self.likelihood.at(rows))

    def moved(self, theta: ArrayLike | Mapping[str, float]) -> Hyperparameters:
        """The same ones at other values, in kernel and likelihood too."""
        theta = self.vector(theta)
        ends = np.cumsum([np.size(getattr(kernel, "theta", ())) for kernel in self.kernels])
        parts = zip(self.kernels, np.split(theta, ends), strict=False)  # then the likelihood's
        kernels = tuple(k.clone_with_theta(own) if own.size else k for k, own in parts)
        likelihood = self.likelihood_at(theta)
        rounded = to_line(natural(theta, self.lows), self.lows)
        return replace(self, theta=rounded, kernels=kernels, likelihood=likelihood)


def scalars(likelihood: Likelihood | None) -> list[str]:
    """Parameters that are free and one number for all data."""
    free = likelihood.free if likelihood else ()
    return [name for name in free if likelihood and np.ndim(likelihood.value_of(name)) == 0]


def kernel_parameters(kernel: Kernel) -> tuple[tuple[str, ...], Array, Array, Array]:
    """Names, logs, their bounds, and where intervals begin, of what is free in a kernel."""
    own = [
        (f"{p.name}[{i}]" if p.n_elements > 1 else p.name, getattr(p, "low", np.nan))
        for p in getattr(kernel, "hyperparameters", ())
        for i in range(0 if p.fixed else p.n_elements)
    ]
    if not own:
        return (), np.zeros(0), np.zeros((0, 2)), np.zeros(0)
    names, lows = zip(*own, strict=True)
    return names, kernel.theta, kernel.bounds, np.array(lows)


def free_parameters(
    kernels: Mapping[str, Any], likelihood: Likelihood | None = None
) -> Hyperparameters:
    """What is free in kernels and likelihood; keys are what their kernel's names begin with."""
    rows: list[tuple[Any, ...]] = []
    for head, kernel in kernels.items():
        each = zip(*kernel_parameters(kernel), strict=True)
        rows += [(head + name, theta, *bounds, low) for name, theta, bounds, low in each]
    n_kernel = len(rows)
    for name in scalars(likelihood):
        assert likelihood is not None
        low = 0.0 if likelihood.limits.get(name) == (0.0, 1.0) else np.nan
        values = [likelihood.value_of(name), *likelihood.free[name]]
        rows.append((_PREFIX + name, *to_line(values, low), low))
    numbers = np.array([row[1:] for row in rows]).reshape(-1, 4)
    names, theta, lows = tuple(row[0] for row in rows), numbers[:, 0].copy(), numbers[:, 3]
    both = tuple(kernels.values()), likelihood
    return Hyperparameters(names, theta, numbers[:, 1:3], *both, n_kernel, lows)

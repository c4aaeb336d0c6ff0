r"""Prior densities of hyperparameters, on the scale of their logarithms.

A prior is stated for the natural value v and used for :math:`\theta = \log v`, so it gains the
Jacobian v: :math:`\log p(\theta) = \log p_v(e^\theta) + \theta`. The word ``"flat"`` is
:math:`\theta \sim N(0, 10^2)`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..messages import InputError

Array = NDArray[np.float64]

_FLAT_SD = 10.0
_FLAT_CONSTANT = -math.log(_FLAT_SD) - 0.5 * math.log(2.0 * math.pi)


class Named(Protocol):
    """Hyperparameters as priors see them: :class:`.Hyperparameters`."""

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def theta(self) -> Array: ...

    def index(self, name: str) -> int: ...


@dataclass(frozen=True, eq=False)
class Priors:
    """Independent priors of some hyperparameters; the others stay at their values.

    Examples
    --------
    >>> from scipy.stats import gamma
    >>> from evidence.models.gp import GPModel
    >>> model = GPModel([[0.0], [1.0]], [1, -1], "4.0 * RBF(1.5)")
    >>> priors = Priors.of(model.hyperparameters, {"length_scale": gamma(2)}, fixed=["value"])
    Traceback (most recent call last):
    ...
    evidence.InputError: unknown hyperparameter 'value'; did you mean ...
    >>> priors = Priors.of(
    ...     model.hyperparameters, {"length_scale": gamma(2)}, fixed=["constant_value"]
    ... )
    >>> priors.names
    ('k2__length_scale',)
    >>> round(float(priors.log_density([0.0])), 6)  # v e^-v and the Jacobian v, at v = 1
    -1.0
    """

    names: tuple[str, ...]
    """Those that have a prior, in the order of the model's hyperparameters."""
    free: NDArray[np.intp]
    """Their positions among all of the model's."""
    distributions: tuple[Any, ...]
    """Frozen scipy.stats distributions of the natural values, or ``"flat"``."""

    @classmethod
    def of(
        cls, hyperparameters: Named, mapping: Mapping[str, Any], fixed: Iterable[str] = ()
    ) -> Priors:
        """Build priors from ``mapping``, names (or unambiguous endings) to distributions.

        Parameters
        ----------
        hyperparameters : Hyperparameters
            ``model.hyperparameters``.
        mapping : mapping of str to frozen scipy.stats distribution or "flat"
        fixed : names held at the model's values
        """
        if not isinstance(mapping, Mapping):
            raise InputError(
                "priors must map names of hyperparameters to distributions, "
                f"got {type(mapping).__name__}"
            )
        if isinstance(fixed, str):
            raise InputError(f"fixed must be a list of names, got the string {fixed!r}")
        known = hyperparameters.names
        given: dict[int, Any] = {}
        for name, distribution in mapping.items():
            index = hyperparameters.index(name)
            if index in given:
                raise InputError(f"{known[index]} has two priors")
            _check_distribution(known[index], distribution)
            given[index] = distribution
        held = {hyperparameters.index(name) for name in fixed or ()}
        if both := sorted(held & set(given)):
            raise InputError(f"{known[both[0]]} has a prior and is fixed; drop one of the two")
        missing = [name for i, name in enumerate(known) if i not in held and i not in given]
        if missing:
            raise InputError(
                f"no prior for {', '.join(missing)}: give one in priors= (a frozen scipy.stats "
                "distribution of the value, or 'flat'), or hold it by its name in fixed="
            )
        if not given:
            raise InputError(
                "no hyperparameter is free; give at least one a prior"
                if known
                else "the model has no free hyperparameters; build it with a kernel, not with K="
            )
        order = sorted(given)
        return cls(
            tuple(known[i] for i in order),
            np.array(order, dtype=np.intp),
            tuple(given[i] for i in order),
        )

    def __len__(self) -> int:
        return len(self.names)

    def log_density(self, theta: ArrayLike) -> Array:
        """Log density of the logs ``theta``, shape (..., P) to (...)."""
        theta = np.asarray(theta, dtype=float)
        if theta.shape[-1:] != (len(self),):
            raise InputError(
                f"theta must hold the logs of {len(self)} hyperparameters "
                f"({', '.join(self.names)}) along its last axis, got shape {theta.shape}"
            )
        total = np.zeros(theta.shape[:-1])
        for p, distribution in enumerate(self.distributions):
            log_value = theta[..., p]
            if isinstance(distribution, str):
                total += _FLAT_CONSTANT - 0.5 * (log_value / _FLAT_SD) ** 2
            else:
                with np.errstate(all="ignore"):
                    density = distribution.logpdf(np.exp(log_value)) + log_value
                total += np.where(np.isnan(density), -np.inf, density)
        return total

    def support(self) -> Array:
        """Bounds of the logs, shape (P, 2), infinite where there are none."""
        with np.errstate(divide="ignore"):
            ends = [
                (-np.inf, np.inf) if isinstance(d, str) else np.log(d.support())
                for d in self.distributions
            ]
        return np.array(ends, dtype=float)

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Independent draws of the logs, shape (size, P).

        >>> from evidence.models.gp import GPModel
        >>> free = GPModel([[0.0], [1.0]], [1, -1], "RBF(1.5)").hyperparameters
        >>> Priors.of(free, {"length_scale": "flat"}).sample(np.random.default_rng(0), 3).shape
        (3, 1)
        """
        columns = [
            _FLAT_SD * rng.standard_normal(size)
            if isinstance(distribution, str)
            else np.log(distribution.rvs(size=size, random_state=rng))
            for distribution in self.distributions
        ]
        return np.stack(columns, axis=1)


def _check_distribution(name: str, distribution: Any) -> None:
    if isinstance(distribution, str):
        if distribution != "flat":
            raise InputError(
                f"prior of {name}: the only word is 'flat', got {distribution!r}; "
                "pass a frozen distribution such as scipy.stats.gamma(2, scale=1.5)"
            )
        return
    if not all(hasattr(distribution, need) for need in ("logpdf", "rvs", "support", "args")):
        raise InputError(
            f"prior of {name}: got {distribution!r}; pass a frozen continuous distribution such "
            "as scipy.stats.gamma(2, scale=1.5), or 'flat'"
        )
    support = np.asarray(distribution.support())
    if support.shape != (2,):
        raise InputError(f"prior of {name}: its parameters must be numbers, not arrays")
    low, high = support
    if not (low >= 0.0 and high > low):
        raise InputError(
            f"prior of {name}: its support is ({low:g}, {high:g}), but the value is positive; "
            "use for example gamma, lognorm, invgamma, halfnorm or truncnorm"
        )

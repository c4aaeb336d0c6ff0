r"""Prior densities of hyperparameters, on the real line.

A prior is stated for the natural value v and used for :math:`\theta = \log v`, so it gains the
Jacobian v: :math:`\log p(\theta) = \log p_v(e^\theta) + \theta`; correlations and shares likewise
(:mod:`.scales`). The word ``"flat"`` is :math:`\theta \sim N(0, 10^2)`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Number
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from ..execution.arguments import listed, rows, shown
from ..messages import InputError
from ..numerics.arrays import Array, Indices
from .borrowed import borrowed
from .scales import log_slope, natural, to_line

if TYPE_CHECKING:
    from scipy.stats import rv_continuous

    from .hyperparameters import Hyperparameters

_QUANTILES = ("ppf", "isf", "cdf", "sf")
_FLAT_SD = 10.0
_FLAT_CONSTANT = -math.log(_FLAT_SD) - 0.5 * math.log(2.0 * math.pi)


class Distribution(Protocol):
    """What priors are asked for; arrays have a value for each number."""

    def ppf(self, q: ArrayLike, /) -> Array: ...
    def isf(self, q: ArrayLike, /) -> Array: ...
    def cdf(self, value: ArrayLike, /) -> Array: ...
    def sf(self, value: ArrayLike, /) -> Array: ...
    def logpdf(self, value: ArrayLike, /) -> Array: ...


class Frozen(Distribution, Protocol):
    """A continuous distribution of scipy.stats with its parameters."""

    dist: rv_continuous
    args: tuple[Any, ...]
    kwds: dict[str, Any]

    def rvs(self, size: object = ..., random_state: object = ...) -> Array: ...
    def mean(self) -> float: ...
    def std(self) -> float: ...
    def support(self) -> tuple[float, float]: ...


@dataclass(frozen=True)
class Flat:
    """What ``"flat"`` stands for, as a distribution of natural values.

    >>> round(float(Flat().cdf(1.0)), 6), float(Flat(-1.0).ppf(0.5))
    (0.5, 0.0)
    """

    low: float = np.nan
    """Where an interval (low, 1) begins; NaN for positive numbers."""

    def ppf(self, q: ArrayLike) -> Array:
        return natural(_FLAT_SD * ndtri(q), self.low)

    def isf(self, q: ArrayLike) -> Array:
        return natural(-_FLAT_SD * ndtri(q), self.low)

    def cdf(self, value: ArrayLike) -> Array:
        return ndtr(to_line(value, self.low) / _FLAT_SD)

    def sf(self, value: ArrayLike) -> Array:
        return ndtr(-to_line(value, self.low) / _FLAT_SD)

    def logpdf(self, value: ArrayLike) -> Array:
        theta = to_line(value, self.low)
        return _FLAT_CONSTANT - 0.5 * (theta / _FLAT_SD) ** 2 - log_slope(theta, self.low)


@dataclass(frozen=True)
class OnAnother:
    """A prior of a function of what has the prior given, and is told of by its name."""

    prior: Frozen

    dist = borrowed("prior.dist")
    args = borrowed("prior.args")
    kwds = borrowed("prior.kwds")


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
    free: Indices
    """Their positions among all of the model's."""
    distributions: tuple[Any, ...]
    """Frozen scipy.stats distributions of the natural values, or ``"flat"``."""
    lows: Array = field(default_factory=lambda: np.array(np.nan))
    """Where intervals (low, 1) begin, (P,), or the same for all; NaN for positive numbers."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "lows", np.broadcast_to(self.lows, len(self)))

    @classmethod
    def of(
        cls,
        hyperparameters: Hyperparameters,
        mapping: Mapping[str, Any],
        fixed: Iterable[str] = (),
        complete: bool = True,
    ) -> Priors:
        """Build priors from ``mapping``, names (or unambiguous endings) to distributions.

        Parameters
        ----------
        hyperparameters : Hyperparameters
            ``model.hyperparameters``.
        mapping : mapping of str to frozen scipy.stats distribution, its text or "flat"
            ``length_scale`` of a kernel with one for each input is for each of them.
        fixed : names held at the model's values
        complete : bool
            Whether all others must have a prior.
        """
        if not isinstance(mapping, Mapping):
            raise InputError(
                "priors must map names of hyperparameters to distributions, "
                f"got {type(mapping).__name__}"
            )
        names = hyperparameters.names
        given: dict[int, Frozen | str] = {}
        for name, distribution in mapping.items():
            own = hyperparameters.every(name)
            if twice := [names[i] for i in own if i in given]:
                raise InputError(f"{twice[0]} has two priors")
            if isinstance(distribution, str) and distribution != "flat":
                from .distributions import from_text  # scipy.stats, only where it is asked for

                distribution = from_text(name, distribution)
            for i in own:
                _check_distribution(names[i], distribution, hyperparameters.lows[i])
                given[i] = distribution
        constant = held(hyperparameters, fixed)
        if both := sorted(constant & set(given)):
            raise InputError(f"{names[both[0]]} has a prior and is fixed; drop one of the two")
        missing = [n for i, n in enumerate(names) if i not in constant and i not in given]
        if missing and complete:
            raise InputError(
                f"no prior for {', '.join(missing)}: give one in priors= (a frozen scipy.stats "
                "distribution of the value, or 'flat'), or hold it by its name in fixed="
            )
        if not given:
            raise InputError(
                "no hyperparameter is free; give at least one a prior"
                if names
                else "the model has no free hyperparameters; build it with a kernel, not with K="
            )
        order = sorted(given)
        which = tuple(names[i] for i in order), np.array(order), tuple(given[i] for i in order)
        return cls(*which, hyperparameters.lows[order])

    def __len__(self) -> int:
        return len(self.names)

    def log_density(self, theta: ArrayLike) -> Array:
        """Log density of the logs ``theta``, shape (..., P) to (...)."""
        batch, shape = rows("theta", theta, len(self), f"logs ({', '.join(self.names)})")
        return sum(self._each(batch), np.zeros(len(batch))).reshape(shape)[()]

    def _each(self, theta: Array) -> Iterator[Array]:
        """Log densities one by one."""
        for p, (distribution, low) in enumerate(zip(self.distributions, self.lows, strict=True)):
            place = theta[..., p]
            if isinstance(distribution, str):
                yield _FLAT_CONSTANT - 0.5 * (place / _FLAT_SD) ** 2
            else:
                with np.errstate(all="ignore"):
                    density = distribution.logpdf(natural(place, low)) + log_slope(place, low)
                yield np.where(np.isnan(density), -np.inf, density)

    def check_start(self, theta: Array) -> None:
        """Every prior must have a density at ``theta``, all of the model's own logs."""
        own = theta[self.free]
        values = natural(own, self.lows)
        for name, value, density in zip(self.names, values, self._each(own), strict=True):
            if not np.isfinite(density):
                raise InputError(
                    f"the prior of {name} has density 0 at the model's value {value:.4g}, where "
                    "the search or the chains start; give the model a value inside the prior's "
                    "support, for example with model.at({...})"
                )

    def natural(self) -> list[Any] | None:
        """Distributions of all natural values, what is flat included; None where one of them has
        no quantiles."""
        pairs = zip(self.distributions, self.lows, strict=True)
        every = [Flat(float(low)) if isinstance(d, str) else d for d, low in pairs]
        return every if all(hasattr(d, name) for d in every for name in _QUANTILES) else None

    def items(self) -> Iterator[tuple[str, Any]]:
        """Names and distributions."""
        return zip(self.names, self.distributions, strict=True)

    def describe(self) -> dict[str, str]:
        """Every prior in words that JSON can hold."""
        return {name: _in_words(distribution) for name, distribution in self.items()}

    def support(self) -> Array:
        """Bounds on the line, shape (P, 2), infinite where there are none."""
        everywhere = natural([[-np.inf], [np.inf]], self.lows).T
        pairs = zip(self.distributions, everywhere, strict=True)
        ends = [d.support() if hasattr(d, "support") else widest for d, widest in pairs]
        return to_line(np.array(ends, dtype=float), self.lows[:, None])


def held(hyperparameters: Hyperparameters, fixed: Iterable[str]) -> set[int]:
    """Positions of the hyperparameters that stay as they are."""
    names = () if fixed is None else listed("fixed", fixed, "names")
    return {i for name in names for i in hyperparameters.every(name)}


def _in_words(distribution: Frozen | str) -> str:
    if isinstance(distribution, str):
        return distribution
    words = [f"{value:.6g}" for value in distribution.args]
    words += [f"{key}={value:.6g}" for key, value in distribution.kwds.items()]
    return f"{distribution.dist.name}({', '.join(words)}){getattr(distribution, 'of', '')}"


def _is_frozen(given: object) -> TypeGuard[Frozen]:
    return all(hasattr(given, need) for need in ("logpdf", "rvs", "support", "args"))


def _check_distribution(name: str, distribution: object, least: float) -> None:
    if isinstance(distribution, str) and distribution == "flat":
        return
    if not _is_frozen(distribution):
        value = f"{name!r}: {shown(distribution)}"
        held = f", or hold it there: model.at({{{value}}}) and fixed=[{name!r}]"
        raise InputError(
            f"prior of {name}: got {shown(distribution)}; pass a frozen continuous "
            "distribution such as scipy.stats.gamma(2, scale=1.5), 'gamma(2, scale=1.5)' as text, "
            "or the word 'flat'" + held * isinstance(distribution, Number)
        )
    support = np.asarray(distribution.support())
    if support.shape != (2,):
        raise InputError(f"prior of {name}: its parameters must be numbers, not arrays")
    low, high = support
    if not np.isnan(least):
        if not least <= low < high <= 1.0:
            raise InputError(
                f"prior of {name}: its support is ({low:g}, {high:g}), but the value is between "
                f"{least:g} and 1; use for example uniform({least:g}, {1.0 - least:g}), or beta "
                "with that loc and scale"
            )
    elif not (low >= 0.0 and high > low):
        raise InputError(
            f"prior of {name}: its support is ({low:g}, {high:g}), but the value is positive; "
            "use for example gamma, lognorm, invgamma, halfnorm or truncnorm"
        )

"""Simulated data with their exact posterior draw, and the bounds on log Z that it allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from ..drivers.plan import Plan
from ..models.types import Described
from ..numerics.arrays import Array
from .base import DataFrame, Result, data_frame


@dataclass(frozen=True, eq=False, repr=False)
class Simulated(Result):
    """The model with simulated data, and the latent values the data came from.

    Made by :func:`evidence.simulate`; ``model, x, y = simulated``
    takes it apart. :meth:`load` needs the ``model=`` that the data were simulated from.

    Attributes
    ----------
    model : GPModel or SparseModel
        With the simulated data in the place of its own.
    x : array
        (N,) an exact draw from the posterior of ``model``.
    y : array
        (N,) the data, ``model.y``.

    Examples
    --------
    >>> import evidence as ev
    >>> model = ev.GPModel(K=[[2.0, 1.0], [1.0, 2.0]], y=[1, -1])
    >>> model, x, y = ev.simulate(model, random_seed=0)
    >>> x.shape, set(y.tolist()) <= {-1, 1}
    ((2,), True)
    """

    _format = "evidence-simulated"

    model: Described
    x: Array
    y: Array

    def __iter__(self) -> Iterator[Any]:
        return iter((self.model, self.x, self.y))

    def _about(self) -> list[str]:
        return [f"{self.y.size} simulated observations of {self.model!r}"]

    def _frame(self) -> DataFrame:
        return data_frame({"x": self.x, "y": self.y})

    @classmethod
    def _restore(cls, state: dict[str, Any], models: Mapping[str, Any]) -> Self:
        given = {name: model.with_data(state["y"]) for name, model in models.items()}
        return super()._restore(state, given)


@dataclass(frozen=True, eq=False, repr=False)
class Bidirectional(Result):
    """Bounds on log Z of simulated data and Bennett's estimate, each with a standard error.

    Made by :func:`evidence.bidirectional`. :meth:`load` needs the
    ``model=`` that the data were simulated from.

    Attributes
    ----------
    lower : float
        Mean of the forward log weights: at most log Z in expectation.
    lower_se : float
        Its standard error.
    upper : float
        Minus the mean of the reverse log weights: at least log Z in expectation.
    upper_se : float
        Its standard error.
    logz : float
        Bennett's acceptance ratio.
    logz_se : float
        Its standard error.
    gap : float
        Reverse minus forward log mean weight: zero but for noise where the bounds can be
        trusted.
    gap_se : float
        Its standard error.
    forward : array
        (n_chains,) log weights of paths up.
    reverse : array
        (n_chains,) log weights of paths down; the mean of exp(reverse) estimates 1/Z.
    plan : Plan
        Temperatures, step sizes and numbers of moves of all paths.
    simulated : Simulated
        The data, and the exact draw that paths down start from.
    seconds : float
        Wall-clock time.

    Examples
    --------
    >>> import evidence as ev
    >>> model = ev.GPModel(K=[[2.0, 1.0], [1.0, 2.0]], y=[1, -1])
    >>> simulated = ev.simulate(model, random_seed=0)
    >>> bounds = ev.bidirectional(simulated, betas=4, n_chains=32, random_seed=0)
    >>> bounds.lower - 4 * bounds.lower_se < bounds.logz < bounds.upper + 4 * bounds.upper_se
    True
    """

    _format = "evidence-bidirectional"
    _digits = ".4f"

    lower: float
    lower_se: float
    upper: float
    upper_se: float
    logz: float
    logz_se: float
    gap: float
    gap_se: float
    forward: Array
    reverse: Array
    plan: Plan
    simulated: Simulated
    seconds: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.plan, dict):  # from a file
            object.__setattr__(self, "plan", Plan(**self.plan))

    def _about(self) -> list[str]:
        return [
            f"log Z = {self.logz:.4f} ± {self.logz_se:.4f}   (simulated data, Bennett)",
            f"model: {self.simulated.model!r}",
            f"{self.forward.size} paths each way over {self.plan.betas.size} temperatures in "
            f"{self.seconds:.1f} s; they differ by {self.gap:.4f} ± {self.gap_se:.4f}",
        ]

    def _label(self) -> str:
        return f"{self.lower:.4f} ≤ log Z ≤ {self.upper:.4f}, logz={self.logz:.4f}"

    def _frame(self) -> DataFrame:
        names = ("lower", "logz", "upper")
        rows = [(getattr(self, name), getattr(self, f"{name}_se")) for name in names]
        index, columns = ["lower bound", "Bennett", "upper bound"], ["logz", "logz_se"]
        return data_frame(rows, index=index, columns=columns)

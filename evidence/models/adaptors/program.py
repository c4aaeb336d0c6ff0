"""A density that a program defines in unconstrained coordinates and reports in its parameters.

Programs change variables themselves and include the Jacobian, so moves work where the program
does. What is reported (draws, ``posterior=``) are the program's own parameters, which may be more
than there are coordinates: a simplex of three parts has two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...messages import InputError
from ..density.model import DensityModel

Array = NDArray[np.float64]

_DERIVED = {"grad", "value_and_grad", "hessian", "third", "along", "tensor", "vectorized"}
_OWN = {"prior", "bounds", "names"}


class Report(NamedTuple):
    """How coordinates (M, d) become parameters (M, k), the way back, and their k names."""

    outward: Callable[[Array], Array]
    inward: Callable[[Array], Array]
    names: tuple[str, ...]


class ProgramModel(DensityModel):
    """A :class:`~evidence.models.density.model.DensityModel` whose parameters a program names.

    Parameters
    ----------
    functions : dict
        ``logdensity`` and derivatives, of batches of coordinates, as DensityModel takes them.
    dim : int
        Number of coordinates.
    report : Report
        What users see.
    program : str
        What the model is, in words.
    notes : sequence of str
        What users should know of how it was made.
    **words
        ``sampler`` (of parameters), ``metric``, ``check``, as for DensityModel.

    Examples
    --------
    >>> report = Report(np.exp, np.log, ("rate",))
    >>> model = ProgramModel({"logdensity": lambda x: -x[:, 0] ** 2}, 1, report, "a program")
    >>> model.constrain([[0.0]]).tolist(), model.log_prob(np.zeros((1, 1))).tolist(), model.names
    ([[1.0]], [-0.0], ('rate',))
    """

    def __init__(
        self,
        functions: dict[str, Callable[..., Any] | None],
        dim: int,
        report: Report,
        program: str,
        notes: Sequence[str] = (),
        **words: Any,
    ) -> None:
        self.report, self.program = report, program
        super().__init__(dim=dim, vectorized=True, **functions, **words)  # type: ignore[arg-type]
        self.names = report.names
        self.notes = tuple(notes)

    def constrain(self, x: ArrayLike) -> Array:
        """The program's parameters (…, k) from coordinates (…, d)."""
        x = np.asarray(x, dtype=float)
        with np.errstate(all="ignore"):
            theta = self.report.outward(x.reshape(-1, self.n))
        return theta.reshape(*x.shape[:-1], len(self.report.names))

    def unconstrain(self, theta: ArrayLike) -> Array:
        """Coordinates (…, d) of the program's parameters (…, k)."""
        theta = np.asarray(theta, dtype=float)
        k = len(self.names)
        if theta.shape[-1:] != (k,):
            raise InputError(
                f"parameters must have shape (…, {k}), in the order of model.names; got "
                f"{theta.shape}"
            )
        rows = theta.reshape(-1, k)
        with np.errstate(all="ignore"):
            x = self.report.inward(rows)
        bad = ~np.isfinite(x).all(axis=1)
        if bad.any():
            raise InputError(f"parameters {rows[bad][0]} are outside their bounds, or on them")
        return x.reshape(*theta.shape[:-1], self.n)

    def check_derivatives(self, x: ArrayLike | None = None, tolerance: float = 1e-4) -> None:
        """As for DensityModel; ``x`` are the program's parameters."""
        super().check_derivatives(None if x is None else self.unconstrain(x), tolerance)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "density": self.program}


def check_words(words: dict[str, Any], adaptor: str) -> None:
    """An error for what the program itself decides."""
    derived, own = sorted(_DERIVED & set(words)), sorted(_OWN & set(words))
    if derived:
        raise InputError(f"{', '.join(derived)}: {adaptor} derives these; leave them out")
    if own:
        raise InputError(f"{', '.join(own)}: the program given to {adaptor} has its own")

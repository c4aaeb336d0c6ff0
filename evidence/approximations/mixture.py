r"""Several references for a posterior with several modes, and how they share it.

Components :math:`q_c` with weights :math:`\pi_c` divide the posterior among themselves,

.. math:: a_c(x) = \frac{\pi_c f_c(x)}{\sum_j \pi_j f_j(x)},\qquad \sum_c a_c = 1,\qquad
          Z = \sum_c Z_c,\quad Z_c = \int p(y, x)\, a_c(x)\, dx ,

so that each :math:`Z_c` is estimated by itself, from :math:`q_c`, with any method there is, and
the sum is as unbiased as its parts, wherever moves or proposals of one component never reach
another. Any positive :math:`f_c` will do; the best are large wherever q_c's own draws and moves
go. A reference of a GPModel takes a product of Student-t densities with the mean and variances of
its Gaussian: in many dimensions some values are always far out, and with :math:`f_c = q_c` the
prior would claim what lies in the tails of a mode.

It does not look for modes: :mod:`evidence.approximations.gp.modes` does.

Reference: the balance heuristic, E. Veach and L. Guibas, SIGGRAPH 1995.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from scipy.special import logsumexp, softmax

from ..execution.arguments import array, listed, shown
from ..messages import InputError, Message
from ..numerics.arrays import Array


class LogDensity(Protocol):
    """A log density, up to a function that all components have in common."""

    def log(self, x: Array) -> Array:
        """Of every row of x, shape (M,)."""

    def log_and_gradient(self, x: Array) -> tuple[Array, Array]:
        """Shapes (M,) and (M, N)."""

    def identity(self) -> tuple[Array, ...]:
        """Arrays that tell it from others."""


@dataclass(frozen=True, eq=False)
class Share:
    """a_c of one component: a function of x between 0 and 1."""

    own: int
    log_weights: Array
    densities: tuple[LogDensity, ...]

    def log(self, x: Array) -> Array:
        """log a_c of every row of x, shape (M,)."""
        return self.of_all(x)[:, self.own]

    def of_all(self, x: Array) -> Array:
        """log a_j of every row and every component j, shape (M, C)."""
        log_q = np.stack([q.log(x) for q in self.densities], axis=1) + self.log_weights
        return log_q - np.logaddexp.reduce(log_q, axis=1)[:, None]

    def log_and_gradient(self, x: Array) -> tuple[Array, Array]:
        """log a_c and its gradient, shapes (M,) and (M, N)."""
        values, slopes = zip(*(q.log_and_gradient(x) for q in self.densities), strict=True)
        log_q = np.stack(values, axis=1) + self.log_weights
        total = np.logaddexp.reduce(log_q, axis=1)
        gradient = slopes[self.own].copy()
        for value, slope in zip(log_q.T, slopes, strict=True):
            gradient -= np.exp(value - total)[:, None] * slope
        return log_q[:, self.own] - total, gradient

    def identity(self) -> tuple[Array, ...]:
        """Arrays that tell this share from others."""
        parts = (part for density in self.densities for part in density.identity())
        return (np.array(self.own), self.log_weights, *parts)


class Mixture:
    """Gaussian references of one model, with weights: a reference where there are several modes.

    Parameters
    ----------
    references : sequence of references
        Fits of the same model, such as ``ev.fit_ep(model, start=…)``. The last one should be as
        wide as the prior: what the others miss has a place there.
    weights : array (C,)
        Positive; scaled to sum to one. Any weights leave estimates unbiased; those near the
        posterior's own, none of them tiny, make them precise.
    warnings : sequence of str
        What to be careful about, beside what the references say of themselves.

    Attributes
    ----------
    components : tuple of references
        Each has ``.sites``, ``.mean``, … of its own, and its ``share`` of the posterior.
    weights : array (C,)
    logz : float
        The sum of the components' estimates, without that of the prior.
    lost : (float, float)
        The part of the posterior that walks saw out of the components' reach, and its noise:
        error bars are no smaller, unless the prior's component has found as much.

    Examples
    --------
    >>> import evidence as ev
    >>> model = ev.GPModel([0.0, 0.1], [3.0, -3.0], "9.0 * RBF(1.0)", likelihood="student_t(df=2)")
    >>> two = ev.Mixture([ev.fit_ep(model), ev.fit_laplace(model)], [0.7, 0.3])
    >>> len(two.components), two.weights.tolist()
    (2, [0.7, 0.3])
    """

    name = "mixture"
    lost = 0.0, 0.0
    blended: Any = None
    """What draws of all components at once come from, where there is such a thing."""

    def __init__(
        self, references: Sequence[Any], weights: Array, warnings: Sequence[str] = ()
    ) -> None:
        references, given = listed("references", references), array("weights", weights, ("n",))
        for reference in references:
            if not hasattr(reference, "claim"):
                raise InputError(
                    f"references must be fits such as ev.fit_ep(model), got {shown(reference)}"
                )
        self.weights = given / given.sum()
        if self.weights.shape != (len(references),) or not given.min() > 0.0:
            raise InputError(
                f"weights must hold a positive number for each of {len(references)} references, "
                f"got {weights}"
            )
        if any(reference.name == "prior" for reference in references[:-1]):
            raise InputError("references: the prior must be the last of them, and there only once")
        densities = tuple(reference.claim for reference in references)
        log_weights = np.log(self.weights)
        self.components = tuple(
            replace(reference, share=Share(c, log_weights, densities))
            for c, reference in enumerate(references)
        )
        self.model = references[0].model
        of_modes = [reference.logz for reference in references if reference.name != "prior"]
        self.logz = float(logsumexp(of_modes)) if of_modes else references[0].logz
        self.converged = all(reference.converged for reference in references)
        self.seconds = sum(reference.seconds for reference in references)
        others = (warning for reference in references for warning in reference.warnings)
        self.warnings = tuple(dict.fromkeys([*warnings, *others]))

    @property
    def probable(self) -> Array:
        """How much of the posterior is each component's, by their own log Z; none the prior's."""
        of_modes = [-np.inf if c.name == "prior" else c.logz for c in self.components]
        return np.asarray(softmax(of_modes if max(of_modes) > -np.inf else self.weights))

    def log_parts(self, x: Array) -> Array:
        """log π_c q_c of every row and component, up to what they have in common; (M, C)."""
        parts = [component.log_density.log(x) for component in self.components]
        return np.stack(parts, axis=1) + np.log(self.weights)

    def heaviest(self) -> tuple[Any, list[Message]]:
        """One Gaussian, for what cannot use several, and a warning where others count as well,
        a thousandth of the posterior or more."""
        best, others = int(np.argmax(self.probable)), int(np.sum(self.probable > 1e-3)) - 1
        alone = replace(self.components[best], share=None)
        if not others:
            return alone, []
        text = (
            f"the posterior has {others} other mode(s) of comparable weight, and Riemannian moves "
            "start from one Gaussian: log Z may leave them out; use another move"
        )
        return alone, [Message("several-modes", text)]

    def without_last(self) -> Mixture:
        """The same without the last component, the prior."""
        return Mixture(self.components[:-1], self.weights[:-1], self.warnings)

    def identity(self) -> tuple[Array, ...]:
        """Arrays that tell this mixture from others."""
        return self.components[0].share.identity()

    def __repr__(self) -> str:
        parts = (
            f"{weight:.3g} × {component.name} at log Z {component.logz:.2f}"
            for weight, component in zip(self.weights, self.components, strict=True)
        )
        return f"Mixture({', '.join(parts)})"

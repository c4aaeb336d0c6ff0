r"""The evidence of a model of several classes at some θ: Laplace's, and unbiased estimates.

EP's place is taken by Laplace's method, with gradients from differences, and that of guided draws
by an island of tempered resample-move that starts from Laplace's Gaussian: its estimate of Z(θ) is
unbiased whatever its size, which is all that :mod:`.integral` asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from ..approximations.classes.laplace import fit_softmax_laplace
from ..approximations.classes.reference import SoftmaxReference
from ..execution.clock import check_interrupt
from ..models.classes import SoftmaxModel
from ..numerics.arrays import Array, Indices
from .at_theta import Look, NoEvidence, looked, numerics


def laplace_at(model: SoftmaxModel, theta: Array) -> SoftmaxReference:
    """Laplace's method at θ, or :class:`.NoEvidence`."""
    check_interrupt()
    with numerics():
        return fit_softmax_laplace(model.at(theta))


@dataclass(frozen=True, eq=False)
class AnnealedEvidence:
    """(θ, rng) to log Ẑ(θ) and Laplace's log Z, for some of a model's hyperparameters.

    Attributes
    ----------
    free : array
        Which they are; all others stay as the model has them.
    estimate : callable
        (model, particles, rng) to the log of an unbiased estimate of its evidence.
    n_draws : int
        Particles behind every estimate.
    """

    model: SoftmaxModel
    free: Indices
    estimate: Callable[[SoftmaxModel, int, Generator], float]
    n_draws: int = 16
    fewest: int = 16

    def __call__(self, theta: Array, rng: Generator) -> tuple[float, float]:
        reference = laplace_at(self.model, self._all(theta))
        with numerics():
            log_z = self.estimate(reference.model, self.n_draws, rng)
        if np.isnan(log_z):
            raise NoEvidence("the weights of annealed draws are not numbers")
        return log_z, reference.logz

    def log_z(self, theta: Array) -> float:
        """Laplace's log Z, or :class:`.NoEvidence`."""
        return laplace_at(self.model, self._all(theta)).logz

    def look(self, theta: Array) -> Look:
        """That and its gradient."""
        return looked(self.log_z, theta)

    def near(
        self, places: Array, looks: list[Look], root: Array, n_draws: int
    ) -> AnnealedEvidence:
        """The same with so many particles."""
        return replace(self, n_draws=n_draws)

    def _all(self, theta: Array) -> Array:
        everything = self.model.hyperparameters.theta.copy()
        everything[self.free] = theta
        return everything

r"""What evaluations so far have shown of a density: independent draws of its prior first.

They say where nothing else has looked. With n of them, each judged by what a proposal leaves
unexplained there, a region of prior mass

.. math:: \epsilon = 1 - 0.05^{1/n} \approx 3/n

is met with 95 %: the *resolution* of a search, which its answer states.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...execution.clock import check_interrupt
from ...execution.meter import phase
from ...messages import InputError
from ...models.density.model import DensityModel
from ...models.density.priors import GaussianPrior
from ...numerics.arrays import Array
from .policy import Policy
from .verdict import Rough, rough

_CHUNK = 2**12  # draws at a time
_FEWEST = 16  # draws of some likelihood to go on with
_SEARCH = {True: 2**19, False: 2**14}  # draws at most, until so many have one


@dataclass
class Cloud:
    """Draws of a model's prior, and the logarithms of their likelihoods."""

    model: DensityModel
    z: Array = field(default_factory=lambda: np.zeros((0, 0)))
    """In coordinates in which the prior is N(0, I), (M, d)."""
    log_l: Array = field(default_factory=lambda: np.zeros(0))

    def screen(self, rng: np.random.Generator, policy: Policy) -> Cloud:
        """Draw as many more as the policy asks for, and until some have a likelihood."""
        model, step = self.model, policy.screen(self.model)
        enough = self.log_l.size + step
        self.z = self.z.reshape(-1, model.n)
        with phase("scout"):
            while self.log_l.size < enough or self._hidden:
                check_interrupt()
                z = rng.standard_normal((min(_CHUNK, step), model.n))
                log_l = model.log_likelihood(self.at(z))
                self.z, self.log_l = np.concatenate([self.z, z]), np.append(self.log_l, log_l)
        if not np.isfinite(self.log_l).any():
            raise InputError(
                f"logdensity is -inf at all of {self.log_l.size} draws from the prior: there "
                "is no evidence to estimate; is a constraint never met, or the prior elsewhere?"
            )
        return self

    @property
    def _hidden(self) -> bool:
        """Whether too few draws have a likelihood, and some more may help."""
        few = int(np.isfinite(self.log_l).sum()) < _FEWEST
        return few and self.log_l.size < _SEARCH[self.model.vectorized]

    def at(self, z: Array) -> Array:
        """The model's coordinates."""
        assert self.model.prior is not None
        return self.model.prior.mean + z @ self.model.prior.chol.T

    @property
    def resolution(self) -> float:
        """The prior mass of a region that the draws would have met with 95 %."""
        return resolution(self.log_l.size)

    def estimate(self) -> Rough:
        """log Z by the draws alone."""
        return rough(self.log_l)


def resolution(n: int) -> float:
    """The mass of a region that n independent draws meet with a probability of 95 %.

    >>> round(resolution(300), 4)
    0.0099
    """
    return float(-np.expm1(np.log(0.05) / n)) if n else 1.0


class Rebased(DensityModel):
    """A density without a prior, seen as a likelihood under a Gaussian that is wide enough."""

    def __init__(self, model: DensityModel, prior: GaussianPrior) -> None:
        self.__dict__.update(model.__dict__)
        self.density, self.prior = model, prior

    def log_likelihood(self, x: Array) -> Array:
        assert self.prior is not None
        return self.density.log_prob(x) - self.prior.log_prob(x)

    def log_prob(self, x: Array) -> Array:
        return self.density.log_prob(x)

    def log_prob_and_gradient(self, x: Array) -> tuple[Array, Array]:
        return self.density.log_prob_and_gradient(x)

    def hessian(self, x: Array) -> Array:
        return self.density.hessian(x)

    def bare(self) -> DensityModel:
        return Rebased(self.density.bare(), self.prior) if self.prior else self.density.bare()

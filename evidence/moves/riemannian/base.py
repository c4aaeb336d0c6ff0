"""The shell of all Riemannian moves: random numbers in, transitions, accept or reject."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...messages import InputError
from ...numerics import threads
from ...numerics.normal import standard_normal
from ...paths.base import TemperedPath
from ..base import Array, Beta, Info, Latent, LatentMove, Rng, kept, metropolis, per_row
from . import OK, End
from .separable.system import Batch, Systems

systems = kept(Systems)


@dataclass
class RiemannMove(LatentMove):
    """A batch of transitions whose metric depends on the position.

    A subclass gives :attr:`transitions`, compiled, for metrics K⁻¹ + diag(d), and may give
    ``_dense`` for the full metrics of densities.

    Parameters
    ----------
    step_size, target, name
        As for :class:`.LatentMove`.
    """

    riemannian: ClassVar[bool] = True
    transitions: ClassVar[Callable[..., None]]
    """Made by :func:`.for_rows`."""
    normals: ClassVar[int] = 2
    """Vectors of standard normals that a row's transition takes."""

    def prepare(self, path: TemperedPath) -> None:
        super().prepare(path)
        if not path.dense:
            systems(path)

    def step_sizes(self, rng: Rng, path: TemperedPath, m: int) -> Array:
        """Step size of each row."""
        return np.full(m, self.step_size)

    def parameters(self, path: TemperedPath) -> object:
        """What else :attr:`transitions` take."""
        return ()

    def step(self, rng: Rng, path: TemperedPath, beta: Beta, state: Latent) -> tuple[Latent, Info]:
        transitions = self._dense if path.dense else self._separable
        end = transitions(rng, path, per_row(beta, len(state.x)), state.x)
        new, info = metropolis(rng, end.log_ratio, state, Latent(end.y, end.h))
        return new, info._replace(gradients=end.evaluations)

    def _separable(self, rng: Rng, path: TemperedPath, beta: Array, x: Array) -> End:
        (m, n), parameters, pool = x.shape, self.parameters(path), systems(path)
        eps, z = self.step_sizes(rng, path, m), standard_normal(rng, (m, self.normals, n))
        counts = np.empty((2, m), np.int64)
        batch = Batch(beta, eps, x.copy(), z, np.empty(m), *counts)

        def share(first: int, stride: int) -> None:
            with pool.lend() as system:
                self.transitions(system[:-1], system.kernel, parameters, batch, first, stride)

        threads.run(share, m)
        bad = batch.code != OK
        batch.log_ratio[bad], batch.x[bad] = np.nan, x[bad]
        evaluations = int(batch.factorisations.sum())
        return End(batch.x, path.tilt(batch.x), batch.log_ratio, batch.code, evaluations)

    def _dense(self, rng: Rng, path: TemperedPath, beta: Array, x: Array) -> End:
        """The same for any density."""
        raise InputError(
            f"move {self.name!r} is for Gaussian-process models only; use 'rmhmc', "
            "'rmhmc-midpoint' or 'rmhmc-explicit'"
        )

r"""Annealed importance sampling (Neal 2001), upwards from the reference and back down.

Many chains climb one ladder as the rows of a batch, whatever move moves them. With Σh the tilt
of :mod:`evidence.paths.gp`, a chain's weight is

.. math:: \log w = \log Z_q + \sum_{t=1}^T (\beta_t - \beta_{t-1}) \sum_n h_n(x_{t-1}),
          \qquad E\,w = Z,

where :math:`x_0 \sim q` and :math:`x_t` is what moves that leave :math:`p_{\beta_t}` invariant
make of :math:`x_{t-1}`: a weight takes x *before* the move at the next temperature. From draws
of the posterior the way down gives :math:`\log u`, minus the same sum over its own path, with
E u = 1/Z. What to make of the two is in :mod:`.crooks`.

References
----------
Neal (2001), Annealed importance sampling, Statistics and Computing 11, 125–139.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..execution.clock import Stopped
from ..numerics.arrays import Flags
from ..statistics.weights import Weights
from .islands import Islands, Row
from .plan import REFERENCE, run_moves, strided
from .smc import Climbers, ResampleMove


@dataclass(frozen=True)
class Annealing(ResampleMove):
    """Chains that climb a plan by themselves: islands of one particle, never resampled.

    ``log_z[-1]`` of their :class:`.Islands` holds the log weights and ``draws[g, 0]`` the final
    state of chain g, a draw from the posterior when weighted by its island's Ẑ; ``ess`` is that
    of all chains together. The last temperature's moves come after the last weight: they only
    freshen the draws.
    """

    def ess(self, population: Climbers, weights: Weights) -> float:
        return float(Weights(population.log_z).ess)

    def resample(self, population: Climbers, weights: Weights, poor: Flags) -> None:
        """Never."""

    def reverse(
        self, x: ArrayLike, seed: np.random.SeedSequence,
        stop: Callable[[], bool] = lambda: False,
    ) -> Islands:  # fmt: skip
        r"""Go down the plan from posterior draws ``x``, shape (M, N): the forward run backwards.

        .. math:: \log u = -\log Z_q - \sum_{t=T}^1 (\beta_t - \beta_{t-1}) \sum_n h_n(x_t),
                  \qquad x_T \sim p_1,\qquad E\,u = 1/Z,

        with :math:`x_{t-1}` what the moves of :math:`\beta_{t-1}`, the last one first, make of
        :math:`x_t`. E u = 1/Z needs moves that are invariant and rows that are draws of the
        posterior, each by itself; they need not be independent. Where every move is reversible,
        too, this path is the time reversal of the forward one.

        Returns
        -------
        Islands
            One stage per temperature on the way down, β = 0 the last one; ``log_z`` is the
            cumulative log u of each row, an estimate of 1/Z, and ``draws`` is where rows end.
        """
        rng = np.random.default_rng(seed)
        state = self.move.init(self.path, np.array(x, dtype=float, ndmin=2, order="C"))
        log_u = np.full(len(state.tilt), -self.path.log_z0)
        below = [REFERENCE, *self.plan.stages[:-1]]
        made = np.cumsum([stage.n_moves for stage in below])  # on the way up, until there
        rows: list[Row] = []
        for beta, stage, end in zip(self.plan.betas[::-1], below[::-1], made[::-1], strict=True):
            if stop():
                raise Stopped
            started, n = time.perf_counter(), stage.n_moves
            log_u = log_u - (beta - stage.beta) * state.tilt
            moves = strided(self.move, stage.step_size, int(end) - n, n)[::-1]
            state, infos, mixing = run_moves(rng, self.path, stage.beta, state, moves)
            rows.append(Row.of(log_u, float(Weights(log_u).ess), infos, started, mixing))
        return Islands.of(rows, self.move.latent(self.path, state)[:, None, :])

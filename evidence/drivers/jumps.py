r"""Jumps between modes: independent proposals from a mixture, between a move's own steps.

With chains at :math:`p_\beta \propto q_b\,e^{\beta h}` from one component b of the mixture
:math:`q = \sum_c \pi_c q_c`, a draw x' of q takes the place of x with probability

.. math:: \min\Big(1, \frac{e^{\beta h(x')}\,a_b(x')}{e^{\beta h(x)}\,a_b(x)}\Big),\qquad
          a_b = \pi_b q_b / q ,

an independence sampler: exact whatever the mixture. It is no move of its own, since nothing but
the mixture's fit makes its proposals local.

Reference: L. Tierney, Ann. Statist. 22 (1994) 1701, section 2.3.3.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import logsumexp

from ..approximations.mixture import Mixture
from ..moves.base import Move, State, metropolis
from ..numerics.arrays import Array, Indices, Rng
from ..numerics.normal import standard_normal
from ..paths.families import make_path


class Jumps:
    """Where chains start, and how they jump, for a mixture; ``path`` is that of the chains."""

    def __init__(self, mixture: Mixture) -> None:
        self.mixture, self.weights = mixture, mixture.weights
        alone = [replace(component, share=None) for component in mixture.components]
        self.probable, self.best = mixture.probable, int(np.argmax(mixture.probable))
        self._paths = [make_path(one) for one in alone]
        self.path = self._paths[self.best]

    def start(self, rng: Rng, move: Move, chains: int) -> State:
        """Independent draws, from every component about as often as the posterior is there."""
        places = (rng.permutation(chains) + rng.random()) / chains
        chosen = np.searchsorted(np.cumsum(self.probable), places).clip(0, len(self._paths) - 1)
        return move.init(self.path, self._draw(rng, chosen))

    def __call__(self, rng: Rng, move: Move, beta: float | Array, state: State) -> State:
        """The state after one proposal for every row."""
        chosen = rng.choice(self.weights.size, size=state.tilt.size, p=self.weights)
        new = move.init(self.path, self._draw(rng, chosen))
        ratio = self._log_weight(move, beta, new) - self._log_weight(move, beta, state)
        return metropolis(rng, ratio, state, new)[0]

    def _log_weight(self, move: Move, beta: float | Array, state: State) -> Array:
        """log p_β / q, up to a constant."""
        x = self.path.to_shared(move.latent(self.path, state))
        log_parts = self.mixture.log_parts(x)
        log_p = beta * state.tilt + log_parts[:, self.best]
        return np.asarray(log_p - logsumexp(log_parts, axis=1))

    def _draw(self, rng: Rng, chosen: Indices) -> Array:
        """One draw of each chosen component, as states of the chains' path."""
        z = standard_normal(rng, (chosen.size, self.path.n))
        x = np.empty_like(z)
        for c in np.unique(chosen):
            path, rows = self._paths[c], chosen == c
            x[rows] = path.to_shared(path.mean + path.coordinates("base").turn(z[rows]))
        return self.path.from_shared(x)

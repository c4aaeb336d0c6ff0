r"""Step sizes by dual averaging (Nesterov 2009; Hoffman and Gelman 2014).

With H the running mean of ``target - acceptance``,

.. math:: \log\epsilon_t = \mu - \frac{\sqrt t}{\gamma}\,\bar H_t,\qquad
          \log\bar\epsilon_t = t^{-\kappa}\log\epsilon_t + (1 - t^{-\kappa})\log\bar\epsilon_{t-1}

the first is used while tuning, the second, smooth one, afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

WIDEST = math.log(1e6)  # where nothing is ever rejected the step would grow for ever


class DualAveraging:
    """Feed acceptances with :meth:`update`, read ``step_size`` or ``final``.

    >>> tuner = DualAveraging(1.0, target=0.5)
    >>> for _ in range(500):  # acceptance exp(-step): the target is met at log 2
    ...     tuner.update(math.exp(-tuner.step_size))
    >>> abs(tuner.final - math.log(2.0)) < 0.02
    True
    """

    def __init__(self, step_size: float, target: float) -> None:
        self.target = target
        self._start = self._mu = math.log(step_size)
        self._log, self._log_final = self._mu, self._mu
        self._excess, self._t = 0.0, 0.0

    @property
    def memory(self) -> tuple[float, ...]:
        """All that was learnt: to be set again, where a run goes on."""
        return self._mu, self._log, self._log_final, self._excess, self._t

    @memory.setter
    def memory(self, learnt: Iterable[float]) -> None:
        self._mu, self._log, self._log_final, self._excess, self._t = map(float, learnt)

    @property
    def step_size(self) -> float:
        """What to use next while tuning."""
        return math.exp(self._log)

    @property
    def final(self) -> float:
        """What to use afterwards."""
        return math.exp(self._log_final)

    def update(
        self, acceptance: float, *, gamma: float = 0.05, t0: float = 10.0, kappa: float = 0.75
    ) -> None:
        """Learn from one step's mean acceptance probability.

        ``gamma``: regularises towards the first step; ``t0``: from which t counts in the running
        mean; ``kappa``: power by which a running mean forgets.
        """
        self._t += 1.0
        t, rate = self._t, 1.0 / (self._t + t0)
        self._excess += rate * (self.target - acceptance - self._excess)
        step = self._mu - math.sqrt(t) / gamma * self._excess
        self._log = min(max(step, self._start - WIDEST), self._start + WIDEST)
        weight = t**-kappa
        self._log_final += weight * (self._log - self._log_final)

    def restart(self) -> None:
        """Forget the transient: go on from the current final step size."""
        self._mu = self._log = self._log_final
        self._excess, self._t = 0.0, 0.0

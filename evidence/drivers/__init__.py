"""How to add a driver: the loops that take states from the reference to the posterior.

A driver gets a path and a move and knows neither the model nor how states move. From the path
it needs ``log_z0``, the reference's own estimate of log Z; from a state its ``tilt`` h, because
from one temperature to the next log densities change by (β' - β) h alone. A driver is one loop:
weight, resample, move. Over a fixed ladder every run of this one is an unbiased estimate of Z:

>>> from itertools import pairwise
>>> import numpy as np
>>> from scipy.special import logsumexp
>>> import evidence as ev
>>> from evidence.statistics.diagnostics import log_mean
>>> from evidence.statistics.resampling import systematic
>>> def climb(path, move, betas, n, rng, steps=2):
...     log_z, state = path.log_z0, move.init_reference(rng, path, n)
...     for beta, following in pairwise(betas):
...         log_w = (following - beta) * state.tilt
...         log_z += logsumexp(log_w) - np.log(n)
...         weights = np.exp(log_w - logsumexp(log_w))
...         state = ev.moves.take(state, systematic(weights, rng))
...         for _ in range(steps):
...             state, info = move.step(rng, path, following, state)
...     return log_z

Independent runs, averaged as Z and not as log Z, are an estimate with an error bar:

>>> model = ev.GPModel(K=[[2.0, 1.0], [1.0, 2.0]], y=[1, -1])
>>> path, move = ev.Path(ev.fit_laplace(model)), ev.moves.get("splitting")
>>> move.prepare(path)
>>> seeds = np.random.SeedSequence(0).spawn(16)
>>> ladder = ev.ladders.geometric(4, first=0.1)
>>> runs = [climb(path, move, ladder, 200, np.random.default_rng(seed)) for seed in seeds]
>>> estimate = log_mean(runs)
>>> bool(abs(estimate.value - np.log(np.arccos(1 / 3) / (2 * np.pi))) < 4 * estimate.se < 0.1)
True

To make it a ``method=`` of :func:`evidence.log_evidence`, let it return :class:`.Islands` for a
number of seeds, as :meth:`.Loop.run` does, and write a file in ``evidence/methods/`` that hands
it to :func:`.outcome_of_islands`; ``importance.py`` there is the shortest. That brings executors,
checkpoints, deadlines, targets and error bars. Its line in ``METHODS``
(``evidence/methods/registry.py``) gives it a name.

====================================  ============================================================
:mod:`.plan`                          pilot runs: temperatures, step sizes, numbers of moves
:mod:`.smc`                           one loop (weigh, resample, move) and its variants
:mod:`.data`                          the same loop over data in the place of temperatures
:mod:`.annealing`, :mod:`.crooks`     annealed importance sampling, up and down
:mod:`.weighted`                      independent draws, guided by sites or tilted
:mod:`.tempering`                     parallel tempering, log Z from all levels together
:mod:`.chains`                        Markov chains at one temperature
:mod:`.islands`, :mod:`.stopping`     what islands leave behind, and how many to run
====================================  ============================================================
"""

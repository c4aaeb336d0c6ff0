"""Densities whose evidence is known, or that others have used for comparison.

=============================  =========================================================
:mod:`.gaussian`               any condition number, any dimension
:mod:`.mixture`                separate modes of unequal weights
:mod:`.banana`                 a bent Gaussian
:mod:`.funnel`                 Neal's funnel: a scale that varies e^v-fold
:mod:`.linear_regression`      conjugate, with its exact evidence
:mod:`.logistic_regression`    with a Gaussian prior; simulated data
:mod:`.neural_network`         one hidden layer, in JAX; simulated data
=============================  =========================================================

Each is a function that returns an :class:`~.example.Example`: the model, its exact log Z and
exact draws where there are such.

>>> import numpy as np
>>> example = funnel(dim=2)
>>> example.logz, example.draws(np.random.default_rng(0), 5).shape
(0.0, (5, 3))
"""

from __future__ import annotations

from .banana import banana as banana
from .example import Example as Example
from .funnel import funnel as funnel
from .gaussian import gaussian as gaussian
from .linear_regression import linear_regression as linear_regression
from .logistic_regression import SimulatedLogistic as SimulatedLogistic
from .logistic_regression import logistic_regression as logistic_regression
from .logistic_regression import simulated_logistic as simulated_logistic
from .mixture import gaussian_mixture as gaussian_mixture
from .neural_network import neural_network as neural_network
from .neural_network import simulated_network as simulated_network

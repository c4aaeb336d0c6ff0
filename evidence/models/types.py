"""The kinds of model there are, for type hints and checks of arguments.

``Described`` are those with a prior of latent values and a likelihood of data that see them.
"""

from __future__ import annotations

from typing import TypeAlias

from .classes import SoftmaxModel
from .density.model import DensityModel
from .gp import GPModel
from .predictors import PredictorsModel
from .sparse import SparseModel

Described: TypeAlias = GPModel | SparseModel | PredictorsModel
Model: TypeAlias = Described | SoftmaxModel | DensityModel

"""The kinds of model there are, for type hints."""

from __future__ import annotations

from typing import TypeAlias

from .classes import SoftmaxModel
from .density.model import DensityModel
from .gp import GPModel
from .predictors import PredictorsModel
from .sparse import SparseModel

Model: TypeAlias = GPModel | SparseModel | PredictorsModel | SoftmaxModel | DensityModel

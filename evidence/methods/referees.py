"""Referees by the name that a model's family gives."""

from __future__ import annotations

from .density import DensityReferee
from .referee import Referee

REFEREES: dict[str, type[Referee]] = {"plain": Referee, "density": DensityReferee}

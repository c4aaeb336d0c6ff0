"""Transition kernels. :mod:`.base` says what a move is; each other file holds one family.

========================  =========================================================================
name                      move
========================  =========================================================================
``mgrad``                 :class:`.MGrad`, the marginal gradient sampler (the default)
``agrad-z``, ``agrad-u``  :class:`.AGradZ`, :class:`.AGradU`, its auxiliary versions
``pcn``, ``pcnl``         :class:`.PCN`, preconditioned Crank–Nicolson, and with a gradient
``mala``, ``pmala``       :class:`.Langevin`, preconditioned by the base, by the prior
``elliptical``            :class:`.EllipticalSlice`
``hmc``, ``splitting``    :class:`.HMC`, :class:`.SplittingHMC` (exact Gaussian part)
``nuts``                  :class:`.NUTS`, the No-U-Turn sampler
``gibbs``                 :class:`.ProbitGibbs`, probit only, in the z-representation
``rmhmc``                 :class:`.RMHMC`, implicit generalised leapfrog
``rmhmc-midpoint``        :class:`.MidpointRMHMC`, implicit midpoint rule
``rmhmc-explicit``        :class:`.ExplicitRMHMC`, in doubled phase space
``mmala``                 :class:`.MMALA`, manifold MALA
``simplified-mmala``      :class:`.SimplifiedMMALA`
``second-order``          :class:`.SecondOrder`, second-order marginal sampler
========================  =========================================================================

All but the last six cost O(N²) per row, as matrix products over the batch; these six factorise
a matrix per step, row by row in parallel threads (``gibbs`` sweeps in O(N²)).

For a :class:`.DensityModel` the three Riemannian integrators use a full
metric (SoftAbs, the Hessian, or the user's own) on the whole batch at once (:mod:`.dense`); where
curvature changes fast, ``rmhmc-midpoint`` takes the longest steps. Not for densities are
``gibbs``, ``mmala``, ``simplified-mmala`` and ``second-order``.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any

from ..messages import InputError, suggest
from .base import Info, Move, take
from .gradient.agrad import AGradU, AGradZ
from .gradient.crank_nicolson import PCN
from .gradient.elliptical import EllipticalSlice
from .gradient.gibbs import ProbitGibbs
from .gradient.langevin import Langevin, pmala
from .gradient.mgrad import MGrad, pcnl
from .gradient.second_order import SecondOrder
from .hamiltonian.hmc import HMC
from .hamiltonian.nuts import NUTS
from .hamiltonian.splitting import SplittingHMC
from .hamiltonian.trajectories import Trajectory, trajectory
from .riemannian.explicit import ExplicitRMHMC
from .riemannian.midpoint import MidpointRMHMC
from .riemannian.mmala import MMALA, SimplifiedMMALA
from .riemannian.rmhmc import RMHMC

__all__ = [
    "HMC",
    "MMALA",
    "NUTS",
    "PCN",
    "RMHMC",
    "AGradU",
    "AGradZ",
    "EllipticalSlice",
    "ExplicitRMHMC",
    "Info",
    "Langevin",
    "MGrad",
    "MidpointRMHMC",
    "Move",
    "ProbitGibbs",
    "SecondOrder",
    "SimplifiedMMALA",
    "SplittingHMC",
    "Trajectory",
    "get",
    "names",
    "pcnl",
    "pmala",
    "take",
    "trajectory",
]

_BY_NAME: dict[str, Callable[[], Any]] = {
    "mgrad": lambda: MGrad(step_size=10.0),
    "agrad-z": AGradZ,
    "agrad-u": AGradU,
    "pcn": PCN,
    "pcnl": pcnl,
    "mala": Langevin,
    "pmala": pmala,
    "elliptical": EllipticalSlice,
    "hmc": HMC,
    "splitting": SplittingHMC,
    "nuts": NUTS,
    "gibbs": ProbitGibbs,
    "rmhmc": RMHMC,
    "rmhmc-midpoint": MidpointRMHMC,
    "rmhmc-explicit": ExplicitRMHMC,
    "mmala": MMALA,
    "simplified-mmala": SimplifiedMMALA,
    "second-order": SecondOrder,
}


def names() -> list[str]:
    """Every name that :func:`get` knows."""
    return list(_BY_NAME)


def get(move: str | Move) -> Any:
    """A move from its name; an object is returned as it is.

    >>> get("mgrad").name
    'mgrad'
    """
    if not isinstance(move, str):
        if not (hasattr(move, "step") and hasattr(move, "init_reference")):
            raise InputError(f"move must be a name or a move object, got {move!r}")
        _check(move)
        return move
    key = move.lower().replace("_", "-")
    if key not in _BY_NAME:
        raise InputError(
            f"unknown move {move!r}{suggest(key, _BY_NAME)} Known: {', '.join(_BY_NAME)}"
        )
    return _BY_NAME[key]()


def _check(move: Any) -> None:
    """Sizes and numbers of steps that a user gave."""
    step_size = getattr(move, "step_size", 1.0)
    if not (isinstance(step_size, numbers.Real) and 0.0 < step_size < math.inf):
        raise InputError(f"{move.name}: step_size must be a positive number, got {step_size!r}")
    for name in ("n_leapfrog", "max_depth"):
        count = getattr(move, name, None)
        if count is not None and not (isinstance(count, numbers.Integral) and count >= 1):
            raise InputError(
                f"{move.name}: {name} must be a whole number, at least 1, got {count!r}"
            )

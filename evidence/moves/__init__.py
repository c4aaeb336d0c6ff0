"""Moves, single steps of Markov chains: :mod:`.base` says what a move is and how to write one.

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
metric (SoftAbs, the Hessian, or the user's own) on the whole batch at once;
where curvature changes fast, ``rmhmc-midpoint`` takes the longest steps. Not for densities are
``gibbs``, ``mmala``, ``simplified-mmala`` and ``second-order``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..execution.lazy import offered

if TYPE_CHECKING:
    from .base import Info as Info
    from .base import Move as Move
    from .base import take as take
    from .gradient.agrad import AGradU as AGradU
    from .gradient.agrad import AGradZ as AGradZ
    from .gradient.crank_nicolson import PCN as PCN
    from .gradient.elliptical import EllipticalSlice as EllipticalSlice
    from .gradient.gibbs import ProbitGibbs as ProbitGibbs
    from .gradient.langevin import Langevin as Langevin
    from .gradient.langevin import pmala as pmala
    from .gradient.mgrad import MGrad as MGrad
    from .gradient.mgrad import pcnl as pcnl
    from .hamiltonian.hmc import HMC as HMC
    from .hamiltonian.nuts import NUTS as NUTS
    from .hamiltonian.splitting import SplittingHMC as SplittingHMC
    from .hamiltonian.trajectories import Trajectory as Trajectory
    from .hamiltonian.trajectories import trajectory as trajectory
    from .registry import get as get
    from .registry import names as names
    from .riemannian.mmala import MMALA as MMALA
    from .riemannian.mmala import SimplifiedMMALA as SimplifiedMMALA
    from .riemannian.rmhmc import RMHMC as RMHMC
    from .riemannian.rmhmc import ExplicitRMHMC as ExplicitRMHMC
    from .riemannian.rmhmc import MidpointRMHMC as MidpointRMHMC
    from .riemannian.second_order import SecondOrder as SecondOrder

#: every name that :func:`get` knows, and who makes it
NAMES = {
    "mgrad": "MGrad", "agrad-z": "AGradZ", "agrad-u": "AGradU", "pcn": "PCN", "pcnl": "pcnl",
    "mala": "Langevin", "pmala": "pmala", "elliptical": "EllipticalSlice", "hmc": "HMC",
    "splitting": "SplittingHMC", "nuts": "NUTS", "gibbs": "ProbitGibbs", "rmhmc": "RMHMC",
    "rmhmc-midpoint": "MidpointRMHMC", "rmhmc-explicit": "ExplicitRMHMC", "mmala": "MMALA",
    "simplified-mmala": "SimplifiedMMALA", "second-order": "SecondOrder",
}  # fmt: skip

if not TYPE_CHECKING:  # type checkers read the imports above, and know what is missing
    _HOME, __getattr__, __dir__ = offered(__spec__)
    __all__ = sorted(_HOME)

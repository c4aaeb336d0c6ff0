"""Gaussian priors given by sparse precision matrices: noise, series, maps, and sums of them.

=============================  ==============================================================
:func:`.iid`                   independent values: groups, fixed effects
:func:`.independent`           values with standard deviations of their own
:func:`.effects`               levels and slopes of groups, correlated within
:func:`.ar1`                   autoregressive series of first order
:func:`.rw1`, :func:`.rw2`     random walks of first and second order
:func:`.matern_series`         Matérn processes at irregular times
:func:`.icar`, :func:`.bym2`   neighbours on a map
:func:`.matern_grid`           Matérn fields on a regular grid
:func:`.blocks`                several of them side by side
:func:`.copies`                one of them several times, with the same hyperparameters
=============================  ==============================================================

Each is a :class:`.Precision`: its matrix, what is free in it, its constraints. Intrinsic priors
(random walks, maps) are improper in some directions, have as many constraints, and are scaled so
that their marginal variances have a geometric mean of 1 at ``sigma=1``: then ``sigma`` means the
same on every graph, and evidences can be compared.

>>> from evidence import precisions
>>> precisions.ar1(5, rho=0.9).matrix().shape
(5, 5)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...execution.lazy import offered

if TYPE_CHECKING:
    from .autoregressive import ar1 as ar1
    from .base import Precision as Precision
    from .besag_york_mollie import bym2 as bym2
    from .correlated import effects as effects
    from .graph import icar as icar
    from .grid import matern_grid as matern_grid
    from .joint import blocks as blocks
    from .repeated import copies as copies
    from .scaled import iid as iid
    from .scaled import independent as independent
    from .series import matern_series as matern_series
    from .walks import rw1 as rw1
    from .walks import rw2 as rw2

if not TYPE_CHECKING:  # type checkers read the imports above, and know what is missing
    _HOME, __getattr__, __dir__ = offered(__spec__)
    __all__ = sorted(_HOME)

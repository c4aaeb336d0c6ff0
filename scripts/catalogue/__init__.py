"""Problems with known log Z, for tests and scripts alike: random ones by number, others by name.

====================  =======================================================================
``random_density``    26 families (families.py) in all kinds of dresses (dressing.py)
hyperparameters.py    models whose hyperparameters are free, by number (marginals.py, cubature.py)
hard.py               some forty that break one sampler or another, for NumPy and JAX
exact.py, modes.py    Gaussian processes with several modes, or half-spaces for likelihoods
necks.py              hierarchies with two unknown scales
dimensions.py         up to a thousand dimensions
smooth.py             Gaussians, mixtures, bananas, regressions, and how each is run
drawn.py              those of which exact draws can be had
named.py              all densities by name
halving.py            a referee
====================  =======================================================================

Simple ones that users may call, too, are in :mod:`evidence.models.examples`.
"""

from __future__ import annotations

import numpy as np

from .dressing import Case, dress
from .families import FAMILIES

__all__ = ["FAMILIES", "Case", "random_density"]

_BANDS = ((1, 3), (4, 8), (9, 20))  # dimensions, each band for a third of all cases


def random_density(seed: int) -> Case:
    """The random density of a number: the family is that of ``seed % 26``.

    >>> case = random_density(0)
    >>> case.name, case.dressing, round(case.truth, 4)
    ('mixture 3, number 0', 'gaussian vectorized gradient', -8.2618)
    """
    names = list(FAMILIES)
    family = names[seed % len(names)]
    low, high = _BANDS[(seed % len(names) + seed // len(names)) % len(_BANDS)]
    rng = np.random.default_rng([seed, 2718])
    problem = FAMILIES[family](rng, int(rng.integers(low, high + 1)))
    name = f"{family} {problem.dim}, number {seed}"
    return dress(rng, problem, family, name, True if family == "turned" else None)

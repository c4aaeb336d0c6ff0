"""The targets of "Beyond ELBOs" that need no private data, the default call: log Z and seconds.

    python -m scripts.benchmarks.beyond_elbos --seeds 2

D. Blessing et al., Beyond ELBOs: a large-scale evaluation of variational methods for sampling,
ICML 2024. Funnel, Brownian motion in both of its forms, seeds, regressions, mixtures in a box,
and a Cox process of simulated points, as a Gaussian process.
"""

from __future__ import annotations

import sys

from scripts import laboratory
from scripts.benchmarks.truths_at_dimension import measure, parsed
from scripts.catalogue.dimensions import BEYOND_ELBOS, FAST

NAME = "beyond_elbos"


def main() -> None:
    options = parsed(laboratory.parser(__doc__, NAME), BEYOND_ELBOS)
    measure(FAST if options.fast else BEYOND_ELBOS, options, NAME)


if __name__ == "__main__":
    sys.exit(main())

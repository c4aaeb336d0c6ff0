"""Models with several modes and their truths, of coarser grids than those of the catalogue: log Z
to 3e-6, once a process."""

from __future__ import annotations

from functools import cache, partial
from unittest.mock import patch

from scripts.catalogue import modes


def _coarsely(problem) -> modes.Truth:
    with patch.object(modes, "common_factor", partial(modes.common_factor, n=1001)):
        return problem()


@cache
def two_groups() -> modes.Truth:
    return _coarsely(modes.two_groups)


@cache
def uneven_groups() -> modes.Truth:
    return _coarsely(modes.uneven_groups)

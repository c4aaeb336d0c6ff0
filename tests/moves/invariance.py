"""The oracle shared by all moves: exact draws stay exact draws.

M states are drawn exactly from p_β, moved a few times, and compared with M fresh exact draws
by two-sample Kolmogorov–Smirnov tests on each coordinate, each square, neighbouring products
and the tilt. With K statistics the test fails when the smallest p-value is below 1e-5 / K: a
false alarm of 1e-5 per case at most. M = 20,000 detects a shift of about 0.04 sd. Moves that
factorise a matrix per row start from fewer states. A failed fixed point is a rejection, which
is exact; it must be rare for the test to say something about the rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from problems import exact_draws
from scipy.stats import ks_2samp

from evidence import Path

M = 20_000


def statistics(path: Path, x: np.ndarray) -> dict[str, np.ndarray]:
    out = {f"x{n}": x[:, n] for n in range(path.n)}
    centred = x - path.mean
    out |= {f"x{n}²": centred[:, n] ** 2 for n in range(path.n)}
    out |= {f"x{n}x{n + 1}": centred[:, n] * centred[:, n + 1] for n in range(path.n - 1)}
    out["tilt"] = path.tilt(np.ascontiguousarray(x))
    return out


_cache: dict[Any, tuple[np.ndarray, np.ndarray]] = {}


def _exact(path: Path, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """Two independent sets of exact draws, made once per target and shared by all moves."""
    model, reference = path.model, path.reference
    sites = (reference.sites.nu.tobytes(), reference.sites.tau.tobytes()) if beta < 1.0 else ()
    key = (repr(model.likelihood), model.K.tobytes(), model.y.tobytes(), beta, *sites)
    if key not in _cache:
        draws = exact_draws(np.random.default_rng(2**20), reference, beta, 2 * M)
        _cache[key] = draws[:M], draws[M:]
    return _cache[key]


def smallest_p_value(
    path: Path,
    move: Any,
    beta: float,
    steps: int = 4,
    seed: int = 0,
    m: int = M,
    rare: float = 0.0,
) -> float:
    """Smallest p-value, times the number of statistics."""
    rng = np.random.default_rng(seed)
    start, fresh = _exact(path, beta)
    start, fresh = start[:m], statistics(path, fresh)
    state = move.init(path, start)
    moved = 0.0
    for _ in range(steps):
        state, info = move.step(rng, path, beta, state)
        moved = max(moved, float(info.acceptance.mean()))
        assert info.failures <= rare * m
    assert moved > 0.1, "the move hardly moves: the test would prove nothing"
    after = statistics(path, move.latent(path, state))
    p = [ks_2samp(after[k], fresh[k], method="asymp").pvalue for k in fresh]
    return min(p) * len(p)

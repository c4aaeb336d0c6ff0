"""A table with columns of every kind."""

from __future__ import annotations

import numpy as np
import pandas as pd

N = 40


def table(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(
        {
            "y": rng.normal(2.0, 3.0, N),
            "k": rng.poisson(2.0, N),
            "b": np.arange(N) % 2,
            "s": rng.integers(0, 4, N),
            "n": rng.integers(4, 8, N),
            "x": rng.normal(1.0, 2.0, N),
            "z": rng.normal(size=N),
            "e": rng.uniform(1.0, 3.0, N),
            "a": np.array(["p", "q", "r"])[np.arange(N) % 3],
            "g": np.array(list("dabc"))[np.arange(N) % 4],
            "h": np.arange(N) // 8,
            "t": rng.permutation(N) % 10,
            "w": rng.integers(0, 3, N),
        }
    )
    data["my col"], data["my group"], data["β"] = data.x, data.g, data.z
    data["log"], data["C"] = data.x, data.g
    return data


def indicators(values, levels) -> np.ndarray:
    return (np.asarray(values)[:, None] == np.asarray(levels)).astype(float)

"""AIS with RMHMC as the report's pseudo-code has it, one chain at a time: the yardstick.

Algorithms 1-4 transcribed line by line (``tests/report_pseudocode.py``), with its settings:
ε = 0.1, 10 leapfrog steps, five fixed-point iterations that need not converge.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import evidence as ev

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
import report_pseudocode as report

EPS, STEPS, F_MAX = 0.1, 10, 5


class LiteralAIS:
    """``LiteralAIS(path, betas)(rng)`` is the log weight of one chain."""

    def __init__(self, path: ev.Path, betas: np.ndarray) -> None:
        self.path, self.betas = path, betas
        self.frame = path.coordinates("base")
        self.fixed = [report.constants(path.reference, beta) for beta in betas]

    def __call__(self, rng: np.random.Generator) -> float:
        path, betas = self.path, self.betas
        a = np.sqrt(self.frame.gamma) * rng.standard_normal((1, path.n))
        x = self.frame.to_latent(a)[0]
        log_w = path.log_z0
        for t in range(1, betas.size):
            log_w += (betas[t] - betas[t - 1]) * path.tilt(x[None])[0]
            if t < betas.size - 1:
                x = self._transition(rng, x, self.fixed[t])
        return float(log_w)

    def _transition(self, rng: np.random.Generator, x: np.ndarray, fixed: tuple) -> np.ndarray:
        inverse = report.riemann_metric(x, *fixed)[2]
        p = np.linalg.solve(np.linalg.cholesky(inverse).T, rng.standard_normal(x.size))
        new, _, before, after = report.rmhmc_proposal(x, p, STEPS, EPS, F_MAX, fixed)
        return new if np.log(rng.random()) < before - after else x

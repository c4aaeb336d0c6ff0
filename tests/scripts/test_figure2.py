"""The yardsticks of figure 2 are unbiased: the literal chain, and the figure's own AIS."""

from __future__ import annotations

import numpy as np
import pytest
from covering import seldom

import evidence as ev
from scripts.papers import figure2_logz_vs_time as figure2
from scripts.papers import literal

K = np.array([[9.0, 4.0, 1.0], [4.0, 3.0, 1.0], [1.0, 1.0, 1.0]])
SIGNS = np.array([1.0, -1.0, 1.0])


def z_score(log_w: np.ndarray) -> float:
    """Of the mean weight; Z is an orthant probability in three dimensions, known exactly."""
    A = (K + np.eye(3)) * np.outer(SIGNS, SIGNS)
    sd = np.sqrt(np.diag(A))
    rho = (A / np.outer(sd, sd))[np.triu_indices(3, 1)]
    z = 0.125 + np.arcsin(rho).sum() / (4.0 * np.pi)
    weights = np.exp(log_w) / z
    return float((weights.mean() - 1.0) / (weights.std(ddof=1) / np.sqrt(weights.size)))


@pytest.mark.parametrize(
    ("betas", "chains"), seldom([([0.0, 1.0], 5000), ([0.0, 0.3, 1.0], 200)], 0)
)
def test_literal_chain(betas, chains, monkeypatch):
    """Without a move it is importance sampling; with one, its trajectory is as long as the
    report's, in fewer and longer steps. False alarm 1e-4."""
    monkeypatch.setattr(literal, "EPS", 0.5)
    monkeypatch.setattr(literal, "STEPS", 2)
    model = ev.GPModel(K=K, y=SIGNS, likelihood="probit", jitter=0.0)
    chain = literal.LiteralAIS(ev.Path(ev.fit_laplace(model)), np.array(betas))
    rng = np.random.default_rng(0)
    assert abs(z_score(np.array([chain(rng) for _ in range(chains)]))) < 3.9


@pytest.mark.parametrize("reference", [pytest.param("ep", marks=pytest.mark.slow), "prior"])
def test_chain_of_the_figure(reference):
    """Weights take x before the move. False alarm 1e-4."""
    lab = figure2.Laboratory(ev.GPModel(K=K, y=SIGNS, likelihood="probit", jitter=0.0))
    move = ev.moves.HMC(0.5, coordinates="identity", n_leapfrog=3)
    setting = lab.ais(move)("AIS", "B = 4", reference, 4, 1)
    rng = np.random.default_rng(1)
    assert abs(z_score(np.array([setting.run(rng, 0) for _ in range(1500)]))) < 3.9

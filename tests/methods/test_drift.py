"""Draws of the posterior stay draws of the posterior, whatever moves do with them."""

from __future__ import annotations

import numpy as np
import pytest

import evidence as ev
from evidence.methods import smc


def _run(monkeypatch, tamper):
    model = ev.DensityModel(
        lambda x: -8.0 * np.sum((x - 1.0) ** 2, axis=1), dim=2,
        grad=lambda x: -16.0 * (x - 1.0), prior=ev.GaussianPrior(np.zeros(2)), vectorized=True,
    )  # fmt: skip
    honest = smc.outcome_of_islands

    def tampered(*arguments, **options):
        outcome, run = honest(*arguments, **options)
        run.blocks = {i: b._replace(draws=tamper(b.draws)) for i, b in run.blocks.items()}
        return outcome, run

    monkeypatch.setattr(smc, "outcome_of_islands", tampered)
    words = {"reference": "prior", "method": "smc", "random_seed": 0, "progressbar": False}
    return [warning.code for warning in ev.log_evidence(model, **words).warnings]


def test_draws_of_the_posterior_do_not_drift(monkeypatch):
    assert _run(monkeypatch, lambda draws: draws) == []


@pytest.mark.parametrize("scale", [0.6, pytest.param(1.5, marks=pytest.mark.slow)])
def test_draws_that_miss_a_part_drift(monkeypatch, scale):
    """Too close to the posterior's mean, or too far away from it."""
    mean = 16.0 / 17.0
    missed = _run(monkeypatch, lambda draws: mean + scale * (draws - mean))
    assert missed == ["slow-mixing"]

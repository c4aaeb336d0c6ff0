from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from problems import EVERY, LIKELIHOODS, log_z_by_quadrature, small_model

import evidence as ev
from evidence.approximations.gp.correction import second_order_terms


@pytest.mark.parametrize("likelihood", EVERY)
def test_terms_from_the_formula(likelihood):
    """Double loop over pairs, cumulants by finite differences of log Ẑ in the cavity mean."""
    model = small_model(likelihood)
    ep = ev.fit_ep(model)
    v = 1.0 / (1.0 / ep.var - ep.sites.tau)
    m = v * (ep.mean / ep.var - ep.sites.nu)
    h = 0.02 * np.sqrt(v)

    @cache
    def log_zhat(shift):
        return model.likelihood.tilted(model.y, m + shift * h, v)[0]

    # central differences of fourth order
    third = (
        -log_zhat(3) + 8 * log_zhat(2) - 13 * log_zhat(1)
        + 13 * log_zhat(-1) - 8 * log_zhat(-2) + log_zhat(-3)
    ) / (8 * h**3)  # fmt: skip
    fourth = (
        -log_zhat(3) + 12 * log_zhat(2) - 39 * log_zhat(1) + 56 * log_zhat(0)
        - 39 * log_zhat(-1) + 12 * log_zhat(-2) - log_zhat(-3)
    ) / (6 * h**4)  # fmt: skip
    terms, _ = second_order_terms(model, ep.gaussian)
    for l, derivative, tolerance in ((3, third, 1e-3), (4, fourth, 1e-2)):
        c = v**l * derivative
        total = sum(
            0.5 * c[a] * c[b] / math.factorial(l)
            * (ep.cov[a, b] / (ep.var[a] * ep.var[b])) ** l
            for a in range(3) for b in range(3) if a != b
        )  # fmt: skip
        assert terms[l - 3] == pytest.approx(total, rel=tolerance, abs=1e-7)


def test_correction_brings_ep_closer_on_average():
    gains = []
    for likelihood in LIKELIHOODS:
        if likelihood.startswith("gaussian"):
            continue
        model = small_model(likelihood)
        ep, truth = ev.fit_ep(model), log_z_by_quadrature(model)
        gains.append(abs(ep.logz_corrected - truth) / abs(ep.logz - truth))
    assert np.mean(np.log(gains)) < np.log(0.6)
    assert max(gains) < 1.3


def test_only_ep_is_corrected():
    fit = ev.fit_laplace(small_model("probit"))
    assert fit.correction.size == 0
    assert fit.logz_corrected == fit.logz

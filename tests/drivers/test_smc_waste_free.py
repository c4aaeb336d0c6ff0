"""Error bars of single islands, and the waste-free variant, against the spread of many."""

from __future__ import annotations

import numpy as np
import pytest
from problems import log_z_by_quadrature, small_model

import evidence as ev
from evidence import moves
from evidence.drivers.plan import Pilot
from evidence.drivers.smc import ResampleMove, WasteFree
from evidence.paths.gp import Path
from evidence.statistics.genealogy import Genealogy


def prepared(likelihood="probit", n=3, reference="prior", cess=0.9):
    model = small_model(likelihood, n)
    fit = {"ep": ev.fit_ep, "prior": ev.approximations.reference.prior_reference}[reference]
    path, move = Path(fit(model)), moves.get("mgrad")
    found = Pilot(cess=cess).climb(path, move, np.random.default_rng(0)).plan
    return model, path, move, found


def test_without_resampling_it_is_the_variance_of_a_mean():
    rng = np.random.default_rng(0)
    w = rng.standard_exponential((3, 50))
    want = w.var(axis=1, ddof=1) / w.mean(axis=1) ** 2 / 50
    np.testing.assert_allclose(Genealogy(3, 50, "systematic").variance(w), want, rtol=1e-10)


def test_common_ancestors_add_up():
    family = Genealogy(1, 4, "residual")
    family.resample(np.array([[0, 0, 2, 2]]), np.array([True]))
    family.resample(np.array([[0, 1, 1, 1]]), np.array([True]))
    assert family.ancestor.tolist() == [[0, 0, 0, 0]]
    assert family.variance(np.ones((1, 4)))[0] == 1.0  # one family: it cannot know


@pytest.mark.parametrize(
    ("scheme", "likelihood"),
    [
        ("systematic", "poisson(exposure=1.5)"),
        ("residual", "probit"),
        pytest.param("multinomial", "probit", marks=pytest.mark.slow),
        pytest.param("stratified", "poisson(exposure=1.5)", marks=pytest.mark.slow),
    ],
)
def test_single_island_variance(scheme, likelihood):
    """The mean of 300 islands' own variances against their spread: within a factor of 1.5,
    or too large where residual resampling's noise is left in."""
    _, path, move, found = prepared(likelihood)
    islands = ResampleMove(path, move, found, scheme).run(300, 500, np.random.SeedSequence(1))
    z = np.exp(islands.log_z[-1] - islands.log_z[-1].max())
    ratio = np.nanmean(islands.variance) / (z.var(ddof=1) / z.mean() ** 2)
    assert np.isnan(islands.variance).mean() < 0.05
    assert 0.67 < ratio < (2.5 if scheme in ("residual", "stratified") else 1.5)


@pytest.mark.parametrize(
    ("likelihood", "length"),
    [("probit", 2), ("poisson(exposure=1.5)", 8), ("student_t(df=4, scale=0.5)", 2)],
)
def test_waste_free_is_unbiased(likelihood, length):
    """Mean Ẑ of 300 islands within 4 standard errors: false alarm 6e-5 per case."""
    model, path, move, found = prepared(likelihood)
    loop = WasteFree(path, move, found, length=length)
    islands = loop.run(300, 128, np.random.SeedSequence(2))
    z = np.exp(islands.log_z[-1] - log_z_by_quadrature(model))
    assert abs(z.mean() - 1.0) < 4.0 * z.std(ddof=1) / np.sqrt(z.size)
    assert islands.draws.shape == (300, 64, 3)


def test_waste_free_draws_are_from_the_posterior():
    """Means over 64 × 200 draws against another move's long run, 5 standard errors."""
    model, path, move, found = prepared("poisson(exposure=1.5)")
    islands = WasteFree(path, move, found).run(200, 128, np.random.SeedSequence(3))
    means = islands.draws.mean(axis=1)
    other = ev.sample(
        model, move="elliptical", draws=4000, tune=100, chains=8, random_seed=0, progressbar=False
    )
    chains = other.x.mean(axis=1)
    se = np.hypot(means.std(axis=0) / np.sqrt(200), chains.std(axis=0, ddof=1) / np.sqrt(8))
    assert (np.abs(means.mean(axis=0) - chains.mean(axis=0)) < 5.0 * se).all()

"""References of densities: modes, Laplace's method, fitted Gaussians, heavier tails."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from models.density.cases import banana, given, limited, logistic
from scipy import stats
from scipy.special import logsumexp

import evidence as ev
from evidence.approximations.density.fitted import fit_density
from evidence.approximations.density.modes import (
    _descend,
    _fall,
    _Gaussians,
    find_modes,
    fit_density_laplace,
    negative_hessian,
    starts,
)
from evidence.approximations.density.policy import EFFORTS, NORMAL
from evidence.approximations.density.reference import DensityReference, density_prior_reference
from evidence.models.density.checking import central
from evidence.paths.density import DensityPath
from scripts.catalogue import random_density

COV = np.array([[1.0, 0.5], [0.5, 2.0]])
P = np.linalg.inv(COV)
TRUTH = float(0.5 * np.linalg.slogdet(2.0 * np.pi * COV)[1])


def value(x):
    return -0.5 * np.einsum("mi,ij,mj->m", x - 1.0, P, x - 1.0)


def slope(x):
    return -(x - 1.0) @ P


def quadratic(**words):
    return ev.DensityModel(value, 2, vectorized=True, **words)


@pytest.mark.parametrize(
    "words", [{}, {"grad": slope}, {"hessian": lambda x: np.tile(-P, (len(x), 1, 1))}]
)
def test_laplace_is_exact_for_a_gaussian(words):
    """With a gradient, with the value alone, with a Hessian and no gradient."""
    fit = fit_density_laplace(quadratic(**words))
    assert fit.converged
    np.testing.assert_allclose(fit.mean, [1.0, 1.0], atol=2e-4)
    np.testing.assert_allclose(fit.cov, COV, atol=1e-4)
    assert fit.logz == pytest.approx(TRUTH, abs=1e-4)
    assert fit.warnings == ()


def test_negative_hessian_from_what_there_is():
    case = limited()
    x = case.model.unconstrain(case.draws(np.random.default_rng(0), 1))[0]
    exact = -case.model.hessian(x[None])[0]
    words = case.model.functions._asdict() | {"third": None, "along": None, "tensor": None}
    bounds = [(0.0, None), (None, 2.0), (0.0, 1.0)]
    for less in ({"hessian": None}, {"hessian": None, "grad": None}, {"grad": None}):
        model = ev.DensityModel(dim=3, vectorized=True, bounds=bounds, **words | less)
        np.testing.assert_allclose(negative_hessian(model, x), exact, atol=2e-5)


def test_climbs_that_begin_on_a_known_gaussian_are_not_made():
    """One climb and one Hessian by differences instead of sixteen of each."""
    calls, d = [], 30
    precision = np.linalg.inv(0.1 * 0.9 ** np.abs(np.subtract.outer(np.arange(d), np.arange(d))))

    def log_likelihood(x):
        calls.append(len(x))
        return -0.5 * np.einsum("mi,ij,mj->m", x - 1.0, precision, x - 1.0)

    prior = ev.GaussianPrior(np.zeros(d), 1.0)
    model = ev.DensityModel(log_likelihood, dim=d, prior=prior, vectorized=True)
    (mode,) = find_modes(model)
    whole = precision + np.eye(d)
    np.testing.assert_allclose(mode.x, np.linalg.solve(whole, precision.sum(axis=1)), atol=1e-4)
    np.testing.assert_allclose(mode.cov, np.linalg.inv(whole), atol=1e-5)
    assert sum(calls) < 8000


def test_a_peak_beside_a_known_gaussian_is_climbed():
    """Its flank is no flank of the known one."""
    model = two_modes(distance=3.0)
    assert len(find_modes(model)) == 2


def test_mode_is_in_the_models_coordinates():
    """Of a bounded density with its Jacobian, where the gradient is zero."""
    model = limited().model
    best = find_modes(model)[0]
    np.testing.assert_allclose(central(model.log_prob, best.x[None]), 0.0, atol=1e-6)
    np.testing.assert_allclose(np.linalg.inv(best.cov), -model.hessian(best.x[None])[0], rtol=1e-6)


def two_modes(distance=8.0, weights=(0.3, 0.7)):
    def log_p(x):
        parts = [-0.5 * ((x - s * distance / 2.0) ** 2).sum(axis=1) for s in (-1.0, 1.0)]
        return logsumexp(np.log(weights)[:, None] + np.array(parts), axis=0)

    return ev.DensityModel(log_p, 2, vectorized=True)


def test_all_modes_are_found():
    modes = find_modes(two_modes())
    assert len(modes) == 2
    assert modes[0].x.mean() == pytest.approx(4.0, abs=1e-3)
    assert modes[1].x.mean() == pytest.approx(-4.0, abs=1e-3)
    assert modes[0].logz - modes[1].logz == pytest.approx(np.log(7.0 / 3.0), abs=1e-3)
    fit = fit_density_laplace(two_modes())
    assert any("other mode" in warning for warning in fit.warnings)


def test_curvature_beside_which_everything_else_is_lost():
    """A ripple too fine to matter, with a Hessian of its own, which leads nowhere."""
    k = 1e20

    def hessian(x):
        return (-1.0 + k * np.cos(k * x))[:, :, None]

    model = ev.DensityModel(
        lambda x: -0.5 * x[:, 0] ** 2, 1, grad=lambda x: -x, hessian=hessian, vectorized=True
    )
    fit = fit_density_laplace(model)
    assert np.isfinite(fit.mean).all()  # as SciPy ends here, nothing would be assigned


def test_no_mode_is_a_value():
    """A density without a peak: converged is False, and words say why."""
    model = ev.DensityModel(lambda x: 0.0 * x[:, 0], 1, vectorized=True)
    fit = fit_density_laplace(model)
    assert not fit.converged
    assert np.isnan(fit.logz)
    assert any("no mode" in warning for warning in fit.warnings)


@pytest.mark.parametrize(
    "kind",
    [
        *("gaussian", "heavy", "shifted", "banana"),
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("limited", "logistic")),
    ],
)
def test_fitted_reference_sees_all_the_mass(kind):
    """Its draws' mean weight is Z, and the weights have no heavy tail."""
    few = replace(NORMAL, screened=(2**14, 2**14), halved=(2**14, 2**14))
    model, truth = {
        "gaussian": lambda: (quadratic(grad=slope), TRUTH),
        "heavy": lambda: (
            ev.DensityModel(lambda x: -2.0 * np.log1p(x * x).sum(axis=1), 2, vectorized=True),
            2.0 * np.log(np.pi / 2.0),
        ),
        "shifted": lambda: (
            ev.DensityModel(
                lambda x: -0.5 * ((x - 40.0) ** 2 / 9.0).sum(axis=1), 2, vectorized=True
            ),
            np.log(2.0 * np.pi * 9.0),
        ),
        "limited": lambda: limited()[:2],
        "banana": lambda: banana()[:2],
        "logistic": lambda: logistic()[:2],
    }[kind]()
    reference = fit_density(model, policy=few)
    assert reference.warnings == ()
    path = DensityPath(reference)
    z = np.random.default_rng(1).standard_normal((20_000, model.n))
    w = np.exp(path.log_z0 - truth + path.tilt(reference.mean + z @ reference.root.T))
    se = w.std() / np.sqrt(w.size)
    assert se < 0.05
    assert abs(w.mean() - 1.0) < 4.5 * se + 1e-9
    assert reference.logz == pytest.approx(truth, abs=0.2)
    if kind == "heavy":
        assert reference.tails > 0.0
    if kind == "gaussian":
        assert reference.tails == 0.0


def test_fits_are_the_same_each_time():
    """Alone, and beside another in threads."""
    few = EFFORTS["frugal"]
    first = fit_density(quadratic(grad=slope), policy=few)
    with ThreadPoolExecutor(2) as pool:
        for other in pool.map(lambda _: fit_density(quadratic(grad=slope), policy=few), range(2)):
            np.testing.assert_array_equal(first.mean, other.mean)
            np.testing.assert_array_equal(first.cov, other.cov)
            assert other.logz == first.logz


@pytest.mark.slow
def test_a_sampler_tells_where_to_begin():
    """Far from the origin and flat there: only the sampler's points find it."""

    def far(x):
        return np.where(
            (np.abs(x - 500.0) < 50.0).all(axis=1), -0.5 * ((x - 500.0) ** 2).sum(1), -np.inf
        )

    model = ev.DensityModel(
        far, 2, vectorized=True, sampler=lambda rng, m: 500.0 + 5.0 * rng.standard_normal((m, 2))
    )
    fit = fit_density(model)
    assert fit.logz == pytest.approx(np.log(2.0 * np.pi), abs=0.1)


@pytest.mark.parametrize("tails", [0.0, 0.05, 0.4])
def test_coordinates_and_density_of_a_reference(tails):
    """x there and back; draws with tails have the density that the change says."""
    reference = given(banana(), tails)
    y = reference.mean + np.random.default_rng(2).standard_normal((50, 2)) @ reference.root.T
    x = reference.to_model(y)
    np.testing.assert_allclose(reference.from_model(x), y, atol=1e-10)
    if tails == 0.0:
        np.testing.assert_array_equal(x, y)
    z = reference.standardise(y)
    exact = stats.multivariate_normal(reference.mean, reference.cov)
    np.testing.assert_allclose(reference.log_base(z), exact.logpdf(y), rtol=1e-10)
    np.testing.assert_allclose(reference.root @ reference.root.T, reference.cov, rtol=1e-10)
    np.testing.assert_allclose(reference.precision @ reference.cov, np.eye(2), atol=1e-10)
    np.testing.assert_allclose(reference.inverse_root @ reference.root, np.eye(2), atol=1e-10)
    far = reference.log_density.log(np.full((1, 2), 1e300))  # which is not a warning either
    assert not far > -700.0


def test_tails_are_as_heavy_as_said():
    """P(|x| > r) falls off as r^(-1/h): quantiles of draws against the formula."""
    h = 0.4
    model = ev.DensityModel(lambda x: -0.5 * x[:, 0] ** 2, 1, vectorized=True)
    reference = DensityReference("given", model, np.zeros(1), np.ones((1, 1)), 0.0, h)
    z = stats.norm.isf([1e-6, 1e-12])
    x = reference.to_model(z[:, None])[:, 0]
    np.testing.assert_allclose(x, z * np.exp(0.5 * h * z * z), rtol=1e-12)
    assert np.log(1e-6) / np.log(x[1] / x[0]) == pytest.approx(-1.0 / h, rel=0.15)


def test_identity_tells_references_apart():
    case = banana()
    a, b, c = given(case), given(case, 0.2), density_prior_reference(logistic().model)
    assert not all(np.array_equal(x, y) for x, y in zip(a.identity(), b.identity(), strict=True))
    assert len(c.identity()) == 3


def test_a_climb_within_a_shell_ends():
    """It took 660 steps, as did each of 20 others, and came to no mode: there was no answer."""
    model = random_density(1114).model
    start = starts(model, np.random.default_rng(0), 16)[0]
    calls = []

    def fall(x):
        calls.append(x)
        return _fall(model, x)

    _descend(model, fall, start, _Gaussians((), model.n))
    assert 250 < len(calls) < 450

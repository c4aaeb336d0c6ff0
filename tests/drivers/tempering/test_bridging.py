"""Estimators against a Gaussian family whose Z is known at every level.

q = N(0, I) in d dimensions and h = -|x - a|²/(2 s²), so p_β is Gaussian with precision
1 + β/s² and log Z_β = -d/2 log(1 + β/s²) - |a|²/2 · (β/s²)/(1 + β/s²).
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logsumexp

from evidence.drivers.tempering import bridging
from evidence.statistics import ladders

A, S, DIM = 1.5, 0.8, 3
METHODS = bridging.ESTIMATORS
BETAS = ladders.power(7, 2.0)


def log_z(beta):
    gain = beta / S**2
    return -0.5 * DIM * np.log1p(gain) - 0.5 * DIM * A**2 * gain / (1.0 + gain)


def tilts(rng, betas, chains, sweeps, rho=0.0, shared=0.0):
    """AR(1) chains at every level, stationary, with noise partly shared between levels."""
    precision = 1.0 + betas / S**2
    noise = rng.standard_normal((sweeps, chains, betas.size, DIM))
    common = rng.standard_normal((sweeps, chains, 1, DIM))
    noise = np.sqrt(1.0 - shared) * noise + np.sqrt(shared) * common
    z = noise.copy()
    for t in range(1, sweeps):
        z[t] = rho * z[t - 1] + np.sqrt(1.0 - rho**2) * noise[t]
    mean = (betas / S**2 * A / precision)[:, None]
    x = mean + z / np.sqrt(precision)[:, None]
    h = -np.sum((x - A) ** 2, axis=-1) / (2.0 * S**2)
    return h.transpose(1, 0, 2)


@pytest.mark.parametrize("steps", [pytest.param("power", marks=pytest.mark.slow), "linear"])
@pytest.mark.parametrize(
    ("rho", "shared"), [pytest.param(0.0, 0.0, marks=pytest.mark.slow), (0.6, 0.6)]
)
def test_standard_error_is_calibrated(steps, rho, shared):
    """RMS z over 100 replicates between 0.8 and 1.25.

    The RMS of 100 standard normals has sd 0.07: false alarm 4e-3 below and 2e-4 above for a
    perfect error bar, over the sources of randomness that the seed fixes.
    """
    rng = np.random.default_rng(1)
    betas = ladders.linear(24) if steps == "linear" else BETAS
    methods = [name for name in METHODS if (name == "thermodynamic") == (steps == "linear")]
    z = {name: [] for name in methods}
    for _ in range(100):
        h = tilts(rng, betas, 4, 150, rho, shared)
        for name in methods:
            found = METHODS[name](h, betas)
            z[name].append((found.delta - log_z(1.0)) / found.se)
    for name in methods:
        assert 0.8 < np.sqrt(np.mean(np.square(z[name]))) < 1.25, name


@pytest.mark.parametrize("method", METHODS)
def test_every_level(method):
    """Each level within 5 se of the truth, with the se of the last."""
    betas = ladders.linear(24) if method == "thermodynamic" else BETAS
    found = METHODS[method](tilts(np.random.default_rng(2), betas, 4, 1000), betas)
    assert found.levels[0] == 0.0
    assert found.levels[-1] == found.delta
    assert np.abs(found.levels - log_z(betas)).max() < 5 * found.se


@pytest.mark.parametrize("method", METHODS)
def test_influence_foretells_what_leaving_sweeps_out_does(method):
    """To first order, on a ladder so coarse that every term of each estimator counts."""
    betas = np.array([0.0, 0.3, 1.0])
    h = tilts(np.random.default_rng(3), betas, 4, 2000)
    h[:, ::20, 0] = -np.inf
    found = METHODS[method](h, betas)
    assert found.influence.shape == (4, 2000)
    assert abs(found.influence.mean()) < 1e-8
    for cut in range(3):
        out = np.s_[101 * cut : 101 * (cut + 1)]
        change = METHODS[method](np.delete(h, out, axis=1), betas).delta - found.delta
        foretold = np.delete(found.influence, out, axis=1).mean()
        assert change == pytest.approx(foretold, abs=0.03 * found.se)


def test_thermodynamic_integrates_cubics():
    """⟨h⟩ = 1 + 2β + β² + β³ and its derivative as the variance: the rule is then exact."""
    betas = np.array([0.0, 0.4, 1.0])
    mean = 1.0 + 2.0 * betas + betas**2 + betas**3
    sd = np.sqrt(2.0 + 2.0 * betas + 3.0 * betas**2)
    h = mean + np.array([1.0, -1.0] * 5)[None, :, None] * sd
    assert bridging.thermodynamic(h, betas).delta == pytest.approx(31.0 / 12.0)


def mbar_literally(h, betas, iterations=20_000):
    """Shirts and Chodera's equation 11, iterated."""
    n, f = h.shape[0] * h.shape[1], np.zeros(betas.size)
    u = h.reshape(-1, 1) * betas
    for _ in range(iterations):
        new = logsumexp(u - np.log(n) - logsumexp(u - f, axis=1, keepdims=True), axis=0)
        new = new - new[0]
        if np.abs(new - f).max() < 1e-13:
            break
        f = new
    return f


def test_mbar_is_its_equations():
    h = tilts(np.random.default_rng(3), BETAS, 2, 150)
    np.testing.assert_allclose(bridging.mbar(h, BETAS).levels, mbar_literally(h, BETAS), atol=1e-9)


@pytest.mark.parametrize("far", [3.0, 200.0, 1e4])
def test_mbar_descends_from_anywhere(far):
    """Each step lowers the convex function, Newton's or not, and they end at the solution."""
    h = tilts(np.random.default_rng(10), BETAS, 2, 100)
    sweeps = h.reshape(-1, BETAS.size)
    f = far * np.array([0.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0])
    now = bridging._mbar_objective(f, sweeps, BETAS)
    for _ in range(100):
        before = now.value
        f, now = bridging._descend(f, now, sweeps, BETAS)
        assert now.value <= before + 1e-9 * abs(before)
    np.testing.assert_allclose(f, bridging.mbar(h, BETAS).levels, atol=1e-8)


def test_mbar_of_two_levels_is_bennett():
    betas = np.array([0.0, 1.0])
    h = tilts(np.random.default_rng(4), betas, 4, 300, rho=0.3)
    one, two = bridging.mbar(h, betas), bridging.bennett(h, betas)
    assert one.delta == pytest.approx(two.delta, abs=1e-9)
    assert one.se == pytest.approx(two.se, rel=1e-6)
    u, c = h, two.delta
    assert expit(u[..., 0] - c).sum() == pytest.approx(expit(c - u[..., 1]).sum(), rel=1e-9)


def test_small_blocks_change_nothing(monkeypatch):
    h = tilts(np.random.default_rng(5), BETAS, 2, 101)
    whole = bridging.mbar(h, BETAS)
    monkeypatch.setattr(bridging, "_BLOCK", 640)
    parts = bridging.mbar(h, BETAS)
    np.testing.assert_allclose(parts.levels, whole.levels, atol=1e-12)
    np.testing.assert_allclose(parts.influence, whole.influence, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shift", [-5e3, 5e3])
def test_large_tilts(method, shift):
    """A constant added to h is added to log Z, however large."""
    betas = ladders.linear(24)
    h = tilts(np.random.default_rng(6), betas, 3, 200)
    plain, far = METHODS[method](h, betas), METHODS[method](h + shift, betas)
    assert far.delta - shift == pytest.approx(plain.delta, abs=1e-7)
    assert far.se == pytest.approx(plain.se, rel=1e-5)


@pytest.mark.parametrize("method", ["up", "bennett", "mbar"])
def test_hopeless_draws_of_the_reference(method):
    """What lies far outside at β = 0 weighs nothing, be it -1e6, -1e250 or -inf."""
    h = tilts(np.random.default_rng(9), BETAS, 3, 200)
    found = []
    for far in (-1e6, -1e250, -np.inf):
        h[0, ::2, 0] = far
        found.append(METHODS[method](h, BETAS))
    for other in found[1:]:
        assert other.delta == pytest.approx(found[0].delta, abs=1e-9)
        assert other.se == pytest.approx(found[0].se, rel=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_outside_the_support(method):
    """q uniform on (0, 1) and h = 0 up to 1/4, -inf beyond: Z_β = 1/4 for β > 0, exactly so but
    for the share of q's draws inside. 4.5 se: false alarm 7e-6."""
    rng = np.random.default_rng(7)
    betas = np.array([0.0, 0.5, 1.0])
    h = np.zeros((4, 500, 3))
    h[..., 0] = np.where(rng.random((4, 500)) < 0.25, 0.0, -np.inf)
    found = METHODS[method](h, betas)
    assert abs(found.delta - np.log(0.25)) < 4.5 * found.se
    assert found.se < 0.06
    assert found.levels[2] == pytest.approx(found.levels[1], abs=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_flat_tilts_are_exact(method):
    found = METHODS[method](np.full((2, 10, 3), -3.0), [0.0, 0.5, 1.0])
    assert found.delta == pytest.approx(-3.0, abs=1e-9)
    assert found.se == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_hopeless_samples_say_so(method):
    """A broken level, no overlap and too few sweeps end in no error bar, or an enormous one."""
    rng = np.random.default_rng(8)
    betas = np.array([0.0, 0.5, 1.0])
    broken = rng.standard_normal((2, 20, 3))
    broken[0, :, 2] = -np.inf
    found = METHODS[method](broken, betas)
    assert np.isfinite(found.delta) or np.isnan(found.se)
    apart = np.array([-1e5, 0.0, 1e5]) + rng.standard_normal((2, 20, 3))
    assert np.isfinite(METHODS[method](apart, betas).delta)
    assert np.isnan(METHODS[method](rng.standard_normal((1, 3, 3)), betas).se)
    assert METHODS[method](rng.standard_normal((3, 2, 3)), betas).se > 0.0


def test_bad_input():
    h = np.zeros((2, 5, 3))
    with pytest.raises(ValueError, match=r"shape \(chains, sweeps, 2\)"):
        bridging.mbar(h, [0.0, 1.0])
    with pytest.raises(ValueError, match="NaN or inf"):
        bridging.bennett(np.full((2, 5, 2), np.nan), [0.0, 1.0])

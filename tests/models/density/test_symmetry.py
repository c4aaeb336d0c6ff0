"""Angles that close and labels that may be swapped: charts, and evidences they leave alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import ive, logsumexp, ndtr, ndtri

import evidence as ev
from evidence.approximations.density.blend import Blend
from evidence.approximations.density.modes import climb
from evidence.models.density.symmetry import Chart
from evidence.numerics.arrays import Array

TURN = stats.uniform(0.0, 2.0 * np.pi)
PAIR = np.array([[0, 1], [2, 3]])


def chart(cut=(0.3,)):
    """Two labels of two coordinates, and one angle."""
    return Chart(np.array([4]), PAIR, np.array(cut))


def test_a_chart_is_a_change_of_coordinates():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((50, 5))
    y = chart().inward(z)
    assert (y[:, 0] <= y[:, 2]).all()
    np.testing.assert_allclose(ndtr(y[:, 4]), (ndtr(z[:, 4]) - 0.3) % 1.0)
    back = chart().outward(y, rng)
    swapped = back[:, [2, 3, 0, 1, 4]]
    same = np.isclose(back, z).all(axis=1)
    assert 0 < same.sum() < 50  # labels come in any order
    assert (same | np.isclose(swapped, z).all(axis=1)).all()
    images = np.stack(chart().images(z))
    assert np.isclose(images, y).all(axis=2).any(axis=0).all()


def test_gaussians_in_a_chart_keep_their_shape():
    """Against differences of the change of coordinates."""
    z, cov = np.array([1.0, 0.2, -0.5, 0.4, 1.2]), np.diag([0.1, 0.2, 0.3, 0.4, 0.5]) + 0.05
    y, inner = chart().placed(z, cov)
    np.testing.assert_allclose(y, chart().inward(z[None])[0])
    h = 1e-6 * np.eye(5)
    J = (chart().inward(z + h) - chart().inward(z - h)).T / 2e-6
    np.testing.assert_allclose(inner, J @ cov @ J.T, rtol=1e-6)
    found = chart().everywhere(y, inner)
    assert len(found) == 2
    assert any(np.allclose(mean, z) and np.allclose(own, cov) for mean, own in found)


def test_a_proposal_in_a_chart_is_normalised_and_symmetric():
    """Its ratio to the prior has mean one under the prior: 100,000 draws."""
    model = ev.DensityModel(lambda x: np.zeros(len(x)), prior=[stats.norm()] * 5, vectorized=True)
    rng = np.random.default_rng(1)
    cov = np.diag([0.5, 0.6, 0.4, 0.7, 0.3])
    mean = np.array([[-0.5, 0.0, 0.5, 0.3, 0.2]])
    blend = Blend(model, np.ones(1), mean, cov[None], chart=chart())
    z = rng.standard_normal((100_000, 5))
    ratio = np.exp(blend.log_ratio(z))
    assert abs(ratio.mean() - 1.0) < 4.0 * ratio.std() / np.sqrt(len(z))
    np.testing.assert_allclose(ratio, np.exp(blend.log_ratio(z[:, [2, 3, 0, 1, 4]])))
    drawn = blend.draw(rng, 100_000)
    weight = np.exp(-blend.log_ratio(drawn))
    assert abs(weight.mean() - 1.0) < 4.0 * weight.std() / np.sqrt(len(z))
    for f in (lambda z: z[:, 0] * z[:, 1], lambda z: ndtr(z[:, 4]) < 0.4, lambda z: z[:, 3] > 0.5):
        one, other = f(drawn) * weight, f(z)
        gap = abs(one.mean() - other.mean())
        assert gap < 4.0 * np.hypot(one.std(), other.std()) / np.sqrt(len(z))


def test_angles_are_cut_where_little_is():
    rng = np.random.default_rng(2)
    z = rng.standard_normal((2000, 1))
    z = z[np.abs(ndtr(z[:, 0]) - 0.5) > 0.3]  # around both ends
    angle = Chart(np.array([0]), cut=np.zeros(1))
    found = angle.recut(z, np.ones(len(z)))
    assert 0.2 < found.cut[0] < 0.8
    assert found.recut(z, np.ones(len(z))) is found
    assert np.abs(found.inward(z)).max() < 1.6


def von_mises(x: Array, kappa: float = 40.0) -> Array:
    return kappa * np.cos(x - np.array([0.02, 3.0, 6.2])).sum(axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("vectorized", [True, False])
def test_modes_at_the_ends_of_a_turn(vectorized):
    """Eight pieces without the name of an angle, one with it."""
    f = von_mises if vectorized else lambda x: float(von_mises(x[None])[0])
    truth = 3.0 * (np.log(ive(0, 40.0)) + 40.0)
    model = ev.DensityModel(
        f, prior=dict.fromkeys("abc", TURN), periodic="abc", vectorized=vectorized
    )
    few = {"effort": "frugal", "target_se": 0.02}
    result = ev.log_evidence(model, random_seed=0, progressbar=False, **few)
    assert abs(result.logz - truth) < 4.5 * result.logz_se < 0.1
    assert not result.warnings
    assert not len(result.components)
    split = np.cos(result.samples[:, 0] - 0.02)
    assert split.mean() == pytest.approx(ive(1, 40.0) / ive(0, 40.0), abs=0.008)


def mixture(x: Array) -> Array:
    """60 data of three clusters, given their centres."""
    y = np.random.default_rng(0).normal(0.0, 0.5, 60) + np.repeat([-2.0, 0.5, 3.0], 20)
    return logsumexp(stats.norm.logpdf(y[:, None], x[:, None, :], 0.5), 2, b=1.0 / 3.0).sum(axis=1)


def test_labels_that_may_be_swapped():
    """One mode of six is looked for; draws come with labels in any order."""
    prior = dict.fromkeys(("m1", "m2", "m3"), stats.norm(0.0, 5.0))
    plain = ev.DensityModel(mixture, prior=prior, vectorized=True)
    model = ev.DensityModel(mixture, prior=prior, vectorized=True, exchangeable=["m1", "m2", "m3"])
    few = {"effort": "frugal", "random_seed": 0, "progressbar": False}
    one, two = (ev.log_evidence(m, target_se=0.02, **few) for m in (plain, model))
    assert abs(one.logz - two.logz) < 4.5 * np.hypot(one.logz_se, two.logz_se) < 0.2
    assert not len(two.components)
    first = np.argsort(two.samples, axis=1)[:, 0]
    assert np.bincount(first, minlength=3).min() > 0.25 * len(first)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"periodic": ["b"]}, "not the same at both ends of b"),
        ({"periodic": ["nope"]}, "periodic names no parameter"),
        ({"exchangeable": ["a"]}, "from 2 to 5 labels"),
        ({"exchangeable": [("a", "b"), ("c",)]}, "as many parameters each"),
        ({"exchangeable": ["a", "a"]}, "may stand there once"),
        ({"exchangeable": ["a", "b"]}, "changes when labels do"),
    ],
)
def test_symmetries_that_are_none(told, message):
    def f(x):
        return np.cos(x[:, 0]) - (x[:, 1] - 0.1) ** 2

    with pytest.raises(ev.InputError, match=message):
        ev.DensityModel(f, prior=dict.fromkeys("abc", TURN), vectorized=True, **told)


def test_symmetries_need_a_prior():
    with pytest.raises(ev.InputError, match="needs a prior"):
        ev.DensityModel(lambda x: -x @ x, dim=2, periodic=["x[0]"])


def test_symmetries_are_shown_by_few_calls():
    """Of five labels 120 orders need not be tried: neighbours that are swapped make them all."""
    calls = []

    def f(x):
        calls.append(x)
        return -0.5 * float(x @ x)

    prior = dict.fromkeys("abcde", stats.norm())
    ev.DensityModel(f, prior=prior)
    plain = len(calls)
    ev.DensityModel(f, prior=prior, exchangeable=list("abcde"))
    assert len(calls) - 2 * plain == 4 * 5


def test_a_climb_goes_on_beyond_the_end_of_an_angle():
    """From the low end of two turns, to a peak at their high ends."""

    def log_likelihood(p):
        return 400.0 * float(np.cos(p - 2.0 * np.pi * 0.97).sum() - 2.0)

    model = ev.DensityModel(
        log_likelihood, prior_transform=lambda u: 2.0 * np.pi * u, names=["a", "b"],
        periodic=["a", "b"],
    )  # fmt: skip
    found = climb(model, ndtri([0.06, 0.04]), ())
    np.testing.assert_allclose(ndtr(found.x), 0.97, atol=0.01)
    middle = np.array([0.5, -0.5])
    assert model.chart.across(middle) is None
    np.testing.assert_array_equal(model.chart.across(np.array([2.0, 0.3])), [-2.0, 0.3])

"""Weights against the sums that define them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from evidence.statistics.resampling import SCHEMES
from evidence.statistics.weights import (
    Weights,
    incremental,
    variance_in_order,
    variance_of_ends,
)


def test_batches_are_as_good_as_all_at_once():
    """Batches whose largest weight rises by 300 nats, by 3 and not at all."""
    rng = np.random.default_rng(12)
    batches = [rng.normal(centre, 2.0, 50) for centre in (-900.0, -602.0, -599.0, -610.0)]
    weights = Weights()
    for batch in batches:
        weights.add(batch)
    together = np.concatenate(batches)
    relative = np.exp(together - together.max())
    se = relative.std(ddof=1) / relative.mean() / np.sqrt(together.size)
    np.testing.assert_allclose(weights.log_mean, logsumexp(together) - np.log(together.size))
    np.testing.assert_allclose([weights.se, weights.log_sd], [se, together.std(ddof=1)])
    ess = relative.sum() ** 2 / np.sum(relative**2) / relative.size
    np.testing.assert_allclose(weights.ess, ess)
    np.testing.assert_allclose(Weights(together).ess, ess)
    np.testing.assert_allclose(incremental(together / 2.0, 2.0).ess, ess)


@pytest.mark.interpreted
def test_rounds_are_averaged():
    """Against one long list of particles, weights R_t/(R_t + R) and R/(R_t + R) in turn."""
    rng = np.random.default_rng(12)
    log_w = rng.normal(size=(3, 2, 5))
    weights, w, total = None, np.empty(0), 0
    for batch in log_w:
        if weights is None:
            weights = Weights(batch)
        else:
            weights.add(batch)
        w = np.append(w * total / (total + 5), np.exp(batch[1]) * 5 / (total + 5))
        total += 5
    assert weights.log_mean[1] == pytest.approx(np.log(w.sum() / 5))
    assert weights.ess[1] * weights.count[1] == pytest.approx(w.sum() ** 2 / np.sum(w**2))
    chosen = np.array([False, True])
    index = weights.resample(chosen, "systematic", np.random.default_rng(13))
    expected = SCHEMES["systematic"](w, np.random.default_rng(13), 5)
    assert index[0].tolist() == list(range(5))
    assert (index[1] - 5).tolist() == (expected + 5 * (expected // 5)).tolist()


def test_a_round_for_some_islands_only():
    """Rows count batches, then islands, then particles; the others take none of it."""
    weights = Weights(np.log([[1.0, 1.0], [1e-9, 1e-9], [1.0, 3.0]]))
    weights.add(np.log([[1.0, 1.0], [1.0, 1.0]]), np.array([1, 2]))
    assert weights.count.tolist() == [2, 4, 4]
    np.testing.assert_allclose(np.exp(weights.log_mean), [1.0, 0.5, 1.5])
    np.testing.assert_allclose(np.exp(weights.normalised[0]), [1.0, 1.0])
    rng = np.random.default_rng(0)
    index = weights.resample(np.ones(3, bool), "systematic", rng)
    assert index[0].tolist() == [0, 1]
    assert index[1].tolist() == [6, 7]
    assert set(index[2]) <= {4, 5, 8, 9}


@pytest.mark.interpreted
def test_islands_without_any_weight():
    """Ẑ = 0 for good, an ESS of zero, and the others do not notice."""
    weights = Weights(np.array([[-np.inf] * 3, [-1.0, -2.0, -np.inf]]))
    assert weights.log_mean[0] == -np.inf
    assert weights.ess[0] == 0.0
    assert weights.ess[1] > 1.0 / 3.0
    index = weights.resample(np.array([True, True]), "residual", np.random.default_rng(14))
    assert index[0].tolist() == [0, 1, 2]
    assert set(index[1]) <= {3, 4}
    assert not np.isnan(weights.normalised).any()
    weights.add(np.full((1, 3), -900.0), [0])
    assert weights.log_mean[0] == pytest.approx(-900.0 - np.log(2.0))


@pytest.mark.parametrize(("shape", "trusted"), [(0.2, True), (0.4, True), (1.0, False)])
def test_pareto_weights_are_recognised(shape, trusted):
    """The fit's standard error is about (1 + k)/√300: 4 of them."""
    log_w = shape * np.random.default_rng(15).standard_exponential(10_000)
    weights = Weights(log_w)
    assert abs(weights.shape - shape) < 4.0 * (1.0 + shape) / 17.0
    assert [warning.code for warning in weights.complaints()] == ["heavy-tail"] * (not trusted)


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("n", "tail", "limit"), [(100, 0.65, 0.5), (100, 0.35, 0.5), (100_000, 0.75, 0.7)]
)
def test_fewer_weights_bear_less_of_a_tail(n, tail, limit):
    """Pareto's k may be 1 - 1/log10 n and 0.7 at most: weights that are its quantiles."""
    weights = Weights(-tail * np.log((np.arange(n) + 0.5) / n))
    k = weights.shape  # drawn to 1/2
    said = " ".join(str(complaint) for complaint in weights.complaints())
    assert ("Pareto k" in said) == (k > limit)
    assert (k > limit) == (tail > limit)


@pytest.mark.interpreted
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_ends_of_evenly_spread_draws_make_the_error_of_a_logarithm(sign):
    """300 means of log u at one u in each of 256 cells: the ratio is 1.5 ± 0.2 over seeds."""
    rng = np.random.default_rng(0)
    w = 30.0 + sign * np.log((np.arange(256) + rng.random((300, 256))) / 256)
    told = np.mean([variance_of_ends(one) for one in w])
    assert 0.8 < told / np.var(w.mean(axis=1) / w.mean()) < 2.2
    assert variance_of_ends(w[0, :3]) == 0.0


@pytest.mark.parametrize("between", [0.0, 1.0])
def test_variance_in_order_is_that_of_means(between):
    """Four strata whose means differ are drawn in turn: their borders add an eighth, where the
    plain variance is twenty times too large."""
    n, islands = 256, 2000
    rng = np.random.default_rng(0)
    level = between * np.linspace(0.0, 2.0, 4).repeat(n // 4)
    w = 1.0 + level + 0.5 * rng.random((islands, n))
    told = np.mean([variance_in_order(one) for one in w])
    assert told == pytest.approx(np.var(w.mean(axis=1)) / w.mean() ** 2, rel=0.1 + 0.1 * between)
    plain = np.mean(w.var(axis=1) / n / w.mean(axis=1) ** 2)
    assert between == 0.0 or plain > 10.0 * told


def test_weights_that_are_all_zero_have_the_heaviest_tail():
    assert Weights(np.full(100, -np.inf)).shape == np.inf

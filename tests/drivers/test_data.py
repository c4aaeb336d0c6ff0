from __future__ import annotations

from functools import cache, partial

import numpy as np
import pytest
from covering import covering, seldom
from problems import covariance, exact_draws, log_z_by_quadrature, small_model
from scipy.integrate import quad
from scipy.special import log_ndtr
from scipy.stats import multivariate_normal, norm

import evidence as ev
from evidence.approximations.reference import prior_reference
from evidence.drivers.data import Front, Sequential, ordering, prepare
from evidence.execution.clock import Stopped
from evidence.statistics.diagnostics import log_mean
from evidence.statistics.resampling import SCHEMES

SEED = np.random.SeedSequence
STRONG = np.array([1.0, -1.0, -1.0, 1.0])


@cache
def four():
    """Strong correlations against the labels, and log Z from SciPy's integral."""
    model = ev.GPModel(K=covariance(4, scale=8.0), y=STRONG, mean=[0.5, 0.3, -0.2, -1.0])
    cov = (model.K + np.eye(4)) * np.outer(STRONG, STRONG)
    value = multivariate_normal.cdf(
        STRONG * model.mean, cov=cov, maxpts=10**6, abseps=1e-9, releps=1e-8, rng=0
    )
    return model, float(np.log(value))


class EveryTime(Sequential):
    """Sweeps all islands after each datum."""

    def move_all(self, population, stage, poor):
        return super().move_all(population, stage, np.ones_like(poor))


def run_sequential(
    model, n_islands, n_particles, seed, *stop, order="tail", adaptive=False, every=False, **more
):  # fmt: skip
    more = {"i_max": 50 if adaptive else 0} | more
    if more.get("particles") is not None:
        more["particles"] = np.array(more["particles"])
    prepared = prepare(model, order, np.random.default_rng(0))
    loop = (EveryTime if every else Sequential)(prepared, **more)
    return loop.run(n_islands, n_particles, seed, *stop)


def close(islands, truth, slack=0.0, sds=4.5):
    """log Z within 4.5 se: false alarm 7e-6."""
    found = log_mean(islands.log_z[-1])
    assert abs(found.value - truth) < slack + sds * found.se, (found, truth)
    return found


# -- log Z -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "resampling"),
    [*zip(["given", "random", "tail", [2, 0, 3, 1]], SCHEMES, strict=True)],
)
def test_unbiased(order, resampling):
    """2,000 islands of 4 particles that resample and sweep nearly always."""
    model, truth = four()
    run = partial(run_sequential, model, 2000, 4, SEED(1), order=order, resampling=resampling)
    assert close(run(threshold=0.98, every=True), truth).se < 0.02


@pytest.mark.parametrize(
    ("threshold", "sweeps", "every"), covering([0.0, 0.7, 1.0], [1, 2], [False, True])
)
def test_unbiased_whenever_there_are_moves(threshold, sweeps, every):
    model, truth = four()
    islands = run_sequential(
        model, 1500, 5, SEED(2), order="given", threshold=threshold, sweeps=sweeps,
        every=every,
    )  # fmt: skip
    close(islands, truth)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_unbiased_in_small_dimensions(n):
    model = small_model("probit", n)
    islands = run_sequential(model, 1000, 4, SEED(3), order="given", every=True)
    close(islands, log_z_by_quadrature(model), slack=1e-9)


def equicorrelated(y, mean, rho, rest):
    """A model with K = rho 1 1ᵀ + rest I, and log Z by one-dimensional quadrature."""
    n = len(y)
    model = ev.GPModel(K=rho * np.ones((n, n)) + rest * np.eye(n), y=y, mean=mean)

    def given(s):
        c = (model.mean + np.sqrt(rho) * s) / np.sqrt(1.0 + rest)
        return np.exp(np.sum(log_ndtr(y * c)) + 20.0) * norm.pdf(s)

    return model, np.log(quad(given, -8.0, 8.0, epsabs=1e-12, limit=500)[0]) - 20.0


@pytest.mark.parametrize(
    ("order", "adaptive"),
    seldom([("given", False), ("random", True), ("tail", True), ("tail", False)], 0, 1),
)
def test_equicorrelated(order, adaptive):
    """N = 40: more coordinates than a block. Adaptive: slack 0.02."""
    y = np.where(np.arange(40) % 4 == 0, -1.0, 1.0)
    model, truth = equicorrelated(y, 0.3, 3.0, 0.5)
    islands = run_sequential(
        model, 200, 32, SEED(4), order=order, adaptive=adaptive, every=not adaptive
    )
    assert close(islands, truth, slack=0.02 * adaptive).se < 0.05


@pytest.mark.parametrize(
    ("particles", "threshold"), [(None, 0.7), ([8, 24, 16], 0.0), ([8, 8, 24], 0.7)]
)
def test_particles_keep_what_is_theirs(particles, threshold):
    """Three utilities that agree to one part in 100: one sweep repairs neither a wrong
    prediction nor a wrong weight."""
    model, truth = equicorrelated(np.ones(3), [0.0, -100.0, -150.0], 1e4, 0.1)
    islands = run_sequential(
        model, 1000, 8, SEED(21), order="given", particles=particles, threshold=threshold
    )
    assert close(islands, truth).se < 0.05


def test_against_minimax_tilting():
    model = ev.GPModel(
        K=covariance(60, scale=30.0, length=4.0), y=np.resize([1.0, 1, -1, -1, 1], 60)
    )
    truth = ev.log_orthant(model.K + np.eye(60), model.y, n_draws=5_000, random_seed=5)
    assert truth.se < 0.02
    found = close(run_sequential(model, 100, 64, SEED(5)), truth.logp, slack=4.5 * truth.se)
    assert found.se < 0.05


@pytest.mark.parametrize("order", ["given", "tail"])
def test_adaptive_bias_is_small(order):
    """Stopping on the ESS biases Ẑ by order 1/R: with R = 64 by less than 0.02 + 4.5 se."""
    model, truth = four()
    islands = run_sequential(model, 300, 64, SEED(6), order=order, adaptive=True, threshold=0.95)
    assert islands.particles.max() > 1.2 * 64
    assert close(islands, truth, slack=0.02).se < 0.01


@pytest.mark.parametrize(("order", "threshold"), [("given", 0.0), ("tail", 0.7), ("given", 1.0)])
def test_unbiased_with_fixed_numbers(order, threshold):
    """Weights are carried into the third step, where there are copies."""
    model, truth = four()
    islands = run_sequential(
        model, 2000, 4, SEED(20), order=order, particles=[4, 4, 13, 6], threshold=threshold
    )
    close(islands, truth)
    assert islands.particles.tolist() == [4.0, 4.0, 12.0, 8.0]


def test_every_stage_is_an_evidence():
    """log Ẑ after t data is that of the model of these data; t = 1 exactly."""
    model, _ = four()
    order = [3, 1, 0, 2]
    islands = run_sequential(model, 2000, 8, SEED(7), order=order)
    for t in (1, 2, 3):
        first = np.array(order[:t])
        part = ev.GPModel(
            K=model.K[np.ix_(first, first)], y=model.y[first], mean=model.mean[first]
        )
        found = log_mean(islands.log_z[t - 1])
        assert abs(found.value - log_z_by_quadrature(part)) < 4.5 * found.se + 1e-8


# -- draws -------------------------------------------------------------------------------------


@pytest.mark.parametrize("adaptive", [pytest.param(False, marks=pytest.mark.slow), True])
def test_draws_come_from_the_posterior(adaptive):
    """Weighted by Ẑ, against rejection from the prior: mean and square within 5 se (2e-5)."""
    model, _ = four()
    path = ev.Path(prior_reference(model))
    exact = exact_draws(np.random.default_rng(8), path.reference, 1.0, 20_000)
    islands = run_sequential(model, 500, 32, SEED(8), order=[1, 3, 2, 0], adaptive=adaptive)
    assert islands.draws.shape == (500, 32, 4)
    weights = np.exp(islands.log_z[-1] - islands.log_z[-1].max())
    weights /= weights.sum()
    for power in (1, 2):
        per_island = (islands.draws**power).mean(axis=1)
        mean = weights @ per_island
        truth = exact**power
        var = weights**2 @ (per_island - mean) ** 2 + truth.var(axis=0) / len(exact)
        assert (np.abs(mean - truth.mean(axis=0)) < 5 * np.sqrt(var)).all()


# -- the algorithm -----------------------------------------------------------------------------


def front(model, g, m, seed):
    rng = np.random.default_rng(seed)
    return Front(rng, np.zeros((g, m)), np.zeros(g), prepared=prepare(model, "tail"))


@pytest.mark.interpreted
def test_factors_grow_into_those_of_the_whole():
    """P and the predictive moments against Schur complements, at every size."""
    model = small_model("probit", 6)
    population = front(model, 1, 3, 9)
    order = population.prepared.order
    y = model.y[order]
    cov = (model.K + np.eye(6))[np.ix_(order, order)] * np.outer(y, y)
    for t in range(6):
        log_w = population.predict(population.present)
        weights = np.linalg.solve(cov[:t, :t], cov[:t, t]) if t else np.empty(0)
        mean, sd = weights @ population.present, np.sqrt(cov[t, t] - weights @ cov[:t, t])
        np.testing.assert_allclose(population.means[0], mean, atol=1e-12)
        bound = -y[t] * model.mean[order[t]]
        np.testing.assert_allclose(log_w[0], norm.logsf(bound, mean, sd), rtol=1e-10)
        population.extend()
        assert (population.r[t] > bound).all()
        if t != 2:  # a stage without a sweep is caught up with
            population.sweep(population.present, 1)
            precision = np.linalg.inv(cov[: t + 1, : t + 1])
            grown = population._precision[: t + 1, : t + 1]
            np.testing.assert_allclose(grown, precision, atol=1e-12)


@pytest.mark.interpreted
def test_islands_at_rest_stay_as_they_are():
    """Against the same front with the same random numbers, extended and not swept."""
    moving = np.array([True, False, True, False])
    loop = Sequential(prepare(small_model("probit", 5), "tail"), sweeps=2)
    swept, still = (front(small_model("probit", 5), 4, 3, 22) for _ in range(2))
    for t in range(5):
        for population in (swept, still):
            population.predict(population.present)
            population.infos.clear()
            moved = moving if t == 4 and population is swept else np.zeros(4, bool)
            loop.move_all(population, t, moved)
    assert [info.gradients for info in swept.infos] == [0, 2 * 6]
    after, before = swept.r.reshape(5, 4, 3), still.r.reshape(5, 4, 3)
    np.testing.assert_array_equal((after != before).all(axis=(0, 2)), moving)
    np.testing.assert_array_equal(after[:, ~moving], before[:, ~moving])


@pytest.mark.interpreted
@pytest.mark.parametrize("adaptive", [False, True])
def test_same_seed_same_islands(adaptive):
    model = small_model("probit", 6)
    run = partial(run_sequential, model, 3, 8, adaptive=adaptive, order="random")
    one, two, other = run(SEED(10)), run(SEED(10)), run(SEED(11))
    for name in set(one._fields) - {"seconds"}:
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert not np.isin(one.log_z[-1], other.log_z[-1]).any()


def test_particles_grow_with_the_threshold_up_to_the_limit():
    model, _ = four()
    run = partial(run_sequential, model, 20, 8, SEED(13), order="given", adaptive=True)
    grown = [run(threshold=th).particles for th in (0.0, 0.7, 0.95)]
    assert grown[0].tolist() == [8.0] * 4
    assert grown[1].mean() < grown[2].mean()
    assert run(threshold=1.0, i_max=0).particles.tolist() == [8.0] * 4
    contrary = ev.GPModel(K=1e4 * np.ones((2, 2)) + 0.01 * np.eye(2), y=[1.0, -1.0])
    full = run_sequential(contrary, 20, 8, SEED(13), adaptive=True, i_max=3)
    assert full.particles.tolist() == [8.0, 32.0]  # the first weight is the same for all


def test_what_is_reported():
    model, _ = four()
    islands = run_sequential(model, 3, 8, SEED(14), order="given", every=True, threshold=0.0)
    assert islands.log_z.shape == (4, 3)
    assert islands.draws.shape == (3, 8, 4)
    assert islands.gradients.tolist() == [24, 24, 24, 24]
    assert islands.acceptance.tolist() == [1.0] * 4
    assert islands.failures.tolist() == [0] * 4
    assert islands.ess[0] == pytest.approx(1.0)
    assert np.isnan(islands.mixing).all()
    assert np.isnan(islands.variance).all()


def test_labels_against_a_huge_prior():
    """K up to 1e8 and a mean on the wrong side: finite, and every utility has its label's sign."""
    t = np.linspace(0.0, 3.0, 40)
    K = 1e8 * np.exp(-0.5 * (t[:, None] - t) ** 2)
    y = np.repeat([1.0, -1.0], 20)
    model = ev.GPModel(K=K, y=y, mean=-60.0 * y, jitter=1e-8)
    for adaptive in (False, True):
        islands = run_sequential(model, 4, 16, SEED(15), adaptive=adaptive)
        assert np.isfinite(islands.log_z).all()
        assert np.mean(islands.draws * y > 0.0) > 0.9


def test_stop():
    model, _ = four()
    calls = iter([False, False, True])
    with pytest.raises(Stopped):
        run_sequential(model, 2, 4, SEED(16), lambda: next(calls))


# -- orderings ---------------------------------------------------------------------------------


@pytest.mark.interpreted
def test_orderings():
    model = small_model("probit", 12)
    assert ordering(model, "given").tolist() == list(range(12))
    one, two = (ordering(model, "random", np.random.default_rng(k)) for k in (0, 1))
    assert sorted(one.tolist()) == sorted(two.tolist()) == list(range(12))
    assert one.tolist() != two.tolist()
    assert ordering(model, one).tolist() == one.tolist()


@pytest.mark.interpreted
def test_smallest_tail_first():
    """Against conditional means and variances computed afresh for every candidate."""
    model = small_model("probit", 7)
    cov, y = model.K + np.eye(7), model.y
    order, expected = [], []
    for _ in range(7):
        best = {}
        for i in set(range(7)) - set(order):
            w = np.linalg.solve(cov[np.ix_(order, order)], cov[order, i]) if order else np.zeros(0)
            mean = model.mean[i] + w @ (np.array(expected) - model.mean[order])
            sd = np.sqrt(cov[i, i] - w @ cov[order, i])
            tail = norm.cdf(y[i] * mean / sd)
            best[i] = tail, mean + sd * y[i] * norm.pdf(mean / sd) / tail
        i = min(best, key=lambda k: best[k][0])
        order.append(i)
        expected.append(best[i][1])
    assert ordering(model, "tail").tolist() == order


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("backwards", "order must be one of given, random, tail .*got 'backwards'"),
        ([0, 1, 1, 3], r"permutation of 0, …, 3 \(each number once\)"),
        ([0, 1, 2], r"got an array of shape \(3,\)"),
    ],
)
def test_bad_orders(order, message):
    with pytest.raises(ValueError, match=message):
        run_sequential(four()[0], 2, 4, SEED(17), order=order)

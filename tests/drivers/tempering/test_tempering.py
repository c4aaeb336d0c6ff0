from __future__ import annotations

import numpy as np
import pytest
from problems import LIKELIHOODS, exact_draws, log_z_by_quadrature, small_model

import evidence as ev
from evidence.approximations.reference import prior_reference
from evidence.drivers.tempering import bridging, segments, tuning
from evidence.drivers.tempering import ensemble as tempering
from evidence.drivers.tempering.ensemble import run_segment
from evidence.drivers.tempering.segments import Schedule
from evidence.drivers.tempering.tuning import tune
from evidence.execution.clock import Stopped
from evidence.moves import PCN, EllipticalSlice, MGrad, ProbitGibbs
from evidence.statistics import ladders
from evidence.statistics.diagnostics import ess

SEED = np.random.SeedSequence
ESTIMATORS = bridging.ESTIMATORS


def never():
    return False


def from_prior(likelihood, n=3):
    return ev.Path(prior_reference(small_model(likelihood, n)))


@pytest.mark.parametrize(
    ("likelihood", "reference"),
    [*zip(LIKELIHOODS, ["ep", "prior"] * 3, strict=True), ("probit", "prior")],
)
def test_log_z(likelihood, reference):
    """Every estimator within 4 se of quadrature: false alarm 6e-5 each, 2e-3 for all 35.

    From the prior, the trapezium rule is allowed its own error on this ladder.
    """
    model = small_model(likelihood)
    path = ev.Path(ev.fit_ep(model) if reference == "ep" else prior_reference(model))
    betas = ladders.power(3 if reference == "ep" else 8, 2.0)
    schedule = Schedule(betas, np.full(betas.size, 1.0))
    found = run_segment(path, MGrad(), schedule, None, 80, SEED(1), never, n_ensembles=60)
    h, truth = found.tilt[:, 10:], log_z_by_quadrature(model) - path.log_z0
    for name, estimate in ESTIMATORS.items():
        got = estimate(h, betas)
        assert abs(got.delta - truth) < 4 * got.se + 1e-7 + _bias(name, reference), (name, got)
        assert got.se < 0.06


def _bias(name, reference):
    return 0.01 if name == "thermodynamic" and reference == "prior" else 0.0


@pytest.mark.parametrize(
    ("move", "reversible"),
    [(MGrad(), False), (PCN(), True), (EllipticalSlice(), False)],
    ids=["mgrad", "pcn reversible", "elliptical"],
)
def test_every_level_keeps_its_distribution(move, reversible):
    """Tilts of each level, mean and share above the median, against 4,000 exact draws of each.

    4.5 se on both sides' noise: false alarm 7e-6 for each of the 30 numbers. A swap whose ratio
    has the wrong sign misses by tens of se.
    """
    path = from_prior("poisson(exposure=1.5)", 2)
    betas = np.array([0.0, 0.1, 0.3, 0.6, 1.0])
    rng = np.random.default_rng(2)
    exact = [exact_draws(rng, path.reference, beta, 4000) for beta in betas]
    x = np.array([draws[:200] for draws in exact])
    found = run_segment(
        path,
        move,
        Schedule(betas, np.full(5, 0.5)),
        x,
        60,
        SEED(3),
        never,
        explore=1,
        reversible=reversible,
    )
    assert found.swap_rejection.max() < 0.7 * 60 * 200
    for l, draws in enumerate(exact):
        truth, sampled = path.tilt(draws), found.tilt[..., l]
        middle = np.median(truth)
        for known, values in ((truth, sampled), (truth > middle, 1.0 * (sampled > middle))):
            se = np.hypot(known.std() / 4000**0.5, values.std() / ess(values) ** 0.5)
            assert abs(values.mean() - known.mean()) < 4.5 * se, (l, values.mean(), known.mean())
    posterior = found.draws.reshape(-1, path.n)
    se = exact[-1].std(axis=0) * np.hypot(4000**-0.5, 200**-0.5)
    assert (np.abs(posterior.mean(axis=0) - exact[-1].mean(axis=0)) < 4.5 * se).all()


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_swap_acceptance(sign):
    """α and its counterpart are the two sides of detailed balance; -inf never climbs."""
    betas = np.array([0.0, 0.4, 1.0])
    h = sign * np.array([[0.3], [2.0], [-1.0]])
    swapped = h[[1, 0, 2]]
    density = np.exp(betas @ h), np.exp(betas @ swapped)
    forward = tempering.swap_acceptance(betas, h)[0]
    backward = tempering.swap_acceptance(betas, swapped)[0]
    assert density[0] * forward == pytest.approx(density[1] * backward)
    impossible = np.array([[-np.inf, 1.0, -np.inf], [1.0, -np.inf, -np.inf]])
    alpha = tempering.swap_acceptance(np.array([0.0, 1.0]), impossible)
    np.testing.assert_array_equal(alpha, [[0.0, 1.0, 0.0]])


def test_swaps_stay_within_their_ensemble():
    path = from_prior("logit")
    schedule = Schedule(ladders.linear(3), np.full(4, 1.0))
    rng = np.random.default_rng(17)
    replicas = tempering.Replicas(path, MGrad(), schedule, rng, None, 5)
    before = np.array([replicas.latent(l) for l in range(4)])
    accepted = np.zeros((3, 5), bool)
    accepted[0, [0, 3, 4]] = accepted[2, [1, 3]] = True
    replicas.swap(accepted)
    expected = before.copy()
    expected[:2, [0, 3, 4]] = before[1::-1, [0, 3, 4]]
    expected[2:, [1, 3]] = before[:1:-1, [1, 3]]
    after = np.array([replicas.latent(l) for l in range(4)])
    np.testing.assert_array_equal(after, expected)
    np.testing.assert_allclose(replicas.tilt, [path.tilt(x) for x in after], atol=1e-9)


@pytest.mark.interpreted
def test_same_seed_same_segment():
    path = ev.Path(ev.fit_ep(small_model("probit", 4)))
    schedule = Schedule(ladders.linear(3), np.full(4, 0.5))
    runs = [
        run_segment(path, MGrad(), schedule, None, 6, SEED(5), never, n_ensembles=3)
        for _ in range(2)
    ]
    for name, one, two in zip(segments.Segment._fields, *runs, strict=True):
        np.testing.assert_array_equal(one, two, err_msg=name)
    one, two = (tune(path, MGrad(), np.random.default_rng(6), never, rounds=2) for _ in range(2))
    np.testing.assert_array_equal(one.x, two.x)
    np.testing.assert_array_equal(one.schedule.step_sizes, two.schedule.step_sizes)


def in_two_segments(path, move, schedule, n_sweeps, seed, **options):
    seeds = SEED(seed).spawn(2)
    one = run_segment(path, move, schedule, None, n_sweeps, seeds[0], never, **options)
    two = run_segment(
        path,
        move,
        schedule,
        one.x,
        n_sweeps,
        seeds[1],
        never,
        parity=one.parity,
        labels=one.labels,
        direction=one.direction,
    )
    return one, two


def test_segments_follow_each_other():
    """Two segments are a valid run (4 se, false alarm 6e-5) with all its bookkeeping."""
    model = small_model("logit")
    path = ev.Path(prior_reference(model))
    schedule = Schedule(ladders.power(6, 2.0), np.full(7, 1.0))
    halves = in_two_segments(path, MGrad(), schedule, 151, 7, n_ensembles=30)
    assert halves[1].parity == 0
    assert halves[0].parity == 1
    whole = segments.consecutive(halves)
    bridge = bridging.mbar(whole.tilt, schedule.betas)
    assert abs(bridge.delta - log_z_by_quadrature(model)) < 4 * bridge.se
    assert whole.tilt.shape == (30, 302, 7)
    trips = halves[0].round_trips + halves[1].round_trips
    np.testing.assert_array_equal(whole.round_trips, trips)
    assert (np.sort(whole.labels, axis=0) == np.arange(7)[:, None]).all()
    assert whole.draws.shape == (30, 2 * 51, 3)
    columns = segments.trace_columns(whole, schedule, bridge.levels)
    assert columns["barrier"][-1] == pytest.approx(np.sum(1 - columns["swap_rate"][1:]))
    assert {len(column) for column in columns.values()} == {7}
    assert columns["gradients"].tolist() == [30 * 302, *[30 * 302 * 3] * 6]


def test_ensembles_side_by_side():
    path = from_prior("logit")
    schedule = Schedule(ladders.linear(2), np.full(3, 1.0))
    parts = [
        run_segment(path, MGrad(), schedule, None, 10, seed, never, n_ensembles=r)
        for r, seed in zip((2, 3), SEED(8).spawn(2), strict=True)
    ]
    whole = segments.side_by_side(parts)
    assert whole.tilt.shape == (5, 10, 3)
    assert whole.round_trips.shape == (5,)
    assert whole.draws.shape == (5, 10, 3)
    mean = (2 * parts[0].acceptance + 3 * parts[1].acceptance) / 5
    np.testing.assert_allclose(whole.acceptance, mean)


def test_round_trips_by_hand():
    """Three levels, one ensemble: replica 0 climbs, turns and comes home; then replica 1."""
    labels = np.array([[0], [1], [2]])
    direction = np.array([[1], [0], [0]])
    even, odd, none = [[True], [False]], [[False], [True]], [[False], [False]]
    history = [
        (even, [1, 0, 2], False),  # 1 comes down without having been at the top: no trip
        (odd, [1, 2, 0], False),  # 0 turns at the top
        (none, [1, 2, 0], False),
        (odd, [1, 0, 2], False),
        (even, [0, 1, 2], True),  # 0 is home; 1 is on its way up since its visit
        (odd, [0, 2, 1], False),  # 1 turns
        (even, [2, 0, 1], False),  # 2 was at the top, but never at the bottom before
        (odd, [2, 1, 0], False),  # 0 turns again
        (even, [1, 2, 0], True),
    ]
    for swaps, order, finished in history:
        got = tempering.follow(labels, direction, np.array(swaps))
        assert labels[:, 0].tolist() == order
        assert got.tolist() == [finished]


@pytest.mark.slow
def test_taking_turns_travels_further():
    """20 levels that swap easily: taking turns crosses them in some 20 sweeps, tossing a coin
    in some 20²."""
    path = ev.Path(ev.fit_ep(small_model("probit")))
    schedule = Schedule(ladders.linear(19), np.full(20, 1.0))
    trips = [
        run_segment(
            *(path, PCN(), schedule, None, 600, SEED(9), never),
            n_ensembles=10,
            explore=1,
            reversible=reversible,
        ).round_trips.sum()
        for reversible in (False, True)
    ]
    assert trips[0] > 100
    assert 0 < 4 * trips[1] < trips[0]


@pytest.mark.slow
def test_tuning_finds_the_barrier():
    """From the prior of a model with N = 8: pairs reject alike, moves meet their target."""
    path = from_prior("poisson(exposure=1.5)", 8)
    found = tune(path, MGrad(), np.random.default_rng(10), never)
    levels = found.schedule.betas.size
    assert found.x.shape == (levels, 8, 8)
    assert 0.0 < found.rejection.sum() < levels - 1
    assert 0.5 < (levels - 1) / (2 * found.rejection.sum()) < 2.0
    assert found.rejection.max() < 1.5 * found.rejection.mean()
    seed = SEED(11)
    run = run_segment(path, MGrad(), found.schedule, found.x, 100, seed, never)
    with_short = (2.0 * MGrad().target + 0.9) / 3.0  # every third move is short
    np.testing.assert_allclose(run.acceptance[2:], with_short, atol=0.1)
    np.testing.assert_allclose(run.swap_rejection / (100 * 8), found.rejection, atol=0.1)


def test_new_levels_inherit():
    """Step sizes by their logs, states from the nearest level."""
    old = Schedule(np.array([0.0, 0.5, 1.0]), np.array([1.0, 1.0, 0.01]))
    x = np.arange(3.0).reshape(3, 1, 1)
    new, moved = tuning._move_levels(old, x, np.array([0.0, 0.2, 0.75, 0.9, 1.0]))
    np.testing.assert_allclose(new.step_sizes, [1.0, 1.0, 0.1, 10**-1.6, 0.01])
    assert moved.ravel().tolist() == [0.0, 0.0, 1.0, 2.0, 2.0]


def test_the_reference_is_drawn_afresh():
    """No state is seen twice at β = 0, not even where nothing swaps."""
    path = from_prior("logit")
    schedule = Schedule(np.array([0.0, 1.0]), np.full(2, 1.0))
    found = run_segment(path, MGrad(), schedule, None, 20, SEED(18), never, n_ensembles=4)
    assert np.unique(found.tilt[..., 0]).size == 80


def test_tuning_with_one_move_a_sweep():
    """A sweep whose only move is short teaches nothing about the step size."""
    path = from_prior("poisson(exposure=1.5)", 8)
    betas = np.array([0.0, 0.2, 1.0])
    steps = [
        tune(path, MGrad(), np.random.default_rng(16), never, betas=betas, explore=k).schedule[1]
        for k in (1, 3)
    ]
    np.testing.assert_allclose(np.log(steps[0][1:]), np.log(steps[1][1:]), atol=0.25)


def test_tuning_as_told():
    path = from_prior("probit")
    rng = np.random.default_rng(12)
    betas = np.array([0.0, 0.2, 1.0])
    found = tune(path, MGrad(), rng, never, betas=betas, rounds=2)
    np.testing.assert_array_equal(found.schedule.betas, betas)
    assert (found.schedule.step_sizes != 1.0).all()
    assert tune(path, PCN(), rng, never, n_levels=7, rounds=2).schedule.betas.size == 7
    plain = tune(path, EllipticalSlice(), rng, never, rounds=2)
    assert (plain.schedule.step_sizes == EllipticalSlice().step_size).all()


def test_exact_reference():
    """EP is exact for a Gaussian likelihood: no barrier, the fewest levels, the exact log Z."""
    path = ev.Path(ev.fit_ep(small_model("gaussian(noise_std=0.7)", 5)))
    found = tune(path, MGrad(), np.random.default_rng(13), never, rounds=2)
    assert found.schedule.betas.size == 4
    run = run_segment(path, MGrad(), found.schedule, found.x, 20, SEED(14), never)
    bridge = bridging.mbar(run.tilt, found.betas)
    assert bridge.delta == pytest.approx(0.0, abs=1e-9)
    assert bridge.se < 1e-9


def test_stopping():
    path = from_prior("probit")
    schedule = Schedule(ladders.linear(2), np.full(3, 1.0))
    asked = iter([False, False, True])
    with pytest.raises(Stopped):
        run_segment(path, MGrad(), schedule, None, 10, SEED(15), lambda: next(asked))
    with pytest.raises(Stopped):
        tune(path, MGrad(), np.random.default_rng(0), lambda: True)


def test_moves_that_have_no_such_temperature():
    schedule = Schedule(ladders.linear(2), np.full(3, 1.0))
    with pytest.raises(ValueError, match=r"beta = 0\.5"):
        run_segment(from_prior("probit"), ProbitGibbs(), schedule, None, 5, SEED(0), never)


def test_steps_do_not_outgrow_what_they_mean():
    path = ev.Path(ev.fit_ep(small_model("probit", 12)))
    tuned = tune(path, PCN(), np.random.default_rng(0), lambda: False, betas=np.linspace(0, 1, 5))
    assert tuned.schedule.step_sizes.max() <= PCN.longest * (1.0 + 1e-12)
    assert tuned.schedule.step_sizes.max() > 0.5 * PCN.longest

"""How many islands are run, and that stopping does not bias what they say."""

from __future__ import annotations

import math
import re

import fakes
import numpy as np
import pytest

from evidence.drivers.stopping import Budget, Run, _conclude, admitted, run_waves
from evidence.execution.checkpoint import Checkpoint
from evidence.execution.clock import Clock
from evidence.execution.job import Job
from evidence.execution.progress import Progress


def waves(job, budget, seed=0, clock=None, checkpoint=None, executor=None):
    return run_waves(
        job,
        budget,
        np.random.SeedSequence(seed),
        clock or Clock(),
        Progress(False),
        checkpoint or Checkpoint(None, {}),
        executor,
    )


def codes(run):
    return [warning.code for warning in run.warnings]


def test_fixed_number_of_islands():
    run = waves(Job(fakes.lognormal, (0.3,)), Budget(None, first=10, block=4))
    assert run.final.size == 10
    assert sorted(block.log_z.shape[1] for block in run.blocks.values()) == [2, 4, 4]
    estimate = run.estimate()
    z = np.exp(run.final)
    assert estimate.value == pytest.approx(np.log(z.mean()))
    assert estimate.se == pytest.approx(z.std(ddof=1) / z.mean() / np.sqrt(10))
    assert [wave.n_islands for wave in run.history][-1] == 10


def test_islands_that_agree_by_chance_have_the_error_bar_they_say():
    """Two or three may; of four it is not believed."""
    for values, se in (
        ([0.0, 0.01], 0.2),
        ([0.0, 0.01, 0.0], math.sqrt(0.08 / 3)),
        ([0.0] * 4, 0),
    ):
        block = fakes.islands(np.array(values))
        block.variance[:] = 0.08
        found = Run(Budget(None, first=len(values)), {0: block}).estimate()
        assert found.se == pytest.approx(se, rel=0.01)


@pytest.mark.parametrize(
    ("sd", "target"),
    [
        (0.5, 0.1),
        pytest.param(0.3, 0.05, marks=pytest.mark.slow),
        pytest.param(0.8, 0.1, marks=pytest.mark.slow),
    ],
)
def test_target_is_met_nearly_always(sd, target):
    """Of 50 runs at most 4 miss it by more than a tenth, none by a factor 4, and misses are
    said; the error bars fit: RMS z at most 1.5. (Over 1500 runs: 0.2 to 2.4 %, and RMS z 1.10 to
    1.20; with 16 islands fixed in advance 1.09 to 1.31. A late value far out makes the factor.)
    """
    ratios, z = [], []
    for seed in range(50):
        run = waves(Job(fakes.lognormal, (sd,)), Budget(target, most=4096), seed=seed)
        estimate = run.estimate()
        ratios.append(estimate.se / target)
        z.append(estimate.value / estimate.se)
        assert ("target-missed" in codes(run)) == (ratios[-1] > 1.1)
    assert np.mean(np.array(ratios) > 1.1) <= 0.08
    assert max(ratios) < 4.0
    assert np.sqrt(np.mean(np.square(z))) < 1.5


def test_islands_do_not_depend_on_the_target():
    few = waves(Job(fakes.lognormal, (0.5,)), Budget(0.2))
    many = waves(Job(fakes.lognormal, (0.5,)), Budget(0.08))
    assert many.final.size > few.final.size
    np.testing.assert_array_equal(many.final[: few.final.size], few.final)


def test_groups_are_stopped_by_the_others():
    budget = Budget(0.1, first=16, block=2)
    quiet, loud = np.full(8, -1.0), np.log(np.resize([0.2, 1.8], 8))
    assert admitted([quiet] * 4, budget) == ([4, 4, 4, 4], 4)
    assert admitted([quiet[:3]] * 4, budget) == ([3, 3, 3, 3], 4)  # not enough for a look
    numbers, wanted = admitted([loud, quiet, quiet, quiet], budget)
    assert numbers[0] == 4  # the others are quiet
    assert numbers[1:] == [8, 8, 8]  # as far as is known
    assert wanted > 8


@pytest.mark.slow
def test_unbiased_under_stopping():
    """4,000 runs with skewed islands, target met after 16 to 100 of them.

    False alarm 6e-5. To stop on the common spread and to average everything would be off by
    more than 4 standard errors, which is checked too: the test can fail.
    """
    rng = np.random.default_rng(0)
    budget = Budget(0.2, first=16, block=2)
    honest, naive = [], []
    for _ in range(4_000):
        values = rng.normal(0.0, 0.8, (4, 200)) - 0.32
        wanted = n = 4
        while n <= wanted:
            n = wanted
            _, wanted = admitted([group[:n] for group in values], budget)
            if wanted == n:
                break
        run = Run(budget, {i: fakes.islands(group[:n]) for i, group in enumerate(values)})
        honest.append(np.exp(run.estimate().value))
        m = 16
        both = np.exp(values.T.ravel())
        while both[:m].std(ddof=1) / both[:m].mean() > 0.2 * np.sqrt(m):
            m += 8
        naive.append(both[:m].mean())
    honest, naive = np.array(honest), np.array(naive)
    assert abs(honest.mean() - 1.0) < 4.0 * honest.std() / np.sqrt(honest.size)
    assert naive.mean() - 1.0 < -4.0 * naive.std() / np.sqrt(naive.size)


def test_hopeless_targets_are_not_chased():
    run = waves(Job(fakes.lognormal, (0.5,)), Budget(1e-4))
    assert run.final.size == 16
    assert codes(run) == ["target-missed"]
    run = waves(Job(fakes.lognormal, (0.5,)), Budget(0.03, patience="it is late"))
    assert run.final.size == 16
    assert codes(run) == ["target-missed"]
    assert "it is late" in run.warnings[0]


def test_a_factor_is_told_in_few_digits():
    """Islands that are worlds apart have a wide error bar: 130 digits of it were printed."""
    islands = fakes.islands(np.append(np.full(15, -1e66), 0.0))
    run = Run(Budget(0.05, first=16), {0: islands})
    _conclude(run, Clock())
    assert codes(run)[0] == "target-missed"
    assert re.search(r"by a factor \d\.\d+e\+\d+\)", run.warnings[0])


def test_deadline():
    run = waves(Job(fakes.slow, (0.1,)), Budget(None, first=400), clock=Clock(0.4))
    assert 0 < run.final.size < 100
    assert codes(run)[0] == "out-of-time"
    assert np.isfinite(run.estimate().se)


@pytest.mark.slow
def test_a_million_islands_do_not_use_up_the_time_before_the_first():
    run = waves(Job(fakes.lognormal, (0.5,)), Budget(None, first=10**6), clock=Clock(0.7))
    assert run.final.size > 0


def test_nothing_in_time():
    run = waves(Job(fakes.lognormal, (0.5,)), Budget(0.1), clock=Clock(1e-9))
    assert not run.blocks
    assert codes(run) == ["out-of-time", "no-estimate"]


def test_uneven_islands_are_reported():
    run = waves(Job(fakes.lognormal, (4.0,)), Budget(None, first=32))
    assert "uneven-islands" in codes(run)


def test_an_island_alone_in_a_group_that_stopped_is_reported():
    """The others of its group are two or three; the mean that it lifts hides how far off it is."""
    values = np.random.default_rng(0).normal(0.0, 0.1, (400, 2))
    values[0, 0] = 3.7
    run = Run(Budget(0.2), {i: fakes.islands(pair) for i, pair in enumerate(values)})
    estimate = run.estimate()
    assert estimate.value > 1.0
    assert estimate.relative_sd < 1.0
    _conclude(run, Clock())
    assert "uneven-islands" in codes(run)

"""Evidence with hyperparameters integrated out, against quadrature over them."""

import re
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import cache

import fakes
import numpy as np
import pytest
from covering import seldom
from scipy.special import betaln
from scipy.stats import gamma, lognorm, multivariate_normal
from threadpoolctl import threadpool_limits

import evidence as ev
from evidence.drivers.stopping import Run
from evidence.execution.clock import Clock
from evidence.hyper.at_theta import GuidedEvidence, Look, NoEvidence
from evidence.hyper.direct import ExactEvidence
from evidence.hyper.integral import StudentMixture, ThetaIslands, ThetaPath, ThetaPlan
from evidence.hyper.pilot import ThetaPilot, run_pilot
from evidence.models.priors import Priors
from evidence.numerics import threads

X = np.linspace(0.0, 3.0, 8)
Y = np.sin(2.0 * X)
GAUSSIAN = ev.GPModel(X, Y, "1.0 * RBF(0.8)", likelihood="gaussian(noise_std=0.3)")
PRIORS = {"length_scale": lognorm(0.7), "noise_std": gamma(2.0, scale=0.2)}
PROBIT = ev.GPModel([0.0, 0.7, 2.0], [1, 1, -1], "4.0 * RBF(1.0)")
PROBIT_PRIORS = {"length_scale": lognorm(0.8), "constant_value": lognorm(1.0, scale=3.0)}

ORDINAL = ev.GPModel([0.0], [1], "2.0 * RBF(1.0)", likelihood="ordinal(gaps=(1.0, 0.5))")
ORDINAL_PRIORS = {"gap_1": gamma(3.0), "gap_2": gamma(3.0, scale=0.5)}
KERNEL_FIXED = ["constant_value", "length_scale"]


def log_z_of_one(model):
    return model.likelihood.tilted(model.y, model.mean, model.K[0])[0][0]


def log_z_probit(model):
    """An orthant of three dimensions has a closed form in its correlations."""
    cov = (model.K + np.eye(3)) * np.outer(model.y, model.y)
    sd = np.sqrt(np.diag(cov))
    angles = np.arcsin((cov / np.outer(sd, sd))[np.triu_indices(3, 1)])
    return float(np.log(0.125 + angles.sum() / (4.0 * np.pi)))


def by_quadrature(model, priors, fixed, log_z, n):
    """log ∫ p(θ) Z(θ) dθ and the posterior means of θ, two-dimensional, by the midpoint rule."""
    known = Priors.of(model.hyperparameters, priors, fixed)
    axes = [np.linspace(-5.0, 4.5, n), np.linspace(-6.0, 6.0, n)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    theta = np.tile(model.hyperparameters.theta, (len(grid), 1))
    theta[:, known.free] = grid
    value = known.log_density(grid)
    inside = np.flatnonzero(value > value.max() - 30.0)
    value[inside] += [log_z(model.at(theta[i])) for i in inside]
    value[value <= value.max() - 40.0] = -np.inf
    total = np.logaddexp.reduce(value[inside])
    cell = np.prod([axis[1] - axis[0] for axis in axes])
    mean = np.exp(value[inside] - total) @ grid[inside]
    return total + np.log(cell), mean


@cache
def exact(name):
    if name == "probit":
        return by_quadrature(PROBIT, PROBIT_PRIORS, [], log_z_probit, 21)
    return by_quadrature(ORDINAL, ORDINAL_PRIORS, KERNEL_FIXED, log_z_of_one, 19)


def student(mean, root):
    return StudentMixture(np.ones(1), mean[None], root[None])


def island(model, priors, fixed, plan, seeds, m=8):
    """Estimates of the bare islands: no pilot, a start that does not fit well."""
    known = Priors.of(model.hyperparameters, priors, fixed)
    theta, sites = model.hyperparameters.theta[known.free], (ev.fit_ep(model).sites,)
    evidence = GuidedEvidence(model, known.free, 16, theta[None], sites, np.eye(2))
    start = student(theta, np.diag([0.8, 1.2]))
    plan = ThetaPlan(plan, np.diag([0.6, 0.8]), 1)
    path = ThetaPath(evidence, known, start)
    return ThetaIslands(path, plan).run(seeds, m, np.random.SeedSequence(0))


@pytest.mark.slow
def test_islands_are_unbiased():
    """False alarm 6e-5: 4 standard errors. The noise of Ẑ is large on purpose (16 draws)."""
    islands = island(PROBIT, PROBIT_PRIORS, [], np.array([0.4, 1.0]), 20)
    z = np.exp(islands.log_z[-1] - exact("probit")[0])
    assert abs(z.mean() - 1.0) < 4.0 * z.std(ddof=1) / np.sqrt(z.size)
    assert z.std(ddof=1) / np.sqrt(z.size) < 0.06  # it would see an error of four times this
    assert islands.draws.shape == (20, 8, 3)


@pytest.mark.parametrize(
    ("model", "priors", "fixed", "name"),
    [
        pytest.param(PROBIT, PROBIT_PRIORS, [], "probit", marks=pytest.mark.slow),
        (ORDINAL, ORDINAL_PRIORS, KERNEL_FIXED, "ordinal"),
    ],
)
def test_against_quadrature(model, priors, fixed, name):
    """Three standard errors, fixed seed; draws of θ within 0.2 of their mean."""
    result = ev.integrated_evidence(
        model, priors, fixed=fixed, target_se=0.05, random_seed=1, progressbar=False
    )
    truth, mean = exact(name)
    assert abs(result.logz - truth) < 3.0 * result.logz_se
    assert result.logz_se < 0.06
    np.testing.assert_allclose(result.theta.mean(axis=0), mean, atol=0.2)
    assert "integrated out" in result.summary()
    assert list(result.table.index) == list(result.names)
    assert len(result.plot().axes) == 4


class Toy:
    """p(θ) Z(θ) = N(θ; 2, 0.1²) N(θ; 0, 10²) in n dimensions; where EP sees Z, and noise in Ẑ."""

    def __init__(self, n=2, noise=0.0, seen=2.0):
        self.n, self.noise, self.seen = n, noise, seen
        self.priors = Priors(tuple("abcdefgh"[:n]), np.arange(n), ("flat",) * n)
        self.exact = float(multivariate_normal(np.full(n, 2.0), 100.01).logpdf(np.zeros(n)))

    def at(self, theta, mode):
        return -50.0 * np.sum((theta - mode) ** 2) - 0.5 * self.n * np.log(0.02 * np.pi)

    def __call__(self, theta, rng):
        noise = self.noise * rng.standard_normal() - 0.5 * self.noise**2
        return self.at(theta, 2.0) + noise, self.at(theta, self.seen)

    def look(self, theta):
        return Look(self.at(theta, self.seen), -100.0 * (theta - self.seen), None)

    fewest = 16

    def near(self, places, looks, root, n_draws):
        return self


def pilot_of(evidence, sd, centre=2.0, seed=0, **words):
    n, rng = len(evidence.priors), np.random.default_rng(seed)
    centre, sd = np.full(n, centre), np.full(n, sd)
    return run_pilot(evidence, evidence.priors, centre, sd, rng, Clock(), **words)


def check_islands(pilot, exact, m=50, most=0.7):
    """4 standard errors: false alarm 6e-5."""
    islands = ThetaIslands(pilot.path, pilot.plan).run(24, m, np.random.SeedSequence(1))
    z = np.exp(islands.log_z[-1] - exact)
    assert abs(z.mean() - 1.0) < 4.0 * z.std(ddof=1) / np.sqrt(z.size) < most


@pytest.mark.parametrize(
    ("n", "sd", "seen", "tempers"),
    seldom([(2, 0.1, 2.0, False), (4, 0.6, 2.0, False), (2, 0.1, 2.5, True)], 0, 2),
)
def test_a_pilot_plans_what_islands_need(n, sd, seen, tempers):
    """A first guess far too wide costs nothing; an EP that misleads by 5 sd needs a ladder."""
    evidence = Toy(n, 0.3, seen)
    pilot = pilot_of(evidence, sd)
    assert (pilot.plan.betas.size > 1) == tempers
    assert ("tempered over" in pilot.notes[0]) == tempers
    check_islands(pilot, evidence.exact)


def test_where_numbers_fail_there_is_no_evidence():
    """Half of the plane counts as Z = 0 and is counted."""
    toy = Toy()

    class Half(Toy):
        def __call__(self, theta, rng):
            if theta[0] < 2.0:
                raise NoEvidence("singular")
            return super().__call__(theta, rng)

        def look(self, theta):
            if theta[0] < 2.0:
                raise NoEvidence("singular")
            return super().look(theta)

    half = Half()
    path = ThetaPath(half, toy.priors, student(np.full(2, 2.0), 0.1 * np.eye(2)))
    rng = np.random.default_rng(0)
    cloud = path.at(path.start.draw(rng, 200)[0], rng)
    np.testing.assert_array_equal(cloud.failed, cloud.theta[:, 0] < 2.0)
    np.testing.assert_array_equal(cloud.target == -np.inf, cloud.failed)
    check_islands(pilot_of(half, 0.1), toy.exact - np.log(2.0), m=200)

    class Nowhere(Toy):
        def look(self, theta):
            raise NoEvidence("singular")

    with pytest.raises(RuntimeError, match="jitter"):
        pilot_of(Nowhere(), 1.0)


def test_no_time():
    words = dict(max_seconds=1e-6, random_seed=0, progressbar=False)
    result = ev.integrated_evidence(PROBIT, PROBIT_PRIORS, **words)
    assert result.logz == result.optimum.reference.logz
    assert np.isnan([result.logz_se, result.logz_ep]).all()
    assert result.theta.shape == (0, 2)
    assert "approximation-only" in {warning.code for warning in result.warnings}


FEW = dict(n_particles=8, n_islands=4, random_seed=3, progressbar=False)


@pytest.fixture(scope="module")
def result():
    return ev.integrated_evidence(PROBIT, PROBIT_PRIORS, **FEW)


def test_saved_and_loaded(result, tmp_path):
    result.save(tmp_path / "result.npz")
    again = ev.IntegratedEvidence.load(tmp_path / "result.npz", model=PROBIT)
    assert (again.logz, again.logz_se, again.names) == (result.logz, result.logz_se, result.names)
    np.testing.assert_array_equal(again.theta, result.theta)
    assert again.table.equals(result.table)
    assert again.optimum.logz == result.optimum.logz
    assert again.warnings == result.warnings


@pytest.mark.slow
def test_same_answer_in_processes_and_from_a_checkpoint(result, tmp_path):
    with ProcessPoolExecutor(1, mp_context=fakes.FORK) as pool:
        there = ev.integrated_evidence(
            PROBIT, PROBIT_PRIORS, executor=pool, checkpoint=tmp_path / "run", **FEW
        )
    seedless = FEW | {"random_seed": None}  # the file knows it
    again = ev.integrated_evidence(PROBIT, PROBIT_PRIORS, checkpoint=tmp_path / "run", **seedless)
    assert result.logz == there.logz == again.logz
    np.testing.assert_array_equal(result.theta, again.theta)
    with pytest.raises(ValueError, match="belongs to another run: budget"):
        ev.integrated_evidence(
            PROBIT, PROBIT_PRIORS, checkpoint=tmp_path / "run", **(FEW | {"n_particles": 4})
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"priors": {"length_scale": lognorm(1.0)}}, "no prior for k1__constant_value"),
        ({"n_particles": 1}, "n_particles must be a whole number, at least 2"),
        ({"model": 3}, "model must be a GPModel"),
    ],
)
def test_bad_input(change, message):
    arguments = {"model": PROBIT, "priors": PROBIT_PRIORS, "progressbar": False, **change}
    with pytest.raises(ValueError, match=message):
        ev.integrated_evidence(arguments.pop("model"), arguments.pop("priors"), **arguments)


@pytest.mark.slow
def test_effort_is_that_of_the_search_over_hyperparameters():
    model = ev.from_formula("y ~ 1", {"y": np.random.default_rng(0).normal(size=20)})
    words = {"random_seed": 0, "progressbar": False}
    little, much = (ev.log_evidence(model, effort=e, **words) for e in ("frugal", "normal"))
    assert abs(little.logz - much.logz) < 4.0 * np.hypot(little.logz_se, much.logz_se)
    assert 10 * sum(little.evaluations.values()) < sum(much.evaluations.values())
    with pytest.raises(ev.InputError, match="effort"):
        ev.log_evidence(model, effort="much", **words)
    with pytest.raises(ev.InputError, match="max_evaluations"):
        ev.log_evidence(model, max_evaluations=10, **words)


@pytest.mark.slow
@pytest.mark.parametrize(("hidden", "told"), [(1.5, True), (0.0, False)])
def test_an_error_bar_above_its_target_is_told(monkeypatch, hidden, told):
    """Even where it is less than twice as large; islands alone would meet the target."""
    monkeypatch.setattr(ThetaPilot, "unseen", lambda pilot, m: (hidden * 0.2) ** 2)
    result = ev.integrated_evidence(
        PROBIT,
        PROBIT_PRIORS,
        target_se=0.2,
        n_particles=16,
        n_islands=8,
        random_seed=0,
        progressbar=False,
    )
    assert (1.1 * 0.2 < result.logz_se < 2.0 * 0.2) == told
    assert [w.code for w in result.warnings] == ["target-missed"] * told


def test_an_error_bar_holds_what_lost_settings_were_worth(monkeypatch):
    monkeypatch.setattr(Run, "lost", property(lambda run: 0.7))
    options = {"n_particles": 8, "n_islands": 8, "n_draws": 16}
    result = ev.integrated_evidence(
        PROBIT, PROBIT_PRIORS, **options, random_seed=0, progressbar=False
    )
    assert 0.7 < result.logz_se < 0.9


def test_looks_one_after_another_have_one_thread_of_blas(monkeypatch):
    """With two a call took sixteen seconds, for ten data, where cores were busy elsewhere."""
    seen, log_z = [], ExactEvidence._log_z

    class Enough(Exception):
        """The first looks tell."""

    def watched(self, theta):
        seen.extend(library.num_threads for library in threads._libraries(len(sys.modules)))
        if len(seen) > 100:
            raise Enough
        return log_z(self, theta)

    monkeypatch.setattr(ExactEvidence, "_log_z", watched)
    with threadpool_limits(2, "blas"), pytest.raises(Enough):
        ev.integrated_evidence(
            GAUSSIAN, PRIORS, fixed=["constant_value"], effort="frugal", random_seed=0,
            progressbar=False,
        )  # fmt: skip
    assert set(seen) == {1}


@pytest.mark.slow
def test_draws_of_a_small_process_are_thousands_and_summarise_as_quadrature_does():
    """Mean, sd, 5 and 95 %: there were a thousand made of some 160 weighted ones."""
    model = GAUSSIAN.with_priors(PRIORS, fixed=["constant_value"])
    look = ExactEvidence(model, model.priors)
    lines = np.linspace(-4.0, 3.0, 60), np.linspace(-6.0, 1.0, 60)
    grid = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1).reshape(-1, 2)
    log_p = look(np.exp(grid)) + model.priors.log_density(grid)
    w = np.exp(log_p - log_p.max()).reshape(60, 60)
    truth = log_p.max() + np.log(w.sum() * (lines[0][1] - lines[0][0]) ** 2)
    w /= w.sum()
    result = ev.integrated_evidence(model, random_seed=0, progressbar=False)
    assert abs(result.logz - truth) < 3.0 * result.logz_se < 0.18
    assert result.logz_ep == pytest.approx(result.logz, abs=1e-3)
    assert len(result.theta) == 2000
    assert len(np.unique(result.theta, axis=0)) > 1000
    for axis, name in enumerate(result.names):
        value, mass = np.exp(lines[axis]), w.sum(axis=1 - axis)
        mean, sd = mass @ value, np.sqrt(mass @ value**2 - (mass @ value) ** 2)
        row, n, half = result.table.loc[name], 1000, 0.5 * (lines[axis][1] - lines[axis][0])
        below = np.interp(np.log(row[["q5", "q95"]]), lines[axis] + half, np.cumsum(mass))
        np.testing.assert_allclose(below, [0.05, 0.95], atol=4.0 * np.sqrt(0.0475 / n))
        assert row["mean"] == pytest.approx(mean, abs=4.0 * sd / np.sqrt(n))
        assert row["sd"] == pytest.approx(sd, rel=0.15)


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b"), [(0.2, 0.2), (0.5, 0.01)])
def test_draws_that_round_to_a_wall_are_draws(a, b):
    """Most of the posterior of a share is within 1e-16 of one: its log Z is known in closed form,
    but no double is the share."""
    model = ev.from_formula(
        "y ~ 1", {"y": np.zeros(3)}, likelihood="hurdle_poisson", priors={"hu": f"beta({a}, {b})"}
    )
    result = ev.log_evidence(model, effort="frugal", random_seed=0, progressbar=False)
    error = result.logz - (betaln(a + 3.0, b) - betaln(a, b))
    assert abs(error) < 4.0 * result.logz_se < 0.1
    assert not result.warnings
    assert 0.9 < result.table.loc["hu", "median"] <= 1.0


@pytest.mark.slow
def test_looks_far_below_the_best_are_not_looked_at_again(monkeypatch):
    """Hundreds of nats below, a surrogate that forgot them looked there 50 times more, drew there,
    and took minutes. A long run says -430.1355 ± .004. Of so few data effects are integrated one
    by one otherwise."""
    monkeypatch.setattr("evidence.hyper.direct.effects_integrated", lambda *_: None)
    rng = np.random.default_rng(1)
    who, hard = np.repeat(np.arange(40), 5), rng.integers(2, size=200)
    mean = np.exp(0.6 + 0.5 * hard + 0.4 * rng.normal(size=40)[who])
    data = {"y": rng.negative_binomial(2.0, 2.0 / (2.0 + mean)), "hard": hard, "who": who}
    likelihood = "zero_inflated_negative_binomial"
    model = ev.from_formula("y ~ hard + (1|who)", data, likelihood=likelihood)
    result = ev.log_evidence(model, random_seed=0, progressbar=False)
    fits, worth = re.search(r"at (\d+) settings .* worth ([\d.]+)", result.notes[0]).groups()
    assert int(fits) < 85
    assert float(worth) > 14.0
    assert not result.warnings
    assert abs(result.logz + 430.1355) < 4.0 * result.logz_se < 0.2

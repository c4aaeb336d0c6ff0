from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from covering import seldom
from problems import LIKELIHOODS, exact_draws, log_z_by_quadrature, small_model
from scipy.special import expit

import evidence as ev
from evidence.approximations.reference import prior_reference
from evidence.drivers.annealing import Annealing
from evidence.drivers.crooks import bennett, bounds
from evidence.drivers.plan import Plan
from evidence.execution.clock import Stopped
from evidence.moves import MGrad, get
from evidence.moves.base import Latent
from evidence.statistics.diagnostics import log_mean

REFERENCES = {"ep": ev.fit_ep, "laplace": ev.fit_laplace, "prior": prior_reference}
STUDENT_T = "student_t(df=4, scale=0.5)"
#: Laplace's q is narrower than the Student-t posterior: weights of infinite variance
CASES = [(k, r) for k in LIKELIHOODS for r in REFERENCES if (k, r) != (STUDENT_T, "laplace")]
MOVES = ["mgrad", "agrad-z", "pcn", "pmala", "elliptical", "hmc", "splitting"]
SEED = np.random.SeedSequence


@cache
def true_log_z(likelihood: str) -> float:
    return log_z_by_quadrature(small_model(likelihood))


def run_forward(path, move, plan, n, seed, *stop):
    return Annealing(path, move, plan).run(n, 1, seed, *stop)


def run_reverse(path, move, plan, *arguments):
    return Annealing(path, move, plan).reverse(*arguments)


def crude(betas=(0.1, 0.3, 0.6, 1.0), step_size=0.5, n_moves=1) -> Plan:
    n = len(betas)
    return Plan(
        np.array(betas), np.full(n, step_size), np.full(n, n_moves), np.full(n, np.nan), 1.0
    )


# -- both ways against quadrature -----------------------------------------------------------


@pytest.mark.parametrize(("likelihood", "reference"), CASES)
def test_unbiased_up(likelihood, reference):
    """8000 chains on a ladder of 4: the mean weight is Z, z-score below 4.5.

    False alarm 7e-6 a case; the standard error is about 0.015, so that weights taken after the
    moves instead of before them, or a ladder off by one, are far outside.
    """
    model = small_model(likelihood)
    path = ev.Path(REFERENCES[reference](model))
    found = log_mean(run_forward(path, MGrad(), crude(), 8000, SEED(1)).log_z[-1])
    truth = true_log_z(likelihood)
    assert abs(found.value - truth) < 4.5 * max(found.se, 1e-7), (found, truth)
    assert found.se < 0.08


@pytest.mark.parametrize("likelihood", seldom(LIKELIHOODS, 0, 3, 4))
def test_unbiased_down_and_combined(likelihood):
    """From exact posterior draws: mean exp = 1/Z, and Bennett's ratio, z-scores below 4.5.

    False alarm 7e-6 each. The reference is Laplace's where it may be, so that there is work.
    """
    model = small_model(likelihood)
    base = REFERENCES["ep" if likelihood == STUDENT_T else "laplace"](model)
    path = ev.Path(base)
    x = exact_draws(np.random.default_rng(0), base, 1.0, 3000)
    down = run_reverse(path, MGrad(), crude(), x, SEED(2)).log_z[-1]
    up = run_forward(path, MGrad(), crude(), 8000, SEED(3)).log_z[-1]
    truth = true_log_z(likelihood)
    found = log_mean(down)
    assert abs(-found.value - truth) < 4.5 * max(found.se, 1e-7), (found, truth)
    combined = bennett(up, down)
    assert abs(combined.value - truth) < 4.5 * max(combined.se, 1e-7), (combined, truth)
    assert combined.se < 1.01 * min(log_mean(up).se, found.se) + 1e-12
    assert abs(combined.gap) < 4.5 * max(combined.gap_se, 1e-7)


@pytest.mark.parametrize("name", MOVES)
def test_crooks(name):
    """E_up[f(v) e^v] / Z = E_down[f(-u)] for f = 1(· < q) at three quantiles, z below 4.5.

    False alarm 2e-5 a move. From the prior with few moves, so that work is far from reversible.
    """
    likelihood = "poisson(exposure=1.5)"
    base = prior_reference(small_model(likelihood))
    path = ev.Path(base)
    move = get(name)
    plan = crude(step_size=move.step_size, n_moves=2)
    x = exact_draws(np.random.default_rng(4), base, 1.0, 5000)
    v = run_forward(path, move, plan, 12_000, SEED(5)).log_z[-1]
    u = run_reverse(path, move, plan, x, SEED(6)).log_z[-1]
    w = np.exp(v - true_log_z(likelihood))
    assert v.std() > 0.5
    for q in np.quantile(-u, (0.1, 0.5, 0.9)):
        up, down = w * (v < q), (-u < q).astype(float)
        se = np.hypot(up.std() / len(up) ** 0.5, down.std() / len(down) ** 0.5)
        assert abs(up.mean() - down.mean()) < 4.5 * se


def test_exact_when_the_reference_is_exact():
    model = small_model("gaussian(noise_std=0.7)", 8)
    base = ev.fit_ep(model)
    path = ev.Path(base)
    x = np.random.default_rng(0).multivariate_normal(base.mean, base.cov, 5)
    up = run_forward(path, MGrad(), crude(), 5, SEED(7)).log_z[-1]
    down = run_reverse(path, MGrad(), crude(), x, SEED(8)).log_z[-1]
    np.testing.assert_allclose(up, base.logz, atol=1e-9)
    np.testing.assert_allclose(down, -base.logz, atol=1e-9)
    assert bennett(up, down).value == pytest.approx(base.logz, abs=1e-9)


def test_weighted_final_states_are_posterior_draws():
    """Conjugate model from the prior: posterior mean and variance within 5 se."""
    model = small_model("gaussian(noise_std=0.7)", 4)
    posterior = ev.fit_ep(model)
    path = ev.Path(prior_reference(model))
    islands = run_forward(path, MGrad(), crude(n_moves=3), 8000, SEED(9))
    w = np.exp(islands.log_z[-1] - islands.log_z[-1].max())
    w /= w.sum()
    x = islands.draws[:, 0]
    for values, truth in ((x, posterior.mean), ((x - posterior.mean) ** 2, posterior.var)):
        mean = w @ values
        se = np.sqrt(w**2 @ (values - mean) ** 2)
        assert (np.abs(mean - truth) < 5 * se).all()


# -- what is run, exactly ---------------------------------------------------------------------


@dataclass
class Spy:
    """A move that stays where it is and notes where it was asked to step."""

    log: list
    step_size: float = 1.0
    target: float | None = 0.5

    def init_reference(self, rng, path, m):
        return self.init(path, rng.standard_normal((m, path.n)))

    def init(self, path, x):
        return Latent(x, path.tilt(x))

    def latent(self, path, state):
        return state.x

    def step(self, rng, path, beta, state):
        self.log.append((beta, self.step_size))
        return state, SimpleNamespace(acceptance=np.ones(len(state.x)), failures=1, gradients=2)


def test_down_is_up_backwards():
    """The same steps in opposite order, but for those that only freshen the final draws."""
    path = ev.Path(ev.fit_ep(small_model("probit")))
    n_moves = np.array([2, 3, 1, 4, 2])
    plan = Plan(
        np.array([0.1, 0.2, 0.4, 0.7, 1.0]), np.arange(1.0, 6.0), n_moves, np.zeros(5), 1.0
    )
    up, down = [], []
    forward = run_forward(path, Spy(up), plan, 3, SEED(10))
    reverse = run_reverse(path, Spy(down), plan, forward.draws[:, 0], SEED(11))
    strides = np.resize([1.0, 1.0, 0.125], n_moves.sum())
    betas, sizes = np.repeat(plan.betas, n_moves), np.repeat(plan.step_sizes, n_moves) * strides
    assert up == list(zip(betas, sizes, strict=True))
    assert down == up[-3::-1]
    # nothing moves, so the one path's work is the other's
    np.testing.assert_allclose(reverse.log_z[-1], -forward.log_z[-1], rtol=1e-12)
    assert forward.failures.tolist() == n_moves.tolist()
    assert forward.gradients.tolist() == (2 * n_moves).tolist()
    assert reverse.failures.tolist() == [4, 1, 3, 2, 0]


def test_moves_after_the_last_weight_change_draws_only():
    path = ev.Path(ev.fit_ep(small_model("logit")))
    few, many = crude(), crude()
    many.n_moves[-1] = 4
    one = run_forward(path, MGrad(), few, 50, SEED(12))
    two = run_forward(path, MGrad(), many, 50, SEED(12))
    np.testing.assert_array_equal(one.log_z, two.log_z)
    assert not np.allclose(one.draws, two.draws)


def test_fields_and_determinism():
    path = ev.Path(ev.fit_ep(small_model("probit", 6)))
    one, two = (run_forward(path, MGrad(), crude(), 30, SEED(13)) for _ in range(2))
    for a, b in zip(one._replace(seconds=0), two._replace(seconds=0), strict=True):
        np.testing.assert_array_equal(a, b)
    assert one.log_z.shape == (4, 30)
    assert one.draws.shape == (30, 1, 6)
    assert np.isnan(one.variance).all()
    assert one.variance.shape == (30,)
    for column in one[1:8]:
        assert column.shape == (4,)
        assert np.isfinite(column).all()
    x = one.draws[:, 0]
    down, again = (run_reverse(path, MGrad(), crude(), x, SEED(14)) for _ in range(2))
    np.testing.assert_array_equal(down.log_z, again.log_z)
    assert down.log_z.shape == (4, 30)
    assert np.isnan(down.mixing).tolist() == [False, False, False, True]


def test_stopping():
    path = ev.Path(ev.fit_ep(small_model("probit")))
    with pytest.raises(Stopped):
        run_forward(path, MGrad(), crude(), 3, SEED(0), lambda: True)
    with pytest.raises(Stopped):
        run_reverse(path, MGrad(), crude(), np.zeros((2, 3)), SEED(0), lambda: True)


def test_refined_plans():
    plan = crude(n_moves=3)._replace(step_sizes=np.array([8.0, 4.0, 2.0, 1.0]))
    same = plan.refined(4, single=True)
    np.testing.assert_allclose(same.betas, plan.betas)
    np.testing.assert_allclose(same.step_sizes, plan.step_sizes)
    assert same.n_moves.tolist() == [1, 1, 1, 1]
    finer = plan.refined(40, single=True)
    assert finer.betas[-1] == 1.0
    assert (np.diff(finer.betas, prepend=0.0) > 0.0).all()
    np.testing.assert_allclose(finer.betas[9::10], plan.betas)
    assert (np.diff(finer.step_sizes) <= 0.0).all()
    assert plan.refined(1, single=True).betas.tolist() == [1.0]


# -- estimators on Gaussian work ----------------------------------------------------------------


def gaussian_work(rng, log_z, sd, up, down):
    """v ~ N(log Z - s²/2, s²) and u ~ N(-log Z - s²/2, s²) satisfy Crooks' relation."""
    v = log_z - 0.5 * sd**2 + sd * rng.standard_normal(up)
    return v, -log_z - 0.5 * sd**2 + sd * rng.standard_normal(down)


@pytest.mark.parametrize(
    ("up", "down", "sd"), seldom([(200, 200, 1.0), (400, 100, 2.0), (60, 300, 0.3)], 0)
)
def test_bennett_is_calibrated(up, down, sd):
    """150 replicates: RMS z within 1 ± 0.17 and mean z within ± 0.24, 3 sd; false alarm 6e-3."""
    rng = np.random.default_rng(15)
    found = [bennett(*gaussian_work(rng, -40.0, sd, up, down)) for _ in range(150)]
    z = np.array([(b.value + 40.0) / b.se for b in found])
    gap = np.array([b.gap / b.gap_se for b in found])
    assert abs(z.mean()) < 0.24
    assert abs(np.sqrt(np.mean(z**2)) - 1.0) < 0.17
    if sd <= 1.0:  # one-sided log means have heavy tails beyond
        assert abs(np.sqrt(np.mean(gap**2)) - 1.0) < 0.2


@pytest.mark.parametrize(("up", "down"), [(500, 20), (20, 500)])
def test_bennett_solves_its_equation(up, down):
    """Pooled draws: as many are taken to be paths down, wrongly, as the other way round."""
    v, u = gaussian_work(np.random.default_rng(24), 7.0, 2.0, up, down)
    c = bennett(v, u).value + np.log(up / down)
    assert expit(v - c).sum() == pytest.approx(expit(u + c).sum(), rel=1e-9)


@pytest.mark.slow
def test_bennett_beats_either_way():
    """150 replicates at a spread where one-sided averages suffer; factor 0.8 is far off noise."""
    rng = np.random.default_rng(23)
    work = [gaussian_work(rng, 1.0, 2.0, 300, 300) for _ in range(150)]
    both = np.std([bennett(v, u).value for v, u in work])
    up, down = (np.std([bounds(v, u)[k] for v, u in work]) for k in (4, 6))
    assert both < 0.8 * min(up, down)


def test_bennett_far_apart():
    """No overlap at all, and values whose exponentials do not exist."""
    assert bennett([-1e6, -1e6 - 1], [-2e6, -2e6]).value == pytest.approx(5e5, rel=1e-2)
    v, u = gaussian_work(np.random.default_rng(16), 0.0, 1.0, 50, 70)
    near, far = bennett(v, u), bennett(v + 1e7, u - 1e7)
    assert far.value - 1e7 == pytest.approx(near.value, abs=1e-6)
    assert far.se == pytest.approx(near.se, rel=1e-6)


def test_chains_that_died():
    v, u = gaussian_work(np.random.default_rng(17), 5.0, 0.5, 2000, 2000)
    v[::2] = -np.inf  # half of the reference's mass has no likelihood: Z is half as large
    found = bennett(v, u)
    assert abs(found.value - 5.0 + np.log(2.0)) < 4.5 * found.se
    sandwich = bounds(v, u)
    assert sandwich.lower == -np.inf
    assert np.isnan(sandwich.lower_se)
    assert np.isnan(bennett(np.full(3, -np.inf), u).value)


def test_bounds():
    v, u = gaussian_work(np.random.default_rng(18), 2.0, 1.0, 10_000, 10_000)
    found = bounds(v, u)
    assert abs(found.lower - 1.5) < 4.5 * found.lower_se
    assert abs(found.upper - 2.5) < 4.5 * found.upper_se
    assert abs(found.reverse - 2.0) < 4.5 * found.reverse_se


def test_bounds_in_one_dimension():
    """Quadrature lies between the bounds of a ladder of two with moves that hardly move."""
    model = small_model("negative_binomial(dispersion=2.0)", 1)
    base = prior_reference(model)
    path, plan = ev.Path(base), crude((0.5, 1.0), step_size=0.01)
    x = exact_draws(np.random.default_rng(19), base, 1.0, 2000)
    v = run_forward(path, MGrad(), plan, 2000, SEED(20)).log_z[-1]
    u = run_reverse(path, MGrad(), plan, x, SEED(21)).log_z[-1]
    found, truth = bounds(v, u), log_z_by_quadrature(model)
    assert found.lower + 5 * found.lower_se < truth < found.upper - 5 * found.upper_se


def test_dependent_weights_come_in_groups():
    """Copies within groups tell nothing new, and the error bars know it."""
    v, u = gaussian_work(np.random.default_rng(22), 2.0, 1.0, 400, 300)
    copies = np.repeat(u[:, None], 10, axis=1)
    single, grouped = bounds(v, u), bounds(v, copies)
    np.testing.assert_allclose(grouped, single, rtol=1e-12)
    assert bennett(v, copies).se > 1.2 * bennett(v, copies.ravel()).se
    assert np.isnan(bennett(v, copies[:1]).se)
    with pytest.raises(ValueError, match="groups"):
        bennett(v, 3.0)

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from covering import covering
from moves.invariance import M, smallest_p_value, statistics
from problems import covariance, exact_draws, small_model
from scipy.stats import ks_2samp, truncnorm

import evidence as ev
from evidence.approximations.reference import prior_reference
from evidence.moves.gradient.gibbs import ProbitGibbs, factors

REFERENCES = {"ep": ev.fit_ep, "laplace": ev.fit_laplace, "prior": prior_reference}


def make_path(n=3, reference="ep"):
    return ev.Path(REFERENCES[reference](small_model("probit", n)))


# -- the right distribution --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reference", "beta", "update", "sweeps"),
    covering(REFERENCES, [1.0, 0.0], ["exact", "slice"], [1, 3]),
)
def test_invariance(reference, beta, update, sweeps):
    """False alarm rate 1e-5 per case, see :mod:`moves.invariance`."""
    move = ProbitGibbs(sweeps=sweeps, update=update)
    assert smallest_p_value(make_path(reference=reference), move, beta) > 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("update", ["exact", "slice"])
def test_from_far_away_in_ten_dimensions(update):
    """40 steps from the wrong corner, then one against rejection from the prior.

    Kolmogorov–Smirnov on all statistics; false alarm rate 1e-5 per case.
    """
    model = ev.GPModel(
        K=covariance(10, scale=4.0),
        y=np.repeat([1.0, -1.0], 5),
        mean=np.linspace(0.8, 0.0, 10),
    )
    path = ev.Path(prior_reference(model))
    rng, move = np.random.default_rng(0), ProbitGibbs(update=update)
    state = move.init(path, np.tile(-4.0 * model.y, (M // 2, 1)))
    for _ in range(40):
        state, _ = move.step(rng, path, 1.0, state)
    after = statistics(path, move.latent(path, state))
    fresh = statistics(path, exact_draws(rng, path.reference, 1.0, M))
    p = [ks_2samp(after[k], fresh[k], method="asymp").pvalue for k in fresh]
    assert min(p) * len(p) > 1e-5


def test_one_beta_per_row():
    """Rows at 0 become draws from q, rows at 1 stay posterior draws; false alarm rate 2e-5."""
    path, rng, move = make_path(), np.random.default_rng(1), ProbitGibbs()
    rows = np.resize([0.0, 1.0], M)
    x = exact_draws(rng, path.reference, 1.0, M)
    state, _ = move.step(rng, path, rows, move.init(path, x))
    for beta in (0.0, 1.0):
        after = statistics(path, state.x[rows == beta])
        fresh = statistics(path, exact_draws(rng, path.reference, beta, M))
        p = [ks_2samp(after[k], fresh[k], method="asymp").pvalue for k in fresh]
        assert min(p) * len(p) > 1e-5


# -- the same numbers as the textbook ----------------------------------------------------------


def textbook_step(rng, model, x, sweeps):
    """The step with conditionals from Schur complements and truncated normals from SciPy."""
    y, mean = model.y, model.mean
    cov = model.K + np.eye(model.n)
    shape = (model.n, len(x))
    z = x.T + y[:, None] * truncnorm.ppf(rng.random(shape), -(y * x).T, np.inf)
    for _ in range(sweeps):
        u = rng.random((*shape, 1))[:, :, 0]
        for n in range(model.n):
            rest = np.arange(model.n) != n
            weights = np.linalg.solve(cov[np.ix_(rest, rest)], cov[rest, n])
            centre = y[n] * (mean[n] + weights @ (z - mean[:, None])[rest])
            sd = np.sqrt(cov[n, n] - weights @ cov[rest, n])
            z[n] = y[n] * (centre + sd * truncnorm.ppf(u[n], -centre / sd, np.inf))
    f, noise = rng.standard_normal((2, *shape[::-1]))
    f = f @ np.linalg.cholesky(model.K).T
    return mean + f + np.linalg.solve(cov, z - (mean + f + noise).T).T @ model.K


@pytest.mark.interpreted
@pytest.mark.parametrize(("n", "sweeps"), [(3, 3), (32, 1), (33, 2), (70, 1)])
def test_same_numbers_as_the_textbook(n, sweeps):
    path = make_path(n)
    x = np.random.default_rng(2).standard_normal((4, n))
    move = ProbitGibbs(sweeps=sweeps)
    new, _ = move.step(np.random.default_rng(3), path, 1.0, move.init(path, x))
    expected = textbook_step(np.random.default_rng(3), path.model, x, sweeps)
    np.testing.assert_allclose(new.x, expected, atol=1e-9)


@pytest.mark.interpreted
def test_factors():
    model = small_model("probit", 6)
    f, eye = factors(model), np.eye(6)
    oriented = (model.K + eye) * np.outer(model.y, model.y)
    np.testing.assert_allclose(f.precision @ oriented, eye, atol=1e-12)


def test_corner_of_large_amplitudes():
    """K up to 1e8 and labels against the mean: prior draws go to the right side, all finite."""
    t = np.linspace(0.0, 3.0, 40)
    model = ev.GPModel(
        K=1e8 * np.exp(-0.5 * (t[:, None] - t) ** 2),
        y=np.repeat([1.0, -1.0], 20),
        mean=np.repeat([-60.0, 60.0], 20),
        jitter=1e-8,
    )
    path, rng = ev.Path(prior_reference(model)), np.random.default_rng(4)
    for update in ("exact", "slice"):
        move = ProbitGibbs(sweeps=3, update=update)
        state = move.init_reference(rng, path, 8)
        for _ in range(5):
            state, info = move.step(rng, path, 1.0, state)
        assert np.isfinite(state.x).all()
        assert np.mean(state.x * model.y > 0.0) > 0.9
        assert info.failures == 0


# -- the contract of a move --------------------------------------------------------------------


@pytest.mark.interpreted
@pytest.mark.parametrize("update", ["exact", "slice"])
@pytest.mark.parametrize("beta", [0.0, 1.0, np.array([1.0, 0.0, 1.0, 0.0, 1.0])])
def test_state_and_info(beta, update):
    path, move = make_path(4), ProbitGibbs(sweeps=2, update=update)
    assert move.target is None
    state = move.init_reference(np.random.default_rng(5), path, 5)
    before = [field.copy() for field in state]
    new, info = move.step(np.random.default_rng(6), path, beta, state)
    for field, copy in zip(state, before, strict=True):
        np.testing.assert_array_equal(field, copy)  # the input is not changed
    assert not np.isclose(new.x, state.x).any()
    np.testing.assert_array_equal(new.tilt, path.tilt(new.x))
    assert (info.acceptance.tolist(), info.failures, info.gradients) == ([1.0] * 5, 0, 10)
    again, _ = move.step(np.random.default_rng(6), path, beta, state)
    np.testing.assert_array_equal(again.x, new.x)  # same seed, same result


def test_factors_live_with_the_model():
    """One set per model, whatever the reference; gone when the model is."""
    model, made = small_model("probit", 4), []
    for fit in REFERENCES.values():
        ProbitGibbs().prepare(ev.Path(fit(model)))
        made.append(factors(model).precision)
    assert all(matrix is made[0] for matrix in made)
    alive = weakref.ref(made.pop())
    made.clear()
    del model
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("beta", [0.5, np.array([0.0, 0.5, 1.0]), np.array([1.0, 1.0, np.nan])])
def test_other_temperatures_are_refused(beta):
    path, move = make_path(), ProbitGibbs()
    state = move.init(path, np.zeros((3, 3)))
    with pytest.raises(ValueError, match=r"only, got beta = (0.5|nan): .* use 'elliptical'"):
        move.step(np.random.default_rng(0), path, beta, state)


def test_other_likelihoods_are_refused():
    path, move = ev.Path(ev.fit_ep(small_model("logit"))), ProbitGibbs()
    with pytest.raises(
        ValueError,
        match=r"'gibbs' needs a GPModel with likelihood 'probit' .*, got GPModel.*logit",
    ):
        move.prepare(path)
    with pytest.raises(ValueError, match="needs a GPModel with likelihood 'probit'"):
        move.init(path, np.zeros((3, 3)))
    with pytest.raises(ValueError, match="needs a GPModel with likelihood 'probit'"):
        move.init_reference(np.random.default_rng(0), path, 3)


def test_bad_options():
    for sweeps in (0, 1.5):
        with pytest.raises(
            ValueError, match=f"sweeps must be a whole number, at least 1, got {sweeps}"
        ):
            ProbitGibbs(sweeps=sweeps)
    with pytest.raises(ValueError, match=r"unknown update 'gibbs'\. Known: exact, slice"):
        ProbitGibbs(update="gibbs")

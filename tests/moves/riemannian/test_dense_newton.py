"""The position step where the metric is the Hessian: nearly Newton's, with the same solution."""

import numpy as np
import pytest

import evidence as ev
from evidence.approximations.density.modes import fit_density_laplace
from evidence.moves.riemannian.dense.field import DensityField, Goal
from evidence.moves.riemannian.dense.integrators import Leapfrog, solve_position
from evidence.moves.riemannian.dense.small_matrices import extrapolate, newton
from evidence.paths.density import DensityPath


def problem(beta, metric="hessian"):
    data = ev.examples.simulated_logistic(3, 60, seed=1)
    model = ev.examples.logistic_regression(data.X, data.y, prior_sd=3.0).model
    if metric != "hessian":
        model = ev.DensityModel(
            **{k: v for k, v in model.functions._asdict().items() if v is not None},
            dim=3,
            prior=model.prior,
            metric=metric,
            vectorized=True,
        )
    q = fit_density_laplace(model)
    rng = np.random.default_rng(0)
    y = q.mean + 1.5 * rng.standard_normal((7, 3)) @ q.root.T
    field = DensityField(DensityPath(q), np.full(7, beta))
    point = field.point(y)
    return field, point, point.metric.momentum(rng.standard_normal(y.shape))


def solve(field, *arguments):
    """w, which rows arrived, and the evaluations it took."""
    before = field.evaluations
    return *solve_position(field, *arguments), field.evaluations - before


@pytest.mark.parametrize("beta", [0.4, 1.0])
def test_solves_the_equation(beta):
    field, point, p = problem(beta)
    half, v = np.full((7, 1), 0.25), point.metric.solve(p)
    w, arrived, count = solve(field, point, half, v, p, Goal(1e-11))
    assert arrived.all()
    there = field.metric(point.y + half * (v + w))
    np.testing.assert_allclose(there.solve(p), w, rtol=1e-9, atol=1e-12)
    field.hessian = False
    plain, arrived, plain_count = solve(field, point, half, v, p, Goal(1e-11))
    assert arrived.all()
    np.testing.assert_allclose(plain, w, rtol=1e-9, atol=1e-12)
    assert count <= plain_count


def test_trajectories_agree_with_softabs_of_the_same_metric():
    """With all curvatures positive, SoftAbs is the Hessian itself."""
    ends, (_, _, p) = [], problem(1.0)
    for metric in ("hessian", ev.SoftAbs(1e8)):
        field, point, _ = problem(1.0, metric)
        eps = np.full(7, 0.3)
        ends.append(Leapfrog(1e-11, 1e-8).follow(field, point, p, eps, 4))
    assert (ends[0].code == 0).all()
    np.testing.assert_allclose(ends[0].y, ends[1].y, rtol=1e-7)
    np.testing.assert_allclose(ends[0].log_ratio, ends[1].log_ratio, atol=1e-7)


def test_only_for_the_hessian():
    assert problem(1.0)[0].hessian
    assert not problem(1.0, "softabs")[0].hessian
    fisher = ev.Fisher(
        lambda x: np.broadcast_to(np.eye(3), (len(x), 3, 3)), lambda x, W: np.zeros_like(x)
    )
    assert not problem(1.0, fisher)[0].hessian


def test_falls_back_where_the_extrapolated_matrix_is_not_positive():
    A, start = np.eye(2)[None] * 1.0, np.eye(2)[None] * 9.0
    p, w, out = np.ones((1, 2)), np.zeros((1, 2)), np.empty((1, 2))
    newton(A, start, p, w, out)
    np.testing.assert_allclose(out, p)
    newton(-A, start, p, w, out)
    assert np.isnan(out).all()


def test_the_first_guess_knows_metric_and_slope():
    """Twice the step, four times the error: what it lacks is the second derivative."""
    field, _, p = problem(1.0)
    y = field.path.reference.mean + 0.3 * np.ones((7, 3))
    point = field.point(y, tensor=True)
    v, A, errors = point.metric.solve(p), field.matrix(y), []
    for eps in (0.1, 0.2):
        half = np.full((7, 1), 0.5 * eps)
        guess, nothing = np.empty_like(v), point._replace(tensor=None)
        extrapolate(A, point.tensor, half, p, v, guess)
        w, _ = solve_position(field, nothing, half, v, p, Goal(1e-13))
        errors.append(np.abs(guess - w).max())
    assert 3.0 < errors[1] / errors[0] < 6.0


def test_a_tensor_may_come_in_any_layout():
    field, point, _ = problem(1.0)
    model = field.path.model
    given = model.functions._asdict()
    other = ev.DensityModel(
        dim=3,
        vectorized=True,
        prior=model.prior,
        metric="hessian",
        **given
        | {
            "tensor": lambda x: np.moveaxis(given["tensor"](x), 0, -1).copy().transpose(3, 0, 1, 2)
        },
    )
    path = DensityPath(fit_density_laplace(other))
    T = DensityField(path, field.beta).tensor(point.y)
    assert T.flags.c_contiguous
    np.testing.assert_allclose(T, field.tensor(point.y))


def test_fewer_evaluations_with_all_derivatives_at_the_start():
    field, point, p = problem(1.0)
    half, v = np.full((7, 1), 0.15), point.metric.solve(p)
    known = field.point(point.y, tensor=True)
    with_guess = solve(field, known, half, v, p, Goal(1e-9))
    without = solve(field, point, half, v, p, Goal(1e-9))
    np.testing.assert_allclose(with_guess[0], without[0], rtol=1e-8, atol=1e-11)
    assert with_guess[2] < without[2]

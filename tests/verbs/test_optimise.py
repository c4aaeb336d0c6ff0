"""Optimising hyperparameters: against scikit-learn where EP is exact, and what is said."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from covering import seldom
from scipy import stats
from scipy.sparse import csc_array
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

import evidence as ev
from evidence.approximations.gp.gradient import log_evidence_gradient
from evidence.execution.clock import Stopped
from evidence.hyper.at_theta import NoEvidence, ep_at
from evidence.hyper.findings import doubts, on_restarts, tabulate
from evidence.hyper.search import Search, SearchEnd, _Descent
from evidence.models import likelihoods
from evidence.models.kernels.parse import parse_kernel
from evidence.models.priors import Priors
from evidence.verbs.optimise import _starts

pytestmark = pytest.mark.usefixtures("no_layout")


def regression(kernel="2.0 * RBF(0.5)", n=30, **words):
    rng = np.random.default_rng(7)
    X = np.sort(rng.uniform(0.0, 6.0, n))[:, None]
    y = np.sin(2.0 * X[:, 0]) + 0.2 * rng.normal(size=n)
    return ev.GPModel(X, y, kernel, **{"likelihood": "gaussian(noise_std=0.5)", **words})


def classification(kernel="1.0 * RBF(1.0)", n=40):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 2))
    y = np.where(np.sin(2.0 * X[:, 0]) + 0.5 * rng.normal(size=n) > 0.0, 1, -1)
    return ev.GPModel(X, y, kernel)


def quiet(model, **words):
    return ev.optimise(model, progressbar=False, **words)


def codes(result):
    return [warning.code for warning in result.warnings]


def search_of(model, ep=ep_at):
    """A search over all of a model's hyperparameters, with another EP if need be."""
    free = model.hyperparameters
    return Search(partial(ep, model), free, np.arange(len(free)))


def doubts_of(search, reference=None, errors=None, interrupted=False):
    """Codes of what a finished search warns of."""
    names = [f"p{i}" for i in search.moving]
    table, *_ = tabulate(search, names, np.ones(len(names)) if errors is None else errors)
    found = doubts(search, table, reference or search.best.reference, interrupted)
    return [warning.code for warning in found]


@pytest.mark.parametrize(
    ("start", "truth", "structure"),
    seldom(
        [
            ("gamma(shape=1.0)", likelihoods.Gamma(6.0), "kernel"),
            ("ordinal(gaps=(4.0, 4.0))", likelihoods.Ordinal((1.2, 0.5)), "sparse"),
            ("gamma(shape=1.0)", likelihoods.Gamma(6.0), "sparse"),
            ("ordinal(gaps=(4.0, 4.0))", likelihoods.Ordinal((1.2, 0.5)), "kernel"),
        ],
        *(0, 1),
    ),
)
def test_parameters_of_a_likelihood_are_learnt(start, truth, structure):
    """Within 4 of the standard errors that the table gives, from starts far away."""
    rng = np.random.default_rng(11)
    X = np.sort(rng.uniform(0.0, 6.0, 300))[:, None]
    y = truth.simulate(1.5 * np.sin(X[:, 0]), rng)
    if structure == "kernel":
        model = ev.GPModel(X, y, "1.0 * RBF(1.0)", likelihood=start)
    else:
        bins = np.floor(5.0 * X[:, 0]).astype(int)
        A = np.eye(30)[bins]
        Q = np.diag(np.full(30, 2.0)) - np.eye(30, k=1) - np.eye(30, k=-1)
        model = ev.SparseModel(csc_array(8.0 * Q), y, likelihood=start, A=A)
    best = quiet(model)
    assert not best.warnings
    table = best.table[best.table.index.str.startswith("likelihood__")]
    want = [np.log(truth.value_of(name.removeprefix("likelihood__"))) for name in table.index]
    np.testing.assert_array_less(np.abs(table.log_value - want), 4.0 * table.se)
    gradient = log_evidence_gradient(best.reference)
    assert np.abs(gradient).max() < 1e-2


def test_gaussian_likelihood_agrees_with_scikit_learn():
    """EP is exact; the noise is a WhiteKernel there."""
    kernel = "2.0 * Matern(0.5, nu=1.5)"
    best = quiet(regression(kernel, jitter=0.0), tol=1e-4)
    assert best.warnings == ()
    X, y = best.model.X, best.model.y
    kernel = parse_kernel(f"{kernel} + WhiteKernel(0.25)")
    theirs = GaussianProcessRegressor(kernel, alpha=0.0).fit(X, y)
    assert best.logz == pytest.approx(theirs.log_marginal_likelihood_value_, abs=1e-6)
    log_values = best.table.log_value.to_numpy() * [1.0, 1.0, 2.0]
    np.testing.assert_allclose(log_values, theirs.kernel_.theta, atol=1e-3)
    again = ev.fit_ep(best.model)
    assert again.logz == best.logz
    assert np.abs(log_evidence_gradient(again)).max() < 1e-3


def test_standard_errors_are_those_of_the_curvature():
    best = quiet(regression(), tol=1e-4)
    theta, h = best.table.log_value.to_numpy(), 1e-2
    e = h * np.eye(3)

    def f(*steps):
        return ev.fit_ep(best.model.at(theta + sum(steps))).logz

    hessian = [[(f(a, b) - f(a, -b) - f(-a, b) + f(-a, -b)) / (4.0 * h * h) for b in e] for a in e]
    exact = np.sqrt(np.diag(np.linalg.inv(-np.array(hessian))))
    np.testing.assert_allclose(best.table.se, exact, rtol=3e-3)


def test_classification_ends_at_a_maximum():
    model = classification()
    best = quiet(model)
    assert best.logz > ev.fit_ep(model).logz
    assert best.history.logz.max() == pytest.approx(best.logz, abs=1e-8)
    assert best.history.gradient.iloc[-1] < 1e-3
    near = best.table.log_value.to_numpy()
    for step in 0.1 * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]]):
        assert ev.fit_ep(model.at(near + step)).logz < best.logz
    assert best.logz_corrected == best.reference.logz_corrected
    assert str(best.model.kernel) in best.summary()
    assert "Optimum(logz=" in repr(best)
    assert best.evidence(method="ep").logz == pytest.approx(best.logz, abs=1e-8)


def test_saved_and_loaded(tmp_path):
    """Without EP, which is fitted again to the model given, at the same hyperparameters."""
    model = regression()
    best = quiet(model, fixed=["constant_value"])
    best.save(tmp_path / "optimum.npz")
    again = ev.Optimum.load(tmp_path / "optimum.npz", model=model)
    assert again.logz == best.logz
    assert again.model.kernel == best.model.kernel
    assert again.table.equals(best.table)
    assert again.history.equals(best.history)
    assert again.warnings == best.warnings
    with pytest.raises(ValueError, match="estimate is not kept"):
        again.evidence()
    with pytest.raises(ValueError, match="model="):
        ev.Optimum.load(tmp_path / "optimum.npz")
    with pytest.raises(ValueError, match="model is another one"):
        ev.Optimum.load(tmp_path / "optimum.npz", model=regression(n=29))


def test_fixed_parameters_stay():
    best = quiet(regression(), fixed=["constant_value"])
    assert list(best.table.index) == ["k2__length_scale", "likelihood__noise_std"]
    assert best.model.kernel.k1.constant_value == 2.0


def test_priors_are_densities_of_the_log():
    """With the density of the log, the maximum moves to where the gradients cancel."""
    prior = stats.lognorm(s=0.05, scale=3.0)  # log v ~ N(log 3, 0.05²)
    best = quiet(regression(), priors={"length_scale": prior}, tol=1e-4)
    theta = best.table.log_value["k2__length_scale"]
    pull = -(theta - np.log(3.0)) / 0.05**2
    gradient = log_evidence_gradient(best.reference)
    assert gradient[1] + pull == pytest.approx(0.0, abs=2e-3)
    density = stats.norm(np.log(3.0), 0.05).logpdf(theta)
    assert best.history.objective.max() == pytest.approx(best.logz + density, abs=1e-7)


def test_same_seed_same_answer():
    one, two, three = (
        quiet(classification(), n_restarts=2, random_seed=seed, max_iterations=3)
        for seed in (4, 4, 5)
    )
    assert one.restarts.equals(two.restarts)
    assert not one.restarts.equals(three.restarts)
    assert one.logz == two.logz
    assert list(one.restarts.index) == [0, 1, 2]
    assert set(one.history.restart) == {0, 1, 2}


def test_restart_windows():
    """Length scales about the distances in X, the rest about the model, within bounds."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2)) * [1.0, 100.0]
    model = ev.GPModel(X, np.ones(50), "5.0 * RBF([0.7, 30.0], [0.5, 1e4])")
    starts = np.exp(_starts(model, np.arange(3), None, 500, rng)[1:])
    np.testing.assert_allclose(starts[:, 0].min(), 0.5, rtol=0.1)
    np.testing.assert_allclose(starts[:, 0].max(), 50.0, rtol=0.1)
    middle = np.sqrt(2.0) * np.median(np.abs(np.subtract.outer(X[:, 0], X[:, 0])))
    assert starts[:, 1].min() == pytest.approx(0.5, rel=0.05)
    assert starts[:, 1].max() == pytest.approx(10.0 * middle, rel=0.1)
    assert starts[:, 2].max() > 300.0
    priors = {"constant_value": stats.gamma(2)}
    prior = Priors.of(model.hyperparameters, priors, complete=False)
    starts = np.exp(_starts(model, np.arange(3), prior, 500, rng)[1:])
    assert starts[:, 0].max() == pytest.approx(stats.gamma(2).ppf(0.95), rel=0.05)


def test_a_bound_is_named():
    best = quiet(regression("2.0 * RBF(0.5, (0.1, 0.6))"))
    assert best.table.at_bound.to_list() == [False, True, False]
    assert np.isnan(best.table.se["k2__length_scale"])
    assert codes(best)[0] == "at-bound"
    assert "k2__length_scale is at its upper bound 0.6" in best.warnings[0]
    assert "at_bound" in best.summary()


def test_stopping_early_is_said():
    assert "stopped-early" in codes(quiet(regression(), max_iterations=1))


def test_no_curvature_is_said():
    """A point that is no maximum: a saddle has no standard errors."""
    model = regression()
    search = search_of(model)
    search.recorded(0, model.at([-5.0, 0.0, 0.0]).hyperparameters.theta, None)
    errors = search.standard_errors()
    assert np.isnan(errors).all()
    search.ends.append(_Descent(search, 0, search.best).end(5, True, ""))
    assert doubts_of(search, errors=errors) == ["no-curvature"]


def singular_beyond(limit):
    """EP that no hyperparameters with a longer length scale have."""

    def ep(model, theta, start=None, tol=1e-9):
        if theta[1] > np.log(limit):
            raise NoEvidence("singular")
        return ep_at(model, theta, start, tol)

    return ep


def test_rejected_points():
    """Beyond a length scale of 0.7 nothing works: the search comes back and stays inside."""
    model = regression()
    search = search_of(model, singular_beyond(0.7))
    search.run(0, model.hyperparameters.theta, 200, 1e-3)
    assert np.isnan([row.objective for row in search.history]).any()
    assert 0.65 < np.exp(search.best.theta[1]) <= 0.7
    outside = model.at({"length_scale": 0.8}).hyperparameters.theta
    search.run(1, outside, 200, 1e-3)
    assert search.ends[1].message == "rejected at its start: singular"
    assert np.isnan(search.ends[1].objective)
    assert "starts-failed" in doubts_of(search)


def test_a_rejected_point_is_on_a_cone():
    """Above the last good point, with its own gradient, and no higher than f falls there."""
    model, good = regression(), [True]

    def ep(model, theta, start=None, tol=1e-9):
        if not good:
            raise NoEvidence("singular")
        return ep_at(model, theta, start, tol)

    search = search_of(model, ep)
    first = search.evaluate(model.hyperparameters.theta, None)
    descent = _Descent(search, 0, first)
    good.clear()
    x, h = first.theta + np.array([0.3, -0.2, 0.5]), 1e-5
    value, gradient = descent(x)
    slope = [(descent(x + h * e)[0] - descent(x - h * e)[0]) / (2 * h) for e in np.eye(3)]
    np.testing.assert_allclose(gradient, slope, rtol=1e-6)
    rise = (value * descent.scale + first.objective) / np.linalg.norm(x - first.theta)
    assert rise == pytest.approx(1.0 + np.linalg.norm(first.gradient))
    assert descent.top is first
    assert np.isnan(search.history[-1].objective)


def test_a_log_z_without_digits_is_rejected():
    model = regression("100.0 * RBF(1.0)", likelihood="gaussian(noise_std=2e-5)")
    with pytest.raises(NoEvidence, match="digits"):
        search_of(model).evaluate(model.hyperparameters.theta, None)
    with pytest.raises(RuntimeError, match="at any start: rejected at its start"):
        quiet(model)


class Interrupting(RBF):
    """A kernel that presses ^C when it is called for the last time."""

    calls_left = 0
    raised = KeyboardInterrupt

    def __call__(self, *args, **words):
        Interrupting.calls_left -= 1
        if Interrupting.calls_left == 0:
            raise Interrupting.raised
        return super().__call__(*args, **words)


def interrupted_after(calls):
    model = regression(Interrupting(0.5))
    Interrupting.calls_left = calls
    return quiet(model, n_restarts=1)


def test_interrupt_keeps_the_best():
    best = interrupted_after(6)
    assert "interrupted" in codes(best)
    assert best.logz == pytest.approx(best.history.logz.max(), abs=1e-8)
    assert 1 <= len(best.history) <= 5
    assert len(best.restarts) == 1
    with pytest.raises(KeyboardInterrupt):
        interrupted_after(1)


def test_time_that_is_up_is_no_interrupt(monkeypatch):
    monkeypatch.setattr(Interrupting, "raised", Stopped)
    best = interrupted_after(6)
    assert "stopped-early" in codes(best)
    assert "interrupted" not in codes(best)


def test_restarts_that_disagree():
    """Zigzag data are either signal (short length scale) or noise (long): two optima."""
    X = np.arange(6.0)
    y = np.array([0.0, 1.0, 0.0, 1.0, 0.1, 0.9])
    model = ev.GPModel(X, y, "1.0 * RBF(1.0, (0.05, 100.0))", likelihood="gaussian(noise_std=0.5)")
    best = quiet(model, n_restarts=6, random_seed=1)
    assert best.restarts.objective.nunique() > 1
    (disagree,) = (w for w in best.warnings if w.code == "restarts-disagree")
    assert "k2__length_scale a factor" in disagree


def test_warnings_on_restarts():
    def found(*heights_and_places):
        ends = [
            SearchEnd(i, np.array([place]), height, height, 5, True, "")
            for i, (height, place) in enumerate(heights_and_places)
        ]
        return list(on_restarts(ends, np.arange(1), ["a"]))

    assert found((0.0, 0.0), (-1e-4, 0.01)) == []
    assert found((0.0, 0.0), (-1e-4, 0.01), (-5.0, 3.0)) == []
    assert [w.code for w in found((0.0, 0.0), (-5.0, 3.0))] == ["found-once"]
    first, second = found((-0.5, 3.0), (0.0, 0.0))
    assert (first.code, second.code) == ("restarts-disagree", "found-once")
    assert "1 of 2 ended elsewhere" in first
    assert "0.5 nats, with a a factor 20.1 away" in first


def test_another_fixed_point_is_said():
    model = regression()
    search = search_of(model)
    search.run(0, model.hyperparameters.theta, 200, 1e-3)
    reference = search.best.reference
    assert doubts_of(search) == []
    lower = replace(reference, logz=reference.logz - 0.5)
    assert doubts_of(search, lower) == ["several-fixed-points"]


def test_no_step_is_wild():
    """The first step is at most one unit of log in every coordinate."""
    seen = []

    def ep(model, theta, start=None, tol=1e-9):
        seen.append(theta.copy())
        return ep_at(model, theta, start, tol)

    model = regression(likelihood="gaussian(noise_std=5.0)")
    search = search_of(model, ep)
    search.run(0, model.hyperparameters.theta, 50, 1e-3)
    assert np.abs(seen[1] - seen[0]).max() <= 1.0 + 1e-9
    assert search.ends[0].converged


def test_plot():
    best = quiet(regression(), n_restarts=1, random_seed=0)
    ax = best.plot()
    assert len(ax.lines) == 2
    assert best.plot(ax) is ax


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"n_restarts": -1}, "n_restarts must be a whole number"),
        ({"max_iterations": 0}, "max_iterations"),
        ({"tol": 0.0}, "tol must be a positive number"),
        ({"random_seed": -1}, "random_seed"),
        ({"fixed": "length_scale"}, "fixed must be a list"),
        ({"fixed": ["lenth_scale"]}, "did you mean"),
        ({"fixed": ["length_scale", "constant_value", "noise_std"]}, "leave at least one"),
        ({"priors": [1]}, "priors must map"),
        ({"priors": {"length_scale": 1.0}}, "frozen"),
        ({"priors": {"length_scale": stats.uniform(2, 1)}}, "prior of k2__length_scale"),
        (
            {"priors": {"length_scale": stats.gamma(2)}, "fixed": ["length_scale"]},
            "has a prior and is fixed",
        ),
    ],
)
def test_bad_arguments(words, message):
    with pytest.raises(ValueError, match=message):
        quiet(regression(), **words)


def test_models_that_cannot_be_optimised():
    with pytest.raises(ValueError, match="must be a GPModel"):
        quiet(np.eye(2))
    with pytest.raises(ValueError, match="no free hyperparameters"):
        quiet(ev.GPModel(K=np.eye(2), y=[1, -1]))
    outside = regression("2.0 * RBF(0.5, (1.0, 2.0))")
    with pytest.raises(ValueError, match=r"starts at 0\.5, outside its bounds"):
        quiet(outside)


def test_a_prior_with_an_edge_bounds_the_search():
    """The optimum is at the edge of length_scale's support, and elsewhere in the amplitude."""
    from scipy.stats import uniform

    x = np.linspace(0, 3, 12)
    model = ev.GPModel(x, np.where(np.sin(4 * x) > 0, 1, -1), "4.0 * RBF(1.5)")
    found = ev.optimise(model, priors={"length_scale": uniform(1, 2)}, progressbar=False)
    held = ev.optimise(model.at({"length_scale": 2.98}), fixed=["length_scale"], progressbar=False)
    assert found.logz > held.logz - 0.02
    assert found.table.at_bound["k2__length_scale"]
    assert "stopped-early" not in codes(found)


def test_the_order_of_rows_decides_no_optimum():
    """Two lines under noise with heavy tails: EP started from nothing may follow the wrong one."""
    rng, x, i = np.random.default_rng(0), np.linspace(-2.0, 2.0, 30), np.arange(30)
    y = np.where(i % 3, -3.0 * x, 3.0 * x) + 0.3 * rng.standard_t(3, 30)
    logz = []
    for order in (i, np.random.default_rng(1).permutation(30)):
        kernel = "10.0 * DotProduct(0.001) + WhiteKernel(0.0001)"
        model = ev.GPModel(
            x[order, None], y[order], kernel, likelihood="student_t(df=3, scale=0.3)"
        )
        fixed = [name for name in model.hyperparameters.names if "constant" not in name]
        best = quiet(model, fixed=fixed)
        assert best.reference.mean @ (x[order] * y[order]) > 0.0
        logz.append(best.logz)
    assert logz[0] == pytest.approx(logz[1], abs=1e-4)


@pytest.mark.parametrize("width", [0.1, 1e-3])
def test_a_start_at_the_edge_of_a_prior(width):
    """The model's own length is where its prior begins: differences are taken inside."""
    model = ev.GPModel(np.arange(6.0), [1, 0, 2, 1, 3, 0], "1.0 * RBF(1.0)", likelihood="poisson")
    prior = {"length_scale": stats.uniform(1.0, width)}
    found = ev.optimise(model, fixed=["constant_value"], priors=prior, progressbar=False)
    length = found.table.value["k2__length_scale"]
    assert 1.0 < length < 1.0 + width

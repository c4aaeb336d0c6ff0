"""Optimising hyperparameters: against scikit-learn where EP is exact, and what is said."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import MagicMock

import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process import GaussianProcessRegressor

import evidence as ev
from evidence.approximations.gp.gradient import log_evidence_gradient
from evidence.hyper import search
from evidence.models.covariance import CovarianceError
from evidence.models.kernels.parse import parse_kernel
from evidence.verbs import optimise as optimisation
from evidence.verbs import optimum


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
    starts = np.exp(optimisation._starts(model, np.arange(3), None, 500, rng)[1:])
    np.testing.assert_allclose(starts[:, 0].min(), 0.5, rtol=0.1)
    np.testing.assert_allclose(starts[:, 0].max(), 50.0, rtol=0.1)
    middle = np.sqrt(2.0) * np.median(np.abs(np.subtract.outer(X[:, 0], X[:, 0])))
    assert starts[:, 1].min() == pytest.approx(0.5, rel=0.05)
    assert starts[:, 1].max() == pytest.approx(10.0 * middle, rel=0.1)
    assert starts[:, 2].max() > 300.0
    priors = {"constant_value": stats.gamma(2)}
    prior = optimisation._priors(model.hyperparameters, priors, np.arange(3))
    starts = np.exp(optimisation._starts(model, np.arange(3), prior, 500, rng)[1:])
    assert starts[:, 0].max() == pytest.approx(stats.gamma(2).ppf(0.95), rel=0.05)


def test_a_bound_is_named():
    best = quiet(regression("2.0 * RBF(0.5, (0.1, 0.6))"))
    assert best.table.at_bound.to_list() == [False, True, False]
    assert np.isnan(best.table.se["k2__length_scale"])
    assert "k2__length_scale is at its upper bound 0.6: widen" in best.warnings[0]
    assert "at bound" in best.summary()


def test_stopping_early_is_said():
    best = quiet(regression(), max_iterations=1)
    assert any("stopped early" in w and "max_iterations" in w for w in best.warnings)


def test_no_curvature_is_said(monkeypatch):
    """A point that is no maximum: a saddle has no standard errors."""
    model = regression()
    seen = search.Search(model, np.arange(3), None, MagicMock())
    seen.best = seen.evaluate(model.at([-5.0, 0.0, 0.0]).hyperparameters.theta, None)
    assert np.isnan(seen.standard_errors()).all()
    monkeypatch.setattr(search.Search, "standard_errors", lambda self: np.full(3, np.nan))
    best = quiet(model)
    assert best.warnings[0].startswith("no standard errors: log Z does not curve")
    assert "-" in best.summary()


def test_rejected_points(monkeypatch):
    """Beyond a length scale of 1 nothing works: the search comes back and stays inside."""

    def fit(model, **words):
        if model.kernel.k2.length_scale > 0.7:
            raise CovarianceError("singular")
        return ev.fit_ep(model, **words)

    monkeypatch.setattr(search, "fit_ep", fit)
    best = quiet(regression())
    assert best.rejected > 0
    assert best.table.value["k2__length_scale"] <= 0.7
    assert best.table.value["k2__length_scale"] > 0.65
    assert f"({best.rejected} rejected)" in best.summary()
    lost = quiet(regression(), n_restarts=3, random_seed=0)
    assert any(
        "starts failed, the last rejected at its start: singular" in w for w in lost.warnings
    )
    with pytest.raises(RuntimeError, match="at any start: rejected at its start: singular"):
        quiet(regression("2.0 * RBF(0.8)"))


def test_a_rejected_point_is_on_a_cone(monkeypatch):
    """Above the last good point, with its own gradient, and no higher than f falls there."""
    model = regression()
    seen = search.Search(model, np.arange(3), None, MagicMock())
    first = seen.evaluate(model.hyperparameters.theta, None)
    descent = search._Descent(seen, 0, first)
    monkeypatch.setattr(seen, "evaluate", MagicMock(side_effect=search.Rejected("singular")))
    x, h = first.theta + np.array([0.3, -0.2, 0.5]), 1e-5
    value, gradient = descent(x)
    slope = [(descent(x + h * e)[0] - descent(x - h * e)[0]) / (2 * h) for e in np.eye(3)]
    np.testing.assert_allclose(gradient, slope, rtol=1e-6)
    rise = (value * descent.scale + first.objective) / np.linalg.norm(x - first.theta)
    assert rise == pytest.approx(1.0 + np.linalg.norm(first.gradient))
    assert descent.top is first
    assert np.isnan(seen.history[-1].objective)


def test_a_log_z_without_digits_is_rejected():
    model = regression("100.0 * RBF(1.0)", likelihood="gaussian(noise_std=2e-5)")
    with pytest.raises(search.Rejected, match="nats of rounding"):
        search.Search(model, np.arange(3), None, MagicMock()).evaluate(
            model.hyperparameters.theta, None
        )


def test_interrupt_keeps_the_best(monkeypatch):
    calls = []

    def fit(model, **words):
        calls.append(model)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return ev.fit_ep(model, **words)

    monkeypatch.setattr(search, "fit_ep", fit)
    best = quiet(regression(), n_restarts=1)
    assert any("interrupted" in w for w in best.warnings)
    assert best.logz == pytest.approx(best.history.logz.max(), abs=1e-8)
    assert len(best.history) == 3
    calls[:] = [None] * 3
    with pytest.raises(KeyboardInterrupt):
        quiet(regression())


def test_restarts_that_disagree():
    """Zigzag data are either signal (short length scale) or noise (long): two optima."""
    X = np.arange(6.0)
    y = np.array([0.0, 1.0, 0.0, 1.0, 0.1, 0.9])
    model = ev.GPModel(X, y, "1.0 * RBF(1.0, (0.05, 100.0))", likelihood="gaussian(noise_std=0.5)")
    best = quiet(model, n_restarts=6, random_seed=1)
    assert best.restarts.objective.nunique() > 1
    assert any(
        "restarts disagree" in w and "k2__length_scale a factor" in w for w in best.warnings
    )


def test_warnings_on_restarts():
    def ends(*heights_and_places):
        return [
            optimum.End(i, np.array([place]), height, height, 5, True, "")
            for i, (height, place) in enumerate(heights_and_places)
        ]

    def said(*what):
        return optimum._on_restarts(ends(*what), np.arange(1), ["a"])

    assert said((0.0, 0.0), (-1e-4, 0.01)) == []
    assert said((0.0, 0.0), (-1e-4, 0.01), (-5.0, 3.0)) == []
    assert "found by only 1 of 2" in said((0.0, 0.0), (-5.0, 3.0))[0]
    first, second = said((-0.5, 3.0), (0.0, 0.0))
    assert "1 of 2 ended elsewhere" in first
    assert "0.5 nats, with a a factor 20.1 away" in first
    assert "found by only 1 of 2" in second


def test_another_fixed_point_is_said(monkeypatch):
    fit = optimisation.fit_ep
    monkeypatch.setattr(optimisation, "fit_ep", lambda m: replace(fit(m), logz=fit(m).logz - 0.5))
    assert any("several fixed points here" in w for w in quiet(regression()).warnings)


def test_no_step_is_wild():
    """The first step is at most one unit of log in every coordinate."""
    seen = []

    class Watched(search.Search):
        def evaluate(self, theta, start, tol=1e-6):
            seen.append(theta.copy())
            return super().evaluate(theta, start, tol)

    model = regression(likelihood="gaussian(noise_std=5.0)")
    watched = Watched(model, np.arange(3), None, MagicMock())
    watched.run(0, model.hyperparameters.theta, 50, 1e-3)
    assert np.abs(seen[1] - seen[0]).max() <= 1.0 + 1e-9
    assert watched.ends[0].converged


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
        ({"priors": {"length_scale": stats.uniform(2, 1)}}, "no density at the model's own"),
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
    assert not any("stopped early" in warning for warning in found.warnings)

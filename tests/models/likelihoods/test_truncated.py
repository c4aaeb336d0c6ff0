"""Data within bounds: densities that integrate to one, tails, draws, and evidence by formulas."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from scipy import integrate, stats

import evidence as ev
from evidence.models.likelihoods import (
    Censored,
    Exponential,
    Gamma,
    Gaussian,
    LogLogistic,
    LogNormal,
    Predicted,
    Truncated,
    Weibull,
)

from . import oracle

FAMILIES = [Gaussian(0.5), LogNormal(0.5), Exponential(), Weibull(2.5), LogLogistic(3.0)]
WINDOWS = [(0.1, 1.2), (0.1, np.inf), (-np.inf, 1.2), (0.6, 0.6001)]


@pytest.mark.parametrize("bound", [Truncated(Gaussian(0.5), 0.1, 3.0), Censored(Weibull(2.5))])
def test_parameters_of_many_values_at_once(bound):
    y, values = np.array([0.4, 1.1, 2.0]), {next(iter(bound.free)): np.array([0.6, 1.7])}
    got, places = bound.thetas(y, values), bound.locations_at(y, values)
    for b in range(2):
        one = bound.changed({name: float(each[b]) for name, each in values.items()})
        np.testing.assert_allclose(got[:, b], one.theta(y), rtol=1e-14)
        np.testing.assert_allclose(places[b], one.location(y))


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("likelihood", FAMILIES, ids=lambda f: f.name)
def test_a_density_within_the_window(likelihood, window):
    """Relative to that of the family by what the window holds; derivatives by differences."""
    x = np.linspace(-1.5, 1.5, 7)
    y, own = np.full(7, 0.60003), Truncated(likelihood, *window)
    nodes, w = np.polynomial.legendre.leggauss(200)
    low, high = max(window[0], 0.0 if likelihood is not FAMILIES[0] else -8.0), min(window[1], 9.0)
    if window[1] == np.inf:
        inside = 1.0 - likelihood.cdf(np.full(7, low), x)
    else:
        t = 0.5 * (low + high + (high - low) * nodes[:, None]) * np.ones(7)
        p = [np.exp(likelihood.log_prob(x, row)) for row in t]
        inside = 0.5 * (high - low) * (w @ np.array(p))
    rows = own.derivatives(x, y)
    want = likelihood.log_prob(x, y) - np.log(inside)
    np.testing.assert_allclose(rows[0], want, rtol=1e-7, atol=1e-7)
    h = 1e-4
    for k in (1, 2, 3):
        ends = [own.derivatives(x + s * h, y)[k - 1] for s in (-2, -1, 1, 2)]
        slope = (ends[0] - 8 * ends[1] + 8 * ends[2] - ends[3]) / (12 * h)
        np.testing.assert_allclose(rows[k], slope, rtol=1e-5, atol=1e-4)
    assert (own.fisher(y) > 0.0).all()
    assert own.log_concave == (likelihood.name in ("gaussian", "lognormal"))


@pytest.mark.parametrize("x", [-1e3, -40.0, 0.3, 60.0, 1e4])
@pytest.mark.parametrize("window", [(0.0, 1e-9), (0.0, 2.0), (0.0, np.inf), (-np.inf, 1.0)])
def test_far_tails_and_narrow_windows(window, x):
    """Beside 60 digits: what is lost is 1e-16 of squares."""
    s, y = 0.25, 5e-10
    got = Truncated(Gaussian(s), *window).derivatives([x], [y])[:, 0]

    def log_p(u):
        a, b = ((mp.mpf(end) - u) / s for end in window)
        both = mp.erfc(a / mp.sqrt(2)) - mp.erfc(b / mp.sqrt(2))
        if a + b < 0:
            both = mp.erfc(-b / mp.sqrt(2)) - mp.erfc(-a / mp.sqrt(2))
        return -(((mp.mpf(y) - u) / s) ** 2) / 2 - mp.log(mp.sqrt(2 * mp.pi) * s * both / 2)

    with mp.workdps(60):
        want = np.array([float(d) for d in oracle.derivatives(log_p, x)])
    lost = 1e-15 * (1.0 + (x / s) ** 2)
    assert got[0] == pytest.approx(want[0], rel=1e-10, abs=4 * lost)
    np.testing.assert_allclose(got[1:], want[1:], rtol=1e-6, atol=1e-9 + 1e-14 * abs(x) / s**3)


@pytest.mark.parametrize("x", [-1e3, -40.0, -3.0, 0.3, 60.0])
@pytest.mark.parametrize("late", [0.0, 1e-9, 0.3])
def test_lifetimes_from_their_bound_on(late, x):
    """Hazards up to the bound and up to y may both be infinite: beside 60 digits."""
    likelihood, entry = Weibull(2.5), 0.7
    y = entry * np.exp(late)
    own = Truncated(Censored(likelihood, ["none", "right"]), entry)
    got = own.derivatives([x, x], [y, y])
    with mp.workdps(60):
        k, gain = mp.mpf(2.5), mp.log(mp.gamma(1 + 1 / mp.mpf(2.5)))

        def survived(u):
            grown = [mp.exp(k * (mp.log(mp.mpf(end)) - u + gain)) for end in (entry, y)]
            return grown[0] - grown[1]

        def log_p(u):
            return survived(u) + mp.log(k) + k * (mp.log(mp.mpf(y)) - u + gain) - mp.log(y)

        for column, f in enumerate((log_p, survived)):
            want = np.array([float(d) for d in oracle.derivatives(f, x)])
            np.testing.assert_allclose(got[:, column], want, rtol=2e-6, atol=1e-12)


@pytest.mark.parametrize("likelihood", FAMILIES, ids=lambda f: f.name)
def test_draws_within_the_window(likelihood):
    """p of a test of Kolmogorov and Smirnov above 1e-4; and in a tail of 1e-100."""
    for window in ((0.1, 1.2), (0.4, np.inf), (-np.inf, 1.2)):
        own, x = Truncated(likelihood, *window), np.full(2000, 0.2)
        y = own.simulate(x, np.random.default_rng(1))
        assert own.check(y).y is not None
        ends = np.clip(np.asarray(window), 1e-300 if likelihood.name != "gaussian" else -1e9, 1e9)
        low, high = likelihood.cdf(ends, np.full(2, 0.2))

        def below(q, low=low, high=high):
            return (likelihood.cdf(q, np.full(q.shape, 0.2)) - low) / (high - low)

        assert stats.kstest(y, below).pvalue > 1e-4
    far = Truncated(likelihood, [1.0, 1.0], [2.0, 1.5]).simulate(
        [-9.0, 9.0], np.random.default_rng(2)
    )
    assert ((far >= 1.0) & (far <= [2.0, 1.5])).all()


def test_bounds_and_windows_together():
    """To the right of y means up to the upper bound, and so on: these are all there is."""
    x = np.linspace(-1.0, 1.0, 5)
    for likelihood in FAMILIES:
        parts = [
            Truncated(Censored(likelihood, kind, 0.9), 0.3, 1.4).log_prob(x, np.full(5, y))
            for kind, y in (("left", 0.5), ("interval", 0.5), ("right", 0.9))
        ]
        np.testing.assert_allclose(np.exp(parts).sum(axis=0), 1.0, rtol=1e-12)


DATA = {
    "y": [0.5, 0.7, 0.2, 0.9, 0.4, 0.6], "lo": [0, 0, 0.1, 0.1, 0.2, -np.inf], "x": [*range(6)],
    "hi": [1.0, 1.0, 1.0, np.inf, 1.0, 2.0], "c": [0, 0, 0, 1, 0, -1],
}  # fmt: skip
WIDE = {"Intercept": stats.norm(0.0, 1.0), "sigma": 0.4}
U = np.linspace(-7.0, 7.0, 4001)


def within(y, low, high, s=0.4):
    inside = stats.norm.logcdf((high - U) / s) + np.log1p(
        -np.exp(stats.norm.logcdf((low - U) / s) - stats.norm.logcdf((high - U) / s))
    )
    return stats.norm.logpdf(y, U, s) - inside


@pytest.mark.parametrize(
    ("formula", "truth"),
    [
        ("y | trunc(lo, hi) ~ 1", lambda: zip(DATA["y"], DATA["lo"], DATA["hi"], strict=True)),
        ("trunc(y, lo, hi) ~ 1", lambda: zip(DATA["y"], DATA["lo"], DATA["hi"], strict=True)),
        ("y | trunc(0, 1) ~ 1", lambda: ((y, 0.0, 1.0) for y in DATA["y"])),
        ("y | trunc(ub=1.5) ~ 1", lambda: ((y, -np.inf, 1.5) for y in DATA["y"])),
        ("y | trunc(, x + 2) ~ 1",
         lambda: ((y, -np.inf, x + 2.0) for y, x in zip(DATA["y"], DATA["x"], strict=True))),
    ],
)  # fmt: skip
def test_evidence_of_formulas(formula, truth):
    model = ev.from_formula(formula, DATA, priors=WIDE)
    with np.errstate(all="ignore"):
        log_p = sum(within(*each) for each in truth()) + stats.norm.logpdf(U)
    ok = np.isfinite(log_p)
    want = np.log(integrate.trapezoid(np.exp(log_p[ok]), U[ok]))
    found = ev.log_evidence(model, target_se=0.01, random_seed=0, progressbar=False)
    assert abs(found.logz - want) < 4.5 * found.logz_se + 1e-6
    assert "lo" not in model.columns
    assert ev.predict(model, {"x": [0.0]}).likelihood == Gaussian(0.4)
    drawn = ev.simulate(model, random_seed=0).y
    assert (drawn != DATA["y"]).all()
    assert model.likelihood.check(drawn).y.size == 6


@pytest.mark.parametrize("shape", [2.0, 800.0, 1e5, 1e8])
def test_far_out_no_probability_is_above_one(shape):
    """Where no digit is left there is no density: a search met log p = 1e14 there."""
    u = np.array([1.4, 3.0, 1.5, 2.4])
    y, y2 = np.array([0.9, 2.1, 0.7, 0.5]), np.array([0.9, 2.1, 0.75, 0.8])
    bound = Truncated(Censored(Weibull(shape), [0, 1, 2, 2], y2), upper=u)
    with np.errstate(all="ignore"):
        log_p = np.array([bound.log_prob(np.full(4, x), y) for x in np.geomspace(1.0, 1e20, 81)])
    assert log_p[:, 1:].max() < 1e-3  # of bounds; the first datum has a density
    assert not np.isnan(log_p).any()


@pytest.mark.slow
def test_bounds_where_noise_is_predicted():
    """log sigma ~ N(m, s²) by a predictor and by nodes; of a censored and of a truncated one."""
    for extra in ("cens(c)", "cens(c) + trunc(-1, 3)"):
        words = {"priors": {"Intercept": stats.norm(0, 1), "sigma:Intercept": stats.norm(-1, 0.4)}}
        model = ev.from_formula(f"y | {extra} ~ 1", DATA, predictors={"sigma": "1"}, **words)
        assert isinstance(model.likelihood, Predicted)
        found = ev.log_evidence(model, random_seed=0, progressbar=False)
        z, w = np.polynomial.hermite_e.hermegauss(5)
        held = [
            ev.log_evidence(
                ev.from_formula(
                    f"y | {extra} ~ 1", DATA, priors=WIDE | {"sigma": float(np.exp(-1 + 0.4 * t))}
                ), target_se=0.005, random_seed=0, progressbar=False,
            ).logz
            for t in z
        ]  # fmt: skip
        truth = np.logaddexp.reduce(held + np.log(w / w.sum()))
        assert abs(found.logz - truth) < 4.5 * found.logz_se + 0.01
        assert ev.predict(model, {"x": [1.0, 2.0, 3.0]}).y_var.shape == (3,)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Truncated(Gamma(2.0)), r"data must be one of gaussian, .*be truncated yet"),
        (lambda: Truncated(Truncated(Gaussian(), 0.0), 0.0), "got Truncated"),
        (lambda: Censored(Truncated(Gaussian(), 0.0)), "got Truncated"),
        (lambda: Truncated(Gaussian(), [0.0, np.nan]), "lower must be numbers, infinite where"),
        (lambda: Truncated(Gaussian(), 1.0, 0.0).check([0.5]), r"lower must be below upper, got"),
        (lambda: Truncated(Gaussian(), 0.0, [1, 2]).check([0.5, 3]),
         r"1 of 2 are not: y\[1\] = 3, where lower = 0 and upper = 2"),
        (lambda: Truncated(Gaussian(), 0.0, [1, 2]).check([0.5]), "upper has 2 values but there"),
        (lambda: Truncated(Censored(Gaussian(), 1), 0.0, 1.0).check([1.0]), "nothing is left"),
        (lambda: ev.from_formula("y | trunc(0.3) ~ 1", DATA), r"y\[2\] = 0.2, where lower = 0.3"),
        (lambda: ev.from_formula("y | trunc(lo, hi, 3) ~ 1", DATA), r"takes lower and upper"),
        (lambda: ev.from_formula("y | trunc(lb=1, lb=3) ~ 1", DATA), r"takes lower and upper"),
        (lambda: ev.from_formula("y | trunc(g) ~ 1", DATA | {"g": list("abcdef")}),
         "g must hold numbers"),
        (lambda: ev.from_formula("y | trunc(,) ~ 1", DATA), "needs a bound"),
        (lambda: ev.from_formula("y | trunc(low) ~ 1", DATA), "no column 'low'; did you mean"),
        (lambda: ev.from_formula("y | trunc(0) ~ 1", DATA, likelihood="gamma"), "yet"),
        (lambda: ev.from_formula("cens(y) ~ 1", DATA), r"cens\(\) takes c, or c and y2"),
    ],
)  # fmt: skip
def test_what_cannot_be_truncated(make, message):
    with pytest.raises(ev.InputError, match=message):
        make()

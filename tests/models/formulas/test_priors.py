"""Priors that users name, and what becomes of starting values and bounds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import evidence as ev
from evidence.models.formulas.priors import OfSquare

from .cases import table

DATA = table()


def priors(formula, **given):
    model = ev.from_formula(formula, DATA, priors=given.pop("priors", given))
    return model, dict(model.priors.items())


@pytest.mark.parametrize(
    ("formula", "key", "names"),
    [
        ("y ~ x", "x", ["x"]),
        ("y ~ x", " Intercept", ["Intercept"]),
        ("y ~ a", "a[q]", ["a[q]"]),
        ("y ~ a", "a", ["a[q]", "a[r]"]),
        ("y ~ x:z", "x:z", ["x:z"]),
        ("y ~ bs(x, df=4)", "bs(x,df=4)", [f"bs(x, df=4)[{i}]" for i in range(4)]),
        ("y ~ bs(x, df=4)", "bs(x, df=4)[2]", ["bs(x, df=4)[2]"]),
        ("y ~ `my col`", "my col", ["my col"]),
        ("y ~ C(h)", "C(h)", [f"C(h)[{i}]" for i in range(1, 5)]),
        ("y ~ I(x**2)", "I(x**2)", ["I(x ** 2)"]),
    ],
)
def test_common_effects(formula, key, names):
    model = ev.from_formula(formula, DATA, priors={key: stats.norm(0.3, 0.7)})
    plain = ev.from_formula(formula, DATA)
    changed = {
        name: (mean, 1.0 / q**0.5)
        for name, mean, q in zip(model.names, model.mean, model.Q.diagonal(), strict=True)
        if mean == 0.3
    }
    assert changed == {name: pytest.approx((0.3, 0.7)) for name in names}
    for i, name in enumerate(plain.names):
        if name not in (*names, "Intercept"):
            assert model.Q.diagonal()[i] == plain.Q.diagonal()[i]


@pytest.mark.parametrize(
    ("formula", "key", "name"),
    [
        ("y ~ (1 | g)", "sd(1|g)", "sd(1|g)"),
        ("y ~ (1 | g)", "sd( 1 | g )", "sd(1|g)"),
        ("y ~ (1 | `my group`)", "sd(1 | `my group`)", "sd(1|`my group`)"),
        ("y ~ (1 + x | g)", "sd(x|g)", "sd(x|g)"),
        ("y ~ ar1(t)", "sigma", "ar1(t)__sigma"),
        ("y ~ ar1(t) + rw1(h)", "rw1(h)__sigma", "rw1(h)__sigma"),
        ("y ~ x", "noise_std", "likelihood__noise_std"),
        ("y ~ x", "likelihood__noise_std", "likelihood__noise_std"),
    ],
)
def test_hyperparameters(formula, key, name):
    own = stats.halfnorm(scale=2.0)
    _, found = priors(formula, priors={key: own})
    assert found[name] is own


def test_a_prior_of_the_variance():
    """p(σ) = p(σ²) 2σ, by differences of its distribution function, and by its quantiles."""
    _, found = priors("y ~ (1 | g)", priors={"var(1|g)": stats.betaprime(1, 1)})
    own, square = found["sd(1|g)"], stats.betaprime(1.0, 1.0)
    assert isinstance(own, OfSquare)
    sd = np.array([0.05, 0.4, 1.0, 3.0])
    slope = (square.cdf((sd + 1e-5) ** 2) - square.cdf((sd - 1e-5) ** 2)) / 2e-5
    np.testing.assert_allclose(np.exp(own.logpdf(sd)), slope, rtol=1e-6)
    np.testing.assert_allclose(own.ppf(square.cdf(sd**2)), sd)
    draws = own.rvs(5000, random_state=0)
    assert stats.kstest(draws**2, square.cdf).pvalue > 1e-3
    assert own.support() == (0.0, np.inf)


def test_priors_as_text():
    given = {"x": "norm(-1, scale=2)", "sd(1|g)": " halfnorm(scale=2) ", "var(1|h)": "expon()"}
    model, found = priors("y ~ x + (1 | g) + (1 | h)", priors=given)
    assert model.table.prior["x"] == "norm(-1, 2)"
    assert found["sd(1|g)"].std() == pytest.approx(stats.halfnorm(scale=2).std())
    assert found["sd(1|h)"].logpdf(2.0) == pytest.approx(np.log(4.0) - 4.0)


@pytest.mark.parametrize(("text", "eta"), [("lkj(2)", 2.0), ("lkj( 0.5 )", 0.5), (None, 1.0)])
def test_correlations(text, eta):
    given = {} if text is None else {"cor(g)": text}
    _, found = priors("y ~ (1 + x + z | g)", priors=given)
    shapes = {"cor(1,x|g)": 0.5, "cor(1,z|g)": 0.5, "cor(x,z|g)": 0.0}
    for name, more in shapes.items():
        a = eta + more
        assert found[name].kwds == {"loc": -1.0, "scale": 2.0}
        assert found[name].args == (a, a)


def test_one_correlation_may_have_any_prior():
    _, found = priors("y ~ (1 + x | g)", priors={"cor(g)": stats.uniform(-0.5, 1.0)})
    assert found["cor(1,x|g)"].support() == (-0.5, 0.5)


@pytest.mark.parametrize(
    ("key", "prior", "low", "high"),
    [
        ("sd(1|g)", stats.uniform(50.0, 10.0), 50.0, 60.0),
        ("noise_std", stats.uniform(1e-3, 1e-3), 1e-3, 2e-3),
        ("cor(1,x|g)", stats.uniform(0.5, 0.4), 0.5, 0.9),
        ("var(x|g)", stats.uniform(100.0, 300.0), 10.0, 20.0),
    ],
)
def test_the_start_is_where_priors_allow_it(key, prior, low, high):
    model, _ = priors("y ~ x + (1 + x | g)", priors={key: prior})
    model.priors.check_start(model.hyperparameters.theta)
    i = model.hyperparameters.index(key.replace("var", "sd"))
    assert low < model.hyperparameters.values[i] < high
    assert model.at({}).Q.toarray() == pytest.approx(model.Q.toarray())


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_bounds_move_with_the_units_of_data(unit):
    """The search begins well inside of them, whatever these are."""
    data = DATA.assign(y=unit * DATA.y)
    free = ev.from_formula("y ~ x + (1 + x | g) + ar1(t) + rw1(h)", data).hyperparameters
    plain = ev.from_formula("y ~ x + (1 + x | g) + ar1(t) + rw1(h)", DATA).hyperparameters
    moved = np.log(unit) * (np.isnan(free.lows))
    np.testing.assert_allclose(free.theta, plain.theta + moved, atol=1e-9)
    np.testing.assert_allclose(free.bounds, plain.bounds + moved[:, None], atol=1e-9)


NORM = stats.norm(0.0, 1.0)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (3, "priors must map names"),
        ({"w": NORM}, "priors: there is no 'w'"),
        ({"X": NORM}, "there is no 'X'; did you mean 'x'"),
        ({"sd(g)": stats.expon()}, r"there is no 'sd\(g\)'; did you mean"),
        ({3: NORM}, "there is no '3'"),
        ({"x": None}, r"priors\['x'\] is 'None'.*no proper density"),
        ({"x": "flat"}, r"priors\['x'\] is 'flat'.*no proper density"),
        ({"sd(1|g)": "flat"}, r"is 'flat'.*no proper density"),
        ({"sd(1|g)": None}, r"is 'None'.*no proper density"),
        *(
            ({"x": text}, r"priors\['x'\] is .*no proper density")
            for text in (
                "norm(0, 1",
                "norm",
                "gauss(0, 1)",
                "poisson(3)",
                "norm(a, 1)",
                "",
                "3",
                "__import__('os')",
                "norm(*[0, 1])",
                "norm(0, 1).mean()",
                "betaprime(1)",
                "norm(0, 1, 2)",
                "norm(mean=0)",
                "norm('0', 1)",
                "norm(print(1), 2)",
            )
        ),
        ({"x": "norm(0, -1)"}, r"priors\['x'\] must have one finite mean"),
        ({"x": "norm([0, 1], 1)"}, r"priors\['x'\] is .*no proper density"),
        ({"sd(1|g)": "norm(0, 1)"}, "its support"),
        ({"sd(1|g)": "halfnorm(scale=-1)"}, r"prior of sd\(1\|g\)"),
        ({"x": stats.expon()}, r"priors\['x'\] must be normal"),
        ({"x": stats.t(4)}, r"priors\['x'\] must be normal"),
        ({"x": 3.0}, r"priors\['x'\] must be normal"),
        ({"Intercept": stats.uniform(0, 1)}, r"priors\['Intercept'\] must be normal"),
        ({"x": stats.norm([0.0, 1.0], 1.0)}, r"priors\['x'\] must have one finite mean"),
        ({"x": stats.norm(0.0, 0.0)}, r"priors\['x'\] must have one finite mean"),
        ({"x": stats.norm(np.inf, 1.0)}, r"priors\['x'\] must have one finite mean"),
        ({"noise_std": NORM}, r"prior of likelihood__noise_std: its support"),
        ({"sd(1|g)": 2.0}, r"prior of sd\(1\|g\)"),
        ({"var(1|g)": 2.0}, r"prior of sd\(1\|g\)"),
        ({"var(1|g)": NORM}, r"prior of sd\(1\|g\): its support"),
        ({"var(1|g)": stats.expon(), "sd(1|g)": stats.expon()}, "are of the same; drop one"),
        ({"noise_std": stats.expon(), "likelihood__noise_std": stats.expon()}, "of the same"),
        ({"cor(g)": "lkj"}, r"priors\['cor\(g\)'\] must be 'lkj\(eta\)'"),
        ({"cor(g)": "lkj(0)"}, "with eta > 0"),
        ({"cor(g)": "lkj(e)"}, "with eta > 0"),
        ({"cor(g)": "lkj(-1)"}, "with eta > 0"),
        ({"cor(g)": stats.uniform(-1.0, 3.0)}, "its support"),
        ({"cor(h)": "lkj(2)"}, r"there is no 'cor\(h\)'"),
        ({"sd(1|g)": "lkj(2)"}, r"prior of sd\(1\|g\)"),
        ({"x": "lkj(2)"}, r"priors\['x'\] must be normal"),
    ],
)
def test_priors_that_are_none(given, words):
    with pytest.raises(ev.InputError, match=words):
        ev.from_formula("y ~ x + (1 + x | g) + (1 | h)", DATA, priors=given)


def test_a_word_that_means_several():
    with pytest.raises(ev.InputError, match="'sigma'"):
        ev.from_formula("y ~ ar1(t) + rw1(h)", DATA, priors={"sigma": stats.expon()})
    with pytest.raises(ev.InputError, match="3 correlations have one prior together"):
        ev.from_formula("y ~ (1+x+z|g)", DATA, priors={"cor(g)": stats.uniform(-1, 2)})

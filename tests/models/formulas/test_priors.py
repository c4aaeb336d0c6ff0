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
    sd, own = (np.sqrt(np.diag(np.linalg.inv(m.Q.toarray()))) for m in (model, plain))
    pairs = zip(model.names, model.mean, sd, strict=True)
    changed = {name: (mean, s) for name, mean, s in pairs if mean == 0.3}
    assert changed == {name: pytest.approx((0.3, 0.7)) for name in names}
    for i, name in enumerate(plain.names):
        if name not in (*names, "Intercept"):
            assert sd[i] == pytest.approx(own[i])


@pytest.mark.parametrize(
    ("formula", "key", "name"),
    [
        ("y ~ (1 | g)", "sd(1|g)", "sd(1|g)"),
        ("y ~ (1 | g)", "sd( 1 | g )", "sd(1|g)"),
        ("y ~ (1 | `my group`)", "sd(1 | `my group`)", "sd(1|`my group`)"),
        ("y ~ (1 + x | g)", "sd(x|g)", "sd(x|g)"),
        ("y ~ ar1(t)", "ar1(t)__sigma", "ar1(t)__sigma"),
        ("y ~ ar1(t) + rw1(h)", "rw1(h)__sigma", "rw1(h)__sigma"),
        ("y ~ x", "noise_std", "sigma"),
        ("y ~ x", "likelihood__noise_std", "sigma"),
        ("y ~ x + (1 | g)", "sigma", "sigma"),
        ("y ~ sigma", "noise_std", "likelihood__noise_std"),
    ],
)
def test_hyperparameters(formula, key, name):
    own = stats.halfnorm(scale=2.0)
    model = ev.from_formula(formula, DATA.assign(sigma=DATA.z), priors={key: own})
    assert dict(model.priors.items())[name] is own
    at = model.at({name if " " in key else key: 0.25}).hyperparameters
    assert at.values[at.names.index(name)] == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("response", "likelihood", "words"),
    [
        ("y", "gaussian", [("sigma", "likelihood__sigma", "likelihood__noise_std")]),
        ("y", "student_t", [("df", "likelihood__df"), ("scale", "sigma", "likelihood__scale")]),
        ("e", "gamma", [("shape", "likelihood__shape")]),
        ("k", "negative_binomial", [("dispersion", "likelihood__dispersion")]),
        ("h", "ordinal", [(f"gap_{i}", f"likelihood__gap_{i}") for i in (1, 2, 3)]),
    ],
)
def test_parameters_of_likelihoods_have_the_names_people_know(response, likelihood, words):
    """In tables the first; in priors, and where a model is put, all of them."""
    plain = ev.from_formula(f"{response} ~ x", DATA, likelihood=likelihood)
    assert list(plain.hyperparameters.names) == [names[0] for names in words]
    assert set(plain.hyperparameters.names) < set(plain.table.index)
    for names in words:
        for word in names:
            given = {word: stats.halfnorm(scale=7.0)}
            model = ev.from_formula(f"{response} ~ x", DATA, likelihood=likelihood, priors=given)
            assert model.table.prior[names[0]] == "halfnorm(scale=7)"
            at = plain.at({word: 0.7})
            own = names[-1].removeprefix("likelihood__")
            assert at.likelihood.value_of(own) == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("likelihood", "response", "word", "term"),
    [
        ("gaussian", "y", "sigma", "ar1(t)"),
        ("student_t", "y", "sigma", "rw1(t)"),
        ("lognormal", "e", "sigma", "rw1(t)"),
        ("beta", "share", "phi", "bym2(place,W)"),
    ],
)
def test_a_word_that_may_be_of_a_series_or_of_the_likelihood(likelihood, response, word, term):
    """It is refused, in whatever holds a term's and the likelihood's; full names do for both."""
    data = DATA.assign(share=0.5 / DATA.e.max() * DATA.e, place=np.arange(len(DATA)) % 6)
    both, own = [f"{response} ~ 1", f"{response} ~ {term}"], stats.beta(2, 2)
    words = {"likelihood": likelihood, "namespace": {"W": np.eye(6, k=1) + np.eye(6, k=-1)}}
    with pytest.raises(ev.InputError) as caught:
        ev.compare(both, data, priors={word: own}, **words)
    several = f"{word!r} is ambiguous: it may be {term}__{word}, likelihood__"
    assert several in str(caught.value)
    priors = {f"likelihood__{word}": own, f"{term}__{word}": stats.beta(3, 3)}
    for formula, given in (both[0], [*priors.items()][:1]), (both[1], priors.items()):
        model = ev.from_formula(formula, data, priors=dict(given), **words)
        assert model.hyperparameters.index(f"likelihood__{word}") >= model.hyperparameters.n_kernel
        assert [*model.table.prior].count("beta(2, 2)") == 1
        assert [*model.table.prior].count("beta(3, 3)") == len(given) - 1


def test_a_column_may_be_called_sigma():
    for key in ("noise_std", "likelihood__noise_std", "likelihood__sigma"):
        model = ev.from_formula("y ~ ar1(t)", DATA, priors={key: stats.halfnorm()})
        assert model.table.prior["likelihood__noise_std"] == "halfnorm()"
    model = ev.from_formula("y ~ sigma", DATA.assign(sigma=DATA.x), priors={"sigma": NORM})
    assert model.table.prior["sigma"] == "norm(0, 1)"
    assert not model.notes
    gp = ev.GPModel([[0.0], [1.0]], [0.0, 1.0], "RBF(1.0)", likelihood="gaussian")
    assert gp.at({"sigma": 0.3}).likelihood.noise_std == pytest.approx(0.3)
    with pytest.raises(ev.InputError, match="unknown hyperparameter 'sigma'"):
        ev.from_formula("k ~ x", DATA, likelihood="poisson").at({"sigma": 1.0})


@pytest.mark.parametrize(
    ("key", "number", "name", "value"),
    [
        ("sigma", 0.3, "sigma", 0.3),
        ("noise_std", "0.3", "sigma", 0.3),
        ("sd(1|g)", 2, "sd(1|g)", 2.0),
        ("sd( 1 | g )", np.float32(2.0), "sd(1|g)", 2.0),
        ("var(1|g)", np.array(4), "sd(1|g)", 2.0),
        ("cor(g)", -0.5, "cor(1,x|g)", -0.5),
        ("cor(1,x|g)", " .25 ", "cor(1,x|g)", 0.25),
    ],
)
def test_a_number_holds_a_hyperparameter(key, number, name, value):
    model, found = priors("y ~ x + (1 + x | g)", priors={key: number})
    assert set(found) == set(model.hyperparameters.names) - {name}
    assert model.hyperparameters.values[model.hyperparameters.index(name)] == pytest.approx(value)
    assert model.table.prior[name] == f"held at {value:.4g}"
    assert f"{name} ~ held at" in model.describe()["priors"]


def test_numbers_for_all_hyperparameters():
    given = {"sigma": 0.3, "sd(1|g)": 2.0, "x": NORM}
    model = ev.from_formula("y ~ x + (1 | g)", DATA, priors=given)
    plain = ev.from_formula("y ~ x + (1 | g)", DATA, priors={"x": NORM})
    assert model.priors is None
    same = plain.at({"sigma": 0.3, "sd(1|g)": 2.0})
    words = {"method": "ep", "progressbar": False}
    assert ev.log_evidence(model, **words).logz == ev.log_evidence(same, **words).logz


@pytest.mark.parametrize("given", [
    0, -1, 0.0, np.nan, np.inf, "nan", "-inf", "-0.3", "1e400", True, 1j,
    np.array([1.0, 2.0]), np.bool_(True),
])  # fmt: skip
@pytest.mark.parametrize("key", ["sd(1|g)", "var(1|g)", "sigma"])
def test_numbers_that_no_hyperparameter_is(key, given):
    with pytest.raises(ev.InputError, match="must be a positive number, got") as told:
        ev.from_formula("y ~ (1 | g)", DATA, priors={key: given})
    assert f"priors[{key!r}]" in str(told.value)


@pytest.mark.parametrize(
    ("key", "given", "words"),
    [
        ("cor(1,x|g)", 1, "must be a number above -1 and below 1, got 1"),
        ("cor(g)", "-1.5", "must be a number above -1 and below 1, got -1.5"),
        ("cor(h)", 0.5, r"3 correlations have one prior together.*one alone is 'cor\(1,x\|h\)'"),
        ("sd(1|g)", 1e200, r"priors: with sd\(1\|g\) at 1e\+200 there is no model"),
        ("x", 3.0, r"must be normal.*got 3.0.*held by an offset in its place, offset\(3.0 \* x\)"),
        ("Intercept", np.float64(3.0), "must be normal.*got 3.0.*held by an offset"),
        ("w", 3.0, "there is no 'w'"),
    ],
)
def test_numbers_in_the_wrong_place(key, given, words):
    with pytest.raises(ev.InputError, match=words):
        ev.from_formula("y ~ x + (1 + x | g) + (1 + x + z | h)", DATA, priors={key: given})


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("normal(0, 1)", "'norm'"),
        ("N(0, 1)", "'norm'"),
        ("half_normal(1)", "'halfnorm'? Its scale has a name, halfnorm(scale=…)"),
        ("Half Normal(1)", "'halfnorm'? Its scale"),
        ("HalfNormal(sigma=1)", "'halfnorm'? Its scale"),
        ("normal+(0, 1)", "'halfnorm'? Its scale"),
        ("student_t(3, 0, 2.5)", "'t'"),
        ("student-t(3)", "'t'"),
        ("cauchy+(0, 1)", "'halfcauchy'? Its scale"),
        ("half-cauchy(0, 1)", "'halfcauchy'? Its scale"),
        ("half_student_t(3, 0, 2)", "'halft'? Its scale has a name, halft(df, scale=…)"),
        ("exponential(1)", "'expon'? Its scale has a name, expon(scale=…), 1 over"),
        ("inv_gamma(1, 1)", "'invgamma'"),
        ("flat", "a flat prior leaves a model without an evidence"),
    ],
)
def test_distributions_by_names_of_other_packages(text, meant):
    with pytest.raises(ev.InputError, match="no proper density") as told:
        ev.from_formula("y ~ (1 | g)", DATA, priors={"sd(1|g)": text})
    assert meant in str(told.value)


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
        ({"x": "norm(0, -1)"}, r"priors\['x'\] must have one finite mean.* got norm\(0, -1\)"),
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
        ({"noise_std": NORM}, r"prior of sigma: its support"),
        ({"x": "3"}, r"priors\[.x.\] must be normal.*held by an offset"),
        ({"var(1|g)": NORM}, r"prior of sd\(1\|g\): its support"),
        ({"var(1|g)": stats.expon(), "sd(1|g)": stats.expon()}, "are of the same; drop one"),
        ({"noise_std": stats.expon(), "likelihood__noise_std": stats.expon()}, "of the same"),
        ({"cor(g)": "lkj"}, r"priors\['cor\(g\)'\] must be 'lkj\(eta\)'"),
        ({"cor(g)": "lkj(0)"}, "with eta > 0"),
        ({"cor(g)": "lkj(e)"}, "with eta > 0"),
        ({"cor(g)": "lkj(-1)"}, "with eta > 0"),
        ({"cor(g)": stats.uniform(-1.0, 3.0)}, "its support"),
        ({"cor(h)": "lkj(2)"}, r"there is no 'cor\(h\)'"),
        ({"sd(1|g)": "lkj(2)"}, r"is .lkj\(2\)., which is no proper density"),
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


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("expon(2)", "expon(scale=2), of a rate 1 over it"),
        ("halfnorm(1)", "halfnorm(scale=1)"),
        ("gamma(2, 0.1)", "gamma(2, scale=0.1)"),
        ("halft(3, 2.5)", "halft(3, scale=2.5)"),
    ],
)
def test_a_scale_in_the_place_of_where_it_begins(text, meant):
    """SciPy would have begun there, and no deviation below would have been possible."""
    with pytest.raises(ev.InputError, match="the last number is where it begins") as told:
        ev.from_formula("y ~ (1 | g)", DATA, priors={"sd(1|g)": text})
    assert meant in str(told.value)
    ev.from_formula("y ~ (1 | g)", DATA, priors={"sd(1|g)": "gamma(2, 0, 0.5)"})


def test_the_half_of_a_t():
    _, found = priors("y ~ (1 | g)", priors={"sd(1|g)": "halft(3, scale=2.5)"})
    half, x = found["sd(1|g)"], np.array([0.01, 0.7, 3.0, 40.0])
    np.testing.assert_allclose(half.pdf(x), 2.0 * stats.t(3, scale=2.5).pdf(x), rtol=1e-12)
    np.testing.assert_allclose(half.ppf(half.cdf(x)), x, rtol=1e-9)
    np.testing.assert_allclose(half.isf(half.sf(x)), x, rtol=1e-9)
    assert half.support() == (0.0, np.inf)

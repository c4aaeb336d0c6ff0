"""Responses as likelihoods take them, and default priors as the module documents them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import betaln, expit

import evidence as ev
from evidence.models import formulas, likelihoods
from evidence.models.formulas import families
from evidence.models.formulas.families import observe

from .cases import N, table

DATA = table()


def same(prior, frozen):
    assert prior.dist.name == frozen.dist.name
    q = np.array([0.01, 0.3, 0.5, 0.99])
    np.testing.assert_allclose(prior.ppf(q), frozen.ppf(q), rtol=1e-9)


def common(model):
    where = model.slices["common"]
    sd = np.sqrt(np.diag(np.linalg.inv(model.Q[where, where].toarray())))
    return dict(zip(model.names, zip(model.mean, sd, strict=False), strict=False))


def priors(model):
    return dict(model.priors.items())


SY = DATA.y.std(ddof=0)
HALF = stats.invgamma(0.4, scale=0.3)
SHARE = stats.beta(1, 1)
SLE = np.log(DATA.e).std(ddof=0)
P = expit(DATA.e).mean()
LK, LE = np.log(DATA.k.mean()), np.log(DATA.e.mean())


@pytest.mark.parametrize(
    ("response", "likelihood", "location", "s", "own"),
    [
        ("y", "gaussian", DATA.y.mean(), SY, {"noise_std": stats.expon(scale=SY)}),
        ("y", "student_t", DATA.y.median(), SY,
         {"df": stats.gamma(2, scale=10), "scale": stats.expon(scale=SY)}),
        ("b", "bernoulli", 0.0, 1.0, {}),
        ("s | trials(n)", "binomial", 0.0, 1.0, {}),
        ("k", "poisson", np.log(DATA.k.mean()), 1.0, {}),
        ("k", "negative_binomial", np.log(DATA.k.mean()), 1.0, {"dispersion": HALF}),
        ("e", "gamma", np.log(DATA.e.mean()), 1.0, {"shape": HALF}),
        ("h", "ordinal", 0.0, 1.0, {f"gap_{i}": stats.gamma(2, scale=0.5) for i in (1, 2, 3)}),
        ("k", "geometric", LK, 1.0, {}),
        ("k", "zero_inflated_poisson", LK, 1.0, {"zi": SHARE}),
        ("k", "zero_inflated_negative_binomial", LK, 1.0, {"shape": HALF, "zi": SHARE}),
        ("k", "hurdle_poisson", LK, 1.0, {"hu": SHARE}),
        ("k", "hurdle_negative_binomial", LK, 1.0, {"shape": HALF, "hu": SHARE}),
        ("expit(e)", "beta", np.log(P / (1 - P)), 1.0, {"phi": HALF}),
        ("s | trials(n)", "beta_binomial", 0.0, 1.0, {"phi": HALF}),
        ("e", "exponential", LE, 1.0, {}),
        ("e", "lognormal", np.log(DATA.e).mean(), SLE, {"sigma": stats.expon(scale=SLE)}),
        ("e", "weibull", LE, 1.0, {"shape": HALF}),
        ("e", "log_logistic", LE, 1.0, {"shape": stats.invgamma(0.4, loc=1, scale=0.3)}),
        ("y", "asymmetric_laplace", DATA.y.median(), SY,
         {"quantile": SHARE, "sigma": stats.expon(scale=SY)}),
    ],
)  # fmt: skip
def test_default_priors(response, likelihood, location, s, own):
    model = ev.from_formula(
        f"{response} ~ x + a + (1 + z | g) + ar1(t)", DATA, likelihood=likelihood,
        namespace={"expit": expit},
    )  # fmt: skip
    sd_x, sd_z = DATA.x.std(ddof=0), DATA.z.std(ddof=0)
    q, r = (DATA.a == "q").to_numpy(float), (DATA.a == "r").to_numpy(float)
    slopes = {"x": 2.5 * s / sd_x, "a[q]": 2.5 * s / q.std(), "a[r]": 2.5 * s / r.std()}
    middle = np.array([1.0, DATA.x.mean(), q.mean(), r.mean()])
    assert model.names[:4] == ("Intercept", "x", "a[q]", "a[r]")
    cov = np.linalg.inv(model.Q[:4, :4].toarray())  # of the predictor at means, and slopes
    turn = np.vstack([middle, np.eye(4)[1:]])
    sds = [2.5 * s, *(slopes[name] for name in model.names[1:4])]
    assert np.abs(turn @ cov @ turn.T / np.outer(sds, sds) - np.eye(4)).max() < 1e-9
    assert middle @ model.prior.latent_mean[:4] == pytest.approx(location)
    effects = common(model)
    for name, size in slopes.items():
        assert effects[name] == pytest.approx((0.0, size))
    expected = {
        "sd(1|g)": stats.expon(scale=s),
        "sd(z|g)": stats.expon(scale=s / sd_z),
        "cor(1,z|g)": stats.beta(1, 1, loc=-1, scale=2),
        "ar1(t)__sigma": stats.expon(scale=s),
        "ar1(t)__rho": stats.uniform(-1, 2),
    }
    two = {"noise_std": "likelihood__noise_std", "sigma": "likelihood__sigma"}  # not the series'
    expected |= {two.get(name, name): prior for name, prior in own.items()}
    found = priors(model)
    assert set(found) == set(expected) == set(model.hyperparameters.names)
    for name, prior in expected.items():
        same(found[name], prior)
    assert model.table.prior["x"] == f"norm(0, {slopes['x']:.4g})"


def test_the_intercept_is_where_the_offset_leaves_it():
    """log of counts per exposure, not of counts."""
    data = DATA.assign(e=1e5 * DATA.e)
    model = ev.from_formula("k ~ offset(log(e))", data, likelihood="poisson")
    (mean, sd) = common(model)["Intercept"]
    assert mean == pytest.approx(np.log(DATA.k.mean()) - np.log(data.e).mean())
    assert sd == pytest.approx(2.5)


@pytest.mark.parametrize("constant", [0.1, 3.0, 1e-12])
def test_constant_columns_and_responses_have_no_spread(constant):
    """Nor where rounding leaves some."""
    data = DATA.assign(c=constant, v=constant)
    model = ev.from_formula("y ~ 0 + c", data)
    assert common(model)["c"] == pytest.approx((0.0, 2.5 * SY / constant))
    assert priors(ev.from_formula("v ~ x", data))["sigma"].mean() == 1.0


@pytest.mark.parametrize(
    ("values", "ones", "note"),
    [
        (DATA.b, DATA.b == 1, None),
        (DATA.b.astype(bool), DATA.b == 1, None),
        (DATA.b.astype("boolean"), DATA.b == 1, None),
        (2 * DATA.b - 1, DATA.b == 1, None),
        (DATA.b.map({0: "no", 1: "yes"}), DATA.b == 1, "1 where it is yes, 0 where it is no"),
        (DATA.b.map({0: "no", 1: "yes"}).astype("string"), DATA.b == 1, "1 where it is yes"),
        (DATA.b.map({0: "no", 1: "yes"}).astype("category"), DATA.b == 1, "1 where it is yes"),
        (pd.Categorical(DATA.b.map({0: "no", 1: "yes"}), ["yes", "no"], ordered=True),
         DATA.b == 0, "1 where it is no, 0 where it is yes"),
        (pd.Categorical(DATA.b.map({0: "no", 1: "yes"}), ["yes", "no"]),
         DATA.b == 0, "1 where it is no"),
        (DATA.b + 1, DATA.b == 1, "1 where it is 2, 0 where it is 1"),
    ],
)  # fmt: skip
def test_labels(values, ones, note):
    model = ev.from_formula("v ~ x", DATA.assign(v=values), likelihood="bernoulli")
    np.testing.assert_array_equal(model.y, np.where(ones, 1.0, -1.0))
    assert any(note in words for words in model.notes) if note else not model.notes


def test_categories_in_order():
    words = np.array(["low", "mid", "top"])
    data = DATA.assign(o=pd.Categorical(words[DATA.h % 3], [*words, "never"], ordered=True))
    model = ev.from_formula("o ~ x", data, likelihood="ordinal")
    np.testing.assert_array_equal(model.y, DATA.h % 3)
    assert "categories in order: low, mid, top" in model.notes


WORDS = pd.Series(np.array(["none", "some", "much"])[DATA.h % 3])


@pytest.mark.parametrize(
    ("values", "levels"),
    [
        (DATA.h + 1, [1, 2, 3, 4, 5]),
        (DATA.h.astype(float).where(DATA.h > 0), [1, 2, 3, 4]),
        (0.5 * DATA.h, [0.0, 0.5, 1.0, 1.5, 2.0]),
        ((DATA.h + 1).astype("Int64"), [1, 2, 3, 4, 5]),
        ((9 + DATA.h).astype(object), [9, 10, 11, 12, 13]),
        ((9 + DATA.h).astype("category"), [9, 10, 11, 12, 13]),
        (DATA.b.astype(bool), [False, True]),
        (DATA.b.astype("boolean"), [False, True]),
        (pd.Categorical(WORDS, ["none", "some", "much"], ordered=True), ["none", "some", "much"]),
        (pd.Categorical(DATA.h % 3, [2, 0, 1], ordered=True), [2, 0, 1]),
    ],
)
def test_ordinal_responses_are_numbers_or_ordered(values, levels):
    data = DATA.assign(v=values)
    model = ev.from_formula("v ~ x", data, likelihood="ordinal")
    assert model.levels.tolist() == levels
    kept = data.v.dropna().tolist()
    assert [levels[int(code)] for code in model.y] == kept
    assert f"categories in order: {', '.join(map(str, levels))}" in model.notes


@pytest.mark.parametrize(
    "values",
    [
        WORDS,
        WORDS.astype(object),
        WORDS.astype("string"),
        WORDS.astype("category"),
        pd.Categorical(WORDS, ["none", "some", "much"]),
        pd.Series([1, "2"] * (N // 2)),
        pd.Timestamp("2020-01-01") + pd.to_timedelta(DATA.h, "D"),
    ],
)
def test_labels_without_an_order_are_no_ordinal_response(values):
    data = DATA.assign(v=values)
    with pytest.raises(ev.InputError, match="v: the response has labels in no order") as told:
        ev.from_formula("v ~ x", data, likelihood="ordinal")
    assert "pd.Categorical(y, categories=['none', 'some', …], ordered=True)" in str(told.value)
    assert "--levels none,some,…" in str(told.value)


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_links(link):
    model = ev.from_formula("b ~ x", DATA, likelihood="bernoulli", link=link)
    assert model.likelihood.name == link
    by_name = ev.from_formula("b ~ x", DATA, likelihood=link)
    assert by_name.likelihood == model.likelihood


@pytest.mark.parametrize(
    ("word", "name"),
    [("Gaussian", "gaussian"), ("normal", "gaussian"), ("student-t", "student_t"),
     ("t", "student_t"), ("negative binomial", "negative_binomial"), (" Poisson ", "poisson"),
     ("asym_laplace", "asymmetric_laplace"), ("zero-inflated-poisson", "zero_inflated_poisson"),
     ("hurdle_negbinomial", "hurdle_negative_binomial"), ("loglogistic", "log_logistic")],
)  # fmt: skip
def test_names_of_families(word, name):
    assert observe(DATA.k.to_numpy(), None, word, None).likelihood.name == name


def test_a_logistic_regression_is_a_bernoulli_one_by_logits():
    assert ev.from_formula("b ~ x", DATA, likelihood="logistic").likelihood.name == "logit"


def test_trials():
    model = ev.from_formula("s | trials(n) ~ x", DATA, likelihood="binomial")
    assert model.likelihood.n == tuple(DATA.n)
    same_n = ev.from_formula("s | trials(7) ~ x", DATA, likelihood="binomial")
    assert same_n.likelihood.n == 7
    more = ev.from_formula("s | trials(n + s) ~ x", DATA, likelihood="binomial")
    assert more.likelihood.n == tuple(DATA.n + DATA.s)
    big = ev.from_formula("s | trials(n) ~ x", DATA.astype({"n": "Int64"}), likelihood="binomial")
    assert big.likelihood.n == tuple(DATA.n)


def test_weights_repeat_rows():
    model = ev.from_formula("k | weights(w) ~ x + (1 | g)", DATA, likelihood="poisson")
    rows = np.repeat(np.arange(N), DATA.w)
    twice = ev.from_formula("k ~ x + (1 | g)", DATA.iloc[rows], likelihood="poisson")
    np.testing.assert_array_equal(model.y, DATA.k[rows])
    np.testing.assert_allclose(model.A.toarray(), twice.A.toarray())
    np.testing.assert_allclose(model.Q.toarray(), twice.Q.toarray())
    two = ev.from_formula("s | trials(n) + weights(2) ~ x", DATA, likelihood="binomial")
    assert two.y.size == 2 * N
    assert two.likelihood.n == tuple(np.repeat(DATA.n, 2))


def test_likelihoods_as_objects_are_held_as_they_are():
    lik = ev.likelihoods.Gaussian(noise_std=0.5)
    model = ev.from_formula("y ~ x + (1 | g)", DATA, likelihood=lik)
    assert list(priors(model)) == ["sd(1|g)"]
    assert model.table.prior["sigma"] == "held at 0.5"
    own = ev.from_formula("y ~ x", DATA, likelihood=lik, priors={"noise_std": stats.halfnorm()})
    same(priors(own)["sigma"], stats.halfnorm())


def test_expressions_as_responses():
    model = ev.from_formula("log(e) ~ x", DATA)
    np.testing.assert_allclose(model.y, np.log(DATA.e))
    np.testing.assert_allclose(ev.from_formula("k + s ~ x", DATA).y, DATA.k + DATA.s)


@pytest.mark.parametrize(("value", "sign"), [(1, 1), (0, -1), (-1, -1), (True, 1), (False, -1)])
def test_outcomes_that_are_all_equal_have_an_evidence(value, sign):
    data = {"y": [value] * 4}
    model = ev.from_formula("y ~ 1", data, likelihood="bernoulli", link="probit", priors={
        "Intercept": stats.norm(0, 1)})  # fmt: skip
    assert model.y.tolist() == [sign] * 4
    assert any("in every row" in note for note in model.notes)
    # x and the noises of four data are exchangeable: x + noise_i > 0 for all i, iff -x is last
    logz = ev.log_evidence(model, random_seed=0, target_se=0.01, progressbar=False).logz
    assert logz == pytest.approx(-np.log(5.0), abs=0.05)


def test_an_outcome_of_one_word_counts_as_one():
    model = ev.from_formula("y ~ 1", {"y": ["yes"] * 3}, likelihood="bernoulli")
    assert "yes in every row, which counts as 1" in " ".join(model.notes)
    assert model.y.tolist() == [1.0] * 3


@pytest.mark.parametrize("y", [[0, 1, 1, 0], [True, False, True, True], [-1.0, 1.0, 1.0, -1.0]])
def test_outcomes_as_numbers_with_normal_noise_are_remarked(y):
    told = "or 1 in every row, here a number with normal noise"
    assert told in " ".join(ev.from_formula("y ~ 1", {"y": y}).notes)
    one = ev.from_formula("y ~ 1", {"y": y}, likelihood="bernoulli")
    assert told not in " ".join(one.notes)
    assert told not in " ".join(ev.from_formula("y ~ 1", {"y": [0, 1, 2, 1]}).notes)


def test_families_have_the_same_list_for_the_shell():
    assert tuple(families.FAMILIES) == formulas.FAMILIES
    assert {*likelihoods.NAMES} - {*families.FAMILIES["bernoulli"].links} < {*formulas.FAMILIES}


def test_shares_of_zeros_are_learnt_as_log_odds():
    """log Z of counts that know nothing of x: Beta(1, 1) integrates them in closed form."""
    y = np.array([0, 0, 0, 3, 1])
    model = ev.from_formula("y ~ 1", {"y": y}, likelihood="hurdle_poisson", priors={
        "Intercept": stats.norm(0, 1)})  # fmt: skip
    assert model.hyperparameters.lows[-1] == 0.0
    held = model.at({"hu": 0.25})
    assert held.likelihood.hu == pytest.approx(0.25, rel=1e-12)
    free = ev.log_evidence(
        model, effort="frugal", random_seed=0, target_se=0.02, progressbar=False
    )
    one = ev.log_evidence(held, random_seed=0, target_se=0.01, progressbar=False)
    given = np.log(0.25**3 * 0.75**2)
    truth = one.logz - given + betaln(4, 3)
    assert abs(free.logz - truth) < 4.5 * np.hypot(free.logz_se, one.logz_se)


def test_trials_of_new_rows_of_a_beta_binomial():
    model = ev.from_formula("s | trials(n) ~ x", DATA, likelihood="beta_binomial", priors={
        "phi": 3.0})  # fmt: skip
    few = ev.predict(model, DATA.head(4).assign(n=2))
    many = ev.predict(model, DATA.head(4).assign(n=20))
    np.testing.assert_allclose(10.0 * few.y_mean, many.y_mean, rtol=1e-9)
    with pytest.raises(ev.InputError, match=r"column 'n', .*BetaBinomial\(n=1\) for proportions"):
        ev.predict(model, DATA.head(4).drop(columns="n"))
    with pytest.raises(ev.InputError, match="beta_binomial response needs its trials"):
        ev.from_formula("s ~ x", DATA, likelihood="beta_binomial")
    with pytest.raises(ev.InputError, match="'beta_binomial', not for 'beta'"):
        ev.from_formula("s | trials(n) ~ x", DATA, likelihood="beta")


@pytest.mark.parametrize(
    ("likelihood", "y", "message"),
    [
        ("beta", [0.5, 1.0, 0.2], "got 1 at y\\[1\\]"),
        ("weibull", [0.5, 1.0, -0.2], "got -0.2 at y\\[2\\]"),
        ("hurdle_poisson", [0.5, 1.0, 2.0], "got 0.5 at y\\[0\\]"),
    ],
)
def test_data_outside_of_the_support(likelihood, y, message):
    with pytest.raises(ev.InputError, match=message):
        ev.from_formula("y ~ 1", {"y": y}, likelihood=likelihood)

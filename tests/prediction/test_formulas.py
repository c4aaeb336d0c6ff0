"""Predictions of models from formulas: new groups, trials of new rows, averages over models."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import evidence as ev
from evidence.prediction.posterior import known_at_data

pytestmark = pytest.mark.usefixtures("no_layout")

pytest.importorskip("formulae")
QUICK = {"target_se": 0.1, "effort": "frugal", "random_seed": 0, "progressbar": False}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(3)
    group, x = np.repeat(np.arange(8), 10), rng.normal(size=80)
    eta = 0.5 * x + rng.normal(size=8)[group]
    n = rng.integers(2, 9, 80)
    s = rng.binomial(n, 1.0 / (1.0 + np.exp(-eta)))
    kind = rng.choice(["red", "blue"], 80)
    return pd.DataFrame({"s": s, "n": n, "x": x, "g": group, "kind": kind, "t": np.arange(80) % 6})


def test_effects_of_new_groups_have_their_prior(frame):
    """The variance is that of common effects and zᵀΣz, Σ made by hand from its parameters."""
    model = ev.from_formula("s ~ x + (1 + x | g)", frame, likelihood="poisson")
    model = model.at({"sd(1|g)": 0.7, "sd(x|g)": 0.4, "cor(1,x|g)": -0.5})
    q = ev.fit_ep(model)
    new = pd.DataFrame({"x": [0.0, 2.0, -1.0], "g": [77, 77, 3]})
    zero = ev.predict(model, new, posterior=q, new_groups="zero")
    prior = ev.predict(model, new, posterior=q, new_groups="prior")
    cov = np.array([[0.49, -0.14], [-0.14, 0.16]])
    Z = np.column_stack([np.ones(2), new.x[:2]])
    np.testing.assert_allclose(prior.mean, zero.mean, rtol=1e-12)
    np.testing.assert_allclose((prior.var - zero.var)[:2], np.sum((Z @ cov) * Z, axis=1))
    known = ev.predict(model, new.iloc[2:], posterior=q)
    np.testing.assert_allclose(prior.var[2], known.var[0], rtol=1e-10)
    with pytest.raises(ev.InputError, match=r"mean_new: .* offset\(x\)"):
        ev.predict(model, new, posterior=q, mean_new=1.0, new_groups="zero")
    np.testing.assert_allclose(prior.mean[2], known.mean[0], rtol=1e-10)


def test_new_groups_are_refused_unless_asked_for(frame):
    model = ev.from_formula("s ~ x + (1 | g) + ar1(t)", frame, likelihood="poisson")
    with pytest.raises(ev.InputError, match="new_groups='prior'"):
        ev.predict(model, {"x": [0.0], "g": [77], "t": [1]}, posterior="ep")
    with pytest.raises(ev.InputError, match="unknown new_groups"):
        ev.predict(model, {"x": [0.0], "g": [77], "t": [1]}, posterior="ep", new_groups="guess")
    with pytest.raises(ev.InputError, match=r"ar1\(t\) has 1 level"):  # a series has no groups
        ev.predict(model, {"x": [0.0], "g": [77], "t": [99]}, posterior="ep", new_groups="prior")


def test_new_rows_bring_their_trials(frame):
    model = ev.from_formula("s | trials(n) ~ x", frame, likelihood="binomial")
    new = frame.iloc[:4]
    many = ev.predict(model, new.assign(n=[1, 2, 10, 100]), posterior="ep")
    one = ev.predict(
        model, new.drop(columns="n"), posterior="ep", likelihood=ev.likelihoods.Binomial(n=1)
    )
    np.testing.assert_allclose(many.y_mean, one.y_mean * [1, 2, 10, 100], rtol=1e-9)
    with pytest.raises(ev.InputError, match="no column 'n'"):
        ev.predict(model, new.drop(columns="n"), posterior="ep")


def test_a_comparison_predicts_the_mixture_of_its_models(frame, tmp_path):
    formulas = ["s ~ x", "s ~ x + kind"]
    comparison = ev.compare(formulas, frame, likelihood="poisson", **QUICK)
    new = frame.iloc[:3]
    mixed = ev.predict(comparison, new)
    each = [ev.predict(comparison.models[name], new) for name in formulas]
    p = comparison.table.probability[formulas].to_numpy()
    np.testing.assert_allclose(mixed.mean, p @ [one.mean for one in each])
    np.testing.assert_allclose(mixed.y_mean, p @ [one.y_mean for one in each])
    with pytest.raises(ev.InputError, match="posterior"):
        ev.predict(comparison, new, posterior="ep")
    comparison.save(tmp_path / "c.npz")
    again = ev.Comparison.load(tmp_path / "c.npz")
    with pytest.raises(ev.InputError, match="read from a file"):
        ev.predict(again, new)


@pytest.mark.slow
def test_a_comparison_of_integrals_is_read_back(frame, tmp_path):
    comparison = ev.compare(["s ~ x", "s ~ x + (1 | g)"], frame, likelihood="poisson", **QUICK)
    comparison.save(tmp_path / "c.npz")
    again = ev.Comparison.load(tmp_path / "c.npz")
    pd.testing.assert_frame_equal(again.table, comparison.table)
    assert comparison.results["s ~ x + (1 | g)"].optimum is not None


def test_effects_on_labels_are_probabilities_of_the_second(frame):
    words = np.where(frame.s > 2, "yes", "no")
    for answer, told in ((words, "P(answer = yes)"), ((words == "yes") * 1.0, "P(answer)")):
        data = frame.assign(answer=answer)
        model = ev.from_formula("answer ~ x", data, likelihood="bernoulli")
        ax = ev.plot_effects(model, data, "x", "ep", points=3)
        assert ax.get_ylabel() == told
        np.testing.assert_array_equal(ax.get_lines()[1].get_ydata(), words == "yes")
    data.loc[3, "answer"] = np.nan  # the rows of the data are known still
    model = ev.from_formula("answer ~ x", data, likelihood="bernoulli")
    ax = ev.plot_effects(model, data, "x", "ep", points=3)
    assert len(ax.get_lines()[1].get_xdata()) == len(frame) - 1


def test_effects_along_numbers_and_of_categories(frame):
    model = ev.from_formula(
        "s | trials(n) ~ x + kind + (1 | g) + ar1(t)", frame, likelihood="binomial"
    )
    q = ev.fit_ep(model.at({}))
    ax = ev.plot_effects(q.model, frame, "x", q, points=7)
    line, data = ax.get_lines()
    assert ax.get_ylabel() == "expected s / n"
    np.testing.assert_allclose(data.get_xydata(), np.c_[frame.x, frame.s / frame.n])
    held = {"kind": frame.kind.mode()[0], "t": np.sort(frame.t)[40], "n": 1, "g": "nobody"}
    rows = pd.DataFrame({"x": np.linspace(frame.x.min(), frame.x.max(), 7), **held})
    expected = ev.predict(q.model, rows, posterior=q, new_groups="zero").y_mean
    np.testing.assert_allclose(line.get_ydata(), expected)
    ax = ev.plot_effects(q.model, frame, "kind", q, at={"x": 1.0})
    assert [text.get_text() for text in ax.get_xticklabels()] == ["blue", "red"]
    spread = ax.get_lines()[1].get_xdata() - (frame.kind == "red")
    assert 0.1 < spread.min() < spread.max() < 0.4  # data are beside the interval of their kind
    assert len(ev.plot_effects(q.model, frame, "g", q).get_xticklabels()) == 8
    assert len(ev.plot_effects(q.model, frame, "t", q).get_lines()[0].get_xdata()) == 6
    with pytest.raises(ev.InputError, match=r"'kinds' is none; did you mean"):
        ev.plot_effects(q.model, frame, "kinds", q)
    with pytest.raises(ev.InputError, match="no column 'x'"):
        ev.plot_effects(q.model, frame.drop(columns="x"), "x", q)


@pytest.mark.parametrize(
    ("name", "at", "told"),
    [
        (3, None, "name must be a column of the formula, as text, got 3"),
        (["x"], None, r"name must be a column of the formula, as text, got \['x'\]"),
        (None, None, "name must be a column"),
        ("x", "kind", "at must map columns to values, such as .*, got 'kind'"),
        ("x", [("kind", "red")], "at must map columns to values"),
        ("x", 0, "at must map columns to values"),
        ("x", {"kin": "red"}, "'kin' is none; did you mean 'kind'"),
        ("x", {3: "red"}, "3 is none"),
        ("x", {"x": 1.0}, "at holds 'x', which is drawn along"),
        ("x", {"kind": "bleu"}, r"at\['kind'\] must be .*, got 'bleu'; did you mean 'blue'"),
        ("x", {"kind": 3}, r"at\['kind'\] must be one of the values of the column, got 3"),
        ("x", {"kind": ["red"]}, r"at\['kind'\] must be one of the values of the column, got \["),
        ("x", {"g": 99}, r"at\['g'\] must be one of the values of the column, got 99"),
        ("kind", {"x": "one"}, r"at\['x'\] must be a finite number, got 'one'"),
        ("kind", {"x": [1.0, 2.0]}, r"at\['x'\] must be a finite number"),
        ("kind", {"x": np.nan}, r"at\['x'\] must be a finite number, got nan"),
    ],
)  # fmt: skip
def test_what_effects_are_drawn_of_is_checked(frame, name, at, told):
    model = ev.from_formula("s ~ x + kind + (1 | g)", frame, likelihood="poisson").at({})
    with pytest.raises(ev.InputError, match=told):
        ev.plot_effects(model, frame, name, "ep", at=at)


# -- the scale and the labels of the data ---------------------------------------------------

WORDS = ["none", "some", "much", "extreme"]


@pytest.fixture(scope="module")
def pain():
    rng = np.random.default_rng(6)
    x = rng.normal(size=60)
    code = np.searchsorted([-0.7, 0.3, 1.2], x + 0.6 * rng.logistic(size=60))
    data = pd.DataFrame({"x": x, "one": code + 1, "gaps": np.array([1, 2, 4, 7])[code]})
    words = np.array(WORDS)[code]
    data["word"] = pd.Categorical(words, WORDS, ordered=True)
    data["back"] = pd.Categorical(4 - code, [4, 3, 2, 1], ordered=True)
    return data.assign(bit=(code > 1).astype(int), yes=np.where(code > 1, "yes", "no"))


NEW = {"x": [-1.0, 0.0, 2.0]}


@pytest.mark.parametrize(
    ("response", "labels", "values"),
    [
        ("one", [1, 2, 3, 4], [1, 2, 3, 4]),
        ("gaps", [1, 2, 4, 7], [1, 2, 4, 7]),
        ("word", WORDS, [0, 1, 2, 3]),
        ("back", [4, 3, 2, 1], [4, 3, 2, 1]),
    ],
)
def test_ordinal_predictions_have_the_labels_of_the_data(pain, tmp_path, response, labels, values):
    """Against Gauss-Hermite sums of logistic differences; the truth of plots is theirs too."""
    model = ev.from_formula(f"{response} ~ x", pain, likelihood="ordinal").at({"gap_1": 0.9})
    prediction = ev.predict(model, NEW, posterior="ep")
    z, w = np.polynomial.hermite_e.hermegauss(80)
    x = prediction.mean[:, None] + np.sqrt(prediction.var)[:, None] * z
    ends = np.array([-np.inf, *model.likelihood.cutpoints, np.inf])
    P = np.diff(expit(ends - x[..., None]), axis=-1)
    p = np.einsum("z,nzk->nk", w / w.sum(), P)
    np.testing.assert_allclose(prediction.probability, p, atol=1e-6)
    np.testing.assert_allclose(prediction.y_mean, p @ values, rtol=1e-5)
    v = np.array(values, float)
    np.testing.assert_allclose(prediction.y_var, p @ v**2 - (p @ v) ** 2, rtol=1e-5)
    assert prediction.labels.tolist() == labels
    for k, label in enumerate(labels):
        density = prediction.log_density(np.array([label] * 3))
        np.testing.assert_allclose(density, np.log(p[:, k]), atol=1e-5)
    median = [values[k] for k in (p.cumsum(axis=1) < 0.5).sum(axis=1)]
    np.testing.assert_array_equal(prediction.quantiles(0.5, of="y"), median)
    frame = prediction.to_frame()
    assert list(frame)[-4:] == [f"p[{label}]" for label in labels]
    np.testing.assert_array_equal(frame[f"p[{labels[1]}]"], prediction.probability[:, 1])
    with pytest.raises(ev.InputError, match="y_new holds 9, not one of"):
        prediction.log_density([9, 9, 9])
    prediction.save(tmp_path / "p.npz")
    again = ev.load(tmp_path / "p.npz")
    np.testing.assert_array_equal(again.y_mean, prediction.y_mean)
    ax = ev.plot_effects(model, pain, "x", "ep", points=3)
    low, high = np.sort(ax.collections[0].get_paths()[0].vertices[:, 1])[[0, -1]]
    assert min(values) < low < ax.get_lines()[0].get_ydata().min()
    assert ax.get_lines()[0].get_ydata().max() < high < max(values)


@pytest.mark.parametrize(
    ("response", "low", "high"),
    [("bit", 0, 1), ("bool", 0, 1), ("yes", 0, 1), ("sign", -1, 1), ("two", 1, 2)],
)
@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_binary_predictions_are_on_the_scale_of_the_data(pain, response, low, high, link):
    data = pain.assign(bool=pain.bit > 0, sign=2 * pain.bit - 1, two=pain.bit + 1)
    model = ev.from_formula(f"{response} ~ x", data, likelihood=link)
    prediction, p = ev.predict(model, NEW), ev.predict(model, NEW).probability
    np.testing.assert_allclose(prediction.y_mean, low + (high - low) * p, rtol=1e-9)
    np.testing.assert_allclose(prediction.y_var, (high - low) ** 2 * p * (1 - p), rtol=1e-9)
    ends = prediction.quantiles([1e-6, 1 - 1e-6], of="y")
    np.testing.assert_array_equal(ends, [[low] * 3, [high] * 3])
    for label, share in zip(sorted(set(data[response])), (1 - p, p), strict=True):
        density = prediction.log_density([label] * 3)
        np.testing.assert_allclose(np.exp(density), share, rtol=1e-9)
    assert list(prediction.to_frame())[-1] == "probability"


def test_scales_of_other_ways_to_say_the_same(pain):
    """Likelihoods as objects, outcomes that are all equal, mixtures, and no formula at all."""
    plain = ev.predict(ev.from_formula("bit ~ x", pain, likelihood="logit"), NEW)
    given = ev.from_formula("bit ~ x", pain, likelihood=ev.likelihoods.Logit())
    assert ev.predict(given, NEW).y_mean == pytest.approx(ev.predict(given, NEW).probability)
    for value, low, high in ((1, 0, 1), (0, 0, 1), (-1, -1, 1), (True, 0, 1), ("yes", 0, 1)):
        model = ev.from_formula("v ~ 1", {"v": [value] * 3}, likelihood="bernoulli")
        one = ev.predict(model, NEW)
        assert one.y_mean == pytest.approx(low + (high - low) * one.probability)
    both = ev.predict(ev.from_formula("bit ~ 1", pain, likelihood="logit"), NEW)
    mixed = plain.mixture([plain, both])
    assert mixed.y_mean == pytest.approx(0.5 * (plain.probability + both.probability))
    gp = ev.GPModel(pain.x, pain.bit, "1.0 * RBF(1.0)", likelihood="logit")
    other = ev.predict(gp, [[-1.0], [0.0], [2.0]])
    assert other.y_mean == pytest.approx(2.0 * other.probability - 1.0)
    assert plain.mixture([plain, other]).labels is None


def test_a_comparison_of_ordinal_formulas_predicts_their_labels(pain):
    held = {"gap_1": 1.0, "gap_2": 1.0}
    comparison = ev.compare(["word ~ 1", "word ~ x"], pain, family="ordinal", priors=held, **QUICK)
    prediction = ev.predict(comparison, NEW)
    assert prediction.labels.tolist() == WORDS
    np.testing.assert_allclose(prediction.probability.sum(axis=1), 1.0, rtol=1e-6)


def test_few_settings_stand_for_all_that_were_integrated_out():
    """Their mean is right: P(y = 0) of a hurdle is E[hu | y], a beta variate's mean."""
    data = {"y": [0.0, 2.0, 0.0, 1.0, 3.0, 0.0, 0.0, 2.0, 1.0, 1.0]}
    priors = {"Intercept": "norm(0.2, 1)", "hu": "beta(1, 1)"}
    model = ev.from_formula("y ~ 1", data, likelihood="hurdle_poisson", priors=priors)
    for seed in range(4):
        result = ev.log_evidence(model, random_seed=seed, progressbar=False)
        predicted = ev.predict(model, {"y": [0.0]}, posterior=result)
        assert predicted.log_density(np.zeros(1)) == pytest.approx(np.log(5 / 12), abs=0.03)
    assert [len(known_at_data(model, result, n)) for n in (None, 100)] == [48, 100]


def test_effects_of_few_data_have_a_curve():
    data = pd.DataFrame({"y": [1.0, 0.0, 2.0, 4.0], "x": [0.1, 0.5, 1.2, 2.5], "k": [1, 2, 3, 4]})
    model = ev.from_formula("y ~ x + k", data, likelihood="poisson")
    for name, count in (("x", 60), ("k", 4)):
        assert ev.plot_effects(model, data, name, "ep").get_lines()[0].get_xdata().size == count
    with pytest.raises(ev.InputError, match="data have no row without missing values in x, k, y"):
        ev.plot_effects(model, data.iloc[:0], "x")

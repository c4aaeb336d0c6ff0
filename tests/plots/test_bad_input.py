"""Whatever a figure is given: it is drawn, or one line says which argument is wrong."""

from __future__ import annotations

import inspect

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

import evidence as ev
from evidence import plots

pytestmark = pytest.mark.usefixtures("no_layout")

FIGURES = [name for name in plots.__all__ if name.startswith("plot_")]
#: what other arguments are, by name
OTHERS = {
    "truth": -1.5, "size": "n_particles", "seconds": ["seconds"], "total": 40, "across": (-4, 4),
    "up": (-4, 4), "points": [[0.0, 0.0]], "values": np.ones((5, 3)) + np.eye(5, 3),
}  # fmt: skip
WRONG = {
    "None": None,
    "a number": 3,
    "a word": "abc",
    "a dict": {"logz": 1.0},
    "a list of words": ["a", "b"],
    "an empty list": [],
    "a cube": np.zeros((2, 2, 2)),
    "a table": pd.DataFrame({"a": ["b"]}),
    "an empty table": pd.DataFrame({"a": []}),
    "words for numbers": pd.DataFrame({name: ["a"] for name in (
        "logz", "seconds", "method", "ladder", "q5", "q95", "mean", "factor", "change", "move",
        "rate", "rate_sd", "target", "acceptance", "ess", "n_particles", "logz_se", "probability",
    )}),
    "a class": ev.EvidenceResult,
    "a model": ev.GPModel(K=[[1.0]], y=[1]),
}  # fmt: skip
WRONG_AXES = {
    "a number": 3,
    "a word": "axes",
    "a figure": Figure(),
    "too many": Figure().subplots(1, 2),
    "too few": np.array([], dtype=object),
    "a list": [Figure().gca()],
    "a class": Axes,
}


@pytest.fixture(scope="module")
def right():
    """One of everything that some figure draws."""
    quiet = {"progressbar": False, "random_seed": 0}
    X, rng = np.linspace(0, 2, 3)[:, None], np.random.default_rng(0)
    y, labels = np.array([1, -1, 1]), list("abc")
    model = ev.GPModel(X, y, "RBF(1.0)")
    counts = ev.GPModel(X, y + 1, "RBF(1.0)", likelihood="poisson")
    prior, bowl = {"length_scale": stats.lognorm(1)}, ev.examples.gaussian(2).model
    bowl.metric = ev.SoftAbs(1e6)
    draws = ev.sample(bowl, draws=40, tune=20, chains=2, **quiet)
    return {
        "guided": ev.log_evidence(model, **quiet),
        "tempered": ev.log_evidence(model, method="smc", n_islands=4, n_particles=32, **quiet),
        "integrated": ev.integrated_evidence(model, prior, n_particles=8, n_islands=2, **quiet),
        "draws": draws,
        "learnt": ev.sample_hyperparameters(counts, prior, draws=20, tune=10, chains=2, **quiet),
        "bridge": ev.evidence_from_draws(draws.x, bowl),
        "optimum": ev.optimise(model, progressbar=False),
        "comparison": ev.compare({"a": model, "b": model}, method="ep", **quiet),
        "surface": ev.evidence_surface(
            model, {"length_scale": [1.0, 2.0]}, method="ep", progressbar=False
        ),
        "loo": ev.loo(counts),
        "calibration": ev.calibrate([model, model.at({"length_scale": 3.0})], 2, **quiet),
        "replicates": ev.replicate(counts, draws=3, random_seed=0),
        "design": ev.design(model, model.at({"length_scale": 3.0}), 2, **quiet),
        "prediction": ev.predict(counts, X),
        "classes": ev.predict(ev.SoftmaxModel(X, labels, "RBF(1.0)"), X),
        "summary": pd.DataFrame({"mean": [0.0], "q5": [-1.0], "q95": [1.0]}, ["a"]),
        "sensitivity": pd.DataFrame({"factor": [0.5, 2.0], "change": [0.1, 0.2]}, list("ab")),
        "runs": ev.sweep(
            model, method="ais", ladders=[2], seeds=2, n_particles=8, progressbar=False
        ).assign(n_particles=[8, 16]),
        "moves": pd.DataFrame({
            "move": ["a"], "rate": [1.0], "rate_sd": [0.1], "target": 0.5, "acceptance": 0.5,
            "ess": 9.0,
        }),
        "way": ev.moves.trajectory(ev.moves.HMC(), bowl, [0.0, 0.0], n_steps=3),
        "density": bowl,
        "numbers": np.arange(1.0, 9.0),
        "chains": rng.uniform(1.0, 2.0, (2, 30)),
        "names": ["a", "b", "c"],
    }  # fmt: skip


EMPTY = [Figure().gca()]  # axes until something is drawn on them: they take long to make


def draw(figure, first, **given):
    """The figure of something, on empty axes; the name of its argument if it is refused."""
    function = getattr(plots, figure)
    name, *others = inspect.signature(function).parameters.values()
    words = {other.name: OTHERS[other.name] for other in others if other.default is other.empty}
    if "ax" in inspect.signature(function).parameters:
        words["ax"] = EMPTY[0]
    try:
        assert isinstance(function(first, **(words | given)), Axes | Figure)
        EMPTY[0] = Figure().gca()
    except ev.InputError as error:
        said = str(error)
        return next((word for word in (name.name, *given) if said.startswith(word)), said)
    finally:
        plt.close("all")


@pytest.mark.parametrize("figure", FIGURES)
def test_what_is_drawn(figure):
    name = next(iter(inspect.signature(getattr(plots, figure)).parameters))
    said = {case: draw(figure, value) for case, value in WRONG.items()}
    assert said == dict.fromkeys(WRONG, name)


#: seconds each: they draw many panels, or much of what there is
LARGE = [
    "plot_corner",
    "plot_autocorrelation",
    "plot_result",
    "plot_draws",
    "plot_hyperparameters",
]


@pytest.mark.parametrize(
    "figure",
    [pytest.param(f, marks=pytest.mark.slow) if f in LARGE else f for f in FIGURES],
)
def test_results_of_other_kinds_and_axes(figure, right):
    name, *others = inspect.signature(getattr(plots, figure)).parameters
    said = {kind: draw(figure, value) for kind, value in right.items()}
    assert set(said.values()) == {None, name}  # some are drawn, the others refused by name
    if "ax" in others:
        good = right[next(kind for kind in said if said[kind] is None)]
        for ax in WRONG_AXES.values():
            assert draw(figure, good, ax=ax) == "ax"
        assert draw(figure, good, ax=None) is None


@pytest.mark.parametrize(
    ("figure", "kind", "word"),
    [
        ("plot_bridge", "bridge", "reach"), ("plot_reliability", "calibration", "bins"),
        ("plot_loo", "loo", "worst"), ("plot_hyper_draws", "learnt", "rows"),
        ("plot_corner", "draws", "points"), ("plot_density", "density", "drops"),
    ],
)  # fmt: skip
def test_words_for_numbers(figure, kind, word, right):
    assert draw(figure, right[kind], **{word: "many"}) == word

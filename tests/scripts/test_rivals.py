"""Runs of other packages: what becomes of them in the table, and of those that fail."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

import evidence as ev
from scripts.rivals import problem, roster, runner, table

pytestmark = pytest.mark.usefixtures("no_layout")


@pytest.fixture(scope="module")
def model() -> ev.GPModel:
    K = 4.0 * np.array([[1.0, 0.7, 0.2], [0.7, 1.0, 0.4], [0.2, 0.4, 1.0]])
    return ev.GPModel(K=K, y=[1, -1, 1], likelihood="probit", jitter=0.0)


@pytest.fixture(scope="module")
def truth(model: ev.GPModel) -> float:
    """P(y_n (x_n + e_n) > 0), by the normal distribution function."""
    cov = np.outer(model.y, model.y) * (model.K + np.eye(3))
    return float(np.log(multivariate_normal.cdf(np.zeros(3), cov=cov, abseps=1e-9, releps=1e-9)))


@pytest.fixture(scope="module")
def file(model: ev.GPModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rivals") / "three.npz"
    problem.save(str(path), "three", model)
    return path


# -- the problem ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["prior", "ep"])
def test_mean_of_exp_h_is_the_evidence(file: Path, truth: float, name: str) -> None:
    base = problem.load(str(file)).bases[name]
    nodes, w = np.polynomial.hermite_e.hermegauss(60)
    z = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij"), -1).reshape(-1, 3)
    weights = np.einsum("i,j,k->ijk", w, w, w).ravel() / (2.0 * np.pi) ** 1.5
    found = base.log_z0 + np.log(weights @ np.exp(base.loglik(z)))
    assert found == pytest.approx(truth, abs=2e-5)


@pytest.mark.parametrize("name", ["prior", "ep"])
def test_gradient_and_curvature(file: Path, name: str) -> None:
    base = problem.load(str(file)).bases[name]
    z, v, eps = np.array([0.3, -1.2, 0.8]), np.array([1.0, 0.5, -0.7]), 1e-5
    ahead, behind = z + eps * v, z - eps * v
    slope = (base.loglik(ahead) - base.loglik(behind)) / (2 * eps)
    h, gradient = base.loglik_and_gradient(z)
    assert h == base.loglik(z)
    assert gradient @ v == pytest.approx(slope, rel=1e-7)
    bend = (base.loglik_and_gradient(ahead)[1] - base.loglik_and_gradient(behind)[1]) / (2 * eps)
    curvature, change = base.curvature(z)
    np.testing.assert_allclose(
        base.root.T @ (curvature * (base.root @ v)), -bend, rtol=1e-6, atol=1e-9
    )
    differ = (base.curvature(ahead)[0] - base.curvature(behind)[0]) / (2 * eps)
    np.testing.assert_allclose(change * (base.root @ v), differ, rtol=1e-6, atol=1e-9)


# -- the table ------------------------------------------------------------------------------------


def runs(rival: str, logz: list[float], seconds: list[float], **words: object) -> pd.DataFrame:
    frame = pd.DataFrame({"logz": logz, "seconds": 9.0, "cpu_seconds": seconds})
    fixed = dict(
        problem="p", rival=rival, variant="v", base="", likelihood="probit", settings="{}",
        cores=1, version="1", stated_se=np.nan, failure="", seed=range(len(logz)),
        first=[True] + [False] * (len(logz) - 1),
    )  # fmt: skip
    return frame.assign(**(fixed | words))


TRUTHS = {("p", "probit"): (-10.0, 0.03)}


def test_summary_of_runs() -> None:
    raw = pd.concat(
        [
            runs("evidence", [-10.1, -9.9], [3.0, 0.5], variant="auto"),
            runs("other", [-11.0, -10.6, -10.4, -10.8], [7.0, 2.0, 4.0, 3.0], stated_se=0.2),
        ]
    )
    found = table.summarise(raw, TRUTHS)
    assert list(found.rival) == ["evidence", "other"]
    row = found.iloc[1]
    sd = np.std([0.3, -0.1, -0.3, 0.1], ddof=1)
    assert row["mean"] == pytest.approx(-10.7)
    assert row.bias == pytest.approx(-0.7)
    assert row.sd == pytest.approx(sd)
    assert row.bias_se == pytest.approx(np.hypot(sd / 2.0, 0.03))
    assert row.seconds == 3.0  # the median of the later runs
    assert row.compile_seconds == 4.0
    assert row.variance_seconds == pytest.approx(3.0 * sd**2)
    assert row.mse_seconds == pytest.approx(3.0 * (np.mean([1.0, 0.36, 0.16, 0.64]) - 0.03**2))
    assert row.stated_se == 0.2
    assert row.failures == 0
    assert found.mse_seconds[0] == pytest.approx(0.5 * 0.01)
    np.testing.assert_allclose(found.ratio_error, [0.0, np.sqrt(2.0 / 4 + 2.0 / 2)])
    np.testing.assert_allclose(found.ratio, [1.0, row.mse_seconds / (0.5 * 0.01)])


def test_failures_are_counted_and_told() -> None:
    broken = runs("other", [-10.2, np.nan, np.nan], [1.0, np.nan, np.nan])
    broken["failure"] = ["", "out of memory", "out of memory"]
    dead = runs("third", [np.nan], [np.nan], failure="no answer within 5 s")
    raw = pd.concat([runs("evidence", [-10.0, -10.0], [1, 1], variant="auto"), broken, dead])
    found = table.summarise(raw, TRUTHS)
    assert list(found.repeats) == [2, 1, 0]
    assert list(found.failures) == [0, 2, 1]
    assert found.bias[1] == pytest.approx(-0.2)
    assert np.isnan(found.mse_seconds[1])  # one run that came through is no measurement
    text = table.markdown(found)
    assert "| other v (2 failed: out of memory) | -0.200 |" in text
    assert "| third v | failed: no answer within 5 s |" in text


def test_wall_clock_with_several_cores() -> None:
    raw = runs("evidence", [-10.0, -10.2, -9.9], [1.0, 1.0, 1.0], variant="auto", cores=2)
    assert table.summarise(raw, TRUTHS).seconds[0] == 9.0


def test_points_keep_their_order_in_every_panel() -> None:
    raw = pd.concat(
        [
            runs("evidence", [-10.1, -9.9], [1.0, 1.0], variant="auto"),
            runs("other", [-10.2, -9.7], [1.0, 2.0], problem="q", base="ep"),
            runs("fixed", [-10.2, -10.2 - 1e-9], [1.0, 1.0]),
        ]
    )
    for name, empty in (("p", "other v, from EP"), ("q", "evidence auto")):
        points = table.points(raw, name)
        assert list(points.method.unique()) == ["evidence auto", "other v, from EP"]
        assert points[points.method == empty].logz.isna().all()
        assert ev.plots.plot_efficiency(points, -10.0).get_yscale() == "log"


# -- processes ------------------------------------------------------------------------------------

FAKE = """
import time
VERSION = "fake 1"
def run(problem, settings, seed):
    print("talk that is not an answer")
    if settings["how"] == "crash" and seed == 1:
        raise ValueError("too many dimensions")
    if settings["how"] == "hang":
        time.sleep(60)
    return (float("nan") if settings["how"] == "nan" else -seed), 0.5
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fake_rival.py").write_text(FAKE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def measured(file: Path, how: str, seeds: list[int], limit: float = 60.0) -> list[dict]:
    rival = roster.Rival("fake", "v", "fake_rival", roster.OWN, {"three": {"how": how}, "how": ""})
    python = runner.find_python(rival, Path())
    return list(
        runner.measure(
            rival, python, file, "three", seeds, cores=1, limit=limit, budget=0.0, least=3
        )
    )


@pytest.mark.usefixtures("fake")
def test_runs_are_rows(file: Path) -> None:
    rows = measured(file, "", [0, 1, 2, 3, 4])
    assert [row["logz"] for row in rows] == [0.0, -1.0, -2.0]  # the budget is spent
    assert [row["first"] for row in rows] == [True, False, False]
    assert {row["version"] for row in rows} == {"fake 1"}
    assert rows[0]["stated_se"] == 0.5
    assert json.loads(rows[0]["settings"]) == {"how": ""}


@pytest.mark.slow
@pytest.mark.usefixtures("fake")
def test_a_crash_is_a_row_and_the_next_seed_starts_anew(file: Path) -> None:
    rows = measured(file, "crash", [0, 1, 2])
    assert [row["failure"] for row in rows] == ["", "ValueError: too many dimensions", ""]
    assert [row["first"] for row in rows] == [True, False, True]


@pytest.mark.slow
@pytest.mark.usefixtures("fake")
def test_a_run_past_its_limit_ends_the_matter(file: Path) -> None:
    (row,) = measured(file, "hang", [0, 1, 2], limit=0.3)
    assert row["failure"] == "no answer within 0 s"


@pytest.mark.usefixtures("fake")
def test_what_is_not_finite_has_failed(file: Path) -> None:
    assert {row["failure"] for row in measured(file, "nan", [0, 1])} == {"log Z is nan"}

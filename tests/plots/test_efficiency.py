"""Error against time, calibration, scaling, moves side by side: what the figures say."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import evidence as ev
from evidence import plots
from evidence.plots.efficiency import exponent

pytestmark = pytest.mark.usefixtures("no_layout")


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def runs() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = [
        {"method": method, "ladder": ladder, "seed": seed, "seconds": seconds,
         "logz": -10.0 + sd * rng.standard_normal(), "ep": -10.5, "ep_corrected": -9.9}
        for method, ladder, seconds, sd in (("a", "B = 1", 1.0, 0.5), ("a", "B = 2", 2.0, 0.3),
                                            ("b", "default", 0.5, 0.01))
        for seed in range(20)
    ]  # fmt: skip
    return pd.DataFrame(rows)


PUBLISHED = pd.DataFrame(
    [("old", "c", -10.2, 0.3, 70.0)], columns=["method", "ladder", "logz", "sd", "seconds"]
)


def test_rms_error_is_where_it_should_be(ax):
    frame = runs()
    plots.plot_efficiency(frame, -10.0, ax, published=PUBLISHED)
    lines = {c.get_label(): c.lines[0].get_xydata() for c in ax.containers}
    assert set(lines) == {"published", "a", "b"}
    expected = np.sqrt(np.mean((frame.logz[frame.method == "b"] + 10.0) ** 2))
    np.testing.assert_allclose(lines["b"], [[0.5, expected]])
    assert lines["a"][:, 0].tolist() == [1.0, 2.0]
    np.testing.assert_allclose(lines["published"], [[70.0, np.hypot(0.3, 0.2)]])
    assert "nats" in ax.get_ylabel()
    assert "seconds" in ax.get_xlabel()


def test_lines_of_equal_efficiency(ax):
    plots.plot_efficiency(runs(), -10.0, ax)
    thin = [line for line in ax.lines if line.get_color() == "0.85"]
    assert len(thin) >= 2
    constants = [line.get_xdata() * line.get_ydata() ** 2 for line in thin]
    for values in constants:
        np.testing.assert_allclose(values, values[0])
    np.testing.assert_allclose(np.diff(np.log10([c[0] for c in constants])), 1.0)


def test_published_values_beside_runs(ax):
    plots.plot_logz_vs_time(runs(), ax, published=PUBLISHED)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["EP", "EP, corrected", "published", "a", "b"]
    assert {"c", "B = 1", "B = 2"} <= {text.get_text() for text in ax.texts}


def test_calibration_is_a_density_with_error_bars(ax):
    z = np.random.default_rng(1).standard_normal(400)
    plots.plot_calibration(np.append(z, np.nan), ax, df=15)
    bars = ax.patches
    area = sum(bar.get_height() * bar.get_width() for bar in bars)
    assert area == pytest.approx(1.0)
    assert "400 runs" in ax.get_title()
    assert "Student t, 15 df" in [text.get_text() for text in ax.get_legend().get_texts()]


def test_exponent_of_the_larger_half(ax):
    frame = pd.DataFrame({"N": np.repeat([10, 20, 40, 80], 2)})
    frame["seconds"] = np.where(frame.N < 40, 0.05, (frame.N / 40) ** 3)
    plots.plot_scaling(frame, ax, size="N", seconds=["seconds"])
    assert "exponent 3.00" in ax.get_legend().get_texts()[0].get_text()
    assert exponent([1, 10], [2.0, 200.0]) == pytest.approx(2.0)
    assert np.isnan(exponent([1], [1.0]))


def test_geometry_of_a_density(ax):
    model = ev.examples.gaussian(2, condition=4.0).model
    plots.plot_density(model, ax, across=(-4, 4), up=(-4, 4))
    assert len(ax.collections) >= 1
    model.metric = ev.SoftAbs(1e6)
    plots.plot_metric(model, [[0.0, 0.0], [1.0, 1.0]], ax)
    first, second = ax.patches  # a Gaussian's metric is the same everywhere: its precision
    cov = np.linalg.inv(-model.hessian(np.zeros((1, 2)))[0])
    axes = 2.0 * np.sqrt(np.linalg.eigvalsh(cov))
    np.testing.assert_allclose([first.width, first.height], axes, rtol=1e-5)
    np.testing.assert_allclose([second.width, second.height], axes, rtol=1e-5)
    with pytest.raises(ValueError, match="two parameters, got 3"):
        plots.plot_density(ev.examples.gaussian(3).model, ax, across=(0, 1), up=(0, 1))

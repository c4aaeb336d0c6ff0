"""Figures can be read: nothing is hidden, no tick has an offset, colours differ for every eye."""

from __future__ import annotations

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

import evidence as ev
from evidence import plots
from evidence.plots import _style

#: Machado, Oliveira and Fernandes (2009), complete deuteranopia, protanopia and tritanopia
BLIND = [
    np.eye(3),
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
     [-0.01182, 0.04294, 0.968881]],
    [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
     [-0.003882, -0.048116, 1.051998]],
    [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
     [0.004733, 0.691367, 0.3039]],
]  # fmt: skip
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(color: str, seen: np.ndarray) -> np.ndarray:
    """CIELAB of a colour as somebody sees it."""
    rgb = np.array(to_rgb(color))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    t = XYZ @ np.clip(seen @ linear, 0.0, 1.0) / XYZ.sum(axis=1)
    x, y, z = np.where(t > 0.008856, np.cbrt(t), 7.787 * t + 16.0 / 116.0)
    return np.array([116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)])


@pytest.mark.parametrize("eye", range(4))
def test_shades_differ_for_every_eye(eye):
    for a, b in itertools.combinations(_style.SHADES, 2):
        assert np.linalg.norm(lab(a, np.array(BLIND[eye])) - lab(b, np.array(BLIND[eye]))) > 22.0


def test_figures_of_ones_own_may_have_the_same_shades():
    with plt.style.context("evidence.plots.colours"):
        colours = [line["color"] for line in plt.rcParams["axes.prop_cycle"]]
    assert colours == list(_style.SHADES[:-1])


def full(panels: int) -> list:
    """Axes in which no corner is free."""
    _, axes = _style.new_figure(4.0 * panels, 3.0, 1, panels, squeeze=False)
    for ax in axes[0]:
        ax.plot(np.linspace(0, 1, 400), np.random.default_rng(0).uniform(size=400), "o", label="a")
        ax.plot([0, 1], [0.5, 0.5], label="b")
    return list(axes[0])


@pytest.mark.parametrize("panels", [1, 2])
def test_a_legend_hides_nothing(panels):
    for ax in full(panels):
        _style.legend(ax)
        figure = ax.get_figure()
        figure.draw_without_rendering()
        box = ax.get_legend().get_window_extent()
        assert not _style._hides(ax, box)
        assert figure.bbox.x1 >= box.x1 - 1.0


def test_a_legend_is_on_a_figure_without_a_layout():
    figure, ax = plt.subplots()
    ax.plot(np.linspace(0, 1, 400), np.random.default_rng(0).uniform(size=400), "o", label="a")
    _style.legend(ax)
    figure.draw_without_rendering()
    box = ax.get_legend().get_window_extent()
    assert not _style._hides(ax, box)
    assert box.x1 <= figure.bbox.x1
    assert box.y1 <= figure.bbox.y1
    plt.close(figure)


def test_a_legend_stays_where_there_is_room():
    ax = _style.axes_of(None)
    ax.plot([0, 1], [0, 1], label="a line")
    assert _style.legend(ax).get_legend().get_bbox_to_anchor().width > 100.0


def test_what_hides_is_seen():
    ax = full(1)[0]
    everywhere = ax.get_window_extent()
    ax.set_ylim(-3.0, 1.1)
    assert _style._hides(ax, everywhere)
    lower = everywhere.shrunk(1.0, 0.5)
    assert not _style._hides(ax, lower)
    ax.text(0.5, 0.1, "words", transform=ax.transAxes)
    assert _style._hides(ax, lower)
    ax.texts[0].remove()
    ax.bar([0.5], [-2.9])
    assert _style._hides(ax, lower)


@pytest.mark.parametrize("own", [False, True])
def test_ticks_have_no_offset(own):
    ax = _style.axes_of(plt.figure().gca() if own else None)
    ax.plot([0, 1], [-123456.001, -123456.002])
    ax.figure.draw_without_rendering()
    assert ax.yaxis.get_offset_text().get_text() == ""


def test_large_ticks_are_short():
    assert [_style._short(value) for value in (0.5, 9000.0, 2e4, 2.5e5)] == [
        "0.5", "9000", "20k", "250k",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def result():
    model = ev.GPModel(K=[[2.0, 1.0], [1.0, 2.0]], y=[1, -1])
    return ev.log_evidence(model, method="guided", random_seed=0, progressbar=False)


def words(ax) -> list[str]:
    return [*(t.get_text() for t in ax.texts), *(t.get_text() for t in ax.get_legend().texts)]


def test_what_is_not_told_apart_is_not_called_off(result):
    """Two approximations a hair beside the estimate, one far from it."""
    se = result.logz_se
    moved = {"laplace": 9.0, "ep": 0.5, "ep_corrected": -1.5}
    rows = [
        row._replace(logz=result.logz + se * moved.get(row.method, 0.0)) for row in result.rows
    ]
    shown = ev.EvidenceResult(**vars(result) | {"rows": tuple(rows)})
    told = words(plots.plot_error(shown))
    assert [text for text in told if "off by" in text] == [f"Laplace is off by {9.0 * se:+.2g}"]
    assert {"EP: within 2 se", "EP, corrected: within 2 se"} <= set(told)


def test_an_answer_has_the_digits_of_its_error(result):
    result = ev.EvidenceResult(**vars(result))
    result.logz, result.logz_se = -1.23456789, 0.000012
    assert "-1.23457 ± 0.00001" in plots.plot_islands(result).get_title()
    result.logz_se = 0.2
    assert "-1.235 ± 0.200" in plots.plot_islands(result).get_title()


def test_ladders_of_one_kind_are_numbers():
    frame = pd.DataFrame({
        "method": "smc", "ladder": ["geometric(2)", "geometric(4)", "adaptive"], "seed": 0,
        "logz": [-1.0, -1.1, -1.2], "seconds": [1.0, 2.0, 3.0],
    })  # fmt: skip
    ax = plots.plot_logz_vs_time(frame)
    assert [text.get_text() for text in ax.texts] == ["2", "4", "adaptive"]
    assert "numbers: geometric(…)" in words(ax)
    two = frame.assign(ladder=["geometric(2)", "power(4)", "adaptive"])
    assert [text.get_text() for text in plots.plot_logz_vs_time(two).texts] == list(two.ladder)


def intervals(**columns) -> pd.DataFrame:
    table = pd.DataFrame(columns)
    return table.assign(q5=table["mean"] - 1.6 * table.sd, q95=table["mean"] + 1.6 * table.sd)


def test_an_intercept_of_510_leaves_room_for_the_rest():
    table = intervals(mean=[510.0, -0.2, 0.3], sd=[2.0, 0.1, 0.3])
    ax = plots.plot_intervals(table, standardised=True)
    low, high = ax.get_xlim()
    assert high - low < 25.0
    assert ax.texts[0].get_text() == "510  [507, 513]"
    assert "90 % interval" in ax.get_xlabel()
    wide = plots.plot_intervals(table.rename(columns={"q5": "q2.5", "q95": "q97.5"}))
    assert "95 % interval" in wide.get_xlabel()
    assert np.ptp(wide.get_xlim()) > 500.0


def test_a_surface_says_when_its_largest_is_on_the_edge():
    model = ev.GPModel(np.arange(6.0)[:, None], [1, 1, -1, -1, 1, 1], "1.0 * RBF(1.0)")
    scales = {"length_scale": [0.5, 1.0, 2.0], "constant_value": [0.5, 1.0, 2.0]}
    surface = ev.evidence_surface(model, scales, n_particles=64, random_seed=0, progressbar=False)
    for inside in (False, True):
        middle = (surface.table[list(surface.names)] == 1.0).all(axis=1)
        surface.table.loc[middle, "logz"] += 100.0 * inside
        first = surface.plot().axes[0]
        assert ("on the edge" in first.get_title()) is not inside
        assert len([text for text in first.texts if text.get_text()]) == 9  # a value in each cell


def test_what_has_no_error_bar_is_not_monte_carlo():
    """Nor are exact numbers; neither is drawn by its rounding."""
    x = np.arange(6.0)[:, None]
    model = ev.GPModel(x, [1, 1, -1, -1, 1, 1], "1.0 * RBF(1.0)")
    words = {"random_seed": 0, "progressbar": False}
    models = {"a": model, "b": model.at({"length_scale": 2.0})}
    ax = ev.compare(models, method="ep", **words).plot()
    told = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "an approximation, without error bars" in told
    scales = {"length_scale": [0.5, 1.0], "constant_value": [0.5, 1.0]}
    figure = ev.evidence_surface(model, scales, method="ep", **words).plot()
    assert not any("Monte Carlo" in ax.get_title() for ax in figure.axes)
    normal = ev.GPModel(x, np.sin(x[:, 0]), "1.0 * RBF(1.0)", likelihood="gaussian")
    exact = ev.compare({"a": normal, "b": normal.at({"length_scale": 1.0 + 1e-9})}, **words)
    ax = exact.plot()
    assert "exact" in [text.get_text() for text in ax.get_legend().get_texts()]
    assert np.ptp(ax.get_xlim()) > 0.99e-3


def test_a_legend_on_plain_axes_hides_no_data():
    """Limits of axes without a layout have not seen the data until they are asked."""
    rng = np.random.default_rng(3)
    X = np.linspace(0.0, 6.0, 40)[:, None]
    y = np.where(np.sin(2.0 * X[:, 0]) + 0.4 * rng.normal(size=40) > 0.0, 1, -1)
    found = ev.predict(ev.GPModel(X, y, "4.0 * RBF(0.8)"), np.linspace(-1.0, 7.0, 120)[:, None])
    figure, ax = plt.subplots(figsize=(6, 4))
    found.plot(ax)
    figure.canvas.draw()
    assert not _style._hides(ax, ax.get_legend().get_window_extent())
    plt.close(figure)

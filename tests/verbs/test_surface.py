"""Evidence over a grid of hyperparameters."""

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial

import fakes
import matplotlib as mpl
import numpy as np
import pytest
from covering import seldom

import evidence as ev
from evidence.execution.checkpoint import Checkpoint
from evidence.execution.clock import Clock
from evidence.hyper.grid import Cell, run_grid

pytestmark = pytest.mark.usefixtures("no_layout")

mpl.use("Agg")

X = np.linspace(0.0, 3.0, 10)
MODEL = ev.GPModel(X, np.sin(2.0 * X), "1.0 * RBF(0.8)", likelihood="gaussian(noise_std=0.3)")
GRID = {"length_scale": [0.3, 0.9], "noise_std": [0.1, 0.3, 1.0]}


def run(**words):
    words = {"random_seed": 0, "progressbar": False, **words}
    return ev.evidence_surface(MODEL, GRID, **words)


@pytest.fixture(scope="module")
def surface():
    return run()


def test_every_cell_is_right(surface):
    assert surface.names == ("k2__length_scale", "likelihood__noise_std")
    assert len(surface.table) == 6
    assert surface.warnings == ()
    for _, row in surface.table.iterrows():
        here = MODEL.at({name: row[name] for name in surface.names})
        cov = here.K + here.likelihood.noise_std**2 * np.eye(10)
        exact = -0.5 * (
            np.linalg.slogdet(2.0 * np.pi * cov)[1] + here.y @ np.linalg.solve(cov, here.y)
        )
        for column in ("ep", "ep_corrected", "logz"):
            assert row[column] == pytest.approx(exact, abs=1e-6)
    best = surface.table.logz.idxmax()
    assert surface.best["k2__length_scale"] == surface.table.k2__length_scale[best]
    assert "Surface(2 x 3" in repr(surface)


@pytest.mark.slow
def test_processes_and_threads_agree():
    rng = np.random.default_rng(1)
    model = ev.GPModel(rng.normal(size=(12, 1)), rng.choice([-1, 1], 12), "9.0 * RBF(0.3)")
    words = {"method": "smc", "target_se": None, "n_islands": 4, "n_particles": 16}
    arguments = {"random_seed": 3, "progressbar": False, **words}
    grid = {"length_scale": [0.2, 0.5]}
    here = ev.evidence_surface(model, grid, **arguments)
    with ProcessPoolExecutor(1, mp_context=fakes.FORK) as pool:
        there = ev.evidence_surface(model, grid, executor=pool, **arguments)
    np.testing.assert_array_equal(here.table.logz, there.table.logz)
    assert (here.table.logz_se > 0).all()


def test_without_monte_carlo():
    surface = run(method=None)
    assert surface.table.logz.isna().all()
    assert surface.column == "ep_corrected"
    assert np.isfinite(surface.table.ep).all()
    assert len(surface.plot().axes) == 4


def test_resumed_from_a_checkpoint(tmp_path):
    path = tmp_path / "surface.ckpt"
    first = run(checkpoint=path)
    again = run(checkpoint=path)
    assert again.table.equals(first.table)  # seconds as well: no cell was run again
    turned = dict(zip(reversed(GRID), GRID.values(), strict=True))  # the same axes, swapped
    for other in ({"length_scale": [0.3]}, turned):
        with pytest.raises(ValueError, match="belongs to another run: grid"):
            ev.evidence_surface(MODEL, other, random_seed=0, checkpoint=path)
    assert run(checkpoint=path, random_seed=None).table.equals(first.table)  # the file knows it


def test_finished_cells_survive_an_error(tmp_path):
    calls = []

    def cell_at(values, seed, stop, fails=True):
        calls.append(values["a"])
        if fails and len(calls) == 4:
            raise RuntimeError("the machine stops here")
        return Cell(ep=values["a"], logz=float(seed[1]), warnings="")

    def cells(cell_at):
        seed, points = np.random.SeedSequence(1), [{"a": float(i)} for i in range(6)]
        store = Checkpoint(tmp_path / "cells", {})
        with ThreadPoolExecutor(1) as pool:
            return run_grid(cell_at, points, seed, Clock(), store, pool, progressbar=False)

    with pytest.raises(RuntimeError, match="stops here"):
        cells(cell_at)
    calls.clear()
    made, warnings = cells(partial(cell_at, fails=False))
    assert {3.0, 4.0, 5.0} <= set(calls)
    assert len(calls) < 6  # those that ended together with the error may be run again
    assert [(cell.ep, cell.logz) for cell in made] == [(i, i) for i in range(6)]
    assert warnings == []


def test_a_covariance_that_fails_is_a_row():
    model = ev.GPModel(X, MODEL.y, "1.0 * RBF(0.8)", likelihood="gaussian", jitter=0.0)
    surface = ev.evidence_surface(model, {"length_scale": [0.1, 100.0]}, progressbar=False)
    assert "not positive definite" in surface.table.warnings[1]
    assert np.isnan(surface.table.logz[1])
    assert np.isfinite(surface.table.logz[0])
    assert [warning.code for warning in surface.warnings] == ["cells-doubtful"]


def test_hardly_any_noise_leaves_digits_and_an_error_bar_for_them():
    grid = {"noise_std": [1e-12, 0.3], "length_scale": [1e3]}
    surface = ev.evidence_surface(MODEL, grid, random_seed=0, progressbar=False, target_se=0.5)
    assert surface.table.logz[0] < -1e6
    assert 1e-9 < surface.table.logz_se[0] < 0.1
    assert np.isfinite(surface.table.logz[1])


def test_numbers_that_fail_are_a_row_too():
    grid = {"noise_std": [1e300, 0.3]}  # squared it is infinite
    surface = ev.evidence_surface(MODEL, grid, random_seed=0, progressbar=False, target_se=0.5)
    assert np.isnan(surface.table.logz[0])
    assert surface.table.warnings[0]
    assert np.isfinite(surface.table.logz[1])


@pytest.fixture(scope="module")
def labels():
    """A surface of labels, as a function of when and where it runs, and without a limit."""
    points = np.linspace(0.0, 6.0, 30)
    model = ev.GPModel(points, np.where(np.sin(2.0 * points) > 0.0, 1, -1), "4.0 * RBF(0.8)")
    grid = {"length_scale": [0.3, 0.9], "constant_value": [1.0, 9.0]}
    words = {"method": "smc", "target_se": 0.02, "random_seed": 3, "progressbar": False}
    run = partial(ev.evidence_surface, model, grid, **words)
    return run, run()


@pytest.mark.parametrize("seconds", seldom([0.01, 0.05, 0.3], 2))
def test_cells_that_the_clock_cut_short_are_computed_again(labels, tmp_path, seconds):
    run, whole = labels
    run(checkpoint=tmp_path / "cells", max_seconds=seconds)
    resumed = run(checkpoint=tmp_path / "cells")
    for column in ("logz", "logz_se", "warnings"):
        np.testing.assert_array_equal(resumed.table[column], whole.table[column])


def test_no_time():
    surface = run(max_seconds=1e-9)
    assert [warning.code for warning in surface.warnings] == ["cells-missing"]
    assert surface.warnings[0].startswith("max_seconds: 6 of 6")
    assert "no evidence yet" in repr(surface)
    with pytest.raises(ValueError, match="no cell has an evidence: max_seconds"):
        surface.best  # noqa: B018


def test_saved_and_loaded(surface, tmp_path):
    surface.save(tmp_path / "surface.npz")
    again = ev.Surface.load(tmp_path / "surface.npz")
    assert again.names == surface.names
    assert again.table.equals(surface.table)
    assert again.best == surface.best


def test_figures(surface):
    figure = surface.plot()
    figure.canvas.draw()
    assert [ax.get_title() for ax in figure.axes[:3]][1:] == [
        "EP $-$ Monte Carlo",
        "corrected EP $-$ MC",
    ]
    one = ev.evidence_surface(MODEL, {"length_scale": [0.3, 0.9]}, method=None, progressbar=False)
    assert len(one.plot().axes) == 1
    three = ev.evidence_surface(
        MODEL, {**GRID, "constant_value": [1.0, 2.0]}, method=None, progressbar=False
    )
    with pytest.raises(ValueError, match="one or two hyperparameters that vary, got 3"):
        three.plot()


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({}, "grid must map names"),
        ({"length": [1.0]}, "unknown hyperparameter 'length'"),
        ({"length_scale": [1.0, -1.0]}, r"grid\['length_scale'\]"),
        ({"length_scale": [1.0, 1.0]}, r"grid\['length_scale'\]"),
        ({"length_scale": "short"}, r"grid\['length_scale'\]"),
        ({"length_scale": [1.0], "k2__length_scale": [2.0]}, "names a hyperparameter twice"),
    ],
)
def test_bad_grid(grid, message):
    with pytest.raises(ValueError, match=message):
        ev.evidence_surface(MODEL, grid)


def test_a_long_ladder_is_told_from_another(tmp_path):
    """Of more than a thousand numbers NumPy prints the ends."""
    model = ev.GPModel(X[:2], [1, -1], "1.0 * RBF(0.8)")
    ladder = np.linspace(0.0, 1.0, 1100)
    other = np.where(abs(ladder - 0.5) < 0.1, ladder + 1e-4, ladder)
    words = {"method": "ais", "n_particles": 2, "n_islands": 2, "checkpoint": tmp_path / "s"}
    words |= {"random_seed": 0, "progressbar": False, "move": "pcn"}
    ev.evidence_surface(model, {"length_scale": [0.3]}, betas=ladder, **words)
    with pytest.raises(ev.InputError, match="another run"):
        ev.evidence_surface(model, {"length_scale": [0.3]}, betas=other, **words)

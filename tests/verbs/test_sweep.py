"""Sweeps are tidy, their runs are those of log_evidence, and the picture shows them."""

from __future__ import annotations

import numpy as np
import pytest
from problems import small_model

import evidence as ev

pytestmark = pytest.mark.usefixtures("no_layout")


@pytest.fixture(scope="module")
def frame():
    return ev.sweep(
        small_model("probit", 5),
        ["smc", "ais"],
        ladders={"short": [0.2, 1.0], "long": 6, "own": "adaptive"},
        moves=["mgrad", ev.moves.get("pcn")],
        references=["ep", "prior"],
        seeds=2,
        n_particles=16,
        n_islands=4,
        progressbar=False,
    )


def test_every_combination_once(frame):
    names = ["method", "ladder", "move", "reference", "seed"]
    assert len(frame) == 2 * 3 * 2 * 2 * 2
    assert not frame.duplicated(names).any()
    assert set(frame.move) == {"mgrad", "pcn"}
    assert set(frame.levels[frame.ladder == "short"]) == {2}
    assert set(frame.levels[frame.ladder == "long"]) == {6}
    assert np.isfinite(frame[["logz", "logz_se", "seconds", "gradients"]]).all(axis=None)
    assert (frame.gradients > 0).all()
    assert frame.attrs["words"] == {"n_particles": "16", "n_islands": "4"}


def test_rows_are_runs(frame):
    row = frame.iloc[0]
    result = ev.log_evidence(
        small_model("probit", 5),
        method=row.method,
        betas=[0.2, 1.0],
        reference=row.reference,
        move=row.move,
        random_seed=int(row.seed),
        n_particles=16,
        n_islands=4,
        progressbar=False,
    )
    assert (result.logz, result.logz_se) == (row.logz, row.logz_se)


def test_saved_and_loaded(frame, tmp_path):
    frame.save(tmp_path / "sweep.npz")
    back = ev.Sweep.load(tmp_path / "sweep.npz")
    assert back.equals(frame)
    assert back.attrs == frame.attrs
    assert "48 runs" in back.summary()
    assert type(back.groupby("move").logz.mean().to_frame()).__name__ == "DataFrame"


def test_plot(frame):
    ax = ev.plots.plot_logz_vs_time(frame)
    assert len(ax.containers) == 2 * 2 * 2
    assert "seconds" in ax.get_xlabel()
    assert "nats" in ax.get_ylabel()
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "smc, pcn, prior" in labels


def test_bad_sweeps():
    model = small_model("probit", 3)
    with pytest.raises(ValueError, match="nothing to run"):
        ev.sweep(model, moves=[], progressbar=False)
    with pytest.raises(ValueError, match="seeds must be a whole number, at least 1"):
        ev.sweep(model, seeds=0)
    with pytest.raises(ValueError, match="ladders must be a list"):
        ev.sweep(model, ladders="adaptive")


def test_hyperparameters_are_the_surface_s():
    model = ev.GPModel(K=[[2.0, 1.0], [1.0, 2.0]], y=[1, -1])
    with pytest.raises(ev.InputError, match="evidence_surface"):
        ev.sweep(model, {"length_scale": [0.1, 0.2]})

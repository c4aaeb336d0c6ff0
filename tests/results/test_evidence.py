from __future__ import annotations

import numpy as np
import pytest
from problems import small_model

import evidence as ev
from evidence.messages import Message, messages

pytestmark = pytest.mark.usefixtures("no_layout")


@pytest.fixture(scope="module")
def result():
    model = small_model("probit", 8)
    return ev.log_evidence(
        model, method="smc", betas=[0.0, 0.5, 1.0], random_seed=0, progressbar=False
    )


def test_save_and_load(result, tmp_path):
    result.save(tmp_path / "run.npz")
    back = ev.EvidenceResult.load(tmp_path / "run.npz")
    assert back.logz == result.logz
    assert back.logz_se == result.logz_se
    assert back.settings == result.settings
    assert back.summary() == result.summary()
    np.testing.assert_array_equal(back.samples, result.samples)
    assert back.trace.equals(result.trace)
    assert back.history.equals(result.history)
    assert [p.name for p in tmp_path.iterdir()] == ["run.npz"]  # no temporary file left


def test_nan_survives_the_file(tmp_path):
    result = ev.log_evidence(small_model("probit", 3), method="ep")
    result.save(tmp_path / "ep.npz")
    assert np.isnan(ev.EvidenceResult.load(tmp_path / "ep.npz").logz_se)


def test_no_pickles(result, tmp_path):
    result.save(tmp_path / "run.npz")
    with np.load(tmp_path / "run.npz", allow_pickle=False) as data:
        assert all(data[name].dtype.kind != "O" for name in data.files)


def test_damaged_or_foreign_files_are_refused(result, tmp_path):
    good = tmp_path / "run.npz"
    result.save(good)
    broken = tmp_path / "broken.npz"
    broken.write_bytes(good.read_bytes()[:-200])
    with pytest.raises(ValueError, match=r"broken.npz is not a saved result, or is damaged"):
        ev.EvidenceResult.load(broken)
    foreign = tmp_path / "foreign.npz"
    np.savez(foreign, meta=np.array('{"format": "other", "version": 1}'))
    with pytest.raises(ValueError, match="holds 'other' version 1"):
        ev.EvidenceResult.load(foreign)
    with pytest.raises(FileNotFoundError):
        ev.EvidenceResult.load(tmp_path / "missing.npz")


def test_save_fails_cleanly(result, tmp_path):
    with pytest.raises(FileNotFoundError):
        result.save(tmp_path / "no" / "such" / "folder.npz")
    assert list(tmp_path.iterdir()) == []


def test_summary_says_it_all(result):
    text = result.summary()
    for word in ("log Z =", "±", "ep_corrected", "laplace", "smc", "l=3", "jitter", "probit"):
        assert word in text
    assert "EvidenceResult(logz=" in repr(result)


def test_the_first_line_says_whether_something_is_wrong(result):
    def first(*warnings):
        shown = ev.EvidenceResult(**vars(result) | {"warnings": messages(warnings)})
        return shown.summary().splitlines()[0]

    assert first().endswith("(smc; no warnings)")
    two = Message("heavy-tail", "few draws"), "a text without a code"
    assert first(*two).endswith("(smc; warnings: heavy-tail, no code)")


def test_plot(result, tmp_path):
    figure = result.plot(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    left, right = figure.axes
    assert "temperature" in left.get_xlabel()
    assert "seconds" in right.get_xlabel()
    labels = [text.get_text() for text in right.get_legend().get_texts()]
    assert "EP" in labels
    assert "EP, corrected" in labels


def test_plot_without_monte_carlo():
    figure = ev.log_evidence(small_model("probit", 3), method="ep").plot()
    assert len(figure.axes) == 2


def test_to_arviz(result):
    pytest.importorskip("arviz")
    posterior = result.to_arviz()["posterior"]
    assert posterior["x"].shape == (1, 1000, 8)
    with pytest.raises(ValueError, match="no posterior draws"):
        ev.log_evidence(small_model("probit", 3), method="ep").to_arviz()

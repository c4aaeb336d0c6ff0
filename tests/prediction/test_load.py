"""One function reads every saved result."""

from __future__ import annotations

import numpy as np
import pytest

import evidence as ev
from evidence.execution import files
from evidence.results.base import kinds

MODEL = ev.GPModel(X=np.arange(4.0), y=[1, -1, 1, 1], kernel="RBF(1.0)")
WORDS = {"random_seed": 0, "progressbar": False}
MADE = {
    "EvidenceResult": lambda: ev.log_evidence(MODEL, **WORDS),
    "Draws": lambda: ev.sample(MODEL, draws=5, tune=5, chains=2, **WORDS),
    "Prediction": lambda: ev.predict(MODEL, [[0.5]]),
    "LooResult": lambda: ev.loo(MODEL, **WORDS),
    "Optimum": lambda: ev.optimise(MODEL, progressbar=False),
    "Comparison": lambda: ev.compare({"a": MODEL, "b": MODEL.at({"length_scale": 2.0})}, **WORDS),
    "Surface": lambda: ev.evidence_surface(MODEL, {"length_scale": [1.0, 2.0]}, **WORDS),
}


@pytest.mark.parametrize("kind", MADE)
def test_every_kind_is_told_from_its_file(tmp_path, kind):
    result, file = MADE[kind](), tmp_path / "result.npz"
    result.save(file)
    models = {"model": result.model} if kind == "Optimum" else {}
    again = ev.load(file, **models)
    assert type(again).__name__ == type(result).__name__ == kind
    assert again.summary() == result.summary()


def test_every_public_kind_has_files(tmp_path):
    """Formats are unlike each other, so a file belongs to one kind."""
    ev.load  # noqa: B018  imports them all
    public = [kind for kind in kinds() if kind.__name__ in ev.__all__]
    assert len(public) == len({kind._format for kind in public}) > 15


def test_other_files_are_refused(tmp_path):
    file = tmp_path / "run.ckpt"
    files.write(file, "evidence-checkpoint", 1, {}, {"x": np.zeros(2)})
    with pytest.raises(ev.InputError, match=r"run\.ckpt holds 'evidence-checkpoint'"):
        ev.load(file)
    file.write_text("text")
    with pytest.raises(ev.InputError, match="damaged"):
        ev.load(file)

"""What importing and running cost: heavy packages stay out until they are needed."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("pandas", "matplotlib", "sklearn", "arviz", "typer")


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout


def test_import_is_light():
    code = f"import sys, evidence; print([m for m in {HEAVY} if m in sys.modules])"
    assert run(code).strip() == "[]"


def test_neither_a_model_nor_its_evidence_loads_distributions():
    """scipy.stats takes as long as all the rest."""
    code = "import sys, evidence as ev; ev.GPModel; ev.log_evidence; print([*sys.modules])"
    assert "'scipy.stats'" not in run(code)


def test_a_run_needs_none_of_the_heavy_packages():
    code = (
        "import sys, evidence as ev\n"
        "r = ev.log_evidence(ev.GPModel(K=[[1.0]], y=[1]), random_seed=0, progressbar=False)\n"
        "assert abs(r.logz + 0.6931) < 0.05\n"
        f"print([m for m in {HEAVY} if m in sys.modules])"
    )
    assert run(code).strip() == "[]"


def test_everything_public_is_there():
    import evidence as ev

    for name in ev.__all__:
        assert getattr(ev, name) is not None
    assert set(ev.__all__) <= set(dir(ev))

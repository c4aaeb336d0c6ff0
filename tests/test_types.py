"""What a type checker says of a user's file: mistakes in names and arguments are errors."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")

ROOT = Path(__file__).resolve().parents[1]
#: lines with a comment are errors, of mypy's kind in brackets; the others are right
USER = """\
import evidence as ev
model = ev.GPModel(K=[[2.0, 1.0], [1.0, 2.0]], y=[1, -1], likelihood="probit")
result: ev.EvidenceResult = ev.log_evidence(model, target_se=0.1, n_islands=4, waste_free=8)
draws: ev.Draws = ev.sample(model, move="mgrad", betas=0.5)  # call-arg
total: float = result.logz + ev.ladders.geometric(3)[0]
ev.nope  # attr-defined
ev.moves.nope  # attr-defined
ev.log_evidence(3)  # arg-type
ev.log_evidence(model, target_see=0.1)  # call-arg
ev.ais(model, n_islands="many")  # arg-type
ev.log_evidence(model, method="nope")  # arg-type
ev.log_evidence(model, effort="hard")  # arg-type
model.at(3)  # arg-type
ev.compare({"a": model}, method="ep")
"""


def test_mistakes_are_errors(tmp_path: Path) -> None:
    file = tmp_path / "user.py"
    file.write_text(USER)
    told = subprocess.run(  # with the options, and so the cache, of the package's own check
        [sys.executable, "-m", "mypy", "--no-error-summary", str(file)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
    found = re.findall(r"user\.py:(\d+): error: .*\[([\w-]+)\]", told)
    wanted = [
        (str(number), line.rpartition("  # ")[2])
        for number, line in enumerate(USER.splitlines(), 1)
        if "  # " in line
    ]
    assert found == wanted, told


def test_every_public_name_has_one_home() -> None:
    """The imports that type checkers read are those that names are looked up by."""
    import evidence as ev

    for name in ev.__all__:
        thing = getattr(ev, name)
        home = getattr(thing, "__module__", None) or thing.__name__.rpartition(".")[0]
        assert home in (ev._HOME[name], "evidence")
    with pytest.raises(AttributeError, match="nope"):
        ev.nope  # noqa: B018

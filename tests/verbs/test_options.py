"""What type checkers are told about keywords is what the functions take."""

from __future__ import annotations

import inspect
import textwrap

import pytest

import evidence as ev
from evidence.methods.registry import METHODS
from evidence.verbs import _options as options


def own(method: str) -> set[str]:
    parameters = inspect.signature(METHODS[method]).parameters.values()
    return {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}


def test_options_are_those_of_the_methods():
    assert options.AisOptions.__optional_keys__ == own("ais")
    assert options.TemperingOptions.__optional_keys__ == own("pt")
    assert options.ResampleMoveOptions.__optional_keys__ == own("smc")
    assert options.MethodOptions.__optional_keys__ == set().union(*map(own, METHODS))


def test_runs_take_what_log_evidence_takes():
    parameters = set(inspect.signature(ev.log_evidence).parameters)
    assert options.Run.__optional_keys__ == parameters - {"model", "method", "options"}


@pytest.mark.slow
def test_a_type_checker_sees_mistakes(tmp_path):
    api = pytest.importorskip("mypy.api")
    path = tmp_path / "mistakes.py"
    path.write_text(
        textwrap.dedent(
            """\
            import evidence as ev
            model = ev.GPModel(K=[[1.0]], y=[1])
            ev.log_evidence(model, target_se=0.1, waste_free=2)
            ev.ais(ev.examples.banana().model, direction="both")
            ev.log_evidence(model, target_see=0.1)
            ev.log_evidence(3)
            ev.ais(model, waste_free=2)
            ev.parallel_tempering(model, n_particles="many")
            ev.resample_move(model, direction="both")
            ev.compare({"a": model}, seed=1)
            """
        )
    )
    found, _, _ = api.run([str(path), "--ignore-missing-imports", "--no-incremental"])
    lines = [int(line.split(":")[1]) for line in found.splitlines() if "mistakes.py" in line
             and " error: " in line]  # fmt: skip
    assert sorted(set(lines)) == [5, 6, 7, 8, 9, 10]

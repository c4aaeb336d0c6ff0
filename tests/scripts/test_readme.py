"""README's code runs, one block after the other, and shows what README says it shows."""

from __future__ import annotations

import ast
import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import pytest
from typer.testing import CliRunner

import evidence as ev
from evidence.cli import app

TEXT = (Path(__file__).resolve().parents[2] / "README.md").read_text("utf-8")
NUMBER = re.compile(r"-?\d+\.\d+")


class Block(NamedTuple):
    """A block of code, and the block of text below it (or nothing)."""

    code: str
    shows: str


BLOCKS = [
    Block(*found.groups(default=""))
    for found in re.finditer(
        r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", TEXT, re.MULTILINE | re.DOTALL
    )
]


def close(found: str, said: str) -> bool:
    """The same words, and numbers that differ by one in the last digit at most: machines round
    in their own ways."""
    if NUMBER.sub("#", found).split() != NUMBER.sub("#", said).split():
        return False
    pairs = zip(NUMBER.findall(found), NUMBER.findall(said), strict=True)
    return all(abs(float(a) - float(b)) < 1.5 * 10.0 ** -len(b.split(".")[1]) for a, b in pairs)


def test_what_is_close() -> None:
    assert close("a -1.234 ± 0.01\n", "a  -1.235 ± 0.02")
    assert not close("a -1.234", "a -1.236")
    assert not close("a 1.234", "b 1.234")


def answers(code: str) -> dict[int, str]:
    """``log Z ± se`` said in a comment, by the line of the expression that it is about."""
    said = r"#.*?(-\d+\.\d+ ± \d+\.\d+)"
    lines = enumerate(code.splitlines(), 1)
    return {n: found[1] for n, line in lines if (found := re.search(said, line))}


def test_code_runs_and_shows_what_is_said(tmp_path, monkeypatch) -> None:
    for needed in ("jax", "formulae"):
        pytest.importorskip(needed)
    monkeypatch.chdir(tmp_path)  # it writes a checkpoint
    known: dict[str, object] = {"__name__": "readme"}
    checked = 0
    with ev.set_options(progressbar=False):
        for block in BLOCKS:
            said, printed = answers(block.code), io.StringIO()
            with redirect_stdout(printed):
                for step in ast.parse(block.code).body:
                    if isinstance(step, ast.Expr) and step.lineno in said:
                        result = eval(compile(ast.Expression(step.value), "README", "eval"), known)
                        told = f"{result.logz:.6f} ± {result.logz_se:.6f}"
                        assert close(told, said.pop(step.lineno)), (ast.unparse(step), told)
                        checked += 1
                    else:
                        exec(compile(ast.Module([step], []), "README", "exec"), known)
            assert said == {}
            if block.shows:
                assert close(printed.getvalue(), block.shows), printed.getvalue()
                checked += 1
            plt.close("all")
    assert checked == 4


def test_the_demo_shows_what_is_said(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(app, ["demo"]).stdout
    (said,) = re.findall(r"^```text\n( +logz .*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    lines = [line.rpartition(" ") for line in said.splitlines()]  # the last column is seconds
    assert len(lines) == 5
    printed = [line.rpartition(" ")[0] for line in shown.splitlines()]
    assert [head for head, *_ in lines if not any(close(line, head) for line in printed)] == []


def test_what_is_counted_and_listed() -> None:
    from evidence.hyper.schemes import SCHEMES
    from evidence.methods.registry import METHODS
    from evidence.models.likelihoods import NAMES as likelihoods
    from evidence.moves.registry import NAMES as moves

    words = {6: "six schemes", 11: "Eleven [notebooks]", 18: "Eighteen transition kernels"}
    notebooks = list(Path(__file__).resolve().parents[2].glob("notebooks/*.ipynb"))
    for things in (SCHEMES, notebooks, moves):
        assert words[len(things)] in TEXT
    rows = set(re.findall(r'^\| `"(\w+)"` \|', TEXT, re.MULTILINE))
    assert rows == set(METHODS) - {"auto"}
    listed = re.search(r"likelihoods are (.*?),\nor \[your own\]", TEXT, re.DOTALL)[1]
    assert set(re.findall(r"`(\w+)`", listed)) == set(likelihoods)

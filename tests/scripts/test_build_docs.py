"""The guides' code runs, and what the builder calls undocumented is."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

pytest.importorskip("sphinx")
pytest.importorskip("nbformat")
from scripts import build_docs
from scripts.documentation import names, reference
from scripts.documentation.completeness import missing

PAGES = build_docs.PAGES
WITH_CODE = [p for p in sorted(PAGES.rglob("*.md")) if "```python" in p.read_text("utf-8")]
NEEDS = {"density": "jax", "mixed_models": "formulae", "maps_and_series": "formulae"}
NEEDS |= dict.fromkeys(("bayesian", "bayesfactor", "comparing"), "formulae")


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda p: p.relative_to(PAGES).as_posix())
def test_code_on_pages_runs(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if page.stem in NEEDS:
        pytest.importorskip(NEEDS[page.stem])
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
    exec(compile("\n".join(blocks), str(page), "exec"), {"__name__": page.stem})
    plt.close("all")


def test_all_public_names_are_documented() -> None:
    assert reference.misplaced() == []
    assert list(build_docs.undocumented()) == []


class Described:
    """A class.

    Parameters
    ----------
    width : float
    depth : float
    """

    def __init__(self, width: float) -> None:
        self.width = width

    def area(self) -> float:
        return self.width**2


class Field:
    """A class with a field."""

    height: float


def test_what_is_missing_is_named() -> None:
    assert list(missing("Described", Described)) == [
        "Described describes depth, which it does not take",
        "Described.area has no docstring",
    ]
    assert list(missing("Field", Field)) == ["Field does not describe its field height"]
    assert list(missing("f", lambda x: x)) == ["f has no docstring"]


@pytest.mark.parametrize(
    ("role", "written", "meant"),
    [
        ("class", ".MGrad", "evidence.moves.MGrad"),
        ("class", "~evidence.models.gp.GPModel", "evidence.GPModel"),
        ("meth", ".EvidenceResult.plot", "evidence.EvidenceResult.plot"),
        ("mod", ".base", "evidence.moves.base"),
        ("mod", "math", ""),
    ],
)
def test_where_names_lead(role: str, written: str, meant: str) -> None:
    from evidence.moves import base

    found = dict(names.places(f"See :{role}:`{written}`.", "evidence.moves.base", base))
    assert list(found.values()) == [meant]
    assert list(names.places(":func:`.nowhere`", "evidence.moves.base", base)) == []


def test_broken_links_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="b.html#there">b</a> <a href="c.html">c</a>')
    (tmp_path / "b.html").write_text('<p id="here"><a href="a.html?x=1">a</a></p>')
    assert build_docs.broken(tmp_path) == [
        "a.html links to b.html#there",
        "a.html links to c.html",
    ]

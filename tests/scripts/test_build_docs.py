"""The guides' code runs, and what the builder calls undocumented is."""

from __future__ import annotations

import inspect
import pickle
import re
from pathlib import Path

import pytest

pytest.importorskip("sphinx")
pytest.importorskip("nbformat")
import evidence
from scripts import build_docs
from scripts.documentation import names, outputs, reference
from scripts.documentation.completeness import missing

PAGES = build_docs.PAGES
WITH_CODE = [p for p in sorted(PAGES.rglob("*.md")) if outputs.BLOCK.search(p.read_text("utf-8"))]
NEEDS = {"density": "jax", "mixed_models": "formulae", "maps_and_series": "formulae"}
NEEDS |= dict.fromkeys(("bayesian", "bayesfactor", "comparing", "i_have"), "formulae")


@pytest.mark.slow  # the build of the documentation runs all of it, too
@pytest.mark.parametrize("page", WITH_CODE, ids=lambda p: p.relative_to(PAGES).as_posix())
def test_code_on_pages_runs(page: Path) -> None:
    if page.stem in NEEDS:
        pytest.importorskip(NEEDS[page.stem])
    text = page.read_text("utf-8")
    shown = outputs.run(text, page.stem)
    assert len(shown) == text.count("```python\n")
    assert any(block.text or block.figures for block in shown) or page.stem == "clusters"


DRAWS = """```python
import matplotlib.pyplot as plt
print("drawn")
plt.plot([1, 2])[0].axes
```
"""


def test_what_code_shows_stands_below_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    shown = outputs.run(DRAWS, "page")
    below = outputs.below(f"{DRAWS}\nAfter.\n", shown, page)
    assert below.startswith(DRAWS)
    assert ":class: output\n\ndrawn\n```\n" in below
    (name,) = re.findall(r"\]\((.*)\)", below)
    assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    assert below.endswith("\nAfter.\n")


def test_a_picture_below_the_code_is_not_drawn_twice(tmp_path: Path) -> None:
    text = f"{DRAWS}\n![it](it.png)\n"
    below = outputs.below(text, outputs.run(DRAWS, "page"), tmp_path / "page.md")
    assert re.findall(r"!\[.*\)", below) == ["![it](it.png)"]


@pytest.mark.slow
def test_what_ran_is_kept(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("```python\nprint(1)\n```\n")
    kept = tmp_path / "kept"
    outputs.write(tmp_path, kept)
    (file,) = kept.iterdir()
    file.write_bytes(pickle.dumps([outputs.Shown("from the file", ())]))
    (tmp_path / "page.md").write_text("Words.\n\n```python\nprint(1)\n```\n")
    outputs.write(tmp_path, kept)
    assert "from the file" in (tmp_path / "page.md").read_text()


def test_no_two_pages_have_one_title() -> None:
    texts = [page.read_text("utf-8") for page in PAGES.rglob("*.md")]
    titles = [re.search(r"^# (.*)$", text, re.M)[1] for text in texts]
    titles += [text.partition("\n")[0] for _, text in reference._pages()]
    assert sorted({title for title in titles if titles.count(title) > 1}) == []


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


def test_every_public_name_has_an_example() -> None:
    found = {name: getattr(evidence, name) for name in evidence.__all__}
    own = {name: thing for name, thing in found.items() if not inspect.ismodule(thing)}
    assert [name for name, thing in own.items() if ">>>" not in inspect.getdoc(thing)] == []


def test_every_warning_has_its_remedy() -> None:
    """On the page that says what to do about them."""
    made = re.compile(r'(?:Message|warn)\(\s*"([a-z]+(?:-[a-z]+)+)"')
    files = list(Path(evidence.__file__).parent.rglob("*.py"))
    codes = {code for file in files for code in made.findall(file.read_text("utf-8"))}
    page = (PAGES / "guide/trust.md").read_text("utf-8")
    assert len(codes) > 40
    assert not [code for code in sorted(codes) if f"`{code}`" not in page]

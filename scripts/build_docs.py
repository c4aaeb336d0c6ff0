"""The documentation as a folder of pages: guides, notebooks, and the reference.

    python scripts/build_docs.py --out build/docs

Pages are in ``scripts/documentation``; their code runs, and what it prints and draws stands below
it (kept in ``build/outputs`` for the next time); notebooks are shown as they are stored, the
reference comes from docstrings, formulas become MathML: pages need no network. Any warning fails
the build: a formula that cannot be drawn, a link or a cross-reference that leads nowhere, a public
name that has no docstring or describes arguments that it does not take. ``--links`` visits other
sites.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

if __name__ == "__main__":  # nothing is computed here, so nothing need be compiled
    os.environ["NUMBA_DISABLE_JIT"] = "1"
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # run as a file, this is no part of a package

from sphinx.application import Sphinx  # noqa: E402
from sphinx.util.docutils import docutils_namespace  # noqa: E402

from scripts.documentation import gallery, outputs, reference  # noqa: E402
from scripts.documentation.completeness import missing  # noqa: E402

PAGES = ROOT / "scripts" / "documentation"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "docs")
    parser.add_argument("--links", action="store_true", help="visit links to other sites, too")
    options = parser.parse_args()
    problems = [*reference.misplaced(), *undocumented()]
    with tempfile.TemporaryDirectory() as folder:
        source = prepare(Path(folder) / "scripts" / "documentation")
        problems += build(source, options.out, "html")
        if options.links:
            problems += build(source, Path(folder) / "links", "linkcheck")
    problems += broken(options.out)
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        pages = sum(1 for _ in options.out.rglob("*.html"))
        print(f"wrote {pages} pages, start at {options.out / 'index.html'}")
    return 1 if problems else 0


def undocumented() -> Iterator[str]:
    """What public docstrings lack."""
    for room in reference.ROOMS:
        for name, found in reference.offers(room).items():
            yield from missing(f"{room}.{name}", found)


def prepare(source: Path) -> Path:
    """A copy of the pages with notebooks, their gallery, figures, changelog and reference."""
    shutil.copytree(PAGES, source, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    shutil.copytree(ROOT / "scripts" / "figures", source.parent / "figures")
    shutil.copy(ROOT / "CHANGELOG.md", source / "changelog.md")
    outputs.write(source, ROOT / "build" / "outputs")
    gallery.write(ROOT / "notebooks", source)
    reference.write(source)
    return source


def build(source: Path, out: Path, builder: str) -> list[str]:
    """Sphinx's warnings, none when all is well."""
    shutil.rmtree(out, ignore_errors=True)
    warned = io.StringIO()
    with tempfile.TemporaryDirectory() as trees, docutils_namespace():
        app = Sphinx(
            source, PAGES, out, trees, builder, warning=warned, status=None,
            parallel=os.cpu_count() or 1,
        )  # fmt: skip
        app.build()
    return [line for line in warned.getvalue().splitlines() if line.strip()]


def broken(out: Path) -> list[str]:
    """Links between pages that lead to no file, or to no place in one."""
    pages = {page: page.read_text(encoding="utf-8") for page in out.rglob("*.html")}
    places = {page: set(re.findall(r'\bid="([^"]+)"', text)) for page, text in pages.items()}
    found = []
    for page, text in pages.items():
        for link in set(re.findall(r'\b(?:href|src)="([^"]*)"', text)):
            path, _, place = unquote(link).partition("#")
            if re.match(r"[a-z]+:|//", path):
                continue
            target = (page.parent / path.partition("?")[0]).resolve() if path else page
            if not target.exists() or (place and place not in places.get(target, {place})):
                found.append(f"{page.relative_to(out)} links to {link}")
    return sorted(found)


if __name__ == "__main__":
    sys.exit(main())

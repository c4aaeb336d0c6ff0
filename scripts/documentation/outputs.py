"""What the code on a page prints and draws, below it.

Blocks of a page run one after the other, as a reader would run them, in a process that compiles.
What they said is kept in a folder, by the page's code and the package's: only what a change may
touch runs again.
"""

from __future__ import annotations

import ast
import hashlib
import io
import os
import pickle
import re
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?P<drawn>\n!\[)?", re.MULTILINE | re.DOTALL)
_TEXT = "```{{code-block}} text\n:class: output\n\n{}\n```\n"
_DPI, _WIDTH = 120, 88  # of figures; characters that a page is wide


class Shown(NamedTuple):
    """What a block printed, and the figures that it drew, as PNG."""

    text: str
    figures: tuple[bytes, ...]


def run(page: str, name: str) -> list[Shown]:
    """Run the blocks of a page's text: a notebook without the cells.

    The value of a last line is shown as well, a figure or axes as the figure.

    >>> run("```python\\nx = 2\\nprint(x)\\nx + 1\\n```\\n", "page")
    [Shown(text='2\\n3', figures=())]
    """
    import matplotlib.pyplot as plt
    import pandas as pd

    known: dict[str, Any] = {"__name__": name}
    found = []
    with pd.option_context("display.width", _WIDTH):
        for block in BLOCK.finditer(page):
            with redirect_stdout(io.StringIO()) as printed, redirect_stderr(io.StringIO()):
                last = _execute(block[1], name, known)
                figures = [plt.figure(number) for number in plt.get_fignums()]
                owner = getattr(last, "get_figure", None)
                if (drawn := owner() if owner is not None else last) is not None:
                    if not hasattr(drawn, "savefig"):
                        print(drawn)
                    elif drawn not in figures:
                        figures.append(drawn)
            found.append(Shown(printed.getvalue().rstrip(), tuple(map(_png, figures))))
            plt.close("all")
    return found


def _execute(code: str, name: str, known: dict[str, Any]) -> Any:
    """The value of the last line, where it is an expression."""
    *body, last = ast.parse(code).body
    if not isinstance(last, ast.Expr):
        body, last = [*body, last], None
    exec(compile(ast.Module(body, []), name, "exec"), known)
    return last and eval(compile(ast.Expression(last.value), name, "eval"), known)


def _png(figure: Any) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=_DPI)
    return file.getvalue()


def write(source: Path, kept: Path) -> None:
    """Outputs below the code of every page in a folder; those in ``kept`` are not computed."""
    with_code = {page: page.read_text("utf-8") for page in sorted(source.rglob("*.md"))}
    with_code = {page: text for page, text in with_code.items() if BLOCK.search(text)}
    pages, texts = list(with_code), list(with_code.values())
    files = [kept / f"{_digest(text)}.pickle" for text in texts]
    new = [i for i, file in enumerate(files) if not file.exists()]
    kept.mkdir(parents=True, exist_ok=True)
    interpreted = os.environ.pop("NUMBA_DISABLE_JIT", None)  # processes inherit what is left
    os.environ["MPLBACKEND"] = "Agg"
    try:
        with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
            todo = [pool.submit(run, texts[i], pages[i].stem) for i in new]
            for i, task in zip(new, todo, strict=True):
                files[i].write_bytes(pickle.dumps(task.result()))
    finally:
        if interpreted is not None:
            os.environ["NUMBA_DISABLE_JIT"] = interpreted
    for page, text, file in zip(pages, texts, files, strict=True):
        page.write_text(below(text, pickle.loads(file.read_bytes()), page), "utf-8")


def below(text: str, outputs: Sequence[Shown], page: Path) -> str:
    """A page with what its blocks showed; figures are written beside it.

    Figures of a block with a picture below it are left out: it is the same one.
    """
    rest = iter(enumerate(outputs))

    def add(block: re.Match[str]) -> str:
        number, shown = next(rest)
        code = block[0].removesuffix("\n![")
        parts = [_TEXT.format(shown.text)] if shown.text else []
        for k, figure in enumerate(() if block["drawn"] else shown.figures):
            file = page.with_name(f"{page.stem}_{number}_{k}.png")
            file.write_bytes(figure)
            parts.append(f"![what the code above draws]({file.name})\n")
        return "\n".join([code, *parts]) + ("\n![" if block["drawn"] else "")

    return BLOCK.sub(add, text)


def _digest(text: str) -> str:
    """Of a page's code, and of all that it may call."""
    code = "\n".join(block[1] for block in BLOCK.finditer(text))
    return hashlib.sha256(f"{_package()}\n{code}".encode()).hexdigest()[:32]


@cache
def _package() -> str:
    found = hashlib.sha256(Path(__file__).read_bytes())
    for file in sorted((ROOT / "evidence").rglob("*.py")):
        found.update(file.read_bytes())
    return found.hexdigest()

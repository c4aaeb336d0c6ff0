"""Docstrings as HTML: reStructuredText, numpydoc's sections, cross-references, formulas."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from io import StringIO
from textwrap import indent
from typing import Any

import pygments
from docutils import nodes
from docutils.core import publish_parts
from docutils.frontend import get_default_settings
from docutils.parsers.rst import Parser, roles
from docutils.writers.html5_polyglot import HTMLTranslator, Writer
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonConsoleLexer, PythonLexer, TextLexer

from .mathml import FormulaError, mathml

_ROLES = ("func", "class", "meth", "mod", "attr", "data", "exc", "obj")
_LISTS = {"Parameters", "Other Parameters", "Attributes", "Returns", "Yields", "Raises"}
_NAMED = {"Parameters", "Other Parameters", "Attributes"}
_SETTINGS = {
    "report_level": 2,  # warnings
    "doctitle_xform": False,
    "initial_header_level": "3",
    "smart_quotes": False,
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "_disable_config": True,
}
_FORMATTER = HtmlFormatter(nowrap=True)

Resolve = Callable[[str], str | None]
Linked = Callable[[str], str]


@dataclass
class Renderer:
    """One docstring after the other; what is wrong is gathered in ``problems``."""

    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        writer = _Writer()
        self.settings = get_default_settings(Parser, writer)
        for name, value in _SETTINGS.items():
            setattr(self.settings, name, value)

    def __call__(self, text: str, where: str, resolve: Resolve, linked: Linked) -> str:
        """HTML of a docstring.

        ``resolve`` gives the address of a name, "" for one without a page, None for one that
        does not exist; ``linked`` is HTML of a type, classes as links.
        """
        if not text:
            return ""
        settings, stream = self.settings.copy(), StringIO()
        settings.warning_stream = stream
        settings.resolve, settings.linked = resolve, linked
        settings.complain = lambda problem: self.problems.append(f"{where}: {problem}")
        parts = publish_parts(numpydoc(text), writer=_Writer(), settings=settings)
        for line in stream.getvalue().splitlines():
            if line.startswith("<string>"):
                settings.complain(line.removeprefix("<string>"))
        return parts["body"]


def numpydoc(text: str) -> str:
    """Sections whose entries are lists of definitions, as reStructuredText wants them.

    >>> print(numpydoc("What.\\n\\nParameters\\n----------\\nx : int\\n**rest\\n    More."))
    What.
    <BLANKLINE>
    Parameters
    ----------
    ``x`` : int
        ..
    ``**rest``
        More.
    """
    text = re.sub(r"^\x08\n(.*?)(?=\n\n|\Z)", _kept, text, flags=re.MULTILINE | re.DOTALL)
    lines, out, section = text.splitlines(), [], ""
    for i, line in enumerate(lines):
        following = lines[i + 1] if i + 1 < len(lines) else ""
        if re.fullmatch(r"-{3,}", following) and line:
            section = line
        if line.startswith(">>>"):
            section = ""
        entry = section in _LISTS and line not in ("", section) and line[0] not in " -"
        if entry and section in _NAMED:
            name, colon, kind = line.partition(" : ")
            line = f"``{name}``{colon}{kind}"
        out.append(line)
        if entry and not following.startswith(" "):
            out.append("    ..")
    return "\n".join(out)


def _kept(paragraph: re.Match[str]) -> str:
    """A paragraph that the command line's help must not wrap."""
    return "::\n\n" + indent(paragraph[1], "    ")


def summary(text: str) -> str:
    """The first paragraph of a docstring."""
    return text.strip().partition("\n\n")[0]


def highlight(code: str, console: bool = False) -> str:
    """Python, a session of Python, or plain text that is neither."""
    code = re.sub(r"[ ]*#\s*doctest:.*", "", code)
    lexer: Any = PythonConsoleLexer() if console else PythonLexer()
    if not console:
        try:
            compile(code, "<example>", "exec")
        except SyntaxError:
            lexer = TextLexer()
    return f'<pre class="pdoc-code">{pygments.highlight(code, lexer, _FORMATTER)}</pre>'


def _reference(
    name: str, rawtext: str, text: str, lineno: int, inliner: Any, *_: Any, **__: Any
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """:func:`name`, :class:`~long.name`, :mod:`.name`: a link, or a problem."""
    settings = inliner.document.settings
    shown = text.rpartition(".")[2] if text.startswith("~") else text.lstrip(".")
    literal = nodes.literal(rawtext, shown + "()" * (name in ("func", "meth")))
    address = settings.resolve(text.lstrip("~"))
    if address is None:
        settings.complain(f"{rawtext} points nowhere")
    if not address:
        return [literal], []
    return [nodes.reference(rawtext, "", literal, refuri=address)], []


for _name in _ROLES:
    roles.register_local_role(_name, _reference)


class _Translator(HTMLTranslator):
    def visit_math(self, node: nodes.Element, block: bool = False) -> None:
        try:
            drawn = mathml(node.astext(), block)
        except FormulaError as error:
            self.settings.complain(str(error))
            drawn = ""
        self.body.append(f'<div class="formula">{drawn}</div>' if block else drawn)
        raise nodes.SkipNode

    def visit_math_block(self, node: nodes.Element) -> None:
        self.visit_math(node, block=True)

    def visit_doctest_block(self, node: nodes.Element) -> None:
        self.body.append(highlight(node.astext(), console=True))
        raise nodes.SkipNode

    def visit_literal_block(self, node: nodes.Element) -> None:
        self.body.append(highlight(node.astext()))
        raise nodes.SkipNode

    def visit_literal(self, node: nodes.Element) -> None:
        self.body.append(f"<code>{html.escape(node.astext(), quote=False)}</code>")
        raise nodes.SkipNode

    def visit_classifier(self, node: nodes.Element) -> None:
        self.body.append(f'<span class="type">{self.settings.linked(node.astext())}</span>')
        raise nodes.SkipNode

    def depart_classifier(self, node: nodes.Element) -> None:
        """All was done on the way in."""

    def visit_term(self, node: nodes.Element) -> None:
        super().visit_term(node)
        if all(isinstance(child, nodes.Text) for child in node):
            self.body.append(self.settings.linked(node.astext()))
            node.clear()


class _Writer(Writer):
    def __init__(self) -> None:
        super().__init__()
        self.translator_class = _Translator

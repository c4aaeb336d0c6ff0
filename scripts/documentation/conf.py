"""Sphinx's settings; ``python scripts/build_docs.py`` calls it."""

from __future__ import annotations

import inspect
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from docutils import nodes
from sphinx import addnodes
from sphinx.ext.napoleon import Config, NumpyDocstring
from sphinx.util.inspect import stringify_signature

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import evidence
from scripts.documentation.mathml import mathml
from scripts.documentation.names import PUBLIC, classes, places

project = "evidence"
author = "The evidence developers"
copyright = "2026, the evidence developers"
release = version = evidence.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary"]
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(numpy|scipy|typing|collections|formulae)(\..*)?")]
nb_execution_mode = "off"  # notebooks are shown as they are stored
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
autodoc_member_order = "bysource"
autodoc_use_type_comments = False
autodoc_typehints_format = "short"
autodoc_type_aliases = {name: name for name in ("Array", "ArrayLike", "Indices", "Flags")}
autosummary_generate = False
python_maximum_signature_line_length = 88
toc_object_entries = False

html_theme = "furo"
html_title = "evidence"
html_math_renderer = "mathml"
html_static_path = ["static"]
html_css_files = ["custom.css"]
html_js_files = ["copy.js"]
html_show_sphinx = False
html_copy_source = False

SECTIONS = Config(  # a name may end in an underscore
    napoleon_use_ivar=True, napoleon_use_rtype=False, strip_signature_backslash=True
)
_SEVERAL = re.compile(r"^(\w+(?:, \w+)+)( : .*)?\n((?:    .*\n)*)", re.MULTILINE)
#: an example at the left margin right after a section's indented text: no part of it
_AFTER_SECTION = re.compile(
    r"((?:Parameters|Returns|References)\n-+\n(?:(?!^>>>|^Examples).*\n)*?.*\S)\n\n>>>",
    re.MULTILINE,
)
#: by page, what names in its docstrings stand for
MEANT: defaultdict[str, dict[tuple[str, str], str]] = defaultdict(dict)


def draw(self: Any, node: nodes.Element) -> None:
    """A formula in a line, as MathML."""
    self.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def draw_block(self: Any, node: nodes.Element) -> None:
    drawn = mathml(node.astext(), block=True)
    self.body.append(f'<div class="formula">{drawn}</div>')
    raise nodes.SkipNode


def skip(app: Any, what: str, name: str, found: Any, skipped: bool, options: Any) -> bool | None:
    """Leave out what other packages wrote, and on inner pages what the reference has."""
    inside = app.env.current_document.docname.startswith("inside/")
    if what == "module":
        return True if inside and id(found) in PUBLIC else None
    if isinstance(found, np.ufunc):
        return True
    home = getattr(getattr(found, "fget", found), "__module__", None) or "evidence"
    return None if home.startswith("evidence") else True


def signature(app: Any, what: str, name: str, found: Any, options: Any, text: str, back: str):
    """Without types for classes, where the docstring has them, and those of the command line."""
    described = "Parameters\n---" in inspect.cleandoc(getattr(found, "__doc__", None) or "")
    if text and (what == "class" or described or " object at 0x" in text):
        try:
            bare = stringify_signature(inspect.signature(found), show_annotation=False)
        except (TypeError, ValueError):
            return None
        return re.sub(r"\((self|cls)(, )?", "(", bare, count=1).partition(" ->")[0], back
    return None


def docstring(app: Any, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """Note what names mean; what the command line's help must not wrap (``\\b``) is literal."""
    text = "\n".join(lines)
    MEANT[app.env.current_document.docname].update(places(text, name, found))
    text = re.sub(r"^\x08\n(.*?)(?=\n\n|\Z)", _kept, text, flags=re.MULTILINE | re.DOTALL)
    text = _AFTER_SECTION.sub(r"\1\n\nExamples\n--------\n\n>>>", text, count=1)
    head, title, fields = text.partition("Attributes\n---")
    text = head + title + _SEVERAL.sub(_each, fields)
    if what in ("module", "class", "exception", "function", "method"):
        text = "\n".join(NumpyDocstring(text, SECTIONS, app, what, name, found, options).lines())
        if ":param >>>" in text:
            raise ValueError(f"{name}: its example is read as parameters; head it by Examples")
    lines[:] = text.splitlines()


def _each(entry: re.Match[str]) -> str:
    """``a, b`` with one description, as two fields."""
    return "".join(f"{name}{entry[2] or ''}\n{entry[3]}" for name in entry[1].split(", "))


def _kept(paragraph: re.Match[str]) -> str:
    return "::\n\n" + re.sub("^", "    ", paragraph[1], flags=re.MULTILINE)


def lead(app: Any, tree: nodes.document) -> None:
    """Names in docstrings, and classes in signatures and tables of arguments, to their pages."""
    meant = MEANT[app.env.current_document.docname]
    for node in list(tree.findall(addnodes.pending_xref)):
        if node.get("refdomain") != "py":
            continue
        target, role = node["reftarget"], isinstance(node[0], nodes.literal)
        place = classes().get(target.rpartition(".")[2])
        if role:
            place = meant.get((node["reftype"], target), target)
        if place:
            node.attributes |= {"reftarget": place}
            node.attributes.pop("refspecific", None)
        else:
            node.replace_self(node.children)


def setup(app: Any) -> None:
    app.add_html_math_renderer("mathml", (draw, None), (draw_block, None))
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-signature", signature)
    app.connect("autodoc-process-docstring", docstring)
    app.connect("doctree-read", lead)

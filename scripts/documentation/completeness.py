"""What every public name owes its reader: a docstring, and the truth about its arguments."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

from pdoc.doc import Class, Doc, Function, Variable

from .pages import Site, is_property, is_written

_IMPLIED = {"self", "cls"}


def missing(site: Site, rooms: list[str]) -> Iterator[str]:
    """What is wrong with the docstrings of everything that the rooms offer."""
    seen = set()
    for doc in public(site, rooms):
        if doc.fullname in seen:
            continue
        seen.add(doc.fullname)
        yield from _wrong(site, doc)
        if isinstance(doc, Class):
            yield from _bare_fields(site, doc)
            for member in doc.members.values():
                ours = member.taken_from[0].startswith(site.root)
                said = isinstance(member, Function) and is_written(member)
                said |= is_property(doc.obj, member.name)
                if ours and said and not member.name.startswith("_"):
                    yield from _wrong(site, member)


def public(site: Site, rooms: list[str]) -> Iterator[Doc[Any]]:
    """Everything that the rooms offer, at home or from elsewhere."""
    for room in rooms:
        page = site.pages[room]
        listed = getattr(importlib.import_module(room), "__all__", None)
        for doc in [*page.members.values(), *site.offers[room]]:
            named = doc.name in listed if listed else not doc.name.startswith("_")
            if named and (listed or not isinstance(doc, Variable)):
                yield doc


def _bare_fields(site: Site, doc: Class) -> Iterator[str]:
    """Fields that neither a section of the class's docstring nor one of their own describes."""
    if not re.search(r"^(Attributes|Parameters)\n---", site.text(doc), re.MULTILINE):
        for name in vars(doc.obj).get("__annotations__", ()):
            if not name.startswith("_") and not doc.members[name].docstring:
                yield f"{doc.fullname} does not describe its field {name}"


def _wrong(site: Site, doc: Doc[Any]) -> Iterator[str]:
    text = site.text(doc)
    if not text:
        yield f"{doc.fullname} has no docstring"
    elif "Parameters\n---" in text:
        told, real = set(_told(text)), set(_arguments(doc))
        for name in sorted(real - told):
            yield f"{doc.fullname} does not describe its argument {name}"
        for name in sorted(told - real):
            yield f"{doc.fullname} describes {name}, which it does not take"


def _told(text: str) -> Iterator[str]:
    body = text.partition("Parameters\n---")[2].partition("\n")[2]
    body = re.split(r"\n\S.*\n-{3,}\n|\n>>>", body)[0]
    for line in body.splitlines():
        if re.match(r"[\w*]", line):
            for name in line.partition(" : ")[0].split(","):
                yield name.strip().lstrip("*")


def _arguments(doc: Doc[Any]) -> Iterator[str]:
    for name in inspect.signature(doc.obj).parameters:
        if name not in _IMPLIED and not name.startswith("_"):
            yield name

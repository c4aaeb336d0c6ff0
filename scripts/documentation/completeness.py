"""What every public name owes its reader: a docstring, and the truth about its arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from types import FunctionType, ModuleType
from typing import Any

from sphinx.pycode import ModuleAnalyzer

_IMPLIED = {"self", "cls"}
_TABLE = re.compile(r"^(Attributes|Parameters)\n---", re.MULTILINE)


def missing(name: str, found: object) -> Iterator[str]:
    """What is wrong with the docstring of a function, a class and its members, or a module."""
    if isinstance(found, ModuleType) and not found.__doc__:
        yield f"{name} has no docstring"
    if not callable(found):
        return
    yield from _wrong(name, found, inspect.getdoc(found))
    if isinstance(found, type):
        for member, value in _members(found).items():
            yield from _wrong(f"{name}.{member}", value, _text(found, member))
        if not _TABLE.search(inspect.getdoc(found) or ""):
            for field in vars(found).get("__annotations__", ()):
                if field[0] != "_" and not _text(found, field):
                    yield f"{name} does not describe its field {field}"


def _members(cls: type) -> Mapping[str, object]:
    """Methods and properties that somebody wrote in this package, here or in a base."""
    found: dict[str, object] = {}
    for base in _ours(cls)[::-1]:
        found |= {name: value for name, value in vars(base).items() if name[0] != "_"}
    kinds = (FunctionType, classmethod, staticmethod, property, cached_property)
    return {name: value for name, value in found.items() if isinstance(value, kinds)}


def _ours(cls: type) -> list[type]:
    home = cls.__module__.partition(".")[0]
    return [base for base in cls.__mro__ if base.__module__.partition(".")[0] == home]


def _text(cls: type, name: str) -> str:
    """A member's docstring, or that of a base, or what stands below a field."""
    for base in _ours(cls):
        if isinstance(text := getattr(vars(base).get(name), "__doc__", None), str) and text:
            return inspect.cleandoc(text)
        fields = ModuleAnalyzer.for_module(base.__module__).find_attr_docs()
        if (base.__qualname__, name) in fields:
            return "\n".join(fields[base.__qualname__, name])
    return ""


def _wrong(name: str, found: Any, text: str | None) -> Iterator[str]:
    found = inspect.unwrap(getattr(found, "__func__", found))
    if not text:
        yield f"{name} has no docstring"
    elif "Parameters\n---" in text and isinstance(found, type | FunctionType):
        described, real = set(_described(text)), set(_arguments(found))
        for argument in sorted(real - described):
            yield f"{name} does not describe its argument {argument}"
        for argument in sorted(described - real):
            yield f"{name} describes {argument}, which it does not take"


def _described(text: str) -> Iterator[str]:
    body = text.partition("Parameters\n---")[2].partition("\n")[2]
    body = re.split(r"\n\S.*\n-{3,}\n|\n>>>", body)[0]
    for line in body.splitlines():
        if re.match(r"[\w*]", line):
            for name in line.partition(" : ")[0].split(","):
                yield name.strip().lstrip("*")


def _arguments(found: Any) -> Iterator[str]:
    for name in inspect.signature(found).parameters:
        if name not in _IMPLIED and not name.startswith("_"):
            yield name

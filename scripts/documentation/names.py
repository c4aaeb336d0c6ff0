"""Where the names in docstrings lead: ``:class:`.MGrad``` to ``evidence.moves.MGrad``."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from types import ModuleType

from .reference import ROOMS, modules, offers

PUBLIC = {id(found): f"{room}.{name}" for room in ROOMS for name, found in offers(room).items()}
_ROLE = re.compile(r":(class|func|meth|mod|attr|data|exc|obj):`([~.]*)([\w.]+)`")


def places(text: str, name: str, found: object) -> Iterator[tuple[tuple[str, str], str]]:
    """What a docstring's cross-references mean: role and target, and the reference's name for it.

    The latter is "" for what exists but has no page; what does not exist is left out.
    """
    scopes = _scopes(name, found)
    for role, marks, target in _ROLE.findall(text):
        place = _resolve(role, target, scopes, anywhere="." in marks)
        if place is not None:
            yield (role, target), place


def _scopes(name: str, found: object) -> list[str]:
    """The module where something was written, and the names below which it looks for others."""
    owner = found
    if not isinstance(found, ModuleType) and not getattr(found, "__module__", None):
        owner = _get(name.rpartition(".")[0])  # a property's class
    home = owner.__name__ if isinstance(owner, ModuleType) else _home(owner, name)
    parts = getattr(owner, "__qualname__", "").split(".")
    inner = [".".join([home, *parts[:i]]) for i in range(len(parts), 0, -1) if parts[0]]
    package = home if _is_package(home) else home.rpartition(".")[0]
    return [*inner, home, package, "evidence"]


def _home(owner: object, name: str) -> str:
    home = str(getattr(owner, "__module__", ""))
    while not (home.startswith("evidence") and home in sys.modules):
        home = name = name.rpartition(".")[0]
    return home


def _is_package(name: str) -> bool:
    return hasattr(importlib.import_module(name), "__path__")


def _resolve(role: str, target: str, scopes: list[str], anywhere: bool) -> str | None:
    """A name with a page, "" for one without, None for one that does not exist."""
    candidates = [target, *(f"{scope}.{target}" for scope in scopes)]
    there = [name for name in candidates if _exists(name) and _is(role, name)]
    for name in there:
        if place := documented(name):
            return place
    if anywhere:
        last = target.rpartition(".")[2]
        ends = {n for n in _ends()[last] if n.endswith(f".{target}") and _is(role, n)}
        ends = {documented(name) for name in ends} - {""}
        if len(ends) == 1:
            return ends.pop()
    return "" if there else None


def _is(role: str, name: str) -> bool:
    return isinstance(_get(name), ModuleType) == (role == "mod") or role == "obj"


@cache
def documented(name: str) -> str:
    """The name under which the reference has something, "" where it does not have it."""
    found = _get(name)
    if isinstance(found, ModuleType):
        return found.__name__ if found.__name__ in {*modules(), *ROOMS} else ""
    if id(found) in PUBLIC:
        return PUBLIC[id(found)]
    parent, _, last = name.rpartition(".")
    owner = _get(parent)
    if last.startswith("_") or owner is None:
        return ""
    if isinstance(owner, ModuleType):
        own = getattr(found, "__module__", None) == owner.__name__
        return name if own and _is_written(found) and documented(parent) else ""
    if inspect.isclass(owner) and _is_written(getattr(owner, last, None)):
        place = documented(parent)
        if last not in vars(owner) and place.count(".") != 1:  # shown with the base alone
            base = next(base for base in owner.__mro__ if last in vars(base))
            return documented(f"{base.__module__}.{base.__qualname__}.{last}")
        return f"{place}.{last}" if place and not _is_bare(owner, last) else ""
    return ""


def _is_written(found: object) -> bool:
    return bool(getattr(found, "__doc__", None)) and (
        inspect.isroutine(found) or inspect.isclass(found) or isinstance(found, property)
    )


def _is_bare(owner: type, name: str) -> bool:
    """Overridden without a docstring: autodoc has the base's on the base's page as well."""
    return not inspect.getdoc(getattr(owner, name))


@cache
def _ends() -> dict[str, list[str]]:
    """Full names by their last part: modules, and what is written in them."""
    found = defaultdict(list)
    for name in modules():
        found[name.rpartition(".")[2]].append(name)
        for inner, value in vars(importlib.import_module(name)).items():
            if getattr(value, "__module__", None) == name:
                found[inner].append(f"{name}.{inner}")
                for member in vars(value) if inspect.isclass(value) else ():
                    found[member].append(f"{name}.{inner}.{member}")
    return found


@cache
def classes() -> dict[str, str]:
    """Classes with a page by their last name, those of which there is only one."""
    found = defaultdict(set)
    for last, names in _ends().items():
        for name in names:
            if inspect.isclass(_get(name)) and (place := documented(name)):
                found[last].add(place)
    return {last: places.pop() for last, places in found.items() if len(places) == 1}


def _exists(name: str) -> bool:
    owner, _, last = name.rpartition(".")
    return _get(name) is not None or last in getattr(_get(owner), "__annotations__", {})


@cache
def _get(name: str) -> object:
    """What a dotted name means, None where it means nothing."""
    parts = name.split(".")
    for i in range(len(parts) if parts[0] in sys.modules else 0, 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:i]))
        except ImportError:
            continue
        for part in parts[i:]:
            found = getattr(found, part, None)
        return found
    return None

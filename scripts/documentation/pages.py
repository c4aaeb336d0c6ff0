"""What has a page, what it shows, and where names lead."""

from __future__ import annotations

import html
import importlib
import inspect
import pkgutil
import posixpath
import re
from collections.abc import Iterator
from functools import cached_property
from types import FunctionType, MethodType, ModuleType
from typing import Any, ForwardRef

from pdoc.doc import Class, Doc, Function, Module, Variable

from .rst import Renderer, summary


class Site:
    """All modules of a package that have no underscore, and their documented members."""

    def __init__(self, package: ModuleType) -> None:
        self.root = package.__name__
        self.render = Renderer()
        names = [self.root, *_modules(package)]
        for name in names:
            _load_lazy(importlib.import_module(name))
        self.pages = {name: Module.from_name(name) for name in names}
        #: what a module offers that lives in another: its own name, and the home's
        self.aliases: dict[str, str] = {}
        #: a module's offers in its own order
        self.offers: dict[str, list[Doc[Any]]] = {}
        for name, page in self.pages.items():
            self._sort_members(name, page)
        for page in self.pages.values():  # what is offered elsewhere comes first at home
            ranked = sorted(page.members.items(), key=lambda m: m[1].fullname not in self._offered)
            page.members = dict(ranked)  # type: ignore[misc]
        self.addresses = dict(self._addresses())

    def _sort_members(self, name: str, page: Module) -> None:
        """Own members stay on the page; what comes from elsewhere becomes a list of links."""
        own, offers = {}, []
        for key, member in page.members.items():
            home, qualname = member.taken_from
            if home == name or home not in self.pages or isinstance(member, Variable):
                own[key] = member
            else:
                self.aliases[f"{name}.{key}"] = f"{home}.{qualname}"
                offers.append(member)
        page.members = own  # type: ignore[misc]  # a cached property
        self.offers[name] = offers

    def _addresses(self) -> Iterator[tuple[str, str]]:
        for name, page in self.pages.items():
            path = f"{name.replace('.', '/')}.html"
            yield name, path
            for member in page.members.values():
                yield from self._anchors(member, path)

    def _anchors(self, member: Doc[Any], path: str) -> Iterator[tuple[str, str]]:
        if self.shown(member):
            yield member.fullname, f"{path}#{member.qualname}"
            for inner in member.members.values() if isinstance(member, Class) else ():
                yield from self._anchors(inner, path)

    @cached_property
    def _offered(self) -> set[str]:
        return set(self.aliases.values())

    # -- what is shown ----------------------------------------------------------------------

    def shown(self, doc: Doc[Any]) -> bool:
        """Documented, named without an underscore, written here, not a compiled internal."""
        if isinstance(doc, Module):
            return doc.fullname in self.pages
        if "." in doc.qualname and doc.taken_from[0] not in self.pages:
            return False  # inherited from another package
        compiled = isinstance(doc, Function) and "@jit" in doc.decorators
        said = bool(self.text(doc)) and not doc.name.startswith("_")
        return said and not compiled and is_written(doc) and not self._told_above(doc)

    def _told_above(self, doc: Doc[Any]) -> bool:
        """Whether it is a field that its class's docstring describes in a section."""
        owner = self.pages[doc.modulename].get(doc.qualname.rpartition(".")[0])
        if not isinstance(doc, Variable) or owner is None:
            return False
        field = not is_property(owner.obj, doc.name)
        return field and bool(re.search(r"^(Attributes|Parameters)\n---", owner.docstring, re.M))

    def text(self, doc: Doc[Any]) -> str:
        """A docstring, the base class's where a property has none of its own."""
        if doc.docstring or not isinstance(doc, Variable) or "." not in doc.qualname:
            return doc.docstring
        owner: Any = importlib.import_module(doc.modulename)
        *path, name = doc.qualname.split(".")
        for part in path:
            owner = getattr(owner, part)
        found = (vars(base).get(name) for base in owner.__mro__)
        return next((inspect.cleandoc(f.__doc__) for f in found if getattr(f, "__doc__", "")), "")

    def children(self, page: Module) -> list[Module]:
        """Modules of a package."""
        return [
            other
            for name, other in self.pages.items()
            if name.rpartition(".")[0] == page.fullname != self.root
        ]

    # -- as HTML ----------------------------------------------------------------------------

    def docstring(self, doc: Doc[Any]) -> str:
        home = doc.taken_from[0] if doc.taken_from[0] in self.pages else doc.modulename
        return self._render(doc, self.text(doc), home, doc.modulename)

    def first_line(self, doc: Doc[Any], page: str) -> str:
        """The first paragraph, for a list on another page."""
        body = self._render(doc, summary(self.text(doc)), doc.taken_from[0] or doc.fullname, page)
        return re.sub(r"^<p>(.*)</p>$", r"\1", body.strip(), flags=re.DOTALL)

    def _render(self, doc: Doc[Any], text: str, home: str, page: str) -> str:
        def resolve(name: str) -> str | None:
            return self.resolve(name, home, doc.qualname, page)

        return self.render(text, doc.fullname, resolve, lambda code: self._linked(code, page))

    def address(self, name: str, page: str) -> str:
        """Where a full name is documented, relative to a page; "" for nowhere."""
        found = self.addresses.get(self.aliases.get(name, name), "")
        return _relative(found, self.addresses[page]) if found else ""

    def signature(self, doc: Doc[Any], page: str, annotated: bool = True) -> str:
        """Arguments as they are written, types left to the docstring where it has them."""
        if getattr(doc.obj, "_is_protocol", False):
            return ""
        try:
            found = inspect.signature(doc.obj)
        except (TypeError, ValueError):
            return ""
        listed = "Parameters\n---" in self.text(doc) or not annotated
        parts, keyword_only = [], False
        for parameter in found.parameters.values():
            if parameter.name in ("self", "cls"):
                continue
            if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
                parts.append("*")
            keyword_only |= parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
            parts.append(_parameter(parameter, not listed))
        returned = found.return_annotation
        arrow = ""
        if isinstance(doc, Function) and annotated and returned is not found.empty:
            arrow = f' <span class="returns">→ {self._linked(_named(returned), page)}</span>'
        inside = ", ".join(f'<span class="param">{self._linked(p, page)}</span>' for p in parts)
        return f'<span class="signature">({inside}){arrow}</span>'

    def annotation(self, doc: Variable) -> str:
        """A property's type, as it is written."""
        owner = self.pages[doc.modulename].get(doc.qualname.rpartition(".")[0])
        found = inspect.getattr_static(owner.obj, doc.name, None) if owner else None
        getter = getattr(found, "fget", None) or getattr(found, "func", None)
        written = getattr(getter, "__annotations__", {}).get("return", "")
        return self._linked(f": {_named(written)}", doc.modulename) if written else ""

    def _linked(self, code: str, page: str) -> str:
        """Classes with a page become links."""

        def link(match: re.Match[str]) -> str:
            full = self._classes.get(match[0])
            return f'<a href="{self.address(full, page)}">{match[0]}</a>' if full else match[0]

        return re.sub(r"\b[A-Z]\w+\b", link, html.escape(code, quote=False))

    @cached_property
    def _classes(self) -> dict[str, str]:
        """Classes by their last name, those of which there is only one."""
        found: dict[str, set[str]] = {}
        for name, page in self.pages.items():
            for member in page.members.values():
                if isinstance(member, Class) and self.shown(member):
                    found.setdefault(member.name, set()).add(f"{name}.{member.qualname}")
        return {name: homes.pop() for name, homes in found.items() if len(homes) == 1}

    # -- where names lead -------------------------------------------------------------------

    def resolve(self, name: str, module: str, qualname: str, page: str) -> str | None:
        """The address of what a docstring calls ``name``; "" without a page, None if nowhere."""
        bare = name.lstrip(".")
        folder = module if self._is_package(module) else module.rpartition(".")[0]
        scopes = [module, folder, self.root]
        parts = qualname.split(".") if qualname else []
        scopes[:0] = [".".join([module, *parts[:i]]) for i in range(len(parts), 0, -1)]
        candidates = [bare, *(f"{scope}.{bare}" for scope in scopes)]
        for candidate in candidates:
            if found := self.address(candidate, page):
                return found
        if name.startswith("."):
            ends = [full for full in self.addresses if full.endswith(f".{bare}")]
            if len(ends) == 1:
                return self.address(ends[0], page)
        return "" if any(map(_exists, candidates)) else None

    def _is_package(self, module: str) -> bool:
        return module in self.pages and self.pages[module].is_package


def _modules(package: ModuleType) -> list[str]:
    found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    return sorted(m.name for m in found if "._" not in m.name)


def _load_lazy(module: ModuleType) -> None:
    """Put into a module what its ``__getattr__`` would fetch."""
    for name in getattr(module, "__all__", ()):
        vars(module)[name] = getattr(module, name)


def _relative(target: str, page: str) -> str:
    path, mark, anchor = target.partition("#")
    if path == page:
        return mark + anchor or posixpath.basename(path)
    return posixpath.relpath(path, posixpath.dirname(page)) + mark + anchor


def _exists(name: str) -> bool:
    """Whether something is called so, here or in another package."""
    parts = name.split(".")
    for i in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:i]))
        except ImportError:
            continue
        for part in parts[i:]:
            if not hasattr(found, part) and part not in getattr(found, "__annotations__", {}):
                return False
            found = getattr(found, part, None)
        return True
    return False


def is_written(doc: Doc[Any]) -> bool:
    """Whether somebody wrote it; not so the methods that scikit-learn generates."""
    plain = (FunctionType, classmethod, staticmethod, MethodType)
    return not isinstance(doc, Function) or isinstance(inspect.unwrap(doc.obj), plain)


def _parameter(parameter: inspect.Parameter, annotated: bool) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    written = stars + parameter.name
    kind = _named(parameter.annotation) if parameter.annotation is not parameter.empty else ""
    kind = kind if annotated else ""
    if kind:
        written += f": {kind}"
    if parameter.default is not parameter.empty:
        default = re.sub(r"<factory>|<function (\S+).*>", r"\1…", repr(parameter.default))
        written += f" = {default}" if kind else f"={default}"
    return written


def _named(annotation: Any) -> str:
    """An annotation as its author wrote it."""
    if isinstance(annotation, str):
        return annotation
    if isinstance(annotation, ForwardRef):
        return annotation.__forward_arg__
    return getattr(annotation, "__name__", str(annotation))


def is_property(owner: type, name: str) -> bool:
    found = inspect.getattr_static(owner, name, None)
    return isinstance(found, property | cached_property)

"""`python -O` leaves asserts out, so none may do any work.

An assert may compare names, attributes and constants and ask ``isinstance``, of ``A | B`` too. An
attribute may be made when it is first asked for; so one of ``self``, or of an argument with a
type, must be no property of that class, and one of anything else the name of no property that is
computed once.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

import evidence

ALLOWED = (
    ast.Attribute, ast.BinOp, ast.BitOr, ast.BoolOp, ast.boolop, ast.Call, ast.cmpop, ast.Compare,
    ast.Constant, ast.expr_context, ast.Name, ast.Not, ast.UnaryOp,
)  # fmt: skip
HOUSE = Path(evidence.__file__).parent


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """What classes and asserts may be among: no expression holds any."""
    below = [tree]
    while below:
        node = below.pop()
        yield node
        below += [one for one in ast.iter_child_nodes(node) if not isinstance(one, ast.expr)]


def classes(trees) -> dict[str, ast.ClassDef]:
    every = chain.from_iterable(map(statements, trees))
    return {node.name: node for node in every if isinstance(node, ast.ClassDef)}


def computed(cls: ast.ClassDef | None, known: dict[str, ast.ClassDef]) -> set[str]:
    """Names of properties of a class and of those it is made of."""
    if cls is None:
        return set()
    own = {f.name for f in cls.body if isinstance(f, ast.FunctionDef) and f.decorator_list}
    bases = (known.get(base.id) for base in cls.bases if isinstance(base, ast.Name))
    return own.union(*(computed(base, known) for base in bases))


def remembered(known: dict[str, ast.ClassDef]) -> set[str]:
    """Names of properties that are computed once, of any class."""
    return {
        f.name
        for cls in known.values()
        for f in cls.body
        if isinstance(f, ast.FunctionDef)
        and "cached_property" in map(ast.unparse, f.decorator_list)
    }


def asserts(node: ast.AST, types: dict[str, str]) -> Iterator[tuple[ast.Assert, dict[str, str]]]:
    """Every assert below, with the types of the names around it, as far as they are written."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):  # holds none
            continue
        inner = types
        if isinstance(child, ast.ClassDef):
            inner = types | {"self": child.name}
        elif isinstance(child, ast.FunctionDef):
            typed = (a for a in child.args.args + child.args.kwonlyargs if a.annotation)
            inner = types | {a.arg: ast.unparse(a.annotation).split(" |")[0] for a in typed}
        elif isinstance(child, ast.Assert):
            yield child, types
        yield from asserts(child, inner)


def effects(trees) -> list[str]:
    """Asserts that may do something, as they are written."""
    known = classes(trees)
    once = remembered(known)

    def harmless(node: ast.AST, types: dict[str, str]) -> bool:
        if isinstance(node, ast.Call):
            return isinstance(node.func, ast.Name) and node.func.id == "isinstance"
        if isinstance(node, ast.Attribute):
            typed = types.get(node.value.id) if isinstance(node.value, ast.Name) else None
            return node.attr not in (computed(known[typed], known) if typed in known else once)
        return isinstance(node, ALLOWED)

    found = chain.from_iterable(asserts(tree, {}) for tree in trees)
    return [
        ast.unparse(one)
        for one, types in found
        if not all(harmless(node, types) for node in ast.walk(one.test))
    ]


@pytest.mark.slow
def test_no_assert_does_anything():
    trees = [ast.parse(path.read_text("utf-8")) for path in HOUSE.rglob("*.py")]
    assert sum(isinstance(n, ast.Assert) for t in trees for n in statements(t)) > 10
    assert effects(trees) == []


def test_asserts_that_do_something_are_found():
    code = """
class Lazy:
    @cached_property
    def value(self): ...
    def use(self, other: Plain):
        assert self.value is not None
        assert other.value is not None
        assert (n := len([1]))
        assert self.check()
        assert isinstance(other, Plain) and n > 0
        unknown = other.lazy
        assert unknown.value

class Plain:
    value: int

class Heir(Lazy):
    def use(self):
        assert self.value
"""
    assert effects([ast.parse(code)]) == [
        "assert self.value is not None", "assert (n := len([1]))", "assert self.check()",
        "assert unknown.value", "assert self.value",
    ]  # fmt: skip


#: numbers of a Gaussian that are made when they are first asked for
SCRIPT = """
import numpy as np
import evidence as ev
rng = np.random.default_rng(0)
model = ev.GPModel(K=np.eye(12) + 1.0, y=np.where(rng.random(12) < 0.5, -1.0, 1.0))
q = model.prior.with_sites(rng.normal(size=12), np.ones(12))
print(q.covariance.sum().hex())
"""


def test_the_same_numbers_without_asserts(capsys):
    exec(SCRIPT, {})  # with asserts, in this process
    plain = capsys.readouterr().out
    optimised = subprocess.run(
        [sys.executable, "-O", "-c", SCRIPT], check=True, capture_output=True, text=True
    ).stdout
    assert plain.count("\n") == 1
    assert optimised == plain

"""How the package is laid out: rooms, arrows between them, lines; and the way of one call.

    python scripts/benchmarks/house.py
    python scripts/benchmarks/house.py --old ../old/evidence
    python scripts/benchmarks/house.py --trace predict sample --old ../old/evidence

A *room* is an immediate child of the package, file or folder. There is an *arrow* from room to
room where any module of the one imports, at its top or inside a function, from the other (imports
under TYPE_CHECKING are none, nor are those of the package's own ``__init__``). Rooms that reach
each other are a *circle*; the longest *chain* counts rooms along arrows, every room of a circle
that it passes. *Lines* hold code: neither blank, nor comment, nor docstring. *Loops* are circles
of files that import each other at their tops; *long* functions have more than 60 lines of code;
*numbers* are what modules name at their tops; *any* and *kinds* count arguments and results of
type Any, and places that ask what kind of model they were given; *search* is the lines of what
finds the mass of a density and decides how it is integrated, *fields* are those of its policy.

The gate runs it: a bar may be lowered, and nothing may exceed it.

``--trace`` runs a small call twice, the second time under :func:`sys.setprofile`, with Numba's
compiler off so that compiled functions are seen. Functions are those of the package; nested ones
(lambdas, comprehensions, closures) belong to the function that holds them. The *way* of a call is
what happens from entering the public function until the first compiled function is entered:

* ``functions``: distinct functions entered on the way;
* ``depth``: how many of them are still open at its end, the stack under the compiled function;
* ``stays``: maximal stretches in which the functions that run are in one room;
* ``climbs``: stays that begin in a higher room than the one before, by returning to it or by
  calling it; higher is longer by the chain of arrows down from there.

``callbacks`` are distinct calls in the whole call, way and rest, that enter a function in a higher
room from one in a lower room: what imports cannot show. ``all`` is the number of distinct
functions, compiled ones apart, in the whole call.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[2] / "evidence"
#: what no commit may exceed; lowered with what it counts
BARS = {
    "children": 22, "chain": 13, "circles": 0, "arrows": 115, "lines": 41104,
    "loops": 0, "long": 0, "numbers": 249, "any": 83, "kinds": 15, "search": 2714, "fields": 36,
}  # fmt: skip
#: what is counted as the search of densities
SEARCH = ("approximations.density", "methods.density", "methods.referee", "methods.mixture")
_LONG = 60  # lines of code of a function that fits on a screen
COMPILERS = {"jit", "vector_loop", "reduction", "kernel"}

SETUP = """
import numpy as np
from scipy import stats
import evidence as ev
rng = np.random.default_rng(0)
X = np.linspace(0.0, 4.0, 5)[:, None]
new = np.array([[0.5], [6.0]])
model = ev.GPModel(X, [1, 1, -1, -1, 1], "1.5 * RBF(1.2)", likelihood="logit")
priors = {"length_scale": stats.lognorm(0.5), "constant_value": stats.lognorm(0.5)}
quiet = dict(random_seed=0, progressbar=False)
"""
#: name -> (preparation, call)
CALLS = {
    "log_evidence": ("", "ev.log_evidence(model, **quiet)"),
    "guided": ("", "ev.log_evidence(model, method='guided', n_particles=16, **quiet)"),
    "smc": ("", "ev.log_evidence(model, method='smc', n_particles=16, n_islands=2, **quiet)"),
    "sample": ("", "ev.sample(model, draws=10, tune=10, chains=2, **quiet)"),
    "predict": ("", "ev.predict(model, new).probability"),
    "predict_draws": (
        "draws = ev.sample(model, draws=10, tune=10, chains=2, **quiet)",
        "ev.predict(model, new, posterior=draws).probability",
    ),
    "integrated": (
        "",
        "ev.integrated_evidence(model, priors, n_particles=16, n_islands=2, **quiet)",
    ),
    "optimise": ("", "ev.optimise(model, max_iterations=3, **quiet)"),
    "formula": (
        "x, g = rng.normal(size=40), np.arange(40) % 8\n"
        "frame = {'x': x, 'g': g, 'y': rng.poisson(np.exp(0.5 * x))}\n"
        "model = ev.from_formula('y ~ x + (1 | g)', frame, likelihood='poisson')",
        "ev.log_evidence(model, **quiet)",
    ),
    "density": (
        "model = ev.DensityModel(lambda x: -0.5 * np.sum((x - 1.0) ** 2, axis=-1) / 0.3, "
        "dim=3, prior=stats.norm(0.0, 2.0), vectorized=True)",
        "ev.log_evidence(model, **quiet)",
    ),
}


# -- what imports say -----------------------------------------------------------------------------


def modules(package: Path) -> dict[str, Path]:
    """Dotted name inside the package ('' is the package itself) -> file."""
    found = {}
    for file in sorted(package.rglob("*.py")):
        parts = file.relative_to(package).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


@cache
def parsed(file: Path) -> tuple[ast.Module, tuple[ast.AST, ...]]:
    """The tree of a file, and all nodes of it."""
    tree = ast.parse(file.read_text())
    return tree, tuple(ast.walk(tree))


@cache
def imported(file: Path) -> list[ast.AST]:
    """Import statements, but those for type checkers."""
    nodes = parsed(file)[1]
    hidden = {
        id(inner)
        for node in nodes
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    some = (node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))
    return [node for node in some if id(node) not in hidden]


def imports(
    name: str, file: Path, known: dict[str, Path], only: set[int] | None = None
) -> Iterator[str]:
    """Modules of the package that a module imports, not only for type checkers; by ``only`` the
    statements with these ids."""
    folder = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
    for node in imported(file):
        if only is not None and id(node) not in only:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("evidence."):
                    yield alias.name.removeprefix("evidence.")
        elif isinstance(node, ast.ImportFrom):
            source = (node.module or "").split(".") if node.module else []
            if node.level:
                source = folder[: len(folder) - node.level + 1] + source
            elif source[0] == "evidence":
                source = source[1:]
            else:
                continue
            for alias in node.names:
                full = ".".join([*source, alias.name])
                yield full if full in known else ".".join(source)


def room(module: str) -> str:
    return module.partition(".")[0]


def arrows(package: Path) -> dict[str, set[str]]:
    """Room -> the rooms it imports from."""
    known = modules(package)
    found: dict[str, set[str]] = {room(name): set() for name in known if name}
    for name, file in known.items():
        if name:
            targets = {room(target) for target in imports(name, file, known) if target}
            found[room(name)] |= targets - {room(name)}
    return found


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Sets of rooms that reach each other."""
    reach = {a: set(b) for a, b in graph.items()}
    for middle in graph:
        for a in graph:
            if middle in reach[a]:
                reach[a] |= reach[middle]
    sets = {frozenset(b for b in reach[a] if a in reach[b]) for a in graph if a in reach[a]}
    return [set(s) for s in sets]


def depths(graph: dict[str, set[str]]) -> dict[str, int]:
    """The number of rooms on the longest chain down from each, its circle counted in full."""
    own = {a: {a} for a in graph} | {a: c for c in circles(graph) for a in c}
    known: dict[str, int] = {}

    def depth(a: str) -> int:
        if a not in known:
            below = {b for member in own[a] for b in graph[member]} - own[a]
            value = len(own[a]) + max(map(depth, below), default=0)
            known.update(dict.fromkeys(own[a], value))
        return known[a]

    for a in graph:
        depth(a)
    return known


def lines(file: Path) -> int:
    """Lines of code: neither blank, nor comment, nor docstring."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    quoted: set[int] = set()
    for node in parsed(file)[1]:
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            quoted.update(range(first.lineno, (first.end_lineno or 0) + 1))
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("#") and number not in quoted
        for number, line in enumerate(file.read_text().splitlines(), 1)
    )


def code_lines(node: ast.AST, text: list[str]) -> int:
    """Lines of code of a function, its docstring apart."""
    first, last = node.lineno, node.end_lineno or node.lineno  # type: ignore[attr-defined]
    documented = ast.get_docstring(node, clean=False) is not None  # type: ignore[arg-type]
    doc = node.body[0] if documented else None  # type: ignore[attr-defined]
    skipped = range(doc.lineno, (doc.end_lineno or 0) + 1) if doc else range(0)
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("#")
        for number, line in enumerate(text[first - 1 : last], first)
        if number not in skipped
    )


def long_functions(package: Path) -> list[str]:
    """Those above 60 lines of code."""
    found = []
    for name, file in modules(package).items():
        text = file.read_text().splitlines()
        for node in parsed(file)[1]:
            if isinstance(node, ast.FunctionDef) and code_lines(node, text) > _LONG:
                found.append(f"{name}.{node.name}")
    return found


def numbers(file: Path) -> int:
    """Names that a module gives to numbers, and to tuples, lists and tables of some."""
    found = 0
    for statement in parsed(file)[0].body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            kinds = {
                type(n.value) for n in ast.walk(statement.value) if isinstance(n, ast.Constant)
            }
            first = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            names = len(first.elts) if isinstance(first, ast.Tuple) else 1
            found += names if kinds & {int, float} else 0
    return found


def fields(file: Path) -> int:
    """Annotated fields of the first class of a file."""
    first = next(n for n in ast.parse(file.read_text()).body if isinstance(n, ast.ClassDef))
    return sum(isinstance(node, ast.AnnAssign) for node in first.body)


def loops(package: Path) -> int:
    """Circles of files, by what they import at their tops."""
    known = modules(package)
    graph: dict[str, set[str]] = {}
    for name, file in known.items():
        tops = {id(node) for node in parsed(file)[0].body}
        graph[name] = set(imports(name, file, known, tops)) & set(known) - {name, ""}
    return len(circles(graph))


def count(package: Path) -> dict[str, int]:
    graph = arrows(package)
    texts = [file.read_text() for file in modules(package).values()]
    return {
        "children": sum(not p.name.startswith(("__pycache__", ".")) for p in package.iterdir()),
        "chain": max(depths(graph).values()),
        "circles": len(circles(graph)),
        "arrows": sum(map(len, graph.values())),
        "lines": sum(map(lines, modules(package).values())),
        "loops": loops(package),
        "long": len(long_functions(package)),
        "numbers": sum(map(numbers, modules(package).values())),
        "any": sum(text.count(": Any") for text in texts),
        "kinds": sum(text.count("isinstance(model") for text in texts),
        "search": sum(
            lines(file) for name, file in modules(package).items() if name.startswith(SEARCH)
        ),
        "fields": fields(package / "approximations" / "density" / "policy.py"),
    }


# -- what a call says -----------------------------------------------------------------------------


def functions(package: Path) -> Iterator[tuple[str, str, range, bool]]:
    """File, qualified name, lines and whether it is compiled, of every function not nested."""
    for file in modules(package).values():
        tree = ast.parse(file.read_text())
        by_call = {
            argument.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in COMPILERS
            for argument in node.args
            if isinstance(argument, ast.Name)
        }
        for outer in tree.body:
            inside = outer.body if isinstance(outer, ast.ClassDef) else [outer]
            for node in inside:
                if isinstance(node, ast.FunctionDef):
                    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                    span = range(first, (node.end_lineno or first) + 1)
                    marks = {getattr(d, "id", "") for d in node.decorator_list}
                    prefix = f"{outer.name}." if isinstance(outer, ast.ClassDef) else ""
                    compiled = bool(marks & COMPILERS) or node.name in by_call
                    yield str(file), prefix + node.name, span, compiled


class Way:
    """What :func:`sys.setprofile` tells, condensed."""

    def __init__(self, package: Path, entrance: str) -> None:
        self.package = package
        self.depths = depths(arrows(package))
        self.entrance = entrance
        self.at: dict[tuple[str, int], tuple[str, str, bool]] = {}
        for file, name, span, compiled in functions(package):
            where = room(".".join(Path(file).relative_to(package).with_suffix("").parts))
            for line in span:
                self.at[file, line] = (where, f"{file}:{name}", compiled)
        self.stack: list[tuple[str, str, bool]] = []
        self.on_way: set[str] = set()
        self.everything: set[str] = set()
        self.callbacks: set[tuple[str, str]] = set()
        self.stays = self.climbs = self.depth = 0
        self.last = ""
        self.open = True

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        if event not in ("call", "return"):
            return
        key = (frame.f_code.co_filename, frame.f_code.co_firstlineno)
        entry = self.at.get(key)
        if entry is None:
            return
        if event == "return":
            if self.stack and self.stack[-1] == entry:
                self.stack.pop()
                if self.stack:
                    self._stay(self.stack[-1][0])
            return
        if not self.stack and not entry[1].endswith(f":{self.entrance}"):
            return
        if any(open_one[2] for open_one in self.stack):
            self.stack.append(entry)
            return
        where, name, compiled = entry
        if compiled:
            if self.open:
                self.open, self.depth = False, len({one[1] for one in self.stack})
        else:
            if self.stack:
                above, caller, _ = self.stack[-1]
                if self.depths[where] > self.depths[above]:
                    self.callbacks.add((caller, name))
            self.everything.add(name)
            if self.open:
                self.on_way.add(name)
            self._stay(where)
        self.stack.append(entry)

    def _stay(self, where: str) -> None:
        if self.open and where != self.last:
            self.stays += 1
            self.climbs += bool(self.last) and self.depths[where] > self.depths[self.last]
            self.last = where

    def table(self) -> dict[str, int]:
        return {
            "functions": len(self.on_way),
            "depth": self.depth,
            "stays": self.stays,
            "climbs": self.climbs,
            "callbacks": len(self.callbacks),
            "all": len(self.everything),
        }


def trace(package: Path, name: str, verbose: bool) -> dict[str, int]:
    """The way of one call, in a process of its own that imports this package."""
    command = [sys.executable, __file__, "--inside", name, *["--verbose"] * verbose]
    made = subprocess.run(
        command, capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": str(package.parent), "NUMBA_DISABLE_JIT": "1"},
    )  # fmt: skip
    if made.returncode:
        raise SystemExit(f"{name}: {made.stderr[-2000:]}")
    *text, last = made.stdout.splitlines()
    print("\n".join(text), end="\n" * bool(text))
    return json.loads(last)


def trace_here(name: str, verbose: bool) -> None:
    import evidence

    prepare, call = CALLS[name]
    space: dict[str, Any] = {}
    exec(SETUP + prepare, space)
    eval(call, space)
    way = Way(Path(evidence.__file__).parent, call.partition("(")[0].removeprefix("ev."))
    sys.setprofile(way)
    eval(call, space)
    sys.setprofile(None)
    if verbose:
        for kind, names in (("on the way", way.on_way), ("in all", way.everything)):
            print(f"{kind}:", *sorted(n.removeprefix(str(way.package)) for n in names), sep="\n  ")
        for caller, callee in sorted(way.callbacks):
            print("  callback", *(n.removeprefix(str(way.package)) for n in (caller, callee)))
    print(json.dumps(way.table()))


def show(rows: dict[str, dict[str, Any]]) -> None:
    columns = list(next(iter(rows.values())))
    print(f"{'':<12}" + "".join(f"{c:>9}" for c in columns))
    for label, row in rows.items():
        print(f"{label:<12}" + "".join(f"{row.get(c, ''):>9}" for c in columns))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--package", type=Path, default=HERE, help="the folder evidence/")
    parser.add_argument("--old", type=Path, help="another such folder to compare with")
    parser.add_argument("--trace", nargs="*", choices=CALLS, help="the ways of calls")
    parser.add_argument("--verbose", action="store_true", help="name functions, arrows, circles")
    parser.add_argument("--inside", choices=CALLS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        trace_here(options.inside, options.verbose)
        return 0
    trees = {"now": options.package} | ({"old": options.old} if options.old else {})
    if options.trace is not None:
        show({
            f"{name}, {label}": trace(tree.resolve(), name, options.verbose)
            for name in options.trace or CALLS
            for label, tree in trees.items()
        })  # fmt: skip
        return 0
    if options.verbose:
        graph = arrows(options.package)
        for name, depth in sorted(depths(graph).items(), key=lambda item: (item[1], item[0])):
            print(f"{depth:3} {name:<16} -> {' '.join(sorted(graph[name]))}")
        print("circles:", circles(graph))
        print("long:", *long_functions(options.package))
    rows = {label: count(tree) for label, tree in trees.items()}
    show({"bar": BARS} | rows)
    return sum(rows["now"][name] > bar for name, bar in BARS.items())


if __name__ == "__main__":
    sys.exit(main())

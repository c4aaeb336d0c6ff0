from __future__ import annotations

import ast
import importlib
import pickle
import runpy
import shutil
import subprocess
import sys
import types
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest
from covering import seldom

from evidence.models.likelihoods import probit
from evidence.numerics import jit

compiled_only = pytest.mark.skipif(
    numba.config.DISABLE_JIT, reason="there is no cache without the compiler"
)
SOURCE = '''
STEP = {constant}


@jit
def low(x):
    """{doc}"""
    return x {sign} STEP


@jit
def high(x):
    return 2.0 * low(x)


@jit
def other(x):
    return x
'''


def functions(decorator=numba.njit, constant=1.0, doc="Doc.", sign="+", comment=""):
    known = {"jit": decorator}
    exec(
        compile(comment + SOURCE.format(constant=constant, doc=doc, sign=sign), "x", "exec"), known
    )
    return known


def prints(**changes):
    """Fingerprints of three functions in a module with these edits."""
    known = functions(**changes)
    return [
        jit.fingerprint(getattr(known[n], "py_func", known[n])) for n in ("low", "high", "other")
    ]


@pytest.mark.parametrize("change", [{"constant": 2.0}, {"sign": "-"}])
def test_an_edit_renews_a_function_and_its_callers_only(change):
    before, after = prints(), prints(**change)
    assert [a != b for a, b in zip(before, after, strict=True)] == [True, True, False]


@pytest.mark.parametrize("change", [{"doc": "Another."}, {"comment": "# a line\n\n"}])
def test_docstrings_and_comments_recompile_nothing(change):
    assert prints() == prints(**change)


# what f computes, before and after an edit
EDITS = {
    "a tuple's numbers": ("def f(): return 1, 23", "def f(): return 12, 3"),
    "a tuple's shape": ("A = (1, (2, 3))", "A = ((1, 2), 3)", "def f(): return A"),
    "a set": ("def f(x): return x in {1, 2}", "def f(x): return x in {1, 3}"),
    "the sign of zero": ("A = 0.0", "A = -0.0", "def f(): return A"),
    "a number of NumPy": ("A = np.int64(1)", "A = np.int64(2)", "def f(): return A"),
    "an array": ("A = np.ones(2)", "A = np.array([1.0, 2.0])", "def f(): return A[1]"),
    "an array's type": ("A = np.ones(2)", "A = np.ones(2, 'f4')", "def f(): return A[1]"),
    "a type": ("A = nb.float64", "A = nb.float32", "def f(x): return A(x)"),
    "a default": ("def f(x, y=1.0): return y", "def f(x, y=2.0): return y"),
    "a default by name": ("def f(x, *, y=1.0): return y", "def f(x, *, y=2.0): return y"),
    "the default of a callee": (
        "@jit\ndef g(x=1): return x", "@jit\ndef g(x=2): return x", "def f(): return g()"
    ),
    "the compiler's options": ("@jit\ndef f(x): return x", "@fast\ndef f(x): return x"),
    "those of a callee": (
        "@jit\ndef g(x): return x", "@fast\ndef g(x): return x", "def f(x): return g(x)"
    ),
    "the order of fields": (
        "P = namedtuple('P', 'a b')", "P = namedtuple('P', 'b a')", "def f(): return P(1, 2).a"
    ),
    "an enumeration": (
        "class E(Enum):\n    A = 1", "class E(Enum):\n    A = 2", "def f(): return E.A.value"
    ),
    "a closure": ("A = 1", "A = 2", "f = (lambda a: lambda x: a + x)(A)"),
    "a function in a tuple": (
        "A = (lambda x: x,)", "A = (lambda x: -x,)", "def f(x): return A[0](x)"
    ),
    "a function inside": (
        "def f():\n    def g(): return 1\n    return g()",
        "def f():\n    def g(): return 2\n    return g()",
    ),
    "a module's constant": ("other.A = 1", "other.A = 2", "def f(): return other.A"),
    "a module's function": (
        "other.g = lambda: 1", "other.g = lambda: 2", "def f(): return other.g()"
    ),
    "a package's module": (
        "other.inner.g = jit(lambda: 1)", "other.inner.g = jit(lambda: 2)",
        "def f(): return other.inner.g()",
    ),
    "what a callee calls in a module": (
        "other.A = 1", "other.A = 2", "@jit\ndef g(): return other.A\ndef f(): return g()"
    ),
    "an external function's signature": (
        "g = nb.types.ExternalFunction('g', nb.types.void(nb.types.intp))",
        "g = nb.types.ExternalFunction('g', nb.types.void(nb.types.int32))",
        "def f(x): return g(x)",
    ),
}  # fmt: skip


def compiled(source):
    """The fingerprint of f in a module of its own, beside another one."""
    other = types.ModuleType("other")
    other.inner = types.ModuleType("other.inner")
    head = "import numpy as np, numba as nb\nfrom enum import Enum\n"
    head += "from collections import namedtuple\njit, fast = nb.njit, nb.njit(fastmath=True)\n"
    known = {"other": other, "__name__": "mine"}
    exec(head + source, known)
    return jit.fingerprint(known["f"])


@pytest.mark.parametrize("edit", EDITS)
def test_whatever_compiled_code_has_taken_counts(edit):
    before, after, *rest = EDITS[edit]
    prints = [compiled("\n".join([source, *rest])) for source in (before, after, before)]
    assert prints[0] == prints[2]
    if edit not in ("the compiler's options", "those of a callee") or jit._INTERPRETED is False:
        assert prints[0] != prints[1]


def test_a_constant_changed_while_the_program_runs_counts():
    known = functions()
    before = jit.fingerprint(known["high"])
    known["STEP"] = 2.0
    assert jit.fingerprint(known["high"]) != before


def test_functions_that_call_themselves_and_each_other():
    source = "@jit\ndef g(n): return f(n - 1) + {} if n else 1\n"
    source += "def f(n): return g(n) + f(n - 1) if n else 1"
    assert compiled(source.format(1)) == compiled(source.format(1)) != compiled(source.format(2))


INNER = """
from typing import NamedTuple
import numpy as np
from evidence.numerics.jit import jit, kernel
from numba import carray

STEP, NUMBER, SHAPE = {0}, np.float32({0}), (1, int({0}))

class Pair(NamedTuple):
    {1}: float
    {2}: float

@jit
def low(x):
    return {0} * x

@jit
def shift(x, by={0}):
    return x + by

def plain(x):
    return x - {0}

@kernel
def cost(x, theta, n, stride, step, order, out):
    carray(out, (1,))[0] = {0} * carray(x, (1,))[0]
"""
OUTER = """
import sys
import numpy as np
import package
from evidence.numerics.jit import jit
from package import inner
from package.inner import Pair

@jit
def called(x): return inner.low(x)
@jit
def through_the_package(x): return package.inner.low(x)
@jit
def constants(x): return x + inner.STEP + inner.NUMBER + inner.SHAPE[1]
@jit
def default(x): return inner.shift(x)
@jit
def fields(pair): return pair.left - 10.0 * pair.right
@jit
def made(x): return Pair(x, 2.0 * x).left
@jit
def apply(function, x): return function(x)
@jit
def through_a_pointer(function, x):
    out = np.zeros(1)
    function(x.ctypes, x.ctypes, 1, 0, 0, 1, out.ctypes)
    return out[0]
def scaled(factor):
    @jit
    def by(x): return factor * x
    return by

print(called(3.0), through_the_package(3.0), constants(3.0), default(3.0), fields(Pair(1.0, 2.0)),
      made(3.0), apply(inner.low, 3.0), scaled(inner.STEP)(3.0))
"""


@pytest.fixture
def anew(tmp_path, monkeypatch, capsys):
    """What a program there prints that finds nothing in memory, but what others kept on disk."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)

    def run(file):
        for name in [n for n, m in sys.modules.items() if is_below(tmp_path, m)]:
            del sys.modules[name]
        importlib.invalidate_caches()
        runpy.run_path(str(file), run_name=file.stem)
        return capsys.readouterr().out

    return run


def is_below(folder, module):
    return str(getattr(module, "__file__", None)).startswith(str(folder))


@compiled_only
def test_what_other_sources_compiled_is_not_served(tmp_path, anew):
    """An edit in another file leaves nothing stale in the disk cache, whatever way it is used."""
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (tmp_path / "outer.py").write_text(OUTER)

    def run(factor, first, second):
        (folder / "inner.py").write_text(INNER.format(factor, first, second))
        return anew(tmp_path / "outer.py")

    before = "6.0 6.0 9.0 5.0 -19.0 3.0 6.0 6.0\n"
    assert run(2.0, "left", "right") == before
    assert run(5.0, "right", "left") == "15.0 15.0 18.0 8.0 -8.0 6.0 15.0 15.0\n"
    assert run(2.0, "left", "right") == before


@pytest.mark.slow
@compiled_only
def test_specialisations_by_closure_are_compiled_once(tmp_path):
    """Functions made by one factory, or by one around another: a file each, and the next process
    compiles none of them."""
    (tmp_path / "factory.py").write_text(
        "from evidence.numerics.jit import jit\n"
        "@jit\ndef plus(x):\n    return x + 1.0\n"
        "@jit\ndef times(x):\n    return x * 2.0\n"
        "def twice(f):\n"
        "    @jit\n    def both(x):\n        return f(f(x))\n"
        "    return both\n"
        "def often(f):\n"
        "    @jit\n    def inner(x):\n        return f(f(f(x)))\n"
        "    return twice(inner)\n"
        "made = twice(plus), twice(times), often(plus), often(times)\n"
    )
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    program += "from factory import made\n"
    program += "print([f(3.0) for f in made], [sum(f.stats.cache_hits.values()) for f in made])"
    for hits in ("[0, 0, 0, 0]", "[1, 1, 1, 1]"):
        run = subprocess.run(
            [sys.executable, "-B", "-c", program], capture_output=True, text=True, check=True
        )
        assert run.stdout.strip() == f"[5.0, 12.0, 9.0, 192.0] {hits}"


@compiled_only
def test_fields_of_named_tuples_count():
    """The order of fields is part of compiled code, but not of the code of its functions."""

    class A(NamedTuple):
        first: float
        second: float

    class B(NamedTuple):
        second: float
        first: float

    kinds = [numba.typeof((np.zeros(1), kind(1.0, 2.0))) for kind in (A, B)]
    assert jit._fields(kinds[0]) != jit._fields(kinds[1])


@compiled_only
def test_docstrings_and_comments_move_no_file(tmp_path):
    kept = functions_of_a_file(tmp_path)
    kept["high"](1.0)
    again = functions_of_a_file(tmp_path, doc="Another.", comment="# one line\n# and another\n")
    assert again["high"](1.0) == 4.0
    assert sum(again["high"].stats.cache_hits.values()) == 1


@compiled_only
def test_processes_that_compile_together_are_not_given_the_code_of_each_other(tmp_path):
    """One reads the index, then the other, which writes last."""
    one, two = (jit._Stamped(str(tmp_path), "f", functions()["high"]) for _ in range(2))
    late, load, write = [], one._load_index, two._save_data

    def meanwhile():
        known, one._load_index = load(), load
        two.save("float", "code for floats")
        return known

    one._load_index = meanwhile
    two._save_data = lambda *named: late.append(named)
    one.save("int", "code for integers")
    for named in late:
        write(*named)
    assert one.load("int") in (None, "code for integers")
    assert two.load("float") in (None, "code for floats")


@compiled_only
def test_files_of_code_do_not_pile_up(tmp_path):
    known = functions()
    file = jit._Stamped(str(tmp_path), "f", known["high"])
    for step in range(5):
        known["STEP"] = float(step)
        for key in "ab":
            file.save(key, step)
    assert len(list(tmp_path.glob("*.nbc"))) == 2
    assert file.load("a") == 4


@compiled_only
@pytest.mark.parametrize("what", ["nbi", "nbc"])
@pytest.mark.parametrize("how", ["empty", "half", "of another version"])
def test_a_damaged_cache_is_compiled_anew(tmp_path, monkeypatch, what, how):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "kept"))
    functions_of_a_file(tmp_path)["high"](1.0)
    files = list((tmp_path / "kept").rglob(f"*.{what}"))
    assert files
    for file in files:
        content = file.read_bytes()
        missing = pickle.dumps(Gone()).replace(b"Gone", b"Lost")
        new = {"empty": b"", "half": content[: len(content) // 2]}
        head = pickle.dumps(numba.__version__) if what == "nbi" else b""
        file.write_bytes(new.get(how, head + missing))
    again = functions_of_a_file(tmp_path)
    assert again["high"](1.0) == 4.0
    assert sum(functions_of_a_file(tmp_path)["high"].stats.cache_hits.values()) == 0
    again = functions_of_a_file(tmp_path)
    again["high"](1.0)
    assert sum(again["high"].stats.cache_hits.values()) == 1


class Gone(NamedTuple):
    """A class that the next version no longer has."""

    value: float = 1.0


PROGRAM = """
import warnings
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    import numpy as np
    import evidence as ev
    fit = ev.fit_ep(ev.GPModel(K=np.eye(2), y=[1, -1]))
print(round(fit.logz, 6), *[str(w.message) for w in told if "NUMBA_CACHE_DIR" in str(w.message)],
      sep="\\n")
"""


SMALL_PROGRAM = """
import warnings
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    import numpy as np
    from evidence.numerics.special import log_ndtr_derivatives, log_ndtr_slopes
    z, value, slope = np.zeros((3, 1))
    log_ndtr_slopes(z, value, slope)
print(round(value[0] + log_ndtr_derivatives(0.0, 1)[0], 6),
      *[str(w.message) for w in told if "NUMBA_CACHE_DIR" in str(w.message)], sep="\\n")
"""


@pytest.mark.slow
@compiled_only
@pytest.mark.parametrize(
    ("where", "program"), seldom([("no folder", PROGRAM), ("a full disk", SMALL_PROGRAM)], 0)
)
def test_where_no_code_can_be_kept_all_works_and_the_user_is_told_once(tmp_path, where, program):
    """A copy of the package whose folders cannot be written, and a home that is none."""
    package, home = tmp_path / "evidence", tmp_path / "home"
    copied = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(jit.__file__).parents[1], package, ignore=copied)
    for folder in [package, *package.rglob("*/")]:
        (folder / "__pycache__").write_text("a file, no folder")
    home.write_text("a file")
    words = {"HOME": home, "XDG_CACHE_HOME": home, "PYTHONPATH": tmp_path, "PATH": "/usr/bin"}
    if where == "a full disk":
        words["NUMBA_CACHE_DIR"] = tmp_path / "disk"
        words["NUMBA_CACHE_DIR"].mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(tmp_path / "disk")]
        if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
            pytest.skip("no disk can be mounted here")
    try:
        run = subprocess.run(
            [sys.executable, "-B", "-c", program],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={name: str(value) for name, value in words.items()},
        )
    finally:
        if where == "a full disk":
            subprocess.run(["umount", str(tmp_path / "disk")], check=True)
    assert run.returncode == 0, run.stderr
    answer, *warned = run.stdout.splitlines()
    assert answer == "-1.386294"
    assert len(warned) == 1


def functions_of_a_file(folder, doc="Doc.", comment="", sign="+"):
    path = folder / "kept.py"
    path.write_text(comment + SOURCE.format(constant=1.0, doc=doc, sign=sign))
    known = {"jit": jit.jit, "__file__": str(path), "__name__": "kept"}
    exec(compile(path.read_text(), str(path), "exec"), known)
    return known


@compiled_only
def test_what_is_called_is_compiled_with_its_caller_only(tmp_path):
    known = functions_of_a_file(tmp_path)
    low, high = known["low"], known["high"]
    assert high(3.0) == 8.0
    assert (len(low.signatures), len(low.part.signatures)) == (0, 1)
    assert low(3.0) == 4.0  # from Python after all
    assert len(low.signatures) == 1


@jit.jit
def _much(x):
    for k in range(1, 9):
        for term in (np.sin(x), np.cos(x), np.exp(-x * x), np.log1p(x * x), np.tanh(x)):
            x += term / (k + np.arctan(term) + np.cosh(x) + np.expm1(term))
    return x


@jit.jit
def _twice(x):
    return _much(x) - _much(2.0 * x)


@compiled_only
def test_a_function_shares_no_code_with_others_in_memory():
    """Of two copies optimised with their callers the process would use one, whichever is first."""
    again = jit.jit(_twice.py_func)
    again._cache = numba.core.caching.NullCache()
    again(1.0)
    functions = list(again.overloads[again.signatures[0]].library._final_module.functions)
    kept = [function.linkage.name for function in functions if not function.is_declaration]
    assert "internal" in kept
    assert set(kept) <= {"external", "internal"}


@compiled_only
def test_what_is_called_is_known_by_what_it_computes(tmp_path):
    def name(sign, folder):
        (tmp_path / folder).mkdir()
        known = functions_of_a_file(tmp_path / folder, sign=sign)
        known["high"](3.0)
        part = known["low"].part
        return part.overloads[part.signatures[0]].fndesc.mangled_name

    assert name("+", "one") == name("+", "another") != name("-", "third")


@compiled_only
def test_kernels_of_one_name_are_told_apart():
    """Were they numbered as they come, two from the disk cache might have the same number."""
    from evidence.models.likelihoods import registry

    families = ("probit", "logit", "poisson", "gamma", "student_t", "weibull", "gaussian")
    kernels = [registry.get(name).kernel for name in families]
    assert len({kernel.native_name for kernel in kernels if kernel.address}) == len(families)


@pytest.mark.slow
@compiled_only
def test_a_part_that_is_kept_serves_callers_in_other_files(tmp_path, anew):
    head = "from evidence.numerics.jit import jit\n"
    low = "@jit\ndef low(x):\n    return x + 1.0\n@jit\ndef high(x):\n    return 2.0 * low(x)\n"
    (tmp_path / "parts.py").write_text(head + low)
    use = "from parts import high\n@jit\ndef {0}(x):\n    return high(x) {1}\nprint({0}(3.0))\n"
    use += "print(sum(high.part._cache_hits.values()), sum(high.part._cache_misses.values()))\n"
    answers = []
    for name, end in (("one", "+ 1.0"), ("two", "- 1.0"), ("two", "- 1.0")):
        (tmp_path / f"{name}.py").write_text((head + use).format(name, end))
        answers.append(anew(tmp_path / f"{name}.py").split())
    assert answers == [["9.0", "0", "1"], ["7.0", "1", "0"], ["7.0", "0", "0"]]


@jit.light_jit
def _clipped(number, limit):
    return number if number < limit else 0


@jit.light_jit
def _sum_below(numbers, limit):
    total = 0
    for number in numbers:
        total += _clipped(number, limit)
    return total


@compiled_only
def test_little_work_is_interpreted_with_all_that_it_calls():
    few = np.arange(30)
    assert _sum_below(few, 20) == 190
    assert _sum_below.signatures == _clipped.signatures == []
    assert _sum_below(np.arange(9000), 20) == 190
    assert len(_sum_below.signatures) == 1
    assert _sum_below(few, 20) == 190


@compiled_only
def test_a_kernel_is_compiled_when_it_is_needed(tmp_path):
    kernel = jit.kernel(probit._kernel.__wrapped__)
    assert kernel._wrapper_address is None
    x, theta, out = np.zeros(1), np.ones(1), np.empty(4)
    jit.from_python(kernel)(x.ctypes, theta.ctypes, 1, 1, 1, 1, out.ctypes)
    np.testing.assert_allclose(out[0], np.log(0.5), rtol=1e-15)


@compiled_only
def test_all_likelihoods_have_one_kernel_type():
    from evidence.models.likelihoods import poisson

    assert numba.typeof(probit._kernel) == numba.typeof(poisson.Poisson.kernel)


def _innermost_loops(function):
    loops = [node for node in ast.walk(function) if isinstance(node, ast.For)]
    return [at for at in loops if not any(isinstance(n, ast.For) for n in list(ast.walk(at))[1:])]


def _sums_and_stores(loop):
    """Whether a loop adds to a number (or to one entry of an array) and writes to an array."""
    targets = [n.target for n in ast.walk(loop) if isinstance(n, ast.AugAssign)]
    written = [t for n in ast.walk(loop) if isinstance(n, ast.Assign) for t in n.targets]
    written = [t for target in written for t in getattr(target, "elts", [target])]
    stores = [t for t in targets + written if isinstance(t, ast.Subscript)]
    changing = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
    changing |= {t.id for t in written if isinstance(t, ast.Name)}
    at_one_entry = any(
        not changing & {n.id for n in ast.walk(t.slice) if isinstance(n, ast.Name)} for t in stores
    )
    return at_one_entry or (bool(stores) and any(isinstance(t, ast.Name) for t in targets))


def test_a_loop_whose_sum_may_be_reordered_stores_nothing():
    # the order would depend on addresses: see jit.reduction
    seen, wrong = 0, []
    sources = {file: file.read_text() for file in Path(jit.__file__).parents[1].rglob("*.py")}
    for file in [file for file, source in sources.items() if "@reduction" in source]:
        for function in ast.walk(ast.parse(sources[file])):
            decorators = getattr(function, "decorator_list", ())
            if any(isinstance(d, ast.Name) and d.id == "reduction" for d in decorators):
                seen += 1
                loops = [loop for loop in _innermost_loops(function) if _sums_and_stores(loop)]
                wrong += [f"{file}:{loop.lineno}" for loop in loops]
    assert seen > 10
    assert not wrong

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import NamedTuple

import numba
import numpy as np
import pytest

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


@compiled_only
def test_what_other_sources_compiled_is_not_served(tmp_path):
    """An edit in a called file must not leave a stale caller in the disk cache."""
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    program += "import outer; print(outer.high(3.0))"
    head = "from evidence.numerics.jit import jit\n"
    (tmp_path / "outer.py").write_text(
        head + "from inner import low\n@jit\ndef high(x):\n    return 2.0 * low(x)\n"
    )
    answers = []
    for factor in (1.0, 5.0, 1.0):
        (tmp_path / "inner.py").write_text(head + f"@jit\ndef low(x):\n    return {factor} * x\n")
        run = subprocess.run(
            [sys.executable, "-B", "-c", program], capture_output=True, text=True, check=True
        )
        answers.append(float(run.stdout))
    assert answers == [6.0, 30.0, 6.0]


@compiled_only
def test_specialisations_by_closure_are_compiled_once(tmp_path):
    """Two functions made by one factory: a file each, and the next process compiles neither."""
    (tmp_path / "factory.py").write_text(
        "from evidence.numerics.jit import jit\n"
        "@jit\ndef plus(x):\n    return x + 1.0\n"
        "@jit\ndef times(x):\n    return x * 2.0\n"
        "def twice(f):\n"
        "    @jit\n    def both(x):\n        return f(f(x))\n"
        "    return both\n"
        "made = twice(plus), twice(times)\n"
    )
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    program += "from factory import made\n"
    program += "print([f(3.0) for f in made], [sum(f.stats.cache_hits.values()) for f in made])"
    for hits in ("[0, 0]", "[1, 1]"):
        run = subprocess.run(
            [sys.executable, "-B", "-c", program], capture_output=True, text=True, check=True
        )
        assert run.stdout.strip() == f"[5.0, 12.0] {hits}"


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
def test_without_a_place_for_the_cache_code_is_compiled_and_the_user_told_once(monkeypatch):
    monkeypatch.setattr(jit._Cache, "_impl_class", staticmethod(_nowhere))
    jit._warn_uncached.cache_clear()
    with pytest.warns(RuntimeWarning, match="NUMBA_CACHE_DIR"):
        known = functions(jit.jit)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert known["high"](1.0) == 4.0
        functions(jit.jit)


def _nowhere(function):
    raise RuntimeError("no locator available")


@compiled_only
def test_a_full_disk_leaves_code_in_memory(monkeypatch, tmp_path):
    known = functions_of_a_file(tmp_path)

    def full(self, key, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(jit._Stamped, "save", full)
    jit._warn_uncached.cache_clear()
    with pytest.warns(RuntimeWarning, match="NUMBA_CACHE_DIR"):
        assert known["high"](1.0) == 4.0


def functions_of_a_file(folder):
    path = folder / "kept.py"
    path.write_text(SOURCE.format(constant=1.0, doc="Doc.", sign="+"))
    known = {"jit": jit.jit, "__file__": str(path)}
    exec(compile(path.read_text(), str(path), "exec"), known)
    return known


@compiled_only
def test_all_likelihoods_have_one_kernel_type():
    from evidence.models.likelihoods import poisson

    assert numba.typeof(probit._kernel) == numba.typeof(poisson._kernel)

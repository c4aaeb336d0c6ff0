from __future__ import annotations

import numba
import pytest

from evidence import _jit, _special
from evidence.likelihoods import probit


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="there is no cache without the compiler")
def test_cache_depends_on_every_source_of_the_package():
    """An edit in a called file must not leave a stale caller in the disk cache."""
    assert any(entry.startswith("quadrature.py ") for entry in _jit._STAMP)
    for compiled in (_special.log_ndtr_derivatives, _special.erfcx_into, probit._kernel):
        assert compiled._cache._cache_file._source_stamp == _jit._STAMP
        index = compiled._cache._cache_file
        index._source_stamp = ("other sources",)
        assert index._load_index() == {}  # what these sources compiled is not served to others
        index._source_stamp = _jit._STAMP


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="there is no cache without the compiler")
def test_all_likelihoods_have_one_kernel_type():
    from evidence.likelihoods import poisson

    assert numba.typeof(probit._kernel) == numba.typeof(poisson._kernel)

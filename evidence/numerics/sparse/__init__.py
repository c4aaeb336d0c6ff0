"""Sparse symmetric positive definite matrices: factorise, solve, invert on the pattern.

:func:`analyse` orders a pattern and does all that depends on the pattern only, once;
:class:`Factor` does the numbers, as often as they change.
"""

from .cholesky import Factor
from .symbolic import Analysis, analyse

__all__ = ["Analysis", "Factor", "analyse"]

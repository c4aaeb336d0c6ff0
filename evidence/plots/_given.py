"""What figures are given: results that hold what is drawn, and tables with its columns."""

from __future__ import annotations

from ..execution.arguments import array, shown
from ..execution.lazy import pd
from ..messages import InputError


def check_drawn(name: str, value: object, wanted: str, *attributes: str) -> None:
    """Something with the attributes that a figure draws.

    >>> check_drawn("loo", 3, "a LooResult", "pit")
    Traceback (most recent call last):
    evidence.InputError: loo must be a LooResult, got 3, which has no pit
    """
    for attribute in attributes:
        if isinstance(value, type) or not hasattr(value, attribute):
            raise InputError(
                f"{name} must be {wanted}, got {shown(value)}, which has no {attribute}"
            )


def check_table(
    name: str, value: pd.DataFrame, *numbers: str, words: tuple[str, ...] = ()
) -> None:
    """A DataFrame with rows, and columns of numbers and words."""
    wanted = f"a DataFrame with columns {', '.join((*words, *numbers))}"
    check_drawn(name, value, wanted, "columns", "groupby")
    if lost := [column for column in (*words, *numbers) if column not in value.columns]:
        raise InputError(f"{name} must be {wanted}; it lacks {', '.join(lost)}")
    for column in numbers:
        array(f"{name}[{column!r}]", value[column], ("rows",), finite=False)

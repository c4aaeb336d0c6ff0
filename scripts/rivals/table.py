"""Single runs become a table: bias, spread, time and what both together are worth."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

_WHO = ["problem", "rival", "variant", "base"]
_SAME = 1e-6  # nats: less is rounding
_YARDSTICK = ("evidence", "auto")


def summarise(
    raw: pd.DataFrame, truths: Mapping[tuple[str, str], tuple[float, float]]
) -> pd.DataFrame:
    """One row per problem and rival.

    ``truths`` gives log Z and its standard error for a problem and a likelihood. ``mse_seconds``
    is the mean square error times the seconds of a run: the mean square error that runs of one
    second in all would have, were there no bias. ``ratio`` divides it by that of this package's
    default on the same problem, and ``ratio_error`` is its relative standard error, from the
    numbers of runs alone.
    """
    rows = []
    for who, runs in raw.groupby(_WHO, sort=False, dropna=False):
        truth, truth_se = truths[who[0], runs.likelihood.iloc[0]]
        rows.append(dict(zip(_WHO, who, strict=True)) | _summary(runs, truth, truth_se))
    table = pd.DataFrame(rows)
    own_rows = (table.rival == _YARDSTICK[0]) & (table.variant == _YARDSTICK[1])
    own = table[own_rows]
    own = own.set_index("problem")
    table["ratio"] = table.mse_seconds / table.problem.map(own.mse_seconds)
    spread = 2.0 / table.repeats.where(table.repeats > 0) + 2.0 / table.problem.map(own.repeats)
    table["ratio_error"] = np.where(own_rows, 0.0, np.sqrt(spread))
    return table


def points(runs: pd.DataFrame, problem: str) -> pd.DataFrame:
    """Runs of one problem for :func:`evidence.plots.plot_efficiency`.

    Whoever has no point on this problem keeps an empty row, so that all panels have the same
    markers. What always says the same has no spread to draw and is left out, and so is what never
    came through.
    """
    found = []
    for who, own in runs.groupby(_WHO[1:], sort=False, dropna=False):
        named = label(pd.Series(dict(zip(_WHO[1:], who, strict=True))))
        good = own[own.failure == ""]
        if good.empty or good.groupby("problem").logz.agg(np.ptp).max() < _SAME:
            continue
        here = good[good.problem == problem]
        if here.empty:
            found.append(pd.DataFrame({"logz": [np.nan], "seconds": [np.nan], "method": named}))
        else:
            found.append(
                pd.DataFrame({"logz": here.logz, "seconds": _seconds(here), "method": named})
            )
    return pd.concat(found, ignore_index=True).assign(ladder="")


def _seconds(good: pd.DataFrame, first: bool = False) -> float:
    """Median seconds of a process's later runs, or of first ones; of all where there is no other.

    On one core the processor's.
    """
    column = "cpu_seconds" if (good.cores == 1).all() else "seconds"
    wanted = good["first"].astype(bool) == first
    return float((good[wanted] if wanted.any() else good)[column].median())


def _summary(runs: pd.DataFrame, truth: float, truth_se: float) -> dict[str, object]:
    good, bad = runs[runs.failure == ""], runs[runs.failure != ""]
    n = len(good)
    sd = float(good.logz.std(ddof=1)) if n > 1 else np.nan
    seconds = _seconds(good)
    compiling = _seconds(good, first=True) - seconds if n > 1 else np.nan
    error = good.logz - truth
    mse = np.nan  # what one run hits by chance says nothing
    if n > 1:  # a bias that the truth's own error may explain is held against nobody
        mse = float((error**2).mean() - min(error.mean() ** 2, truth_se**2))
    return {
        "version": next((v for v in runs.version if v), ""),
        "settings": runs.settings.iloc[0],
        "repeats": n,
        "mean": float(good.logz.mean()),
        "bias": float(error.mean()),
        "bias_se": float(np.hypot(sd / np.sqrt(n), truth_se)) if n > 1 else np.nan,
        "sd": sd,
        "stated_se": float(good.stated_se.astype(float).dropna().median()),
        "seconds": seconds,
        "compile_seconds": np.maximum(compiling, 0.0),
        "variance_seconds": sd**2 * seconds,
        "mse_seconds": mse * seconds,
        "failures": len(bad),
        "message": "; ".join(dict.fromkeys(bad.failure)),
    }


def markdown(table: pd.DataFrame) -> str:
    """For people: every problem's rivals, the best first."""
    parts = []
    for problem, rows in table.groupby("problem", sort=False):
        parts.append(
            f"### {problem}\n\n| | bias | sd | stated se | seconds | compiling | MSE × s | "
            "times auto's | runs |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|"
        )
        for _, row in rows.sort_values("mse_seconds", na_position="last").iterrows():
            parts.append(_line(row))
        parts.append("")
    return "\n".join(parts)


def _line(row: pd.Series) -> str:
    name = label(row)
    if not row.repeats:
        return f"| {name} | failed: {row.message} | | | | | | | |"
    bias = f"{row.bias:+.3f}" + (f" ± {row.bias_se:.3f}" if np.isfinite(row.bias_se) else "")
    cells = [name, bias, _number(row.sd, ".3f"), _number(row.stated_se, ".3f"),
             _number(row.seconds, ".2g"), _number(row.compile_seconds, ".2g"),
             _number(row.mse_seconds, ".1e"), _number(row.ratio, ".3g"),
             str(row.repeats)]  # fmt: skip
    if row.failures:
        cells[0] += f" ({row.failures} failed: {row.message})"
    return "| " + " | ".join(cells) + " |"


def label(row: pd.Series) -> str:
    """Rival and variant, with the Gaussian it starts from."""
    start = {"ep": ", from EP", "prior": ", from the prior"}.get(row.base, "")
    return f"{row.rival} {row.variant}{start}"


def _number(value: float, form: str) -> str:
    return format(value, form) if np.isfinite(value) else ""

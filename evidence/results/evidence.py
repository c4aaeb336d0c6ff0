"""What a run leaves behind: the answer, its error bar, and how it was found."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..execution import files
from ..messages import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

_FORMAT = "evidence-result"
_VERSION = 1


class Estimate(NamedTuple):
    """One way of estimating log Z."""

    method: str
    logz: float
    logz_se: float
    seconds: float


@dataclass(eq=False)
class EvidenceResult:
    """The log marginal likelihood of a model, with everything needed to judge it.

    Attributes
    ----------
    logz, logz_se : float
        log Z (a sum of natural logs, not divided by N) and its standard error; NaN where the
        method has none.
    samples : array (S, N)
        Equally weighted draws of the latent values from the posterior (empty where the method
        makes none).
    warnings : tuple of str
        What went wrong, in words; empty when nothing did.
    notes : tuple of str
        What was noticed about the data.
    settings, model : dict
        How the run was made, and of what.
    names : tuple of str
        Names of the columns of ``samples``, where they are parameters.

    Examples
    --------
    >>> import evidence as ev
    >>> model = ev.GPModel(K=[[2.0, 1.0], [1.0, 2.0]], y=[1, -1])
    >>> result = ev.log_evidence(model, method="smc", random_seed=0, progressbar=False)
    >>> list(result.estimates.index), bool(result.logz_se < 0.1)
    (['laplace', 'ep', 'ep_corrected', 'smc'], True)
    >>> list(result.trace.columns[:4])
    ['beta', 'logz', 'logz_se', 'ess']
    """

    method: str
    logz: float
    logz_se: float
    rows: tuple[Estimate, ...]
    trace_columns: dict[str, Array] = field(default_factory=dict)
    history_columns: dict[str, Array] = field(default_factory=dict)
    samples: Array = field(default_factory=lambda: np.zeros((0, 0)))
    correction_terms: Array = field(default_factory=lambda: np.zeros(0))
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] = ()

    @property
    def estimates(self) -> pd.DataFrame:
        """Every estimate of log Z: index ``method``, columns logz, logz_se, seconds.

        ``seconds`` is what it takes to get that number from nothing: the Monte Carlo row
        includes fitting its reference.
        """
        import pandas as pd

        return pd.DataFrame(list(self.rows)).set_index("method")

    @property
    def trace(self) -> pd.DataFrame:
        """One row per temperature: beta, logz so far, logz_se, ess, acceptance, step_size, …"""
        import pandas as pd

        return pd.DataFrame(self.trace_columns)

    @property
    def history(self) -> pd.DataFrame:
        """The estimate as time went by: seconds, n_islands, logz, logz_se."""
        import pandas as pd

        return pd.DataFrame(self.history_columns)

    def summary(self) -> str:
        """A page of text: the answer, the alternatives, and any warnings."""
        lines = [
            f"log Z = {self.logz:.4f}"
            + (f" ± {self.logz_se:.4f}" if math.isfinite(self.logz_se) else "")
            + f"   ({self.method})",
            "model: " + ", ".join(f"{k} {v}" for k, v in self.model.items()),
            "",
            self._told(),
        ]
        if self.correction_terms.size:
            terms = "  ".join(
                f"l={l} {t:+.2g}" for l, t in enumerate(self.correction_terms, start=3)
            )
            lines += ["", f"second-order correction to EP by order: {terms}"]
        lines += [f"note: {note}" for note in self.notes]
        lines += [f"WARNING: {warning}" for warning in self.warnings]
        return "\n".join(lines)

    def _told(self) -> str:
        """The estimates as aligned text."""
        lines = [f"{'':<14}{'log Z':>12}{'± se':>10}{'seconds':>10}"]
        for row in self.rows:
            se = f"{row.logz_se:.4f}" if math.isfinite(row.logz_se) else "-"
            lines.append(f"{row.method:<14}{row.logz:>12.4f}{se:>10}{row.seconds:>10.2f}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        flag = f", {len(self.warnings)} warning(s)" if self.warnings else ""
        return f"EvidenceResult(logz={self.logz:.4f} ± {self.logz_se:.4f}, {self.method}{flag})"

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """log Z along β, and log Z against time beside EP and corrected EP.

        Returns the Matplotlib figure; with ``path`` it is also saved there.
        """
        from ..plots import plot_result

        figure = plot_result(self)
        if path is not None:
            figure.savefig(path, dpi=150)
        return figure

    def to_arviz(self) -> Any:
        """Posterior draws as ArviZ InferenceData (0.x) or DataTree (1.x)."""
        if not self.samples.size:
            raise InputError(f"method {self.method!r} leaves no posterior draws to export")
        return files.to_arviz(posterior=files.by_name(self.samples[None], self.names))

    # -- files ------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one ``.npz`` file (arrays and JSON, no pickles), atomically."""
        meta = {
            "method": self.method,
            "logz": self.logz,
            "logz_se": self.logz_se,
            "rows": [list(row) for row in self.rows],
            "warnings": list(self.warnings),
            "notes": list(self.notes),
            "settings": self.settings,
            "model": self.model,
            "names": list(self.names),
        }
        arrays = {f"trace/{k}": v for k, v in self.trace_columns.items()}
        arrays |= {f"history/{k}": v for k, v in self.history_columns.items()}
        arrays |= {"samples": self.samples, "correction_terms": self.correction_terms}
        files.write(path, _FORMAT, _VERSION, meta, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> EvidenceResult:
        """Read what :meth:`save` wrote; any other file is refused with a clear message."""
        meta, arrays = files.read(path, _FORMAT, _VERSION)

        def group(prefix: str) -> dict[str, Array]:
            return {k[len(prefix) :]: v for k, v in arrays.items() if k.startswith(prefix)}

        return cls(
            meta["method"],
            meta["logz"],
            meta["logz_se"],
            tuple(Estimate(*row) for row in meta["rows"]),
            group("trace/"),
            group("history/"),
            arrays["samples"],
            arrays["correction_terms"],
            tuple(meta["warnings"]),
            tuple(meta["notes"]),
            meta["settings"],
            meta["model"],
            tuple(meta.get("names", ())),
        )

"""One line in a terminal or notebook: where a run is and what it knows so far."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from tqdm.auto import tqdm

from ..diagnostics import LogMean
from .islands import Islands


class Progress:
    """A tqdm line; nothing at all when not ``shown``."""

    def __init__(self, shown: bool) -> None:
        disable = None if shown else True  # None: shown in terminals and notebooks, not in files
        self._bar: Any = tqdm(unit="isl", leave=False, disable=disable, dynamic_ncols=True)
        self._prefix = ""

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.close()

    def phase(self, name: str, unit: str = "isl") -> None:
        """A new phase begins."""
        self._bar.unit = unit
        self._bar.set_description(name)

    def climbing(self, beta: float, ess: float, acceptance: float, n: int = 1) -> None:
        """A pilot has reached a temperature."""
        self._bar.set_postfix_str(f"β {beta:.3g}, ESS {ess:.2f}, acc {acceptance:.2f}")
        self._bar.update(n)

    def expect(self, total: int) -> None:
        """How many islands there will be, as far as is known."""
        if self._bar.total != total:
            self._bar.reset(total)
            self.phase("islands")
        self._bar.refresh()

    def islands(self, islands: Islands, estimate: LogMean, target_se: float | None) -> None:
        """Islands were finished."""
        self.running(
            estimate.value,
            estimate.se,
            target_se,
            f"ESS {islands.ess.mean():.2f}, acc {islands.acceptance.mean():.2f}",
            islands.log_z.shape[1],
        )

    def running(
        self, logz: float, se: float, target_se: float | None, details: str, n: int
    ) -> None:
        """The estimate so far, after ``n`` more units of work."""
        goal = f" (target {target_se:g})" if target_se else ""
        self._bar.set_postfix_str(f"log Z {logz:.3f} ± {se:.3f}{goal}, {details}")
        self._bar.update(n)

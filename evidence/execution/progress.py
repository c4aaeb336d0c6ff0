"""One line in a terminal or notebook: where a run is and what it knows so far."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tqdm.auto import tqdm


def progress_line(shown: bool, things: Iterable[Any] | None = None, **words: Any) -> Any:
    """A tqdm line in terminals and notebooks, not in files; nothing at all when not ``shown``."""
    return tqdm(things, leave=False, disable=None if shown else True, **words)


class Progress:
    """A line that tells of phases, temperatures, islands; nothing at all when not ``shown``."""

    def __init__(self, shown: bool) -> None:
        self._bar = progress_line(shown, unit="isl", dynamic_ncols=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *reason: object) -> None:
        self._bar.close()

    def phase(self, name: str, unit: str = "isl") -> None:
        """A new phase begins."""
        self._bar.reset()
        self._bar.total, self._bar.unit = None, unit
        self._bar.set_postfix_str("", refresh=False)
        self._bar.set_description_str(name)

    def climbing(self, beta: float, ess: float, acceptance: float, n: int = 1) -> None:
        """A pilot has reached a temperature."""
        self._bar.set_postfix_str(f"β {beta:.3g}, ESS {ess:.2f}, acc {acceptance:.2f}")
        self._bar.update(n)

    def tuning(self, levels: int, sweeps: int) -> None:
        """A round of tuning is over."""
        self._bar.set_postfix_str(f"{levels} levels, {sweeps} sweeps")
        self._bar.update(1)

    def expect(self, total: int, done: int = 0) -> None:
        """How many islands there will be, as far as is known, and how many there are."""
        if self._bar.total is None:
            self.phase("islands")
        self._bar.total, self._bar.n = total, done
        self._bar.refresh()

    def running(
        self, logz: float, se: float, target_se: float | None, details: str, n: int
    ) -> None:
        """The estimate so far, after ``n`` more units of work."""
        goal = f" (target {target_se:g})" if target_se else ""
        self._bar.set_postfix_str(f"log Z {logz:.3f} ± {se:.3f}{goal}, {details}")
        self._bar.update(n)

    def advance(self, n: int) -> None:
        """``n`` more units of work."""
        self._bar.update(n)

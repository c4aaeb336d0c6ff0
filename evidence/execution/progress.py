"""One line in a terminal or notebook: where a run is and what it knows so far."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import TypeAlias

from numba.core import event
from tqdm.auto import tqdm

from .arguments import check_flag
from .options import chosen

Bar: TypeAlias = tqdm
_TICK, _LONG = 1.0, 3.0  # seconds between refreshes, and of a run that leaves its last line


def progress_line(shown: bool, things: Iterable[object] | None = None, **words: object) -> Bar:
    """A tqdm line in terminals and notebooks, not in files; nothing at all when not ``shown``.

    Its clock goes on where nothing is done for long.
    """
    check_flag("progressbar", shown)
    off = None if shown and chosen("progressbar") else True
    line = tqdm(things, leave=False, disable=off, **words)
    if not line.disable:
        Thread(target=_tick, args=(line,), daemon=True).start()
    return line


def _tick(line: Bar) -> None:
    while not line.disable:  # as closed ones are
        time.sleep(_TICK)
        with line.get_lock():
            if not line.disable:
                line.refresh(nolock=True)


class _Compiling(event.Listener):
    """A line from the first function that is compiled on, which counts them."""

    line: Bar | None = None

    def on_start(self, event: event.Event) -> None:
        if self.line is None:
            self.line = progress_line(True, desc="compiling (first run only)", unit=" functions")

    def on_end(self, event: event.Event) -> None:
        assert self.line is not None
        self.line.update()


@contextmanager
def compiling(shown: bool) -> Iterator[None]:
    """Says so where functions are compiled, which takes seconds and happens once."""
    check_flag("progressbar", shown)
    listener = _Compiling()
    if not (shown and chosen("progressbar")):
        yield
        return
    try:
        with event.install_listener("numba:compile", listener):
            yield
    finally:
        if listener.line is not None:
            listener.line.close()


class Progress:
    """A line that tells of phases, temperatures, islands; nothing at all when not ``shown``.

    That of a long run stays as its last line.
    """

    def __init__(self, shown: bool) -> None:
        self._bar = progress_line(shown, desc="fit", unit="isl", dynamic_ncols=True)
        self._began = time.time()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *reason: object) -> None:
        if not self._bar.disable and time.time() - self._began > _LONG:
            self._bar.leave, self._bar.start_t = True, self._began
            self._bar.set_description_str(f"done: {self._bar.desc.removesuffix(': ')}")
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

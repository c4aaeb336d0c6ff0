"""Several runs of :func:`evidence.log_evidence`, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from ..execution.clock import Clock, interruptible
from ..execution.progress import progress_line
from ..messages import InputError
from ..results.evidence import EvidenceResult
from .estimate import log_evidence


def run_each(
    runs: Sequence[tuple[str, Mapping[str, Any]]], unit: str, progressbar: bool
) -> list[EvidenceResult]:
    """The results of runs, each a label and its keywords; ^C leaves those finished by then."""
    if any("checkpoint" in words for _, words in runs):
        raise InputError("checkpoint= is for one run: call ev.log_evidence for each of them")
    finished: list[EvidenceResult] = []
    bar = progress_line(progressbar, runs, unit=unit)
    with interruptible(Clock()), suppress(KeyboardInterrupt), bar:
        for label, words in bar:
            bar.set_description(label)
            result = log_evidence(**words, progressbar=False)
            if result.settings.get("interrupted"):
                break
            finished.append(result)
    return finished

"""Several runs of :func:`evidence.log_evidence`, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ..execution.clock import Clock, interruptible
from ..execution.job import Job
from ..execution.progress import progress_line
from ..execution.tasks import run_tasks
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


def run_all(
    runs: Mapping[str, Mapping[str, Any]], progressbar: bool, executor: Executor | None
) -> dict[str, EvidenceResult]:
    """The same by name, whole runs side by side where there is an executor."""
    if executor is None:
        every = run_each(list(runs.items()), "model", progressbar)
        return dict(zip(runs, every, strict=False))
    names, found = list(runs), dict[str, EvidenceResult]()
    tasks = [{**words, "model": words["model"].bare()} for words in runs.values()]
    with progress_line(progressbar, total=len(runs), unit="model") as bar:

        def done(i: int, result: EvidenceResult) -> None:
            model = runs[names[i]]["model"]  # what travelled was bare
            found[names[i]] = replace(result, model=model.describe())
            bar.update()

        run_tasks(Job(_alone, ()), tasks, Clock(), done, executor)
    return {name: found[name] for name in names if name in found}


def _alone(stop: Callable[[], bool], **words: Any) -> EvidenceResult:
    """One of several runs."""
    return log_evidence(**words, progressbar=False)

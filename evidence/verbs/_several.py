"""Several runs of :func:`evidence.log_evidence`, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ..execution.clock import Clock, interruptible
from ..execution.job import Job
from ..execution.progress import compiling, progress_line
from ..execution.tasks import run_tasks
from ..messages import InputError
from ..results.evidence import EvidenceResult
from .estimate import log_evidence


def run_each(
    runs: Sequence[tuple[str, Mapping[str, Any]]], unit: str, progressbar: bool
) -> list[EvidenceResult]:
    """The results of runs, each a label and its keywords; ^C leaves those finished by then."""
    _check_files(words for _, words in runs)
    finished: list[EvidenceResult] = []
    bar = progress_line(progressbar, runs, unit=unit)
    with interruptible(Clock()), suppress(KeyboardInterrupt), bar, compiling(progressbar):
        for label, words in bar:
            bar.set_description(label)
            result = log_evidence(**words, progressbar=False)
            if result.settings.get("interrupted"):
                break
            finished.append(result)
    return finished


def run_all(
    models: Mapping[str, Any], words: Sequence[Mapping[str, Any]], progressbar: bool,
    executor: Executor | None,
) -> dict[str, EvidenceResult]:  # fmt: skip
    """The results of runs of small models, whole runs side by side, by the models' names."""
    _check_files(words)
    names, found = list(models), dict[str, EvidenceResult]()
    tasks = [{"model": m.bare(), **own} for m, own in zip(models.values(), words, strict=True)]
    with progress_line(progressbar, total=len(names), unit="model") as bar:

        def done(i: int, result: EvidenceResult) -> None:
            if not result.settings.get("interrupted"):  # what travelled was bare
                found[names[i]] = replace(result, model=models[names[i]].describe())
            bar.update()

        run_tasks(Job(_alone, ()), tasks, Clock(), done, executor)
    return {name: found[name] for name in names if name in found}


def _alone(stop: Callable[[], bool], **words: Any) -> EvidenceResult:
    """One of several runs."""
    return log_evidence(**words, progressbar=False)


def _check_files(every: Iterable[Mapping[str, Any]]) -> None:
    if any("checkpoint" in words for words in every):
        raise InputError("checkpoint= is for one run: call ev.log_evidence for each of them")

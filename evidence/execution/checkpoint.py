"""How to save and resume: what a run has computed, on disk, so that it can go on from there.

>>> import tempfile
>>> from pathlib import Path
>>> import evidence as ev
>>> folder = tempfile.TemporaryDirectory()
>>> file = Path(folder.name) / "run.ckpt"
>>> model = ev.GPModel(K=[[2.0, 1.0], [1.0, 2.0]], y=[1, -1])
>>> words = {"method": "smc", "n_particles": 100, "random_seed": 0, "progressbar": False}
>>> stopped = ev.log_evidence(model, n_islands=4, checkpoint=file, **words)

The same call goes on from the file, after a crash too; with ``n_particles`` given it may also ask
for more. The numbers are those of a run without interruption:

>>> resumed = ev.log_evidence(model, n_islands=12, checkpoint=file, **words)
>>> resumed.logz == ev.log_evidence(model, n_islands=12, **words).logz
True

So does :func:`evidence.sample`: chains go on with the state, the step size and the random numbers
that they had. Results and draws have files of their own, plain arrays without pickles:

>>> resumed.save(Path(folder.name) / "result.npz")
>>> ev.EvidenceResult.load(Path(folder.name) / "result.npz").logz == resumed.logz
True
>>> folder.cleanup()

A checkpoint holds named tuples of arrays under names ("plan", "block 3", …) and the identity of
the run: model, seed, settings, package version. Runs are functions of their identity, so a run
that finds some of its pieces here computes the others and ends with the same numbers, bit for
bit. A file of another identity is refused; so is a damaged one. (A model's identity is what it
computes, to eight digits: of one that differs in later ones, the numbers do too.)

The same bits need the same kernels of BLAS, which depend on the processor; those of others round
differently, some 1e-12 in log Z. A file tells on which it was written, and a run that goes on
from it with others says so.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path as FilePath
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..messages import InputError, Message
from ..numerics.threads import blas_kernels
from . import files
from .arguments import seed_sequence

_FORMAT = "evidence-checkpoint"
_VERSION = 1
_EVERY = 1.0  # seconds between two writes at least, and
_SHARE = 20.0  # a write's own duration times this

T = TypeVar("T", bound=tuple[Any, ...])


class Checkpoint:
    """Pieces of a run, kept in memory and, with a ``path``, on disk.

    Parameters
    ----------
    path : path or None
        ``None`` keeps nothing on disk. An existing file is read and must be of this run.
    identity : mapping
        What makes this run this run: JSON-like values, compared one by one.
    kernels : callable
        Names the kernels of BLAS, ``"library version processor, …"``; asked where there is a path.

    Examples
    --------
    >>> import tempfile
    >>> from typing import NamedTuple
    >>> class Piece(NamedTuple):
    ...     value: np.ndarray
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = FilePath(folder.name) / "run.ckpt"
    >>> first = Checkpoint(path, {"seed": 1})
    >>> first.put("piece", Piece(np.arange(3)))
    >>> first.save()
    >>> Checkpoint(path, {"seed": 1}).get("piece", Piece)
    Piece(value=array([0, 1, 2]))
    >>> Checkpoint(path, {"seed": 2})
    Traceback (most recent call last):
        ...
    evidence.InputError: ...run.ckpt belongs to another run: seed is 1 there and 2 here; ...
    >>> folder.cleanup()
    """

    def __init__(
        self, path: str | os.PathLike[str] | None, identity: Mapping[str, Any],
        kernels: Callable[[], str] = blas_kernels,
    ) -> None:  # fmt: skip
        self.path = None if path is None else FilePath(path)
        self.identity = dict(identity)
        self._unwritten: list[str] = []
        self._kernels = [] if path is None else [kernels()]  # all that computed some of it
        self._arrays: dict[str, NDArray[Any]] = {}
        self._written, self._cost, self._dirty = -np.inf, 0.0, False
        if self.path is not None and self.path.exists():
            meta, self._arrays = files.read(self.path, _FORMAT, _VERSION)
            self._compare(meta["identity"])
            self._kernels += [one for one in meta.get("kernels", []) if one != self._kernels[0]]

    @classmethod
    def seeded(
        cls, path: str | os.PathLike[str] | None, identity: Mapping[str, Any],
        random_seed: int | np.random.Generator | None,
    ) -> tuple[Checkpoint, np.random.SeedSequence]:  # fmt: skip
        """The checkpoint and the seed: a file's own where the caller leaves it open."""
        seed = seed_sequence(random_seed)
        if path is None:
            return cls(None, {}), seed
        if FilePath(path).is_dir():
            raise InputError(f"checkpoint must be a file, and {path} is a folder")
        if random_seed is None and FilePath(path).exists():
            theirs = files.read(path, _FORMAT, _VERSION)[0]["identity"]
            if "random_seed" in theirs:
                seed = np.random.SeedSequence(json.loads(theirs["random_seed"]))
        return cls(path, {**identity, "random_seed": json.dumps(seed.entropy)}), seed

    @property
    def warnings(self) -> list[str]:
        """Of a file that could not be written, or that others than these kernels have computed."""
        here, *others = self._kernels or [""]
        mine = set(here.split(", "))
        for there in others:
            theirs = set(there.split(", "))
            if not (mine <= theirs or theirs <= mine):  # one more has been loaded by others
                text = (
                    f"part of {self.path} was computed with other kernels of BLAS ({there}) than "
                    f"are here ({here}): log Z may differ in its last digits, by some 1e-12, from "
                    "that of a run on one kind of processor"
                )
                return [Message("other-kernels", text), *self._unwritten]
        return self._unwritten

    def _compare(self, theirs: Mapping[str, Any]) -> None:
        for name in [*self.identity, *theirs]:
            here, there = self.identity.get(name), theirs.get(name)
            if here != there:
                raise InputError(
                    f"{self.path} belongs to another run: {name} is {there} there and {here} "
                    "here; give another checkpoint= or remove the file"
                )

    def get(self, name: str, kind: type[T]) -> T | None:
        """The piece ``name``, or None when it is not there yet."""
        fields: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
        keys = [f"{name}/{field}" for field in fields]
        if not all(key in self._arrays for key in keys):
            return None
        values = (self._arrays[key] for key in keys)
        return kind(*(v if v.ndim else v.item() for v in values))

    def part(self, prefix: str) -> Checkpoint:
        """The same file for a part of the run, whose pieces have names of their own."""
        return _Part(self, prefix)

    def put(self, name: str, piece: tuple[Any, ...]) -> None:
        """Keep ``piece``; written soon, see :meth:`save`."""
        fields = piece._asdict()  # type: ignore[attr-defined]
        self._arrays |= {f"{name}/{field}": np.asarray(v) for field, v in fields.items()}
        self._dirty = True

    def due(self) -> bool:
        """Whether it is time to write: writing takes a twentieth of the time at most."""
        since = time.perf_counter() - self._written
        return self.path is not None and since > max(_EVERY, _SHARE * self._cost)

    def save_soon(self) -> None:
        """Write if it is time."""
        if self.due():
            self.save()

    def save(self) -> None:
        """Write everything, atomically. A failure is a warning: the run goes on."""
        if self.path is None or not self._dirty:
            return
        started = time.perf_counter()
        try:
            files.write(
                self.path, _FORMAT, _VERSION,
                {"identity": self.identity, "kernels": self._kernels}, self._arrays,
                compress=False,
            )  # fmt: skip
            self._dirty = False
        except OSError as error:
            text = f"the checkpoint could not be written, the run goes on without: {error}"
            message = Message("checkpoint-unwritten", text)
            if not self._unwritten:
                warnings.warn(message, RuntimeWarning, stacklevel=2)
            self._unwritten = [message]
        else:
            self._unwritten = []
        self._written = time.perf_counter()
        self._cost = self._written - started


class _Part(Checkpoint):
    """Pieces of a checkpoint whose names begin alike."""

    def __init__(self, whole: Checkpoint, prefix: str) -> None:
        self._whole, self._prefix = whole, prefix

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)

    def get(self, name: str, kind: type[T]) -> T | None:
        return self._whole.get(f"{self._prefix}/{name}", kind)

    def put(self, name: str, piece: tuple[Any, ...]) -> None:
        self._whole.put(f"{self._prefix}/{name}", piece)

    def save(self) -> None:
        self._whole.save()


def digest(*arrays: ArrayLike) -> str:
    """A short fingerprint of arrays and texts.

    >>> digest(np.zeros(2), "probit")
    '6677ed657fe9'
    """
    state = hashlib.sha256()
    for array in arrays:
        value = np.ascontiguousarray(array)
        state.update(f"{value.dtype.str}{value.shape}".encode())
        state.update(value.tobytes())
    return state.hexdigest()[:12]

"""How results leave the process: ``.npz`` files, and ArviZ's containers."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path as FilePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..messages import InputError

_META = "meta"


def write(
    path: str | os.PathLike[str],
    format: str,
    version: int,
    meta: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    compress: bool = True,
) -> None:
    """Write arrays and JSON to one ``.npz`` file, atomically and without pickles.

    The file appears under its name when it is complete and on the disk, or not at all: a
    reader never sees half of it, and what was there before survives a failure.

    Parameters
    ----------
    path : path
        Taken as it is; no suffix is added.
    format, version : str, int
        What :func:`read` will insist on.
    meta : mapping
        Anything JSON can hold, NaN and infinities included; not ``format`` or ``version``.
    arrays : mapping of str to array
        Of numbers, booleans or text; not called ``meta``.
    compress : bool
        Smaller, but slower by an order of magnitude.

    Examples
    --------
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = FilePath(folder.name) / "squares.npz"
    >>> write(path, "example", 1, {"power": 2}, {"x": np.arange(3) ** 2})
    >>> meta, arrays = read(path, "example", 1)
    >>> meta["power"], arrays["x"]
    (2, array([0, 1, 4]))
    >>> folder.cleanup()
    """
    if taken := {"format", "version"} & set(meta):
        raise InputError(f"meta must not contain {sorted(taken)}: they identify the file")
    for name, array in arrays.items():
        if name == _META or np.asarray(array).dtype.hasobject:
            raise InputError(f"array {name!r} must have another name than 'meta' and no objects")
    try:
        text = json.dumps({"format": format, "version": version, **meta})
    except TypeError as error:
        raise TypeError(f"meta must be made of what JSON can hold: {error}") from None
    everything: dict[str, Any] = {_META: np.array(text), **arrays}
    target = FilePath(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            (np.savez_compressed if compress else np.savez)(file, **everything)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        _sync_folder(target.parent)
    except BaseException:
        FilePath(temporary).unlink(missing_ok=True)
        raise


def _sync_folder(folder: FilePath) -> None:
    """Make a rename durable, where the system lets one."""
    with suppress(OSError, AttributeError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def read(
    path: str | os.PathLike[str], format: str, *versions: int
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read what :func:`write` wrote; any other file is refused with a clear message."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as data:
            meta = dict(json.loads(str(data[_META])))
            arrays = {name: data[name] for name in data.files if name != _META}
    except FileNotFoundError:
        raise
    except Exception as error:
        reason = "no .npz file" if "pickle" in str(error) else error  # NumPy's advice is no use
        raise InputError(f"{path} is not a saved result, or is damaged: {reason}") from None
    found, edition = meta.pop("format", None), meta.pop("version", None)
    if found != format or edition not in versions:
        raise InputError(
            f"{path} holds {found!r} version {edition!r}, "
            f"this package reads {format!r} version {' or '.join(map(str, versions))}"
        )
    return meta, arrays


def by_name(x: NDArray[Any], names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Draws (..., N) as one variable, or as one for each name."""
    if not names:
        return {"x": x}
    return {name: x[..., i] for i, name in enumerate(names)}


def to_arviz(**groups: dict[str, NDArray[Any]]) -> Any:
    """Groups of arrays (chains, draws, ...) as ArviZ InferenceData (0.x) or DataTree (1.x)."""
    try:
        import arviz as az
    except ImportError:
        raise ImportError("to_arviz needs ArviZ: pip install 'evidence[arviz]'") from None
    if int(az.__version__.split(".")[0]) >= 1:
        return az.from_dict(groups)
    return az.from_dict(**groups)

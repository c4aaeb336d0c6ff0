"""Files that can be trusted: ``.npz`` archives of arrays and JSON; and ArviZ's containers.

What is guaranteed:

* **Written** files appear under their name when they are complete and on the disk, or not at all:
  a reader never sees half of one, and a failure leaves what was there before. A new file gets the
  permissions that the umask leaves, an existing one keeps its own; where the path is a link, the
  link stays and the file behind it is replaced. A process killed while it writes may leave a
  hidden file, ``.NAME.*``, beside the file.
* **Read** files are what was written, every bit of every array: all checksums are verified before
  anything is used, all arrays that were written must be there, and format and version are those
  asked for. Anything else is refused with an :class:`~evidence.messages.InputError` that names the
  file; what the system has to say (no such file, no permission) stays an OSError. Nothing is
  unpickled, and a small file that claims to hold gigabytes is not unpacked.
"""

from __future__ import annotations

import io
import json
import math
import os
import secrets
import shutil
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path as FilePath
from typing import Any, BinaryIO, NoReturn

import numpy as np
from numpy.typing import NDArray

from ..messages import InputError
from .arguments import check_path

_META = "meta"
_OURS = {"format", "version", "arrays"}  # what a file says of itself, beside its meta


class Pieces(dict[str, Any]):
    """What a file holds, by name; an error that names the file for what it does not hold."""

    def __init__(self, path: object, pieces: Mapping[str, Any]) -> None:
        super().__init__(pieces)
        self.path = path

    def __missing__(self, name: str) -> NoReturn:
        raise InputError(f"{self.path} is damaged: {name!r} is missing")


def write(
    path: str | os.PathLike[str], format: str, version: int, meta: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]], compress: bool = True,
) -> None:  # fmt: skip
    """Write arrays and JSON to one ``.npz`` file, atomically and without pickles.

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
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = FilePath(folder.name) / "squares.npz"
    >>> write(path, "example", 1, {"power": 2}, {"x": np.arange(3) ** 2})
    >>> meta, arrays = read(path, "example", 1)
    >>> meta["power"], arrays["x"]
    (2, array([0, 1, 4]))
    >>> folder.cleanup()
    """
    check_path("path", path, optional=False)
    if taken := _OURS & set(meta):
        raise InputError(f"meta must not contain {sorted(taken)}: they identify the file")
    for name, array in arrays.items():
        if name == _META or np.asarray(array).dtype.hasobject:
            raise InputError(f"array {name!r} must have another name than 'meta' and no objects")
    ours = {"format": format, "version": version, "arrays": list(arrays)}
    try:
        text = json.dumps({**ours, **meta})
    except TypeError as error:
        raise TypeError(f"meta must be made of what JSON can hold: {error}") from None
    pieces: dict[str, Any] = {_META: np.array(text)}
    pieces |= {name: np.asarray(array) for name, array in arrays.items()}
    target = FilePath(path).resolve()
    if target.exists() and not target.is_file():
        raise InputError(f"{path} is not a file that could be replaced")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent}")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with open(temporary, "xb") as file:
            with suppress(FileNotFoundError):
                shutil.copymode(target, temporary)
            (np.savez_compressed if compress else np.savez)(file, **pieces)
            if 2 * sum(piece.nbytes for piece in pieces.values()) > _most(file.tell()):
                file.truncate(0)  # constants shrink more than what is read with confidence
                file.seek(0)
                np.savez(file, **pieces)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _most(size: int, *, small: int = 2**26, ratio: int = 100) -> int:
    """Bytes that a file of ``size`` bytes may unpack to.

    ``small``: bytes that any file may unpack to; ``ratio``: times its size, where that is more.
    """
    return max(small, ratio * size)


def _sync_folder(folder: FilePath) -> None:
    """Make a rename durable, where the system lets one."""
    with suppress(OSError, AttributeError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def read(path: str | os.PathLike[str], format: str, version: int) -> tuple[Pieces, Pieces]:
    """Meta and arrays that :func:`write` wrote; any other file is refused with a clear message."""
    meta, arrays = _contents(path)
    found, edition = meta.pop("format", None), meta.pop("version", None)
    if (found, edition) != (format, version):
        raise InputError(
            f"{path} holds {found!r} version {edition!r}, "
            f"this package reads {format!r} version {version}"
        )
    pieces, meta = Pieces(path, arrays), Pieces(path, meta)
    names = meta["arrays"]
    del meta["arrays"]
    return meta, Pieces(path, {name: pieces[name] for name in names})


def format_of(path: str | os.PathLike[str]) -> str:
    """The format under which :func:`write` wrote the file."""
    return str(_contents(path)[0].get("format"))


def _contents(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Meta, with format and version, and arrays."""
    check_path("path", path, optional=False)
    with open(path, "rb") as file:
        try:
            arrays = _unpack(file)
            return dict(json.loads(str(arrays.pop(_META)))), arrays
        except MemoryError:
            raise
        except Exception as error:
            reason = str(error) or type(error).__name__
            raise InputError(f"{path} is not a saved result, or is damaged: {reason}") from None


def _unpack(file: BinaryIO) -> dict[str, NDArray[Any]]:
    """All arrays of an archive; their checksums are compared on the way."""
    with zipfile.ZipFile(file) as archive:
        entries, size = archive.infolist(), os.fstat(file.fileno()).st_size
        unpacked = sum(entry.file_size for entry in entries)
        if unpacked > _most(size):
            raise ValueError(f"{size} bytes claim to hold {unpacked}")
        return {one.filename.removesuffix(".npy"): _array(archive.read(one)) for one in entries}


def _array(content: bytes) -> NDArray[Any]:
    """An array in NumPy's format."""
    stream = io.BytesIO(content)
    major, _ = np.lib.format.read_magic(stream)
    header = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
    shape, _, dtype = header[major](stream)
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(content) - stream.tell():
        raise ValueError("an array of objects, or of another size than its header says")
    stream.seek(0)
    return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))


def to_arviz(
    groups: Mapping[str, Mapping[str, NDArray[Any]]],
    dims: Mapping[str, list[str]] | None = None,
    coords: Mapping[str, Any] | None = None,
) -> Any:
    """Groups of arrays (chains, draws, ...) as ArviZ InferenceData (0.x) or DataTree (1.x).

    ``dims`` are the names of further axes, ``coords`` of what is along them.
    """
    try:
        import arviz as az
    except ImportError:
        raise ImportError("to_arviz needs ArviZ: pip install 'log-evidence[arviz]'") from None
    words = {"dims": dict(dims or {}), "coords": dict(coords or {})}
    if int(az.__version__.split(".")[0]) >= 1:
        return az.from_dict({name: dict(group) for name, group in groups.items()}, **words)
    return az.from_dict(**groups, **words)

"""What every result can do: be saved and loaded, shown as text and HTML, and drawn."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ..execution import files
from ..execution.arguments import Shape, check_path, fits, number
from ..execution.checkpoint import digest
from ..execution.lazy import Axes, DataFrame, Figure, pd
from ..messages import InputError, Message, messages

_VERSION = 2
WIDTH = 100  # characters of a line of text


def quantiles_of(level: float) -> dict[str, float]:
    """Columns of a central interval that holds the posterior mass ``level``, and the median.

    >>> quantiles_of(0.95)
    {'q2.5': 0.025, 'median': 0.5, 'q97.5': 0.975}
    """
    half = 0.5 * number("level", level, above=0.0, below=1.0)
    low, high = round(0.5 - half, 12), round(0.5 + half, 12)
    return {f"q{100.0 * low:g}": low, "median": 0.5, f"q{100.0 * high:g}": high}


class Page(str):
    """Text of several lines, which prompts and notebooks show as ``print`` does."""

    __repr__ = str.__str__


class Result:
    """The base of everything a run leaves behind.

    A kind of result is a dataclass (``eq=False, repr=False``) that derives from this class. Its
    fields are all there is to it, and what a file keeps. It states

    ``_format``
        The name of its files.
    ``_about() -> list[str]``
        The lines above its table; the first is the answer.

    and where these are not enough

    ``_label() -> str``
        What ``repr`` shows between its brackets; by default the first line of ``_about``.
    ``_frame() -> DataFrame``
        The table below these lines; by default the field ``table``, where there is one.
        ``_digits`` formats its floats.
    ``_figure() -> Figure``
        What ``plot`` draws; by default nothing. A result that fills one pair of axes states
        ``_draw(ax) -> Axes`` instead, and derives from :class:`ResultOnAxes`.
    ``_shapes``
        Those of its arrays, such as ``("x", ("chains", "draws", 2))``: a word stands for any
        size above zero, the same one each time. What comes is converted and checked.
    ``__post_init__``
        Checks and conversions; it calls the one here. Files return tuples as lists and named
        tuples as dictionaries, so a field of named tuples is made of them again there.

    The fields ``warnings`` and ``notes``, where it has them, are shown below the table. A text
    among the warnings becomes a :class:`~evidence.messages.Message`, so each has a ``code``.

    Fields may hold numbers, text, arrays, data frames, other results, and tuples, lists and
    dictionaries of these. Models are the exception: a file keeps their fingerprint, and
    :meth:`load` takes the model itself.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> @dataclass(frozen=True, eq=False, repr=False)
    ... class Tosses(Result):
    ...     _format = "example-tosses"
    ...     heads: np.ndarray
    ...     warnings: tuple[Message, ...] = ()
    ...
    ...     def _about(self):
    ...         return [f"{self.heads.sum()} heads in {self.heads.size} tosses"]
    >>> tosses = Tosses(np.array([True, False]), (Message("few", "only two tosses"),))
    >>> tosses
    Tosses(1 heads in 2 tosses, 1 warning(s))
    >>> print(tosses.summary())
    1 heads in 2 tosses
    WARNING: only two tosses
    >>> with TemporaryDirectory() as folder:
    ...     tosses.save(Path(folder) / "tosses.npz")
    ...     again = Tosses.load(Path(folder) / "tosses.npz")
    >>> again.heads, again.warnings[0].code
    (array([ True, False]), 'few')
    """

    _format: ClassVar[str] = ""
    _digits: ClassVar[str] = ".4g"
    _shapes: ClassVar[tuple[tuple[str, Shape], ...]] = ()
    _figure: ClassVar[Callable[..., Figure] | None] = None
    warnings: tuple[Message, ...]
    notes: tuple[str, ...]

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if field.name == "warnings":
                object.__setattr__(self, "warnings", messages(value))
            elif str(field.type).startswith("tuple[") and isinstance(value, list):
                object.__setattr__(self, field.name, tuple(value))
        sizes: dict[int | str, int] = {}
        for name, shape in self._shapes:
            value = np.asarray(getattr(self, name), dtype=float)
            object.__setattr__(self, name, value)
            wanted = tuple(sizes.get(size, size) for size in shape)
            if not fits(value.shape, wanted):
                text = str(wanted).replace("'", "")
                raise InputError(f"{name} must have shape {text}, got {value.shape}")
            sizes |= dict(zip(shape, value.shape, strict=True))

    # -- shown ------------------------------------------------------------------------------

    def _about(self) -> list[str]:
        raise NotImplementedError

    def _label(self) -> str:
        return self._about()[0]

    def _frame(self) -> DataFrame | None:
        table = getattr(self, "table", None)
        return None if table is None else table.rename_axis(None)

    def _about_model(self) -> str:
        model: dict[str, Any] = getattr(self, "model", {})
        return "model: " + ", ".join(f"{name} {value}" for name, value in model.items())

    def summary(self) -> Page:
        """A page of text: the answer, its table, notes and warnings."""
        lines, frame = self._about(), self._frame()
        if frame is not None:
            lines += ["", frame.to_string(**self._options(), line_width=WIDTH)]
        return Page("\n".join([*lines, *self._remarks()]))

    def _remarks(self) -> list[str]:
        notes, warnings = getattr(self, "notes", ()), getattr(self, "warnings", ())
        return [f"note: {note}" for note in notes] + [f"WARNING: {w}" for w in warnings]

    def _options(self, most_rows: int = 60) -> dict[str, Any]:
        """How numbers are written in a table, and how much of it is shown."""
        number = f"{{:{self._digits}}}".format
        return {"float_format": number, "na_rep": "-", "max_rows": most_rows}

    def __repr__(self) -> str:
        count = len(getattr(self, "warnings", ()))
        flag = f", {count} warning(s)" if count else ""
        return f"{type(self).__name__}({self._label()}{flag})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the summary, its table as one of HTML."""
        first, *more = map(html.escape, self._about())
        frame, remarks = self._frame(), map(html.escape, self._remarks())
        table = "" if frame is None else frame.to_html(**self._options(), border=0)
        above, below = ("".join(f"<div>{line}</div>" for line in part) for part in (more, remarks))
        return f"<div><strong>{first}</strong>{above}\n{table}{below}</div>"

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw the result.

        Returns the Matplotlib figure; with ``path`` it is also saved there.
        """
        check_path("path", path)
        if self._figure is None:
            raise InputError(f"{type(self).__name__} has no figure of its own; plot its fields")
        figure = self._figure()
        if path is not None:
            figure.savefig(path, dpi=150)
        return figure

    # -- files ------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one ``.npz`` file (arrays and JSON, no pickles), atomically."""
        arrays: dict[str, NDArray[Any]] = {}
        state = _pack(self._state(), "", arrays)
        files.write(path, self._format, _VERSION, {"fields": state}, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str], **models: object) -> Self:
        """Read what :meth:`save` wrote; any other file is refused with a clear message.

        Parameters
        ----------
        path : path
        **models
            Files hold no models. A result with a model in its field ``model`` is given it here,
            as ``model=``; it must be the one the result was made with.
        """
        meta, arrays = files.read(path, cls._format, _VERSION)
        return cls._restore(_unpack(meta["fields"], arrays, models), models)

    def _state(self) -> dict[str, Any]:
        """What a file keeps, by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def _restore(cls, state: dict[str, Any], models: Mapping[str, Any]) -> Self:
        """The result from what a file kept, and the models that it could not keep."""
        for name, value in state.items():
            if isinstance(value, dict) and "$model" in value:
                if name not in models:
                    raise InputError(f"{name} is missing; files hold no models, give {name}=")
                if fingerprint(models[name]) != value["$model"]:
                    raise InputError(
                        f"{name} is another one than the result was made with: "
                        f"{fingerprint(models[name])}, not {value['$model']}"
                    )
                state[name] = models[name]
        return cls(**state)


class ResultOnAxes(Result):
    """A result whose picture fills one pair of axes, which may be the caller's."""

    _draw: ClassVar[Callable[..., Axes]]

    def plot(  # type: ignore[override]
        self, ax: Axes | None = None, path: str | os.PathLike[str] | None = None
    ) -> Axes:
        """Draw the result on ``ax``, or on axes of its own.

        Returns the Matplotlib axes; with ``path`` their figure is also saved there.
        """
        check_path("path", path)
        ax = self._draw(ax)
        figure = ax.get_figure(root=True)
        if path is not None and figure is not None:
            figure.savefig(path, dpi=150)
        return ax


# What JSON cannot express is a dictionary whose first key starts with a dollar.


def _pack(value: object, name: str, arrays: dict[str, NDArray[Any]]) -> object:
    """``value`` as JSON; its arrays are added to ``arrays``, under names that begin so."""
    if isinstance(value, Result):
        return {"$result": value._format, "fields": _pack(value._state(), name, arrays)}
    if isinstance(value, Message):
        return {"$message": [value.code, str(value)]}
    if isinstance(value, np.ndarray):
        while name in arrays:
            name += "'"
        arrays[name] = value
        return {"$array": name}
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        join = f"{name}/" if name else ""
        return {str(key): _pack(item, f"{join}{key}", arrays) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_pack(item, f"{name}/{i}", arrays) for i, item in enumerate(value)]
    if value is None or isinstance(value, str | int | float):
        return value
    if hasattr(value, "to_dict"):
        return {"$frame": value.to_dict("tight")}
    if hasattr(value, "identity"):
        return {"$model": fingerprint(value)}
    raise InputError(f"{name} is of type {type(value).__name__}, which a file cannot hold")


def _unpack(value: Any, arrays: dict[str, NDArray[Any]], models: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_unpack(item, arrays, models) for item in value]
    match value:
        case {"$array": name}:
            return arrays[name]
        case {"$message": [code, text]}:
            return Message(code, text)
        case {"$frame": frame}:
            return data_frame({}).from_dict(frame, orient="tight")
        case {"$result": format, "fields": state}:
            kind = next(kind for kind in kinds() if kind._format == format)
            return kind._restore(_unpack(state, arrays, models), models)
        case dict():
            return {key: _unpack(item, arrays, models) for key, item in value.items()}
    return value


def kinds(kind: type[Result] = Result) -> Iterator[type[Result]]:
    """Every kind of result whose module has been imported."""
    for child in kind.__subclasses__():
        yield child
        yield from kinds(child)


def data_frame(data: object, **words: object) -> DataFrame:
    """A frame of pandas, whose import waits until there is one."""
    return pd.DataFrame(data, **words)


def beside_axes(name: str) -> str:
    """A parameter's name beside the numbers of chain and draw."""
    return f"{name}_" if name in ("chain", "draw") else name


def frame_of_draws(values: NDArray[Any], names: Sequence[str], stride: int = 1) -> DataFrame:
    """A row for each of ``values`` (chains, draws, n), below the numbers of its chain and draw."""
    chains, draws, n = values.shape
    table = data_frame(values.reshape(chains * draws, n), columns=list(map(beside_axes, names)))
    table.insert(0, "chain", np.repeat(np.arange(chains), draws))
    table.insert(1, "draw", np.tile(np.arange(draws) * stride, chains))
    return table


class Identified(Protocol):
    def identity(self) -> tuple[NDArray[Any], ...]: ...


def fingerprint(model: Identified) -> str:
    """What tells a model, and its data, from others."""
    return f"{type(model).__name__} {digest(*model.identity())}"

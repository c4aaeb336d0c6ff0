"""One function for many tasks: what they share, and how it is sent."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..messages import InputError
from ..numerics.threads import single
from .clock import Stopped, within
from .meter import Meter, metered


@dataclass
class Job:
    """``function(*shared, **options, **arguments, stop=stop)`` for many different ``arguments``.

    To leave this process the function must be importable by name and the rest picklable.
    """

    function: Callable[..., Any]
    shared: tuple[Any, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, arguments: Mapping[str, Any], stop: Callable[[], bool]) -> Any:
        return self.function(*self.shared, **self.options, **arguments, stop=stop)

    @cached_property
    def parcel(self) -> bytes:
        """All of it but the arguments, to be sent."""
        try:
            content = (self.function, self.shared, self.options)
            return pickle.dumps(content, pickle.HIGHEST_PROTOCOL)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InputError(
                f"this cannot be sent to other processes ({error}): define the model's functions "
                "in a module that workers can import, or leave out executor= (threads)"
            ) from error

    @cached_property
    def key(self) -> str:
        return hashlib.sha256(self.parcel).hexdigest()


def attempt(
    job: Job, arguments: Mapping[str, Any], stop: Callable[[], bool], meter: Meter | None = None
) -> Any:
    """The result of one task, on one core; :class:`Stopped` where it ended early."""
    with single(), within(lambda flops: stop()), metered(meter):
        try:
            return Stopped() if stop() else job(arguments, stop)
        except Stopped as stopped:
            return stopped

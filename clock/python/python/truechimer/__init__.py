"""The Truechimer clock: the time, and how wrong it may be."""

from ._times import Status
from ._truechimer import (
    Clock,
    ClockError,
    Length,
    Moment,
    OpenError,
    Reading,
    ReadError,
    WaitError,
    __version__,
)

__all__ = [
    "Clock",
    "ClockError",
    "Length",
    "Moment",
    "OpenError",
    "ReadError",
    "Reading",
    "Status",
    "WaitError",
    "__version__",
]

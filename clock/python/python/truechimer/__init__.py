"""The Truechimer clock: the time, and how wrong it may be."""

from ._times import Side, Status
from ._truechimer import (
    Clock,
    ClockError,
    Length,
    Moment,
    OpenError,
    Reading,
    ReadError,
    Tick,
    Timer,
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
    "Side",
    "Status",
    "Tick",
    "Timer",
    "WaitError",
    "__version__",
]

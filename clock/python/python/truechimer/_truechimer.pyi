import os
from datetime import datetime
from pathlib import Path
from typing import Optional, Union, final

from ._times import Side, Status

__all__ = [
    "Clock",
    "ClockError",
    "Length",
    "Moment",
    "OpenError",
    "ReadError",
    "Reading",
    "Tick",
    "Timer",
    "WaitError",
    "__version__",
]

__version__: str

class ClockError(Exception):
    """There is no clock, or no time from it."""

class OpenError(ClockError):
    """The clock cannot be opened: the text names the path and the mend."""

class ReadError(ClockError):
    """The clock cannot tell."""

class WaitError(ClockError):
    """A wait was over in vain."""

@final
class Reading:
    """The time, and how well it is known.

    While status.bound_holds true time lay from earliest to latest at the moment of the reading.
    Otherwise those two are the ends of the scale, so that a program which looks at nothing else cannot
    be deceived.
    """

    @property
    def earliest_ns(self) -> int:
        """True time was not before this: ns of Unix time, rounded down."""
    @property
    def best_ns(self) -> int:
        """The best estimate: ns of Unix time, rounded down; while nothing is promised, what the clock shows."""
    @property
    def latest_ns(self) -> int:
        """True time was not after this: ns of Unix time, rounded up."""
    @property
    def bound_ns(self) -> Optional[int]:
        """The farthest that true time may be from the best estimate, ns, ≥ 0; None if nothing is promised."""
    @property
    def earliest(self) -> datetime:
        """earliest_ns in UTC, rounded down to microseconds."""
    @property
    def best(self) -> datetime:
        """best_ns in UTC, rounded down to microseconds."""
    @property
    def latest(self) -> datetime:
        """latest_ns in UTC, rounded up to microseconds."""
    @property
    def status(self) -> Status:
        """Status of the clock."""
    @property
    def count(self) -> int:
        """The count that the time is of."""
    @property
    def tai_offset(self) -> int:
        """TAI − UTC at the best estimate, s, if tai_known."""
    @property
    def tai_known(self) -> bool:
        """True if tai_offset is TAI − UTC; otherwise it counts leap seconds since the daemon began."""
    @property
    def leap_second(self) -> bool:
        """True if the best estimate lies within an inserted second, 23:59:60."""

@final
class Moment:
    """A count that knows which counter it is of: what to keep of an event."""

    def __new__(cls, count: int, stretch: int) -> Moment: ...
    @property
    def count(self) -> int:
        """The count."""
    @property
    def stretch(self) -> int:
        """Which counter, and which unbroken stretch of it."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __getnewargs__(self) -> tuple[int, int]: ...

@final
class Length:
    """A length of time by the difference clock."""

    @property
    def ns(self) -> int:
        """Length, ns, to the nearest; negative if the second moment came first."""
    @property
    def bound_ns(self) -> int:
        """The true length is within this of ns; ≥ 0, rounded up."""

@final
class Tick:
    """A time of a timer that has come."""

    @property
    def time_ns(self) -> int:
        """The time, ns of Unix time."""
    @property
    def time(self) -> datetime:
        """time_ns in UTC, rounded down to microseconds."""
    @property
    def missed(self) -> int:
        """Number of times before this one that had come already when it was asked for, and were left out."""
    @property
    def reading(self) -> Reading:
        """The reading that ended the wait."""

@final
class Timer:
    """Times at even distances, to be waited for one after the other: an iterator without end.

    They keep to true time, never drift, and keep their distance through a leap second. Of times that have come
    already only the last is given out, so that a program that was held up catches up at once. For one thread at a
    time.
    """

    def tick(self, timeout: Optional[float] = None) -> Tick:
        """Waits for the next time, for timeout seconds or for ever; after an error for the same one once more."""
    def __iter__(self) -> Timer: ...
    def __next__(self) -> Tick: ...

@final
class Clock:
    """A clock to read. All threads may use it at the same time, and children after a fork.

    Without a path it is the page that $TRUECHIMER_PAGE names, else $XDG_RUNTIME_DIR/truechimer/clock or
    /run/truechimer/clock. Fenced readings of the counter are in order with what is around them.
    """

    def __new__(cls, path: Optional[Union[str, os.PathLike[str]]] = None, *, fenced: bool = False) -> Clock: ...
    def now(self) -> Reading:
        """The time now, with its bound and status."""
    def now_monotone(self) -> Reading:
        """The time now, never before what an earlier call on this clock gave, in any thread.

        Its best stands still while the clock goes back or nothing is promised, and through an inserted leap second,
        in which Unix time shows 23:59:59 once more.
        """
    def status(self) -> Status:
        """The status of the clock now."""
    def count(self) -> Moment:
        """This moment, to ask about later."""
    def time_of(self, moment: Moment) -> Reading:
        """The time of a moment, by what is known now."""
    def elapsed(self, start: Moment, end: Moment) -> Length:
        """Length of the time from one moment to another, by the clock that no correction disturbs."""
    def uptime(self) -> Length:
        """Time since the machine was started, suspended or not, which no correction of the time moves."""
    def wait_after(self, time: Union[datetime, int], timeout: Optional[float] = None) -> Reading:
        """Waits until a time (a date with its zone, or ns of Unix time) is over for sure: commit wait.

        For timeout seconds, or for ever. Other threads go on meanwhile, and Ctrl-C ends it.
        """
    def wait_for(self, time: Union[datetime, int], side: Side, timeout: Optional[float] = None) -> Reading:
        """Waits for a time (a date with its zone, or ns of Unix time), on that side of it.

        For timeout seconds, or for ever. Other threads go on meanwhile, and Ctrl-C ends it. Of a time that a
        leap second repeats the later one is meant.
        """
    def timer(self, first: Union[datetime, int], period_ns: int, side: Side) -> Timer:
        """A timer for a first time and every period_ns nanoseconds after it, on that side of each.

        A period below 1000 ns counts as that.
        """
    def wait_synchronised(self, max_bound_ns: Optional[int] = None, timeout: Optional[float] = None) -> Reading:
        """Waits until the clock is synchronised, with a bound of at most max_bound_ns if one is given.

        For timeout seconds, or for ever. Other threads go on meanwhile, and Ctrl-C ends it.
        """
    @property
    def page(self) -> Path:
        """The path of the clock's page."""

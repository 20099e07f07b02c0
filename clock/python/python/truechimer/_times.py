"""Nanoseconds of Unix time as dates, and the status as a name: for the library."""

import enum
from datetime import datetime, timedelta, timezone
from typing import Union

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
FIRST = datetime.min.replace(tzinfo=timezone.utc)
LAST = datetime.max.replace(tzinfo=timezone.utc)


class Status(enum.IntEnum):
    """State of a clock by its own word."""

    UNKNOWN = 0
    """Never synchronised, or too old to say: no bound is promised."""
    SYNCHRONISED = 1
    """Following its sources; the bound holds."""
    HOLDOVER = 2
    """No fresh word from any source, or no daemon; the bound holds and grows."""
    DISRUPTED = 3
    """The counter lost its continuity; the bound is void until the clock has synchronised again."""

    @property
    def bound_holds(self) -> bool:
        """True if the bound is promised to hold."""
        return self in (Status.SYNCHRONISED, Status.HOLDOVER)


class Side(enum.IntEnum):
    """Side of a time on which a wait ends, as the time is only known to lie between earliest and latest."""

    BEFORE = 0
    """While the time is surely not over: as soon as latest is within a microsecond of it. Whether the program was
    woken early enough the reading says: its latest is before the time."""
    LIKELY = 1
    """When it is likely to have come: as soon as best has reached it."""
    AFTER = 2
    """When it is surely over: as soon as earliest is after it (commit wait)."""


def down(ns: int) -> datetime:
    """The last whole microsecond that is not after it; the first date there is, for the end of the scale."""
    return FIRST if ns == -(2**63) else EPOCH + timedelta(microseconds=ns // 1000)


def up(ns: int) -> datetime:
    """The first whole microsecond that is not before it; the last date there is, for the end of the scale."""
    return LAST if ns == 2**63 - 1 else EPOCH + timedelta(microseconds=-(-ns // 1000))


def ns(time: Union[datetime, int]) -> int:
    """A time as a program gives it, in nanoseconds of Unix time."""
    if isinstance(time, datetime):
        if time.utcoffset() is None:
            raise ValueError(f"{time} has no time zone: give datetime.now(timezone.utc) or the like")
        return (time - EPOCH) // timedelta(microseconds=1) * 1000
    return time

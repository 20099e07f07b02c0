"""Tells what a reading costs beside time.time_ns() and datetime.now(), in ns, over the page that $TRUECHIMER_PAGE names
and a daemon tends: the median of rounds that take turns."""

import statistics
import time
from datetime import datetime, timezone
from timeit import Timer

from truechimer import Clock

ROUNDS = 31
CALLS = 50_000

clock = Clock()
places = {"clock": clock, "time": time, "datetime": datetime, "utc": timezone.utc}
calls = ["clock.now()", "clock.now().best_ns", "clock.count()", "time.time_ns()", "datetime.now(utc)"]
timers = [Timer(call, globals=places) for call in calls]
taken: list[list[float]] = [[] for _ in calls]
for _ in range(ROUNDS):
    for timer, one in zip(timers, taken):
        one.append(timer.timeit(CALLS) / CALLS * 1e9)
reading = statistics.median(taken[0])
for call, one in zip(calls, map(sorted, taken)):
    median = statistics.median(one)
    ends = f"{one[ROUNDS // 20]:.1f} to {one[-1 - ROUNDS // 20]:.1f}"
    print(f"{call:20} {median:6.1f} ns ({ends}), a reading takes {reading / median:.2f} of it")

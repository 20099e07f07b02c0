"""Reads questions about the clock, one a line, and prints one line for each: what
clock/client/tests/languages.rs asks to compare this client with the one in Rust."""

import os
import sys
from pathlib import Path
from typing import Optional

from truechimer import Clock, ClockError, Length, Moment, Reading, Side, Timer

timer: Optional[Timer] = None


def reading(r: Reading) -> str:
    bound = -1 if r.bound_ns is None else r.bound_ns
    flags = r.tai_known | r.leap_second << 1
    return f"{r.count} {r.earliest_ns} {r.best_ns} {r.latest_ns} {bound} {int(r.status)} {r.tai_offset} {flags}"


def length(long: Length) -> str:
    return f"{long.ns} {long.bound_ns}"


def holds(path: str) -> int:
    """How many of this process's files and mappings are the page."""
    links = (Path("/proc/self/fd") / number for number in os.listdir("/proc/self/fd"))
    # That of the folder itself is closed since.
    files = [link for link in links if link.is_symlink() and os.readlink(link) == path]
    return len(files) + sum(line.endswith(f" {path}") for line in Path("/proc/self/maps").read_text().splitlines())


def child(clock: Clock) -> str:
    """What a child says of itself, which goes on with the handle after a fork."""
    read, write = os.pipe()
    if os.fork() == 0:
        page = str(clock.page)
        inherited, now = holds(page), reading(clock.now())
        os.write(write, f"{inherited} {holds(page)} {now}".encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as said:
        text = said.read()
    os.wait()
    return text


def answer(clock: Clock, question: str, n: list[int]) -> str:
    global timer
    if question == "now":
        return reading(clock.now())
    if question == "child":
        return child(clock)
    if question == "mono":
        return reading(clock.now_monotone())
    if question == "count":
        moment = clock.count()
        return f"{moment.count} {moment.stretch}"
    if question == "timeof":
        return reading(clock.time_of(Moment(n[0], n[1])))
    if question == "elapsed":
        return length(clock.elapsed(Moment(n[0], n[1]), Moment(n[2], n[3])))
    if question == "uptime":
        return length(clock.uptime())
    if question == "status":
        return clock.status().name.lower()
    if question == "after":
        return reading(clock.wait_after(n[0], n[1] / 1000))
    if question == "for":
        return reading(clock.wait_for(n[0], Side(n[1]), n[2] / 1000))
    if question == "timer":
        timer = clock.timer(n[0], n[1], Side(n[2]))
        return "ok"
    if question == "tick":
        assert timer is not None
        tick = timer.tick(n[0] / 1000)
        return f"{tick.time_ns} {tick.missed} {reading(tick.reading)}"
    if question == "synchronised":
        return reading(clock.wait_synchronised(n[0], n[1] / 1000))
    raise ValueError(question)


def main() -> None:
    clock = None
    for line in sys.stdin:
        question, *rest = line.split()
        try:
            if question == "open":
                clock = Clock(rest[0])
                said = "ok"
            else:
                assert clock is not None
                said = answer(clock, question, [int(word) for word in rest])
        except ClockError as error:
            said = f"error {error}"
        print(said, flush=True)


main()

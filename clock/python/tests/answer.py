"""Reads questions about the clock, one a line, and prints one line for each: what
clock/client/tests/languages.rs asks to compare this client with the one in Rust."""

import os
import sys
import traceback
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
    """Number of this process's files and mappings that are the page."""
    links = (Path("/proc/self/fd") / number for number in os.listdir("/proc/self/fd"))
    # That of the folder itself is closed since.
    files = [link for link in links if link.is_symlink() and os.readlink(link) == path]
    return len(files) + sum(line.endswith(f" {path}") for line in Path("/proc/self/maps").read_text().splitlines())


def child(clock: Clock) -> str:
    """Words of a child, which goes on with the handle after a fork. One that ends otherwise is an error."""
    read, write = os.pipe()
    if os.fork() == 0:
        status = 1
        try:
            os.write(write, of_child(clock).encode())
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            # Whatever happens: the questions are the parent's.
            os._exit(status)
    os.close(write)
    with os.fdopen(read) as said:
        text = said.read()
    _, status = os.wait()
    if status != 0:
        raise ChildProcessError(f"the child ended with status {os.waitstatus_to_exitcode(status)}")
    return text


def of_child(clock: Clock) -> str:
    page = str(clock.page)
    inherited = holds(page)
    try:
        now = reading(clock.now())
    except ClockError as error:
        return f"error {error}"
    return f"{inherited} {holds(page)} {now}"


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

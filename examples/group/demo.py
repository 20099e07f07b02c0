#!/usr/bin/env python3
"""Three replicas of an unmodified program on this machine, and clients at all three: are the answers
the same? First with the group's time, then with the same order of requests but each replica's own
clock.

    examples/group/demo.py                     a small Python service (service.py)
    examples/group/demo.py --redis             Redis: TIME, expiry, scripts that read the time
    examples/group/demo.py --keep DIR          leave logs and records there

Ends with status 0 if the answers were the same with the group's time and different without.
"""
import argparse
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
MEMBERS = (1, 2, 3)


def find_truechimer():
    for kind in ("release", "debug"):
        path = HERE.parent.parent / "target" / kind / "truechimer"
        if path.exists():
            return str(path)
    return shutil.which("truechimer") or "truechimer"


def free_ports(count):
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


class Redis:
    """Redis with an empty store, and requests whose answers depend on the time."""

    def command(self, port, directory):
        return ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "",
                "--dir", str(directory), "--logfile", str(directory / "redis.log")]

    def request(self, chance, number):
        key = f"key{chance.randrange(8)}"
        words = chance.choice([
            ("TIME",),
            ("SET", key, str(number), "PX", str(chance.randrange(20, 400))),
            ("GET", key),
            ("PTTL", key),
            ("EXPIRETIME", key),
            ("EXISTS", *(f"key{i}" for i in range(8))),
            ("EVAL", "local t = redis.call('TIME') redis.call('SET', KEYS[1], t[1] .. '.' .. t[2])"
                     " return t", "1", "stamp"),
            ("GET", "stamp"),
        ])
        return b"*%d\r\n" % len(words) + b"".join(
            b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words)

    def answer(self, file):
        line = file.readline()
        if line[:1] == b"$" and line != b"$-1\r\n":
            line += file.read(int(line[1:]) + 2)
        if line[:1] == b"*":
            line += b"".join(self.answer(file) for _ in range(int(line[1:])))
        if not line:
            raise ConnectionError("the front has closed the connection")
        return line


class Service:
    """service.py of this folder."""

    def command(self, port, _directory):
        return [sys.executable, str(HERE / "service.py"), str(port)]

    def request(self, chance, number):
        return chance.choice([
            "NOW", "WHO", "BOOK", f"PAY ann {number}", f"LOGIN user{chance.randrange(8)}",
        ]).encode() + b"\n"

    def answer(self, file):
        line = file.readline()
        if not line:
            raise ConnectionError("the front has closed the connection")
        return line


class Group:
    """An agent with three members, three fronts, three programs."""

    def __init__(self, truechimer, directory, kind, own_clocks):
        self.truechimer, self.directory, self.running = truechimer, directory, []
        self.environment = dict(os.environ, TRUECHIMER_GROUP_DIR=str(directory))
        try:
            self.start(kind, own_clocks)
        except BaseException:
            self.stop()
            raise

    def start(self, kind, own_clocks):
        self.run("agent", ["group", "agent", "--group", "demo", "--local", "3", "--state", "none",
                           "--system-clock", "1s"])
        wait_for(lambda: all((self.directory / "demo" / f"{member}.sock").exists()
                             for member in MEMBERS), "the agent", self)
        ports = free_ports(2 * len(MEMBERS))
        self.ports = ports[:3]
        for member, listen, connect in zip(MEMBERS, ports[:3], ports[3:]):
            self.run(f"front{member}", [
                "group", "front", "--group", "demo", "--member", str(member),
                "--listen", f"127.0.0.1:{listen}", "--connect", f"127.0.0.1:{connect}",
                "--record", str(self.record(member)), *(["--own-clocks"] if own_clocks else [])])
            own = self.directory / f"program{member}"
            own.mkdir()
            self.run(f"program{member}", [
                "group", "exec", "--group", "demo", "--member", str(member),
                "--reads", "delivery", "--", *kind.command(connect, own)])
        wait_for(lambda: all("ready" in self.log(f"front{member}") for member in MEMBERS),
                 "the fronts", self)

    def run(self, name, arguments):
        with open(self.directory / f"{name}.log", "wb") as log:
            self.running.append(subprocess.Popen([self.truechimer, *arguments], stdout=log,
                                                 stderr=log, env=self.environment))

    def record(self, member):
        return self.directory / f"{member}.record"

    def log(self, name):
        return (self.directory / f"{name}.log").read_text(errors="replace")

    def stop(self):
        # Fronts first: a program that ends under its front is an error.
        for name in ("front", "program", "agent"):
            these = [one for one in self.running if f"group {name}" in " ".join(one.args[:3])
                     or (name == "program" and "exec" in one.args)]
            for one in these:
                one.terminate()
            for one in these:
                try:
                    one.wait(10)
                except subprocess.TimeoutExpired:
                    one.kill()
                    one.wait()


def wait_for(condition, what, group):
    end = time.monotonic() + 60
    while not condition():
        dead = [one for one in group.running if one.poll() is not None]
        if dead or time.monotonic() > end:
            logs = "\n".join(path.read_text(errors="replace")
                             for path in sorted(group.directory.glob("*.log")))
            sys.exit(f"{what} did not come up:\n{logs}")
        time.sleep(0.02)


def client(kind, port, count, seed, failed):
    chance = random.Random(seed)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as stream:
            file = stream.makefile("rb")
            for number in range(count):
                stream.sendall(kind.request(chance, number))
                kind.answer(file)
                # So that something can expire.
                if chance.random() < 0.05:
                    time.sleep(0.05)
    except OSError as why:
        failed.append(f"client of port {port}: {why}")


def requests(record):
    return [line.split(" ", 3) for line in record.read_text().splitlines()]


def round_of(truechimer, directory, kind, count, own_clocks):
    directory.mkdir()
    group = Group(truechimer, directory, kind, own_clocks)
    try:
        failed = []
        clients = [threading.Thread(target=client, args=(kind, port, count, seed, failed))
                   for seed, port in enumerate(group.ports)]
        for one in clients:
            one.start()
        for one in clients:
            one.join()
        time.sleep(1.5)  # for the last comparison
    finally:
        group.stop()
    if failed:
        sys.exit("\n".join(failed))
    replicas = [requests(group.record(member)) for member in MEMBERS]
    same = sum(1 for lines in zip(*replicas) if all(line == lines[0] for line in lines))
    total = max(len(lines) for lines in replicas)
    name = "each replica's own clock" if own_clocks else "the group's time"
    print(f"{name}: {total} requests by {len(MEMBERS)} clients; the same answer from all replicas: "
          f"{same}, different ones: {total - same}")
    for lines in zip(*replicas):
        if any(line != lines[0] for line in lines):
            print(f"  request {lines[0][0]}: " + " | ".join(line[3] for line in lines))
            break
    for line in group.log("front1").splitlines():
        if "differ" in line or "compared" in line:
            print(f"  front 1: {line}")
            break
    return total, same


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--redis", action="store_true", help="replicate Redis")
    parser.add_argument("--requests", type=int, default=150, help="of each client")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--truechimer", default=find_truechimer(), metavar="PATH")
    options = parser.parse_args()
    if options.redis and not shutil.which("redis-server"):
        sys.exit("there is no redis-server in the PATH: install redis-server")
    kind = Redis() if options.redis else Service()
    directory = options.keep or pathlib.Path(tempfile.mkdtemp(prefix="truechimer-group-"))
    directory.mkdir(exist_ok=True)
    try:
        good = True
        for own_clocks in (False, True):
            where = directory / ("own" if own_clocks else "agreed")
            total, same = round_of(options.truechimer, where, kind, options.requests, own_clocks)
            good &= total == 3 * options.requests and (same == total) != own_clocks
    finally:
        if not options.keep:
            shutil.rmtree(directory, ignore_errors=True)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()

"""Tries what is of Python's making, over the page that $TRUECHIMER_PAGE names and a daemon tends."""

import copy
import itertools
import os
import pickle
import signal
import threading
import time
import unittest
from datetime import datetime, timedelta, timezone

import truechimer
from truechimer import Clock, ClockError, Moment, OpenError, ReadError, Side, Status, WaitError

NS = timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Check(unittest.TestCase):
    def setUp(self) -> None:
        self.clock = Clock()

    def test_dates_are_rounded_outwards(self) -> None:
        now = self.clock.now()
        self.assertEqual(now.status, Status.SYNCHRONISED)
        self.assertTrue(now.status.bound_holds)
        micros = [(date - EPOCH) // NS for date in (now.earliest, now.best, now.latest)]
        self.assertEqual(micros[:2], [now.earliest_ns // 1000, now.best_ns // 1000])
        self.assertTrue(0 <= micros[2] * 1000 - now.latest_ns < 1000)
        self.assertEqual(now.best.tzinfo, timezone.utc)
        self.assertTrue(now.earliest <= now.best <= now.latest)
        bound = now.bound_ns
        assert bound is not None
        self.assertEqual(bound, max(now.best_ns - now.earliest_ns, now.latest_ns - now.best_ns))
        self.assertTrue(now.tai_known and now.tai_offset == 37 and not now.leap_second)
        self.assertIn("synchronised", repr(now))

    def test_moments_are_values(self) -> None:
        moment = self.clock.count()
        again = Moment(moment.count, moment.stretch)
        self.assertEqual((moment, hash(moment)), (again, hash(again)))
        self.assertEqual(moment, pickle.loads(pickle.dumps(moment)))
        self.assertEqual(moment, copy.copy(moment))
        self.assertNotEqual(moment, Moment(moment.count + 1, moment.stretch))
        self.assertEqual(self.clock.time_of(moment).count, moment.count)
        with self.assertRaises(ValueError):
            Moment(1, 0)
        length = self.clock.elapsed(moment, self.clock.count())
        self.assertTrue(length.ns >= 0 and length.bound_ns >= 0)

    def test_errors_are_of_one_family(self) -> None:
        for kind in (OpenError, ReadError, WaitError):
            self.assertTrue(issubclass(kind, ClockError))
        with self.assertRaisesRegex(OpenError, "/nonexistent/clock: start a daemon"):
            Clock("/nonexistent/clock")
        with self.assertRaises(TypeError):
            Clock(7)  # type: ignore[arg-type]

    def test_times_need_a_zone(self) -> None:
        with self.assertRaisesRegex(ValueError, "has no time zone"):
            self.clock.wait_after(datetime.now())
        with self.assertRaisesRegex(ValueError, "no number"):
            self.clock.wait_synchronised(timeout=float("nan"))
        now = self.clock.now()
        self.assertGreater(self.clock.wait_after(now.latest, 60).earliest_ns, now.latest_ns)
        with self.assertRaisesRegex(WaitError, "^waited 10ms in vain: the status is synchronised"):
            self.clock.wait_after(now.latest + timedelta(hours=1), timeout=0.01)

    def test_sides_are_named(self) -> None:
        now = self.clock.now()
        likely = self.clock.wait_for(now.latest, Side.LIKELY, 60)
        self.assertGreaterEqual(likely.best_ns, now.latest_ns)
        self.assertGreater(self.clock.wait_for(now.latest, Side.AFTER).earliest_ns, now.latest_ns)
        for side in (-1, 3):
            with self.assertRaisesRegex(ValueError, "no side"):
                self.clock.wait_for(now.latest, side)  # type: ignore[arg-type]

    def test_a_timer_is_an_iterator(self) -> None:
        first = self.clock.now().latest_ns
        timer = self.clock.timer(first, 1_000_000, Side.AFTER)
        due = first
        for tick in itertools.islice(timer, 5):
            self.assertEqual(tick.time_ns, due + tick.missed * 1_000_000)
            self.assertGreater(tick.reading.earliest_ns, tick.time_ns)
            self.assertEqual(tick.time, EPOCH + NS * (tick.time_ns // 1000))
            due = tick.time_ns + 1_000_000

    def test_a_wait_lets_other_threads_go_on(self) -> None:
        rounds = 0
        waiting = threading.Thread(target=lambda: self.clock.wait_after(self.clock.now().latest_ns + 300_000_000, 60))
        waiting.start()
        while waiting.is_alive():
            rounds += 1
            time.sleep(0.001)
        self.assertGreater(rounds, 5)

    def test_a_signal_ends_a_wait(self) -> None:
        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with self.assertRaises(KeyboardInterrupt):
            self.clock.wait_after(self.clock.now().latest + timedelta(days=1))
        signal.signal(signal.SIGALRM, before)

    def test_many_threads(self) -> None:
        wrong = []

        def read() -> None:
            last = 0
            for _ in range(5000):
                now = self.clock.now_monotone()
                if not (now.earliest_ns <= now.best_ns <= now.latest_ns and now.best_ns >= last):
                    wrong.append(now)
                last = now.best_ns

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_after_a_fork(self) -> None:
        moment, uptime = self.clock.count(), self.clock.uptime()
        child = os.fork()
        if child == 0:
            here = self.clock.now()
            right = here.status == Status.SYNCHRONISED and self.clock.elapsed(moment, self.clock.count()).ns > 0
            right = right and self.clock.uptime().ns >= uptime.ns and self.clock.time_of(moment).best_ns <= here.best_ns
            os._exit(0 if right else 1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertEqual(self.clock.status(), Status.SYNCHRONISED)

    def test_where_nothing_is_promised_the_ends_are_those_of_the_scale(self) -> None:
        from truechimer import _times

        self.assertEqual(_times.down(-(2**63)), datetime.min.replace(tzinfo=timezone.utc))
        self.assertEqual(_times.up(2**63 - 1), datetime.max.replace(tzinfo=timezone.utc))
        self.assertEqual(_times.up(1), EPOCH + NS)
        self.assertEqual(_times.down(-1), EPOCH - NS)

    def test_it_is_of_one_version(self) -> None:
        self.assertRegex(truechimer.__version__, r"^\d+\.\d+\.\d+$")
        self.assertEqual(str(self.clock.page), os.environ["TRUECHIMER_PAGE"])


unittest.main()

#!/usr/bin/env python3
"""Makes allantools.txt, what the tests compare with, by allantools (pip install allantools):

    python3 counters/survey/tests/analysis/allantools.py > counters/survey/tests/analysis/allantools.txt

With the name of a file it prints the deviations of the phases in it instead (one a line, in seconds;
'# tau0: SECONDS' before them), to compare with what 'truechimer counters stability' prints:

    python3 counters/survey/tests/analysis/allantools.py phases.txt
"""

import sys
from importlib.metadata import version

sys.path.pop(0)  # The folder of this script, which has the name of the package.

import allantools
import numpy


def generator(count):
    """The generator of SP 1065, section 12.4: numbers in (0, 1)."""
    n, numbers = 1234567890, []
    for _ in range(count):
        numbers.append(n / 2147483647)
        n = 16807 * n % 2147483647
    return numpy.array(numbers)


def deviations(phase, tau0, factors):
    for name in ("oadev", "mdev", "tdev", "ohdev"):
        taus = [m * tau0 for m in factors]
        found = getattr(allantools, name)(phase, rate=1 / tau0, data_type="phase", taus=taus)
        for tau, value, count in zip(found[0], found[1], found[3]):
            yield name, round(tau / tau0), value, int(count)


def series(count, tau0):
    """Phases with white, flicker-like and random-walk parts, and drift: the same numbers in Rust."""
    noise = generator(count) - 0.5
    walk = numpy.cumsum(noise) * 1e-10
    i = numpy.arange(count)
    return 3e-9 * noise + walk + numpy.cumsum(walk) * 0.01 + 2e-7 * i * tau0 + 1e-12 * i * i


def main():
    if len(sys.argv) > 1:
        tau0, phase = None, []
        for line in open(sys.argv[1]):
            if line.startswith("# tau0:"):
                tau0 = float(line.split(":")[1])
            elif not line.startswith("#"):
                phase.append(float(line))
        phase = numpy.array(phase)
        factors = [2**k for k in range(40) if 2**k <= (len(phase) - 1) // 3]
        for row in deviations(phase, tau0, factors):
            print("%-6s %8d %.9e %8d" % row)
        return
    print("# By allantools.py with allantools", version("allantools"))
    print("# deviations of the series there, 2000 phases, tau0 = 0.5: name, m, value, terms")
    for row in deviations(series(2000, 0.5), 0.5, [1, 2, 3, 10, 64, 333, 600]):
        print("%s %d %.15e %d" % row)
    print("# degrees of freedom: 'edf', alpha, d, modified, m, samples, value")
    for alpha in (2, 1, 0, -1, -2):
        for d in (2, 3):
            for modified in (False, True):
                for m in (1, 2, 7, 32, 40, 250):
                    for samples in (40, 500, 1001, 10_000):
                        span = m * d + (m if modified else 1)
                        if samples < span + 3:
                            continue
                        try:
                            edf = allantools.edf_greenhall(
                                alpha, d, m, samples, overlapping=True, modified=modified
                            )
                        except NotImplementedError:
                            continue
                        print("edf %d %d %d %d %d %.9e" % (alpha, d, modified, m, samples, edf))


main()

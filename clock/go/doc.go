// Package truechimer reads the Truechimer clock: the time with the bound of its error, at about the
// cost of reading the processor's counter.
//
// A daemon (truechimer run) follows time servers and keeps a page of shared memory up to date. [Open]
// maps that page, read-only and without any privilege. From then on a reading takes no lock, no
// allocation and, on amd64 and arm64, no system call, and the daemon can never hold it up: not if
// that is busy, stopped, killed, or started again.
//
//	clock, err := truechimer.Open()
//	if err != nil {
//		log.Fatal(err) // it says where a page was looked for, and what to start
//	}
//	now, err := clock.Now()
//
// One Clock serves any number of goroutines, and is meant to: open it once.
//
// # Looking after itself
//
// A page can outlive its daemon, and a counter can lose its continuity: the machine is suspended, a
// virtual machine is moved. The daemon looks for that every second. Where it has not looked for three
// seconds, a reading looks itself, at the cost of some microseconds: without a daemon Synchronised
// turns into Holdover, in time into Unknown, and after a break at once into Disrupted.
//
// # Counters
//
// The time stamp counter (amd64) and the generic timer (arm64) are read by an instruction.
// CLOCK_MONOTONIC_RAW, which a daemon uses where these will not do, takes a system call. An HPET or an
// ACPI timer is not read by this package: there is an error that says so.
//
// The layout of the page and the arithmetic are those of docs/reference/clock-page.md; the results are
// those of the client in Rust, to the nanosecond.
package truechimer

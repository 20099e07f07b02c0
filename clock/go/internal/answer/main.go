//go:build linux

// Answer reads questions about the clock, one a line, and prints one line for each: what
// clock/client/tests/languages.rs asks to compare this client with the one in Rust.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"truechimer"
)

var timer *truechimer.Timer

func main() {
	if len(os.Args) == 3 && os.Args[1] == "child" {
		fmt.Println(child(os.Args[2]))
		return
	}
	lines := bufio.NewScanner(os.Stdin)
	var clock *truechimer.Clock
	for lines.Scan() {
		words := strings.Split(lines.Text(), " ")
		var text string
		var err error
		if words[0] == "open" {
			text = "ok"
			clock, err = truechimer.OpenAt(words[1])
		} else if words[0] == "child" {
			text, err = started(clock.Page())
		} else {
			text, err = answer(clock, words)
		}
		if err != nil {
			text = "error " + err.Error()
		}
		fmt.Println(text)
	}
}

// Started tells what a child says of itself, which has a memory of its own: no handle goes with it.
func started(page string) (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	text, err := exec.Command(own, "child", page).Output()
	return strings.TrimSpace(string(text)), err
}

func child(page string) string {
	inherited := holds(page)
	clock, err := truechimer.OpenAt(page)
	if err != nil {
		return "error " + err.Error()
	}
	text, err := reading(clock.Now())
	if err != nil {
		return "error " + err.Error()
	}
	return fmt.Sprint(inherited, " ", holds(page), " ", text)
}

// Holds tells how many of this process's files and mappings are the page.
func holds(page string) int {
	number := 0
	files, _ := os.ReadDir("/proc/self/fd")
	for _, file := range files {
		if link, err := os.Readlink("/proc/self/fd/" + file.Name()); err == nil && link == page {
			number++
		}
	}
	maps, _ := os.ReadFile("/proc/self/maps")
	for _, line := range strings.Split(string(maps), "\n") {
		if strings.HasSuffix(line, " "+page) {
			number++
		}
	}
	return number
}

func answer(clock *truechimer.Clock, words []string) (string, error) {
	var numbers [4]uint64
	for i, word := range words[1:] {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			// A count.
			unsigned, err := strconv.ParseUint(word, 10, 64)
			if err != nil {
				return "", err
			}
			n = int64(unsigned)
		}
		numbers[i] = uint64(n)
	}
	moment := func(i int) truechimer.Moment { return truechimer.Moment{Count: numbers[i], Stretch: numbers[i+1]} }
	within := func(ms uint64) (context.Context, context.CancelFunc) {
		return context.WithTimeout(context.Background(), time.Duration(ms)*time.Millisecond)
	}
	switch words[0] {
	case "now":
		return reading(clock.Now())
	case "mono":
		return reading(clock.NowMonotone())
	case "count":
		m, err := clock.Count()
		return fmt.Sprint(m.Count, m.Stretch), err
	case "timeof":
		return reading(clock.TimeOf(moment(0)))
	case "elapsed":
		return length(clock.Elapsed(moment(0), moment(2)))
	case "uptime":
		return length(clock.Uptime())
	case "status":
		status, err := clock.Status()
		return status.String(), err
	case "after":
		ctx, cancel := within(numbers[1])
		defer cancel()
		return reading(clock.WaitAfter(ctx, time.Unix(0, int64(numbers[0]))))
	case "for":
		ctx, cancel := within(numbers[2])
		defer cancel()
		return reading(clock.WaitFor(ctx, time.Unix(0, int64(numbers[0])), truechimer.Side(numbers[1])))
	case "timer":
		var err error
		timer, err = clock.NewTimer(time.Unix(0, int64(numbers[0])), time.Duration(numbers[1]), truechimer.Side(numbers[2]))
		return "ok", err
	case "tick":
		ctx, cancel := within(numbers[0])
		defer cancel()
		tick, err := timer.Tick(ctx)
		if err != nil {
			return "", err
		}
		text, err := reading(tick.Reading, nil)
		return fmt.Sprint(tick.Time.UnixNano(), " ", tick.Missed, " ", text), err
	case "synchronised":
		ctx, cancel := within(numbers[1])
		defer cancel()
		return reading(clock.WaitSynchronised(ctx, time.Duration(numbers[0])))
	}
	return "", fmt.Errorf("no question '%s'", words[0])
}

func reading(r truechimer.Reading, err error) (string, error) {
	bound, promised := r.Bound()
	if !promised {
		bound = -1
	}
	flags := 0
	if r.TAIKnown {
		flags |= 1
	}
	if r.LeapSecond {
		flags |= 2
	}
	return fmt.Sprint(r.Count, " ", r.EarliestNS, " ", r.BestNS, " ", r.LatestNS, " ", int64(bound), " ", uint8(r.Status), " ",
		r.TAIOffset, " ", flags), err
}

func length(l truechimer.Length, err error) (string, error) {
	return fmt.Sprint(int64(l.Span), " ", int64(l.Bound)), err
}

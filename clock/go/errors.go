//go:build linux

package truechimer

import (
	"errors"
	"fmt"
	"time"
)

// Kinds of errors, to ask for with errors.Is. The error itself says more: path, field and mend.
var (
	// ErrNoPage: there is no page at any of the places looked at.
	ErrNoPage = errors.New("there is no clock page")
	// ErrSystem: the system refused to open, examine or map the page.
	ErrSystem = errors.New("the clock page cannot be opened")
	// ErrUntrusted: the page belongs to somebody who is not to be trusted with the time, or others can write it.
	ErrUntrusted = errors.New("the clock page is not to be trusted")
	// ErrForeign: the file is no clock page.
	ErrForeign = errors.New("the file is not a clock page")
	// ErrUnfinished: the file is shorter than a page, or nobody has finished making it.
	ErrUnfinished = errors.New("the clock page is not whole (yet)")
	// ErrVersion: the page has another version of the layout.
	ErrVersion = errors.New("the clock page has another version")
	// ErrDamaged: the page holds what no daemon writes.
	ErrDamaged = errors.New("the clock page is damaged")
	// ErrOtherBoot: the page was left by another boot.
	ErrOtherBoot = errors.New("the clock page was left by another boot")
	// ErrCounter: the counter that the page is about cannot be read here.
	ErrCounter = errors.New("the clock's counter cannot be read")
	// ErrNotYet: the page holds no time yet.
	ErrNotYet = errors.New("the clock is not set yet")
	// ErrOtherEpoch: the counter lost its continuity since that moment, or the moment is of another counter than
	// the clock goes by now.
	ErrOtherEpoch = errors.New("the counter lost its continuity since that moment, or it is of another counter")
	// ErrDisrupted: the counter has just lost its continuity.
	ErrDisrupted = errors.New("the counter lost its continuity")
	// ErrVoid: the page promises nothing for that moment: it is too old, or the moment is not over.
	ErrVoid = errors.New("the clock page is too old, or that moment is not over")
	// ErrMoment: a moment that no clock gave.
	ErrMoment = errors.New("that is no moment of a clock")
	// ErrClosed: the clock was closed.
	ErrClosed = errors.New("the clock is closed")
)

// failure is an error of a kind, with a text of its own.
type failure struct {
	kind error
	text string
}

func (f *failure) Error() string { return f.text }

func (f *failure) Unwrap() error { return f.kind }

func fail(kind error, text string) error { return &failure{kind, text} }

// Those that readings end with, made once.
var (
	errStarting = fail(ErrNotYet, "the clock is not set yet: the daemon is still starting")
	errNeverSet = fail(ErrNotYet, "the clock was never set and no daemon tends it: start one (truechimer run --server HOST)")
	errBroken   = fail(ErrDisrupted, "the counter lost its continuity (suspend, migration or a jump): wait until the daemon has "+
		"synchronised again")
	errVoid    = fail(ErrVoid, "the clock page is too old to say: is the daemon still running, and does it reach its servers?")
	errNotOver = fail(ErrVoid, "that moment is not over yet, or it is of another boot")
)

// corrupt is a hand that cannot be, by the field, found at a place.
func corrupt(place, field string) error {
	return fail(ErrDamaged, fmt.Sprintf("%s holds a hand with an impossible %s: restart the daemon that writes it", place, field))
}

// WaitError is the end of a wait in vain.
type WaitError struct {
	// Waited is how long it was waited for, ≥ 0.
	Waited time.Duration
	// Last is the clock's last reading, if Err is nil.
	Last Reading
	// Err is why there was no reading.
	Err error
	// Cause is why the wait ended: of the context.
	Cause error
}

func (w *WaitError) Error() string {
	if w.Err != nil {
		return fmt.Sprintf("waited %v in vain (%v): %v", w.Waited, w.Cause, w.Err)
	}
	text := fmt.Sprintf("waited %v in vain (%v): the status is %v", w.Waited, w.Cause, w.Last.Status)
	if bound, ok := w.Last.Bound(); ok {
		text += fmt.Sprintf(", the bound %v", bound)
	}
	return text
}

// Unwrap is the context's error, or what the clock said where there was no reading.
func (w *WaitError) Unwrap() error {
	if w.Err != nil {
		return w.Err
	}
	return w.Cause
}

//go:build linux

package group

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// Variable is the name of the variable by which truechimer group exec tells a program where its front's page is.
const Variable = "TRUECHIMER_GROUP_FRONT"

// looks is how often it is looked for what is not there yet.
const looks = 5 * time.Millisecond

// Front is the front that feeds this program. Any goroutine may use it.
type Front struct {
	page *layout
}

// Attach finds the front that feeds this program, where truechimer group exec --reads delivery says, and waits for one
// that is not there yet as long as the context lets it. Once in a program.
func Attach(ctx context.Context) (*Front, error) {
	path := os.Getenv(Variable)
	if path == "" {
		return nil, fmt.Errorf("%w: $%s is not set: start this program by 'truechimer group exec --reads delivery'", ErrNoFront, Variable)
	}
	for {
		page, err := openPage(path)
		if err == nil {
			page.attach()
			return &Front{page}, nil
		}
		if !errors.Is(err, ErrNoFront) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waited in vain (%v): %w", ctx.Err(), err)
		case <-time.After(looks):
		}
	}
}

// Now is the agreed time of the request that is being worked on, in UTC: the same at all replicas, however often it is
// asked for. Between requests it goes on with the front's ticks. It waits for the first one, while the front lives. After
// an error there is no time any more: end the program.
func (f *Front) Now() (time.Time, error) {
	if !f.page.has(flagClock) {
		// group front --own-clocks.
		return time.Now().UTC(), nil
	}
	for {
		if f.page.has(flagFenced) {
			return time.Time{}, ErrFenced
		}
		if now := atomic.LoadInt64(&f.page.time); now > 0 {
			return time.Unix(0, now).UTC(), nil
		}
		if isGone(atomic.LoadUint64(&f.page.front)) {
			return time.Time{}, fmt.Errorf("%w: it has ended", ErrNoFront)
		}
		time.Sleep(looks)
	}
}

// Listener is a listener whose connections tell the front what the program takes of them. A program that answers each
// connection in a goroutine that reads it uses this: it is at work from when it has read until it reads again; for what
// other goroutines do then the front looks whether the program sleeps. For HTTP there is [Front.Serve].
func (f *Front) Listener(listener net.Listener) net.Listener {
	return &acceptor{listener, f.page, false}
}

type acceptor struct {
	net.Listener
	page *layout
	http bool
}

func (a *acceptor) Accept() (net.Conn, error) {
	accepted, err := a.Listener.Accept()
	if err != nil {
		return nil, err
	}
	// The front is on this host. Who else connects is no matter of its.
	peer, ok := accepted.RemoteAddr().(*net.TCPAddr)
	if !ok || !peer.IP.IsLoopback() {
		return accepted, nil
	}
	own := &conn{Conn: accepted, page: a.page, port: uint16(peer.Port), http: a.http}
	own.takes(markAccepted, 0)
	return own, nil
}

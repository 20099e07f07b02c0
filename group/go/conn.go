//go:build linux

package group

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// conn is a connection of the front's. It has something at work from when it was accepted or read until it is read
// again. Of net/http that is true but for one thing: while a handler works it reads ahead, to see whether the client has
// gone. That is told apart by what is documented of a server: WriteTimeout begins anew when a request's header has been
// read, and ConnState tells when it has been answered.
type conn struct {
	net.Conn
	page *layout
	port uint16

	lock sync.Mutex
	http bool
	// True while it counts as busy.
	busy bool
	// True from when a request's header was read until its answer is finished.
	request bool
	// True while its body is read.
	body bool
	// True once nothing more is read of it.
	refused bool
	// True once it was closed: its port may be somebody else's by now.
	closed bool
}

// Read reads, and tells the front.
func (c *conn) Read(into []byte) (int, error) {
	if len(into) == 0 {
		return c.Conn.Read(into)
	}
	if !c.waits() {
		return 0, errRefused
	}
	n, err := c.Conn.Read(into)
	if n > 0 {
		c.takes(0, n)
	} else if errors.Is(err, io.EOF) {
		c.takes(markEnded, 0)
	}
	return n, err
}

var (
	errRefused = errors.New("the request is longer than this server takes")
	errHalf    = errors.New("this connection has no end of its own side")
)

// waits: more is waited for, unless it is looked for while a handler works. False where nothing is read any more.
func (c *conn) waits() bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.refused {
		return false
	}
	if c.request && !c.body {
		return true
	}
	if !c.http || c.body {
		// Somebody else may work on what came before, or this be the look of one whose body has come.
		c.page.handOn()
	}
	c.setBusy(false)
	return true
}

// takes: something was taken. Whoever did that is at work before it is counted.
func (c *conn) takes(mark uint64, bytes int) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.closed {
		// It was read just as it was closed.
		return
	}
	c.setBusy(true)
	if mark != 0 {
		c.page.mark(c.port, mark)
	}
	c.page.took(c.port, bytes)
}

// setBusy needs the lock. Nobody works on what was closed: it would never be waited for again.
func (c *conn) setBusy(busy bool) {
	busy = busy && !c.closed
	switch {
	case busy && !c.busy:
		c.page.busyUp()
	case !busy && c.busy:
		c.page.busyDown()
	}
	c.busy = busy
}

// Close closes it. What it has written is on its way before the front learns that it is done.
func (c *conn) Close() error {
	c.lock.Lock()
	if !c.closed {
		c.page.mark(c.port, markClosed)
	}
	c.closed = true
	c.lock.Unlock()
	err := c.Conn.Close()
	c.lock.Lock()
	defer c.lock.Unlock()
	c.setBusy(false)
	return err
}

// CloseWrite ends its own side. A server of HTTP then waits, for the client to see the answer, and has done its work.
func (c *conn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errHalf
	}
	err := half.CloseWrite()
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.http {
		c.request = false
		c.setBusy(false)
	}
	return err
}

// SetWriteDeadline begins a request where it sets one: see conn.
func (c *conn) SetWriteDeadline(until time.Time) error {
	if !until.IsZero() {
		c.begins()
	}
	return c.Conn.SetWriteDeadline(until)
}

// begins: a request's header was read.
func (c *conn) begins() {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.http && !c.refused {
		c.request = true
		c.setBusy(true)
	}
}

// answered: the request's answer is finished. Busy it is until the next one is waited for, which may be here already.
func (c *conn) answered() {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.request = false
}

// leaves: the connection is another program's from now on (http.Hijacker).
func (c *conn) leaves() {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.http, c.request = false, false
}

// reads: the request's body is being read, or was.
func (c *conn) reads(body bool) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.body = body
	if !body {
		c.setBusy(true)
	}
}

// refuse lets nothing more be read.
func (c *conn) refuse() {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.refused = true
}

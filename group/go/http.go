//go:build linux

package group

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"time"
)

// MostBody is the length of the longest body of a request that [Front.Serve] takes, bytes: each is read whole before
// its handler begins.
const MostBody = 16 << 20

// endless is for a server without WriteTimeout: never, and not so far that the deadline is no time.
const endless = 100 * 365 * 24 * time.Hour

// Serve serves HTTP/1 to the front, as server.Serve does. Handlers run one at a time, and the time stands still
// while one does; what it leaves to other goroutines when it returns is not waited for, and one that waits for another
// request waits for ever. A request's body is read whole before, its answer's Date is the agreed time. It sets
// Handler, ConnState, ConnContext and WriteTimeout of the server, and calls those that it had. Once for each server.
func (f *Front) Serve(listener net.Listener, server *http.Server) error {
	inner, state, context_ := server.Handler, server.ConnState, server.ConnContext
	if inner == nil {
		inner = http.DefaultServeMux
	}
	server.Handler = &handler{inner, f}
	server.ConnState = func(c net.Conn, now http.ConnState) {
		if state != nil {
			state(c, now)
		}
		if own, ok := c.(*conn); ok {
			switch now {
			case http.StateIdle:
				own.answered()
			case http.StateHijacked:
				own.leaves()
			}
		}
	}
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if context_ != nil {
			ctx = context_(ctx, c)
		}
		if own, ok := c.(*conn); ok {
			ctx = context.WithValue(ctx, connection{}, own)
		}
		return ctx
	}
	if server.WriteTimeout <= 0 {
		server.WriteTimeout = endless
	}
	return server.Serve(&acceptor{listener, f.page, true})
}

// connection is the key of a request's connection.
type connection struct{}

type handler struct {
	inner http.Handler
	front *Front
}

func (h *handler) ServeHTTP(out http.ResponseWriter, request *http.Request) {
	own, ok := request.Context().Value(connection{}).(*conn)
	if !ok {
		h.inner.ServeHTTP(out, request)
		return
	}
	own.begins()
	body, status := own.whole(request.Body)
	now, err := h.front.Now()
	if err != nil {
		http.Error(out, err.Error(), http.StatusServiceUnavailable)
		return
	}
	out.Header().Set("Date", now.Format(http.TimeFormat))
	if status != http.StatusOK {
		out.Header().Set("Connection", "close")
		http.Error(out, http.StatusText(status), status)
		return
	}
	if len(body) > 0 {
		request.Body = io.NopCloser(bytes.NewReader(body))
	}
	h.inner.ServeHTTP(out, request)
}

// whole reads a body to its end. Parts of it that come later the front gives while nothing is at work.
func (c *conn) whole(from io.Reader) ([]byte, int) {
	if from == nil || from == http.NoBody {
		return nil, http.StatusOK
	}
	c.reads(true)
	defer c.reads(false)
	body, err := io.ReadAll(io.LimitReader(from, MostBody+1))
	if err == nil && len(body) <= MostBody {
		return body, http.StatusOK
	}
	c.refuse()
	if err != nil {
		return nil, http.StatusBadRequest
	}
	return nil, http.StatusRequestEntityTooLarge
}

//go:build linux

package group

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

// native is the order of bytes of this machine: binary.NativeEndian came later than the language of go.mod.
var native = func() binary.ByteOrder {
	one := uint16(1)
	if *(*byte)(unsafe.Pointer(&one)) == 1 {
		return binary.LittleEndian
	}
	return binary.BigEndian
}()

// at is a time of the front's, ns.
const at = 1_893_456_000_123_456_789

// page makes a page, as a front does, and tells this program where it is.
func page(t *testing.T, version uint32, size int, front int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "1.front")
	head := make([]byte, pageSize+4096)
	native.PutUint64(head, pageMagic)
	native.PutUint32(head[8:], version)
	native.PutUint32(head[12:], headSize)
	native.PutUint64(head[16:], flagClock)
	native.PutUint64(head[96:], uint64(front))
	if err := os.WriteFile(path, head[:size], 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(Variable, path)
	return path
}

// stage is a front with the agreed time, and this program attached to it.
func stage(t *testing.T) *Front {
	t.Helper()
	page(t, pageVersion, pageSize, os.Getpid())
	front, err := Attach(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	atomic.StoreInt64(&front.page.time, at)
	if programs, own := front.page.programs, front.page.running[0]; programs != 1 || own != uint64(os.Getpid()) {
		t.Fatal(programs, own)
	}
	return front
}

// client is the front's side of a connection.
type client struct {
	net.Conn
	t     *testing.T
	front *Front
	lines *bufio.Reader
	port  uint16
	sent  uint64
}

func connect(t *testing.T, front *Front, to net.Addr) *client {
	t.Helper()
	stream, err := net.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stream.Close() })
	port := uint16(stream.LocalAddr().(*net.TCPAddr).Port)
	made := &client{stream, t, front, bufio.NewReader(stream), port, 0}
	until(t, "accepted", func() bool { return made.taken()&markAccepted != 0 })
	return made
}

func (c *client) taken() uint64 { return atomic.LoadUint64(&c.front.page.taken[c.port]) }

func (c *client) busy() uint32 { return atomic.LoadUint32(&c.front.page.busy) }

// until waits for what comes, however busy the machine is.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range [30_000]struct{}{} {
		if is() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("never: " + what)
}

// done waits until all is taken and nobody is at work, in this order.
func (c *client) done() {
	c.t.Helper()
	until(c.t, "done", func() bool { return c.taken()&(1<<56-1) == c.sent && c.busy() == 0 })
}

func (c *client) send(text string) {
	c.t.Helper()
	c.sent += uint64(len(text))
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) answer() (*http.Response, string) {
	c.t.Helper()
	answer, err := http.ReadResponse(c.lines, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return answer, string(body)
}

// serves has a server of HTTP whose handler is held up for each request until something comes.
func serves(t *testing.T, handle http.HandlerFunc) (*Front, net.Addr) {
	t.Helper()
	front := stage(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handle}
	t.Cleanup(func() { _ = server.Close() })
	go func() { _ = front.Serve(listener, server) }()
	return front, listener.Addr()
}

// works looks for a while, in which others run, that somebody is at work all the time.
func works(t *testing.T, front *Front) {
	t.Helper()
	for range [200]struct{}{} {
		if busy := atomic.LoadUint32(&front.page.busy); busy != 1 {
			t.Errorf("%d at work", busy)
			return
		}
		time.Sleep(50 * time.Microsecond)
	}
}

// body writes the time, and what it got.
func body(t *testing.T, front **Front) http.HandlerFunc {
	return func(out http.ResponseWriter, request *http.Request) {
		works(t, *front)
		got, err := io.ReadAll(request.Body)
		now, errTime := (*front).Now()
		if err != nil || errTime != nil {
			t.Error(err, errTime)
		}
		fmt.Fprintf(out, "%d %s %s", now.UnixNano(), request.URL.Path, got)
	}
}

func TestWorkLastsUntilTheAnswerIsWritten(t *testing.T) {
	var front *Front
	front, to := serves(t, body(t, &front))
	one := connect(t, front, to)
	one.done()
	one.send("GET /a HTTP/1.1\r\nHost: here\r\n\r\n")
	answer, text := one.answer()
	if text != fmt.Sprint(at, " /a ") || answer.Header.Get("Date") != "Tue, 01 Jan 2030 00:00:00 GMT" {
		t.Error(text, answer.Header)
	}
	one.done()
	// Two at once: the second was read with the first.
	one.send(strings.Repeat("GET /b HTTP/1.1\r\nHost: here\r\n\r\n", 2))
	for range [2]struct{}{} {
		if _, text := one.answer(); text != fmt.Sprint(at, " /b ") {
			t.Error(text)
		}
	}
	one.done()
	if handed := atomic.LoadUint32(&front.page.handed); handed != 0 {
		t.Error("the front is to look closer, without need:", handed)
	}
	// Its client ends.
	_ = one.Conn.(*net.TCPConn).CloseWrite()
	until(t, "the end", func() bool { return one.taken()&markClosed != 0 && one.busy() == 0 })
	if one.taken()&markEnded == 0 {
		t.Error("it is not said to have ended")
	}
}

func TestWhatComesInPiecesIsWaitedFor(t *testing.T) {
	var front *Front
	front, to := serves(t, body(t, &front))
	one := connect(t, front, to)
	pieces := []string{
		"POST /c HT", "TP/1.1\r\nHost: here\r\nContent-Length: 6\r\n\r\n", "abc", "def",
		"POST /d HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n",
		"3;" + strings.Repeat("x", 4092) + "\r", "\nabc\r\n", "0\r\n\r\n",
		// So long that there is room for one byte more where it is read.
		"GET /" + strings.Repeat("e", 4090), " HTTP/1.1\r\nHost: here\r\n\r\n",
		"POST /f HTTP/1.1\r\nHost: here\r\nContent-Length: 6\r\n\r\nabcdef",
	}
	for n, piece := range pieces {
		one.send(piece)
		if one.done(); t.Failed() {
			t.Fatal(n)
		}
	}
	for _, wanted := range []string{" /c abcdef", " /d abc", " /" + strings.Repeat("e", 4090) + " ", " /f abcdef"} {
		if _, text := one.answer(); text != fmt.Sprint(at, wanted) {
			t.Error(text)
		}
	}
}

func TestWhatIsNoRequestHoldsUpNobody(t *testing.T) {
	var front *Front
	front, to := serves(t, body(t, &front))
	// As much as net/http reads of a header: what it leaves unread may cost the client the answer.
	long := "GET / HTTP/1.1\r\nHost: here\r\nLong: "
	long += strings.Repeat("x", http.DefaultMaxHeaderBytes+4096-len(long))
	for status, request := range map[int]string{
		400: "nonsense\r\n\r\n",
		431: long,
		413: fmt.Sprintf("POST / HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n", MostBody+2) + strings.Repeat("x", MostBody+1),
	} {
		one := connect(t, front, to)
		go func() { _, _ = io.Copy(one, bytes.NewReader([]byte(request))) }()
		answer, _ := one.answer()
		if answer.StatusCode != status {
			t.Error(answer.Status, status)
		}
		until(t, "nobody works", func() bool { return one.busy() == 0 && one.taken()&(markClosed) != 0 })
	}
}

func TestAConnectionThatIsTakenOver(t *testing.T) {
	var front *Front
	front, to := serves(t, func(out http.ResponseWriter, _ *http.Request) {
		stream, both, err := out.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer stream.Close()
		for {
			line, err := both.ReadString('\n')
			if err != nil {
				return
			}
			_, _ = both.WriteString(line)
			_ = both.Flush()
		}
	})
	one := connect(t, front, to)
	one.send("GET / HTTP/1.1\r\nHost: here\r\n\r\n")
	one.done()
	one.send("ask\n")
	if line, err := one.lines.ReadString('\n'); line != "ask\n" {
		t.Error(line, err)
	}
	one.done()
}

func TestAnotherProtocol(t *testing.T) {
	front := stage(t)
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	listener, goes := front.Listener(plain), make(chan struct{})
	go func() {
		stream, err := listener.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer stream.Close()
		for lines := bufio.NewScanner(stream); lines.Scan(); {
			<-goes
			fmt.Fprintln(stream, lines.Text())
		}
	}()
	one := connect(t, front, plain.Addr())
	one.done()
	before := atomic.LoadUint32(&front.page.handed)
	one.send("ask\n")
	until(t, "it is read", func() bool { return one.taken()&(1<<56-1) == one.sent })
	works(t, front)
	goes <- struct{}{}
	if line, err := one.lines.ReadString('\n'); line != "ask\n" {
		t.Error(line, err)
	}
	one.done()
	if atomic.LoadUint32(&front.page.handed) == before {
		t.Error("other goroutines may work: the front is to look")
	}
	_ = one.Close()
	until(t, "the end", func() bool { return one.taken()&markClosed != 0 && one.busy() == 0 })
}

// late is a connection whose read returns what was there after another goroutine has closed it.
type late struct {
	net.Conn
	looks, closed chan struct{}
}

func (l *late) Read(into []byte) (int, error) {
	close(l.looks)
	<-l.closed
	return copy(into, "late"), nil
}

func TestWhatIsReadAsItIsClosedIsNobodysWork(t *testing.T) {
	front := stage(t)
	ours, theirs := net.Pipe()
	defer theirs.Close()
	slow := &late{ours, make(chan struct{}), make(chan struct{})}
	one := &conn{Conn: slow, page: front.page, port: 7}
	ended := make(chan error)
	go func() {
		n, err := one.Read(make([]byte, 16))
		if n != 4 {
			t.Error("not read: ", n)
		}
		ended <- err
	}()
	<-slow.looks
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	close(slow.closed)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	one.begins()
	one.reads(false)
	busy, taken := atomic.LoadUint32(&front.page.busy), atomic.LoadUint64(&front.page.taken[7])
	if busy != 0 || taken != markClosed {
		t.Errorf("%d at work, %x taken", busy, taken)
	}
}

func TestTimesAreTheFronts(t *testing.T) {
	front := stage(t)
	atomic.StoreInt64(&front.page.time, 0)
	go func() {
		time.Sleep(2 * looks)
		atomic.StoreInt64(&front.page.time, at)
	}()
	if now, err := front.Now(); err != nil || now.UnixNano() != at || now.Location() != time.UTC {
		t.Error(now, err)
	}
	atomic.StoreUint64(&front.page.flags, flagClock|flagFenced)
	if _, err := front.Now(); !errors.Is(err, ErrFenced) {
		t.Error(err)
	}
	atomic.StoreUint64(&front.page.flags, 0)
	before := time.Now()
	if now, err := front.Now(); err != nil || now.Before(before.Add(-time.Hour)) || now.After(before.Add(time.Hour)) {
		t.Error("the host's own clock:", now, err)
	}
}

func TestAPlaceIsFound(t *testing.T) {
	front := stage(t)
	// No process has numbers as great as these.
	for n := range front.page.running {
		front.page.running[n] = 1<<31 - 1 - uint64(n)
	}
	front.page.attach()
	if front.page.running[0] != uint64(os.Getpid()) || front.page.many != 0 {
		t.Error("one that is gone makes room")
	}
	for n := range front.page.running {
		front.page.running[n] = 1
	}
	front.page.attach()
	if front.page.many != 1 {
		t.Error("there is no room, and it is not said")
	}
}

func TestWhatIsNoFrontIsRefused(t *testing.T) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	refused := func(kind error, word string) {
		t.Helper()
		if _, err := Attach(over); !errors.Is(err, kind) || !strings.Contains(err.Error(), word) {
			t.Errorf("%v, not %v: %s", err, kind, word)
		}
	}
	t.Setenv(Variable, "")
	refused(ErrNoFront, "group exec --reads delivery")
	path := page(t, pageVersion, pageSize, 1<<31-1)
	refused(ErrNoFront, "has ended")
	page(t, pageVersion+1, pageSize+4096, os.Getpid())
	refused(ErrVersion, "version 5 of the page, and this program 4")
	page(t, pageVersion, pageSize-1, os.Getpid())
	refused(ErrNoFront, "no whole page")
	page(t, pageVersion, 100, os.Getpid())
	refused(ErrNoFront, "no whole page")
	t.Setenv(Variable, filepath.Dir(path))
	if _, err := Attach(over); err == nil {
		t.Error("a folder is no page")
	}
	t.Setenv(Variable, path+".none")
	refused(ErrNoFront, "there is no ")
}

//go:build linux

package truechimer

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// vmclockPage is a page of a vmclock device with this marker.
func vmclockPage(marker uint64) []byte {
	page := make([]byte, 65536)
	copy(page, "VCLK")
	binary.LittleEndian.PutUint32(page[4:], 4096)
	binary.LittleEndian.PutUint16(page[8:], 1)
	binary.LittleEndian.PutUint64(page[16:], marker)
	return page
}

// withVmclock is a clock by a hand that was made under the marker of a device that it may read.
func withVmclock(t testing.TB, d *daemon) (clock *Clock, mark func(marker uint64)) {
	path := filepath.Join(t.TempDir(), "vmclock")
	if err := os.WriteFile(path, vmclockPage(5), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(vmclockVariable, path)
	apart := &d.page.beside[d.page.sequence%slots]
	apart.words[besideVmclock], apart.words[besideMarker] = 1, 5
	mark = func(marker uint64) {
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := file.WriteAt(vmclockPage(marker)[16:24], 16); err != nil {
			t.Fatal(err)
		}
	}
	return d.clock(t), mark
}

func TestAMarkerThatMovesEndsTheHand(t *testing.T) {
	d := synchronised(t)
	clock, mark := withVmclock(t, d)
	for _, step := range []struct {
		marker uint64
		status Status
	}{{5, Synchronised}, {5, Synchronised}, {6, Disrupted}, {5, Synchronised}, {4, Disrupted}} {
		mark(step.marker)
		if status, err := clock.Status(); status != step.status || err != nil {
			t.Fatalf("%d: %v, %v", step.marker, status, err)
		}
	}
}

func TestWhatIsNoDeviceIsNotLookedAt(t *testing.T) {
	change := func(at int, bytes ...byte) []byte {
		page := vmclockPage(5)
		copy(page[at:], bytes)
		return page
	}
	for name, page := range map[string][]byte{
		"short": vmclockPage(5)[:4095], "empty": nil, "foreign": change(0, 'X'), "version": change(8, 2), "size": change(4, 31, 0),
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, page, 0o600); err != nil {
			t.Fatal(err)
		}
		if openVmclock(path) != nil {
			t.Error(name)
		}
	}
	if openVmclock(t.TempDir()) != nil || openVmclock("/nonexistent") != nil {
		t.Error("no file")
	}
}

func BenchmarkNowWithVmclock(b *testing.B) {
	d := synchronised(b)
	clock, _ := withVmclock(b, d)
	for i := 0; i < b.N; i++ {
		if i%100000 == 0 {
			d.look()
		}
		if _, err := clock.Now(); err != nil {
			b.Fatal(err)
		}
	}
}

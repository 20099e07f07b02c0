//go:build linux

package truechimer

import "fmt"

// native is the kind of the counter that processors of this architecture have.
const native = kindArmGeneric

// readNative reads the counter, in no particular order with the instructions around it.
//
//go:noescape
func readNative() uint64

// readNativeFenced reads it after everything before it and before everything after it.
//
//go:noescape
func readNativeFenced() uint64

// nativeHz is the counter's frequency in Hz, as the firmware says.
//
//go:noescape
func nativeHz() uint64

func nativeReadable() error {
	// The architecture asks for 1 to 50 MHz, later for 1 GHz; boards stray a little.
	if hz := nativeHz(); hz < 10_000 || hz > 10_000_000_000 {
		return fail(ErrCounter, fmt.Sprintf("cannot read the clock's counter: the firmware says that the Arm generic timer "+
			"runs at %d Hz (CNTFRQ_EL0), which cannot be: use --counter raw", hz))
	}
	return nil
}

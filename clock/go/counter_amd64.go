//go:build linux

package truechimer

// native is the kind of the counter that processors of this architecture have.
const native = kindTSC

// readNative reads the counter, in no particular order with the instructions around it.
//
//go:noescape
func readNative() uint64

// readNativeFenced reads it after everything before it and before everything after it.
//
//go:noescape
func readNativeFenced() uint64

func nativeReadable() error { return nil }

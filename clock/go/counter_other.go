//go:build linux && !amd64 && !arm64

package truechimer

// native is none: of other architectures only CLOCK_MONOTONIC_RAW is read.
const native = kindRaw

func readNative() uint64 { return uint64(gettime(clockMonotonicRaw)) }

func readNativeFenced() uint64 { return uint64(gettime(clockMonotonicRaw)) }

func nativeReadable() error { return nil }

//go:build linux && !(ppc64 || s390x || mips64)

package truechimer

const bigEndian = false

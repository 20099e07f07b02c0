//go:build linux

#include "textflag.h"

// func readNative() uint64
TEXT ·readNative(SB), NOSPLIT, $0-8
	RDTSC
	SHLQ $32, DX
	ORQ  DX, AX
	MOVQ AX, ret+0(FP)
	RET

// func readNativeFenced() uint64
TEXT ·readNativeFenced(SB), NOSPLIT, $0-8
	// The first waits until all earlier instructions have completed, loads among them; the second
	// keeps later ones from starting before the counter is read.
	LFENCE
	RDTSC
	LFENCE
	SHLQ $32, DX
	ORQ  DX, AX
	MOVQ AX, ret+0(FP)
	RET

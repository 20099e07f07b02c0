//go:build linux

#include "textflag.h"

// func readNative() uint64
TEXT ·readNative(SB), NOSPLIT, $0-8
	MRS  CNTVCT_EL0, R0
	MOVD R0, ret+0(FP)
	RET

// func readNativeFenced() uint64
TEXT ·readNativeFenced(SB), NOSPLIT, $0-8
	ISB  $15
	MRS  CNTVCT_EL0, R0
	ISB  $15
	MOVD R0, ret+0(FP)
	RET

// func nativeHz() uint64
TEXT ·nativeHz(SB), NOSPLIT, $0-8
	MRS  CNTFRQ_EL0, R0
	MOVD R0, ret+0(FP)
	RET

//go:build !noasm

#include "textflag.h"

// What a 128-bit lane is multiplied by to move it 2048 or 512 bits on: x^(D+32) for the half that comes
// first and x^(D-32) for the other, modulo the polynomial, bits reflected and shifted left by one.
// TestFoldConstants computes them.
DATA ·fold2048+0(SB)/8, $0x00000000dcb17aa4
DATA ·fold2048+8(SB)/8, $0x00000000b9e02b86
GLOBL ·fold2048(SB), RODATA|NOPTR, $16
DATA ·fold512+0(SB)/8, $0x00000000740eef02
DATA ·fold512+8(SB)/8, $0x000000009e4addf8
GLOBL ·fold512(SB), RODATA|NOPTR, $16

// FOLD moves x on by the constants in k and adds it to y, which may be memory.
#define FOLD(k, x, y) \
	VPCLMULQDQ $0x00, k, x, Z8       \
	VPCLMULQDQ $0x11, k, x, Z9       \
	VMOVDQU64  y, x                  \
	VPTERNLOGQ $0x96, Z8, Z9, x

// func foldAVX512(r *[64]byte, b *byte, n int, initial uint32)
TEXT ·foldAVX512(SB), NOSPLIT, $0-28
	MOVQ r+0(FP), DI
	MOVQ b+8(FP), SI
	MOVQ n+16(FP), CX
	MOVL initial+24(FP), AX

	VMOVDQU64      (SI), Z0
	VMOVDQU64      64(SI), Z1
	VMOVDQU64      128(SI), Z2
	VMOVDQU64      192(SI), Z3
	VMOVD          AX, X4
	VPXORQ         Z4, Z0, Z0 // VMOVD cleared the rest of Z4
	VBROADCASTI32X4 ·fold2048(SB), Z5
	ADDQ           $256, SI
	SUBQ           $256, CX
	JZ             last

loop:
	FOLD(Z5, Z0, (SI))
	FOLD(Z5, Z1, 64(SI))
	FOLD(Z5, Z2, 128(SI))
	FOLD(Z5, Z3, 192(SI))
	ADDQ $256, SI
	SUBQ $256, CX
	JNZ  loop

last:
	VBROADCASTI32X4 ·fold512(SB), Z5
	FOLD(Z5, Z0, Z1)
	FOLD(Z5, Z0, Z2)
	FOLD(Z5, Z0, Z3)
	VMOVDQU64      Z0, (DI)
	VZEROUPPER
	RET

//go:build !noasm

#include "textflag.h"

// Instructions that neither Go's assembler nor avo knows, by their bytes. Operands are fixed: tiles 0 … 3 hold C, 4 and 5
// A's rows, 6 and 7 B's columns.
#define LDTILECFG_AX BYTE $0xc4; BYTE $0xe2; BYTE $0x78; BYTE $0x49; BYTE $0x00
#define TILERELEASE BYTE $0xc4; BYTE $0xe2; BYTE $0x78; BYTE $0x49; BYTE $0xc0
#define TILEZERO_C \
	BYTE $0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x49; BYTE $0xc0; \
	BYTE $0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x49; BYTE $0xc8; \
	BYTE $0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x49; BYTE $0xd0; \
	BYTE $0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x49; BYTE $0xd8

// tileloadd tmm0, [rdi+rdx]; tmm1, [rdi+rdx+64]; tmm2, [r11+rdx]; tmm3, [r11+rdx+64]
#define TILELOAD_C \
	BYTE $0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x4b; BYTE $0x04; BYTE $0x17; \
	BYTE $0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x4b; BYTE $0x4c; BYTE $0x17; BYTE $0x40; \
	BYTE $0xc4; BYTE $0xc2; BYTE $0x7b; BYTE $0x4b; BYTE $0x14; BYTE $0x13; \
	BYTE $0xc4; BYTE $0xc2; BYTE $0x7b; BYTE $0x4b; BYTE $0x5c; BYTE $0x13; BYTE $0x40

// tilestored of the same
#define TILESTORE_C \
	BYTE $0xc4; BYTE $0xe2; BYTE $0x7a; BYTE $0x4b; BYTE $0x04; BYTE $0x17; \
	BYTE $0xc4; BYTE $0xe2; BYTE $0x7a; BYTE $0x4b; BYTE $0x4c; BYTE $0x17; BYTE $0x40; \
	BYTE $0xc4; BYTE $0xc2; BYTE $0x7a; BYTE $0x4b; BYTE $0x14; BYTE $0x13; \
	BYTE $0xc4; BYTE $0xc2; BYTE $0x7a; BYTE $0x4b; BYTE $0x5c; BYTE $0x13; BYTE $0x40

// tileloadd tmm4, [rsi+rcx]; tmm5, [rsi+rcx+1024]; tmm6, [r8+rcx]; tmm7, [r8+rcx+1024]
#define TILELOAD_AB \
	BYTE $0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x4b; BYTE $0x24; BYTE $0x0e; \
	BYTE $0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x4b; BYTE $0xac; BYTE $0x0e; BYTE $0x00; BYTE $0x04; BYTE $0x00; BYTE $0x00; \
	BYTE $0xc4; BYTE $0xc2; BYTE $0x7b; BYTE $0x4b; BYTE $0x34; BYTE $0x08; \
	BYTE $0xc4; BYTE $0xc2; BYTE $0x7b; BYTE $0x4b; BYTE $0xbc; BYTE $0x08; BYTE $0x00; BYTE $0x04; BYTE $0x00; BYTE $0x00

// tdpbf16ps tmm0, tmm4, tmm6; tmm1, tmm4, tmm7; tmm2, tmm5, tmm6; tmm3, tmm5, tmm7
#define TDPBF16PS_C \
	BYTE $0xc4; BYTE $0xe2; BYTE $0x4a; BYTE $0x5c; BYTE $0xc4; \
	BYTE $0xc4; BYTE $0xe2; BYTE $0x42; BYTE $0x5c; BYTE $0xcc; \
	BYTE $0xc4; BYTE $0xe2; BYTE $0x4a; BYTE $0x5c; BYTE $0xd5; \
	BYTE $0xc4; BYTE $0xe2; BYTE $0x42; BYTE $0x5c; BYTE $0xdd

// vcvtne2ps2bf16 zmm2, zmm1, zmm0: zmm2's low half is of zmm0, its high half of zmm1
#define VCVTNE2PS2BF16_Z2 BYTE $0x62; BYTE $0xf2; BYTE $0x77; BYTE $0x48; BYTE $0x72; BYTE $0xd0

// Eight tiles of 16 rows of 64 bytes.
DATA tileConfig<>+0(SB)/8, $1
DATA tileConfig<>+8(SB)/8, $0
DATA tileConfig<>+16(SB)/8, $0x0040004000400040
DATA tileConfig<>+24(SB)/8, $0x0040004000400040
DATA tileConfig<>+32(SB)/8, $0
DATA tileConfig<>+40(SB)/8, $0
DATA tileConfig<>+48(SB)/8, $0x1010101010101010
DATA tileConfig<>+56(SB)/8, $0
GLOBL tileConfig<>(SB), RODATA|NOPTR, $64

// Words 0, 16, 1, 17, …: two rows of 16 by turns.
DATA byTurns<>+0(SB)/8, $0x0011000100100000
DATA byTurns<>+8(SB)/8, $0x0013000300120002
DATA byTurns<>+16(SB)/8, $0x0015000500140004
DATA byTurns<>+24(SB)/8, $0x0017000700160006
DATA byTurns<>+32(SB)/8, $0x0019000900180008
DATA byTurns<>+40(SB)/8, $0x001b000b001a000a
DATA byTurns<>+48(SB)/8, $0x001d000d001c000c
DATA byTurns<>+56(SB)/8, $0x001f000f001e000e
GLOBL byTurns<>(SB), RODATA|NOPTR, $64

// func tilesBF16(tile *byte)
TEXT ·tilesBF16(SB), NOSPLIT, $0-8
	LEAQ tileConfig<>(SB), AX
	LDTILECFG_AX
	MOVQ tile+0(FP), AX
	MOVQ 0(AX), R12  // A's packed block of rows
	MOVQ 8(AX), R13  // B's packed panel
	MOVQ 16(AX), DI  // C
	MOVQ 24(AX), DX  // bytes between its rows
	MOVQ 40(AX), R10 // blocks of 32 rows
	MOVQ 48(AX), BX  // bytes between A's
	MOVQ $64, CX     // bytes between a tile's rows

block:
	MOVQ DX, R11
	SHLQ $4, R11
	ADDQ DI, R11
	CMPQ 56(AX), $0
	JE   zero
	TILELOAD_C
	JMP  start

zero:
	TILEZERO_C

start:
	MOVQ R12, SI
	MOVQ R13, R8
	MOVQ 32(AX), R9

loop:
	TILELOAD_AB
	TDPBF16PS_C
	ADDQ $2048, SI
	ADDQ $2048, R8
	DECQ R9
	JNZ  loop
	TILESTORE_C
	ADDQ BX, R12
	MOVQ DX, R9
	SHLQ $5, R9
	ADDQ R9, DI
	DECQ R10
	JNZ  block
	TILERELEASE
	RET

// func rowsBF16(dst, src unsafe.Pointer, stride, rows int, columns uint32)
TEXT ·rowsBF16(SB), NOSPLIT, $0-36
	MOVQ  dst+0(FP), DI
	MOVQ  src+8(FP), SI
	MOVQ  stride+16(FP), DX
	MOVQ  rows+24(FP), CX
	MOVL  columns+32(FP), AX
	KMOVW AX, K1
	SHRL  $16, AX
	KMOVW AX, K2
	MOVQ  $16, BX
	SUBQ  CX, BX
	JMP   rowsLeft

row:
	VMOVUPS.Z (SI), K1, Z0
	VMOVUPS.Z 64(SI), K2, Z1
	VCVTNE2PS2BF16_Z2
	VMOVUPS   Z2, (DI)
	ADDQ      DX, SI
	ADDQ      $64, DI
	DECQ      CX

rowsLeft:
	TESTQ  CX, CX
	JNE    row
	VPXORD Z2, Z2, Z2
	JMP    emptyLeft

empty:
	VMOVUPS Z2, (DI)
	ADDQ    $64, DI
	DECQ    BX

emptyLeft:
	TESTQ BX, BX
	JNE   empty
	VZEROUPPER
	RET

// func pairsBF16(dst, src unsafe.Pointer, stride, rows int, columns uint32)
TEXT ·pairsBF16(SB), NOSPLIT, $0-36
	MOVQ    dst+0(FP), DI
	MOVQ    src+8(FP), SI
	MOVQ    stride+16(FP), DX
	MOVQ    rows+24(FP), CX
	MOVL    columns+32(FP), AX
	KMOVW   AX, K1
	VMOVUPS byTurns<>(SB), Z3
	MOVQ    $16, BX

pair:
	CMPQ      CX, $2
	JLT       few
	VMOVUPS.Z (SI), K1, Z0
	VMOVUPS.Z (SI)(DX*1), K1, Z1
	LEAQ      (SI)(DX*2), SI
	SUBQ      $2, CX

put:
	VCVTNE2PS2BF16_Z2
	VPERMW  Z2, Z3, Z2
	VMOVUPS Z2, (DI)
	ADDQ    $64, DI
	DECQ    BX
	JNE     pair
	VZEROUPPER
	RET

few:
	VPXORD    Z0, Z0, Z0
	VPXORD    Z1, Z1, Z1
	TESTQ     CX, CX
	JE        put
	VMOVUPS.Z (SI), K1, Z0
	XORQ      CX, CX
	JMP       put

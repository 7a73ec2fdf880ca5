//go:build cuda

// Every driver function as a jump through a table that gs_cuda_load fills with dlopen.
// gorgonia.org/cu's calls land here: the program starts without a driver, and one binary
// serves machines with and without a GPU. gs_names.h lists the functions of cuda.h
// (../build.sh makes it); the libcuda.a that -lcuda finds is empty.
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

static int missing(void) { return 34; } // CUDA_ERROR_STUB_LIBRARY
static int later(void) { return 0; }    // cuInit: cu calls it before main and exits where it fails

#define X(name) __attribute__((visibility("hidden"))) void *gs_slot_##name = (void *)missing;
#include "gs_names.h"
#undef X

#if defined(__x86_64__)
#define X(name) __asm__(".text\n.globl " #name "\n.hidden " #name "\n.type " #name ",@function\n" #name ": jmp *gs_slot_" #name "(%rip)\n");
#elif defined(__aarch64__)
#define X(name) __asm__(".text\n.globl " #name "\n.hidden " #name "\n.type " #name ",%function\n" #name \
	": adrp x16, gs_slot_" #name "\nldr x16, [x16, :lo12:gs_slot_" #name "]\nbr x16\n");
#else
#error "gpu/cuda/driver: write the jump for this processor"
#endif
#include "gs_names.h"
#undef X

__attribute__((constructor(101))) static void before(void) { gs_slot_cuInit = (void *)later; }

static const struct { const char *name; void **slot; } table[] = {
#define X(name) {#name, &gs_slot_##name},
#include "gs_names.h"
#undef X
};

// gs_cuda_load opens the driver. It returns NULL, or what went wrong.
const char *gs_cuda_load(const char *path) {
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!lib) return dlerror();
	if (!dlsym(lib, "cuInit")) return "no cuInit in it";
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		void *p = dlsym(lib, table[i].name);
		if (p) *table[i].slot = p;
	}
	return NULL;
}

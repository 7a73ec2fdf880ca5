// The state of the emulated driver: devices, memory, streams and their schedule.
//
// GS_EMU_SCHEDULE says when the operations of streams run:
//   eager        at once, in the call (fastest; hides missing synchronisation)
//   lazy         only when somebody waits, and only what that needs (worst case, repeatable)
//   random:SEED  any part of any stream after any call, threads and blocks of kernels
//                in random order (repeatable; the default, with seed 1)
//   threads      on a thread of their own with random delays
//   none         launches never run: calls cost what they cost, for benchmarks of the caller
// GS_EMU_STRICT    asynchronous copies of memory that is not pinned are errors, and so is
//                  releasing a context that still owns memory, streams, events or graphs.
//                  Whatever this says, a call that a capture may not have breaks it (allocating, freeing,
//                  pinning, waiting), and so does running a graph that has memory which was freed
// GS_EMU_DEVICES   how many devices there are (1)
// GS_EMU_MEMORY    bytes of each (8 GiB)
// GS_EMU_FAIL      alloc:N  the N-th allocation or registration finds no memory
//                  launch:N the N-th launch faults when it runs
// They are read when the first context is made, again after the last one is gone.
#pragma once
#include "runtime.h"
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default"))) CUresult CUDAAPI

struct CUctx_st {
	int device = 0;
	int retained = 0;
	CUresult sticky = CUDA_SUCCESS; // an error of a kernel ends the context
	size_t used = 0;                // bytes of device memory
	std::set<CUctx_st *> peers;     // whose memory its kernels may touch
};

// Op is one operation of a stream.
struct Op {
	const char *name;
	std::function<CUresult(std::string *)> run;
	std::function<bool()> ready; // none: at once
	CUevent_st *signal = nullptr;
	uint64_t generation = 0;
	std::vector<std::pair<uintptr_t, uint64_t>> uses = {}; // of a graph: addresses, and what was allocated there
};
struct CUgraph_st { std::vector<Op> ops; };
struct CUgraphExec_st { CUctx_st *context; std::vector<Op> ops; };
struct CUstream_st {
	CUctx_st *context = nullptr;
	std::deque<Op> ops;
	bool running = false;
	uint64_t priority = 0;         // of a random schedule
	CUgraph_st *capture = nullptr; // where operations go instead
	CUstream_st *origin = nullptr; // of the capture
	bool broken = false;           // the capture was invalidated
};
struct CUevent_st {
	CUctx_st *context = nullptr;
	uint64_t recorded = 0, done = 0;
	std::chrono::steady_clock::time_point when;
	CUstream_st *stream = nullptr;  // where it was recorded last
	CUstream_st *capture = nullptr; // recorded in a capture of this stream
};
struct CUfunc_st { const emu::KernelInfo *kernel; CUctx_st *context; unsigned maxDynamic = 48 << 10; };
struct CUmod_st { std::string image; CUctx_st *context; std::vector<std::unique_ptr<CUfunc_st>> functions; };

namespace emu {
struct Allocation {
	size_t bytes;
	void *map; // null: registered memory of the caller
	size_t mapped;
	CUctx_st *context;
	uint64_t id = 0; // no other allocation's
};

struct State {
	std::mutex m;
	std::condition_variable changed;
	bool up = false;
	std::string schedule = "random:1";
	uint64_t seed = 1;
	bool eager = false, lazy = false, random = false, threads = false, none = false, strict = false;
	int deviceCount = 1;
	size_t totalBytes = size_t(8) << 30;
	uint64_t failAlloc = 0, failLaunch = 0; // count down to the one that fails; 0: none does
	std::vector<std::unique_ptr<CUctx_st>> contexts;
	std::set<CUstream_st *> streams;
	std::set<CUevent_st *> events;
	std::set<CUgraphExec_st *> graphs;
	std::vector<std::unique_ptr<CUstream_st>> null; // the legacy stream of each device
	std::map<uintptr_t, Allocation> device, host;   // host: pinned
	uint64_t calls = 0, mood = 0, allocations = 0;
};
extern State *S;
extern thread_local CUcontext current;
using Lock = std::unique_lock<std::mutex>;

uint64_t draw();
void complain(const std::string &what);
void configure(); // reads the environment
bool step(Lock &, CUstream_st *only);
void finish(Lock &, CUstream_st *s, const std::function<bool()> &done);
void drain(Lock &, CUctx_st *context);
bool empty(CUstream_st *s);
CUstream_st *stream(CUstream h);
bool capturing();
CUresult push(Lock &, CUstream_st *s, Op op);
CUresult enter();
bool pinned(const void *p, size_t n);
const Allocation *holder(uintptr_t p); // of device memory at p
const Allocation *anywhere(uintptr_t p); // of device memory or pinned memory
bool forbidden(CUstream_st *s);          // a call that no capture may have (of stream s, of any if null): it breaks the capture
bool fails(uint64_t *countdown);
} // namespace emu

#define ENTER                     \
	emu::Lock lock(emu::S->m);    \
	if (CUresult r = emu::enter(); r != CUDA_SUCCESS) return r

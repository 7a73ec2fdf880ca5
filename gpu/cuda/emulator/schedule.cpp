// Which operation of which stream runs when.
#include "state.h"
#include <algorithm>
#include <thread>

namespace emu {
State *S = new State; // never freed: threads of the pool outlive static destructors
thread_local CUcontext current;

uint64_t draw() {
	uint64_t x = S->seed += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}
void complain(const std::string &what) { fprintf(stderr, "cuda emulator: %s\n", what.c_str()); }

// fails counts an attempt and says whether it is the one that has to fail.
bool fails(uint64_t *countdown) { return *countdown && --*countdown == 0; }

void configure() {
	const char *e = getenv("GS_EMU_SCHEDULE");
	S->schedule = e && *e ? e : "random:1";
	S->strict = getenv("GS_EMU_STRICT") != nullptr;
	S->eager = S->schedule == "eager", S->lazy = S->schedule == "lazy", S->none = S->schedule == "none";
	S->random = S->schedule.rfind("random:", 0) == 0;
	if (S->random) S->seed = strtoull(S->schedule.c_str() + 7, nullptr, 10);
	S->calls = S->mood = 0;
	e = getenv("GS_EMU_MEMORY");
	S->totalBytes = e ? strtoull(e, nullptr, 10) : size_t(8) << 30;
	S->failAlloc = S->failLaunch = 0;
	if ((e = getenv("GS_EMU_FAIL"))) {
		if (!strncmp(e, "alloc:", 6)) S->failAlloc = strtoull(e + 6, nullptr, 10);
		if (!strncmp(e, "launch:", 7)) S->failLaunch = strtoull(e + 7, nullptr, 10);
	}
	bool threads = S->schedule == "threads";
	static bool started = false;
	S->threads = threads;
	if (threads && !started) {
		started = true;
		std::thread([] {
			Lock lock(S->m);
			for (;;) {
				if (!S->threads || !step(lock, nullptr)) { S->changed.wait(lock); continue; }
				auto nap = std::chrono::microseconds(draw() % 200);
				lock.unlock();
				std::this_thread::sleep_for(nap);
				lock.lock();
			}
		}).detach();
	}
}

// step runs one operation that may run, of stream only if not null. The lock is given up meanwhile.
bool step(Lock &lock, CUstream_st *only) {
	std::vector<CUstream_st *> can;
	for (CUstream_st *s : S->streams)
		if ((!only || s == only) && !s->running && !s->ops.empty() && (!s->ops.front().ready || s->ops.front().ready())) can.push_back(s);
	if (can.empty()) return false;
	CUstream_st *s = can[0];
	if (S->random || S->threads) { // the stream of the highest priority, which changes now and then
		s = *std::max_element(can.begin(), can.end(), [](auto a, auto b) { return a->priority < b->priority; });
		if (draw() % 3 == 0) s->priority = draw();
	}
	Op op = std::move(s->ops.front());
	s->running = true;
	CUresult &sticky = s->context->sticky;
	CUresult r = sticky;
	std::string why;
	lock.unlock();
	if (op.run && r == CUDA_SUCCESS) r = op.run(&why);
	lock.lock();
	if (r != CUDA_SUCCESS && sticky == CUDA_SUCCESS) { sticky = r; complain(why); }
	s->ops.pop_front();
	s->running = false;
	if (op.signal) {
		op.signal->done = std::max(op.signal->done, op.generation);
		op.signal->when = std::chrono::steady_clock::now();
	}
	S->changed.notify_all();
	return true;
}

// finish runs what it takes until done says so. A lazy schedule looks at stream s first.
void finish(Lock &lock, CUstream_st *s, const std::function<bool()> &done) {
	while (!done())
		if (!(S->lazy && s && step(lock, s)) && !step(lock, nullptr)) S->changed.wait_for(lock, std::chrono::milliseconds(1));
}
bool empty(CUstream_st *s) { return s->ops.empty(); }
void drain(Lock &lock, CUctx_st *context) {
	finish(lock, nullptr, [=] {
		return std::all_of(S->streams.begin(), S->streams.end(), [=](CUstream_st *s) { return s->context != context || empty(s); });
	});
}

// some runs operations after a call, as the schedule has it.
static void some(Lock &lock) {
	if (S->eager) while (step(lock, nullptr)) {}
	if (!S->random) return;
	if (S->calls++ % 8 == 0) { // of the next calls: none, few, most or all run at once
		uint64_t x = draw() % 6;
		S->mood = x > 2 ? x - 2 : 0;
	}
	while (draw() % 3 < S->mood && step(lock, nullptr)) {}
}

CUresult enter() {
	if (!S->up) return CUDA_ERROR_NOT_INITIALIZED;
	if (!current) return CUDA_ERROR_INVALID_CONTEXT;
	return current->sticky;
}

CUstream_st *stream(CUstream h) {
	return h && h != CU_STREAM_LEGACY && h != CU_STREAM_PER_THREAD ? h : S->null[current->device].get();
}

bool capturing() {
	return std::any_of(S->streams.begin(), S->streams.end(), [](CUstream_st *s) { return s->capture; });
}

bool forbidden(CUstream_st *only) {
	bool any = false;
	for (CUstream_st *s : S->streams)
		if (s->capture && (!only || s == only)) s->broken = any = true;
	return any;
}

CUresult push(Lock &lock, CUstream_st *s, Op op) {
	if (s->context != current) { complain("a stream of another device than the current context's"); return CUDA_ERROR_INVALID_HANDLE; }
	if (s->capture) {
		if (s->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
		s->capture->ops.push_back(std::move(op));
		return CUDA_SUCCESS;
	}
	s->ops.push_back(std::move(op));
	if (s == S->null[current->device].get()) { // waits for the context's blocking streams; ours never are
		if (capturing()) { s->ops.pop_back(); return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT; }
		finish(lock, s, [=] { return empty(s); });
		return s->context->sticky;
	}
	S->changed.notify_all();
	some(lock);
	return CUDA_SUCCESS;
}
} // namespace emu

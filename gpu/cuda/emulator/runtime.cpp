// Blocks, fibers, barriers and warp exchanges of emu.h.
#include "emu.h"
#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim
#undef __syncthreads
#include "runtime.h"

struct CUctx_st;

#include <atomic>
#include <condition_variable>
#include <csetjmp>
#include <csignal>
#include <functional>
#include <link.h>
#include <map>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace emu {
extern thread_local CUctx_st *current; // the driver side's

struct KernelInfo {
	std::string name;
	Invoke invoke;
	std::vector<Param> params;
};
static std::map<std::string, KernelInfo> &registry() { static std::map<std::string, KernelInfo> r; return r; }
void add(const char *name, Invoke invoke, const Param *params, int count) { registry()[name] = {name, invoke, {params, params + count}}; }
const KernelInfo *find(const std::string &name) { auto i = registry().find(name); return i == registry().end() ? nullptr : &i->second; }
int paramCount(const KernelInfo *k) { return int(k->params.size()); }
void param(const KernelInfo *k, int i, uint32_t *size, uint32_t *align) { *size = k->params[i].size; *align = k->params[i].align; }
const std::string &kernelName(const KernelInfo *k) { return k->name; }

thread_local Block *block;
thread_local Thread *self;

// Context switch: callee-saved registers on the stack, stack pointers exchanged.
extern "C" void emu_switch(void **from, void *to);
#if defined(__x86_64__)
asm(R"(
.text
.globl emu_switch
.hidden emu_switch
.type emu_switch,@function
emu_switch:
	pushq %rbp
	pushq %rbx
	pushq %r12
	pushq %r13
	pushq %r14
	pushq %r15
	movq %rsp, (%rdi)
	movq %rsi, %rsp
	popq %r15
	popq %r14
	popq %r13
	popq %r12
	popq %rbx
	popq %rbp
	ret
.size emu_switch,.-emu_switch
)");
constexpr int savedWords = 6;
#elif defined(__aarch64__)
asm(R"(
.text
.globl emu_switch
.hidden emu_switch
.type emu_switch,%function
emu_switch:
	sub sp, sp, #160
	stp x19, x20, [sp, #0]
	stp x21, x22, [sp, #16]
	stp x23, x24, [sp, #32]
	stp x25, x26, [sp, #48]
	stp x27, x28, [sp, #64]
	stp x29, x30, [sp, #80]
	stp d8, d9, [sp, #96]
	stp d10, d11, [sp, #112]
	stp d12, d13, [sp, #128]
	stp d14, d15, [sp, #144]
	mov x9, sp
	str x9, [x0]
	mov sp, x1
	ldp x19, x20, [sp, #0]
	ldp x21, x22, [sp, #16]
	ldp x23, x24, [sp, #32]
	ldp x25, x26, [sp, #48]
	ldp x27, x28, [sp, #64]
	ldp x29, x30, [sp, #80]
	ldp d8, d9, [sp, #96]
	ldp d10, d11, [sp, #112]
	ldp d12, d13, [sp, #128]
	ldp d14, d15, [sp, #144]
	add sp, sp, #160
	ret
)");
#else
#error "emulator: write emu_switch for this processor"
#endif

struct Copy { void *to; const void *from; int bytes, valid; };
struct Copies { // of a thread, not done yet: group k's are list[k ? ends[k-1] : 0 : ends[k]]
	std::vector<Copy> list;
	std::vector<size_t> ends;
	size_t waited = 0; // groups that are done
	void clear() { list.clear(), ends.clear(), waited = 0; }
};

constexpr size_t stackBytes = 32 << 10;

// An exchange of one set of lanes of one warp; two slots, since a lane is at most one ahead.
struct Exchange {
	unsigned mask = 0, arrived = 0;
	int phase = 0;
	const char *op = nullptr;
	alignas(16) char slots[2][32 * slotBytes];
};
struct Warp { std::vector<Exchange *> used; std::vector<Exchange *> spare; };

// Worker is what an OS thread that runs blocks keeps.
struct Worker {
	Block b;
	std::vector<Thread> threads;
	std::vector<Copies> copies;
	std::vector<Warp> warps;
	std::vector<int> order;
	void *stacks = nullptr;
	size_t stackCount = 0;
	std::vector<char> dynamic;
	void *statics = nullptr; // this thread's thread_local variables: __shared__ ones, and the emulator's
	size_t staticBytes = 0;
	void *scheduler = nullptr; // its saved stack pointer
	const void *mainStack = nullptr;
	size_t mainBytes = 0;
	const KernelInfo *kernel = nullptr;
	void **params = nullptr;
	int live = 0, waiting = 0; // threads not done; of them at the barrier
	int reduced[3] = {}, result[3] = {};
	std::string why;
	Outcome outcome = Outcome::ok;
	sigjmp_buf fault;
	volatile sig_atomic_t inKernel = 0;
	// What AddressSanitizer noted of the fibers' frames would stay with the addresses, which others get next.
	void drop() {
		if (!stacks) return;
#if defined(__SANITIZE_ADDRESS__)
		__asan_unpoison_memory_region(stacks, stackCount * stackBytes);
#endif
		munmap(stacks, stackCount * stackBytes);
	}
	~Worker() { drop(); }
};
static thread_local Worker *worker;

// AddressSanitizer wants to know of every change of stacks.
#if defined(__SANITIZE_ADDRESS__)
static void leave(bool ends, void **fake, const void *to, size_t bytes) { __sanitizer_start_switch_fiber(ends ? nullptr : fake, to, bytes); }
static void enter(void *fake, const void **from, size_t *bytes) { __sanitizer_finish_switch_fiber(fake, from, bytes); }
#else
static void leave(bool, void **, const void *, size_t) {}
static void enter(void *, const void **, size_t *) {}
#endif

static void toScheduler() {
	void *fake = nullptr;
	leave(self->state == Thread::done, &fake, worker->mainStack, worker->mainBytes);
	emu_switch(&self->sp, worker->scheduler);
	enter(fake, &worker->mainStack, &worker->mainBytes);
}
static void toThread(Worker &w, Thread &t) {
	void *fake = nullptr;
	leave(false, &fake, t.stack, stackBytes);
	emu_switch(&w.scheduler, t.sp);
	enter(fake, nullptr, nullptr);
}

// The bottom of every fiber: runs CUDA threads one after another as long as they do not wait.
static void fiberMain() {
	Worker *w = worker;
	enter(nullptr, &w->mainStack, &w->mainBytes);
	w->kernel->invoke(w->params);
	self->state = Thread::done;
	toScheduler();
	__builtin_unreachable();
}

[[noreturn]] void trap(const char *why) {
	Worker *w = worker;
	if (w->outcome == Outcome::ok) {
		w->outcome = Outcome::failed;
		w->why = "kernel " + w->kernel->name + ", block " + std::to_string(block->bid.x) + "," + std::to_string(block->bid.y) +
			", thread " + std::to_string(self->linear) + ": " + why;
	}
	self->state = Thread::done;
	toScheduler();
	__builtin_unreachable();
}

static void release() {
	for (int i = 0; i < 3; i++) worker->result[i] = worker->reduced[i];
	worker->reduced[0] = worker->reduced[2] = 0, worker->reduced[1] = 1;
	worker->waiting = 0;
	for (Thread &t : worker->threads) if (t.state == Thread::atBarrier) t.state = Thread::ready;
}

void syncthreads(const char *where) { int r; syncthreads_reduce(0, 0, &r, where); }

bool syncthreads_reduce(int op, int predicate, int *out, const char *where) {
	Worker *w = worker;
	w->reduced[0] |= predicate != 0, w->reduced[1] &= predicate != 0, w->reduced[2] += predicate != 0;
	self->where = where;
	if (++w->waiting == w->live) {
		release();
	} else {
		self->state = Thread::atBarrier;
		toScheduler();
	}
	*out = w->result[op];
	return true;
}

const char *exchange(unsigned mask, const char *op, const void *value, int bytes, void (*combine)(char *)) {
	Worker *w = worker;
	Warp &warp = w->warps[self->linear / 32];
	unsigned bit = 1u << (self->linear % 32);
	if (!(mask & bit)) trap("a lane calls a warp operation whose mask lacks it");
	Exchange *e = nullptr;
	for (Exchange *x : warp.used) if (x->mask == mask) { e = x; break; }
	if (!e) {
		if (warp.spare.empty()) warp.spare.push_back(new Exchange);
		e = warp.spare.back(), warp.spare.pop_back();
		e->mask = mask, e->arrived = 0, e->phase = 0;
		warp.used.push_back(e);
	}
	if (!e->arrived) e->op = op;
	else if (e->op != op && strcmp(e->op, op)) trap((std::string("lanes of one warp meet in ") + e->op + " and " + op).c_str());
	char *slots = e->slots[e->phase];
	memcpy(slots + self->linear % 32 * slotBytes, value, bytes);
	e->arrived |= bit;
	if (e->arrived == mask) {
		if (combine) combine(slots);
		e->arrived = 0, e->phase ^= 1;
		Thread *first = &w->threads[self->linear & ~31];
		for (int i = 0; i < 32 && (self->linear & ~31) + i < int(w->threads.size()); i++)
			if (mask >> i & 1 && first[i].state == Thread::atWarp && first[i].where == op) first[i].state = Thread::ready;
	} else {
		self->state = Thread::atWarp, self->where = op;
		toScheduler();
	}
	return slots;
}

void cp_async(void *to, const void *from, int bytes, int valid) { worker->copies[self->linear].list.push_back({to, from, bytes, valid}); }
void cp_commit() { Copies &c = worker->copies[self->linear]; c.ends.push_back(c.list.size()); }
void cp_wait(int left) { // copies happen as late as the hardware may do them
	Copies &c = worker->copies[self->linear];
	for (; int(c.ends.size() - c.waited) > left; c.waited++)
		for (size_t i = c.waited ? c.ends[c.waited - 1] : 0; i < c.ends[c.waited]; i++) {
			Copy &x = c.list[i];
			memcpy(x.to, x.from, x.valid);
			memset(static_cast<char *>(x.to) + x.valid, 0, x.bytes - x.valid);
		}
}

static uint64_t mix(uint64_t x) { x += 0x9e3779b97f4a7c15; x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9; x = (x ^ x >> 27) * 0x94d049bb133111eb; return x ^ x >> 31; }

static void start(Thread &t) { // a fresh fiber whose first return goes to fiberMain
	uintptr_t top = reinterpret_cast<uintptr_t>(t.stack) + stackBytes - t.linear % 61 * 192; // not all in one cache set
#if defined(__x86_64__)
	void **sp = reinterpret_cast<void **>(top - 8);
	*--sp = reinterpret_cast<void *>(fiberMain); // entered with the stack aligned as after a call
	for (int i = 0; i < savedWords; i++) *--sp = nullptr;
#else
	char *p = reinterpret_cast<char *>(top - 160);
	memset(p, 0, 160);
	*reinterpret_cast<void **>(p + 88) = reinterpret_cast<void *>(fiberMain);
	void **sp = reinterpret_cast<void **>(p);
#endif
	t.sp = sp;
}

// findStatics finds the thread_local variables of this library and thread.
static int findStatics(dl_phdr_info *info, size_t, void *data) {
	Worker *w = static_cast<Worker *>(data);
	uintptr_t here = uintptr_t(&findStatics);
	bool ours = false;
	size_t bytes = 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const auto &h = info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + h.p_vaddr;
		if (h.p_type == PT_LOAD && here >= at && here < at + h.p_memsz) ours = true;
		if (h.p_type == PT_TLS) bytes = h.p_memsz;
	}
	if (ours) w->statics = info->dlpi_tls_data, w->staticBytes = bytes;
	return ours;
}

// forget overwrites what the last block left in static shared memory: what nobody wrote is NaN.
static void forget(Worker &w) {
#if !defined(__SANITIZE_ADDRESS__)
	if (!w.statics) dl_iterate_phdr(findStatics, &w);
	Block *b = block;
	Thread *s = self;
	Worker *own = worker;
	CUctx_st *context = current;
	memset(w.statics, 0xff, w.staticBytes);
	block = b, self = s, worker = own, current = context;
#else
	(void)w;
	(void)findStatics;
#endif
}

static void runBlock(Worker &w, const Launch &l, uint64_t number) {
	int n = int(l.block[0] * l.block[1] * l.block[2]);
	w.b.bid = {unsigned(number % l.grid[0]), unsigned(number / l.grid[0] % l.grid[1]), unsigned(number / l.grid[0] / l.grid[1])};
	w.b.bdim = {l.block[0], l.block[1], l.block[2]}, w.b.gdim = {l.grid[0], l.grid[1], l.grid[2]};
	if (w.stackCount < size_t(n)) {
		w.drop();
		w.stackCount = n;
		w.stacks = mmap(nullptr, n * stackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	}
	w.threads.resize(n), w.copies.resize(n), w.warps.resize((n + 31) / 32), w.order.resize(n);
	for (Warp &x : w.warps) { x.spare.insert(x.spare.end(), x.used.begin(), x.used.end()); x.used.clear(); }
	forget(w);
	w.dynamic.assign(l.shared + 16, char(0xff)); // what nobody wrote is NaN
	w.b.dynamicShared = reinterpret_cast<char *>((reinterpret_cast<uintptr_t>(w.dynamic.data()) + 15) & ~uintptr_t(15));
	for (int i = 0; i < n; i++) {
		Thread &t = w.threads[i];
		t.tid = {unsigned(i) % l.block[0], unsigned(i) / l.block[0] % l.block[1], unsigned(i) / l.block[0] / l.block[1]};
		t.linear = i, t.state = Thread::fresh, t.stack = static_cast<char *>(w.stacks) + i * stackBytes;
		w.copies[i].clear();
		w.order[i] = i;
	}
	if (l.order) { // a random order of warps, and of lanes in a warp
		uint64_t s = mix(l.order + number);
		for (int i = n - 1; i > 0; i--) { s = mix(s); std::swap(w.order[i], w.order[s % (i + 1)]); }
	}
	block = &w.b, w.live = n, w.waiting = 0, w.reduced[0] = w.reduced[2] = 0, w.reduced[1] = 1;
	if (int sig = sigsetjmp(w.fault, 1)) { // back from the fault handler
		w.inKernel = 0;
		w.outcome = Outcome::illegalAddress;
		w.why = "kernel " + w.kernel->name + ", block " + std::to_string(w.b.bid.x) + "," + std::to_string(w.b.bid.y) + ", thread " +
			std::to_string(self->linear) + ": signal " + std::to_string(sig);
		return;
	}
	w.inKernel = 1;
	while (w.live > 0 && w.outcome == Outcome::ok) {
		bool progress = false;
		for (int i = 0; i < n; i++) {
			Thread &t = w.threads[w.order[i]];
			if (t.state > Thread::ready) continue;
			if (t.state == Thread::fresh) start(t);
			t.state = Thread::ready;
			progress = true;
			self = &t;
			toThread(w, t);
			if (t.state == Thread::done) {
				w.live--;
				if (w.live && w.waiting == w.live) release();
			}
		}
		if (!progress && w.live) { // all wait for one another
			w.outcome = Outcome::failed;
			int barrier = 0, warp = 0; const char *b = "", *x = "";
			for (Thread &t : w.threads) {
				if (t.state == Thread::atBarrier) barrier++, b = t.where;
				if (t.state == Thread::atWarp) warp++, x = t.where;
			}
			w.why = "kernel " + w.kernel->name + " hangs: " + std::to_string(barrier) + " threads at the barrier of " + b + ", " + std::to_string(warp) + " in " + x;
		}
	}
	w.inKernel = 0;
}

// pool runs one launch at a time.
struct Pool {
	std::mutex m;
	std::condition_variable go, idle;
	const Launch *launch = nullptr;
	const KernelInfo *kernel = nullptr;
	void **params = nullptr;
	std::atomic<uint64_t> next{0};
	uint64_t blocks = 0, generation = 0;
	int busy = 0;
	std::atomic<bool> stop{false};
	Outcome outcome = Outcome::ok;
	std::string why;
	std::vector<std::thread> threads;

	void work() {
		Worker w;
		worker = &w;
		uint64_t seen = 0;
		std::unique_lock<std::mutex> lock(m);
		for (;;) {
			go.wait(lock, [&] { return generation != seen; });
			seen = generation;
			lock.unlock();
			w.kernel = kernel, w.params = params, w.outcome = Outcome::ok, w.why.clear();
			for (uint64_t b; !stop && (b = next++) < blocks;) {
				uint64_t n = launch->order ? blocks - 1 - b : b;
				runBlock(w, *launch, n);
				if (w.outcome != Outcome::ok) stop = true;
			}
			lock.lock();
			if (w.outcome != Outcome::ok && outcome == Outcome::ok) outcome = w.outcome, why = w.why;
			if (--busy == 0) idle.notify_all();
		}
	}
	Pool() {
		int n = std::max(1u, std::thread::hardware_concurrency());
		for (int i = 0; i < n; i++) { threads.emplace_back([this] { work(); }); threads.back().detach(); }
	}
};

Outcome launch(const Launch &l, void **params, std::string *why) {
	static Pool *p = new Pool; // never ends: its threads outlive static destructors
	static std::mutex one;
	std::lock_guard<std::mutex> only(one);
	std::unique_lock<std::mutex> lock(p->m);
	p->launch = &l, p->kernel = l.kernel, p->params = params, p->next = 0, p->stop = false, p->outcome = Outcome::ok;
	p->blocks = uint64_t(l.grid[0]) * l.grid[1] * l.grid[2];
	p->busy = int(p->threads.size());
	p->generation++;
	p->go.notify_all();
	p->idle.wait(lock, [&] { return p->busy == 0; });
	*why = p->why;
	return p->outcome;
}

static struct sigaction before[2];
static void onFault(int sig, siginfo_t *info, void *context) {
	Worker *w = worker;
	if (w && w->inKernel) siglongjmp(w->fault, sig);
	struct sigaction &b = before[sig == SIGBUS];
	if (b.sa_flags & SA_SIGINFO) b.sa_sigaction(sig, info, context);
	else { sigaction(sig, &b, nullptr); raise(sig); }
}
void installFaultHandler() { // a wild access of a kernel becomes CUDA_ERROR_ILLEGAL_ADDRESS
	struct sigaction a{};
	a.sa_sigaction = onFault;
	a.sa_flags = SA_SIGINFO | SA_ONSTACK;
	sigfillset(&a.sa_mask);
	sigaction(SIGSEGV, &a, &before[0]);
	sigaction(SIGBUS, &a, &before[1]);
}
} // namespace emu

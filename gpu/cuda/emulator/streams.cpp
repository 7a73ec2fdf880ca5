// Streams, events and graphs of the emulated driver.
#include "state.h"

using namespace emu;

API cuStreamCreate(CUstream *s, unsigned) {
	ENTER;
	*s = new CUstream_st;
	(*s)->context = current, (*s)->priority = draw();
	S->streams.insert(*s);
	return CUDA_SUCCESS;
}
API cuStreamCreateWithPriority(CUstream *s, unsigned flags, int) { return cuStreamCreate(s, flags); }
API cuStreamDestroy(CUstream s) {
	Lock lock(S->m);
	finish(lock, s, [&] { return empty(s); });
	S->streams.erase(s);
	delete s;
	return CUDA_SUCCESS;
}
API cuStreamSynchronize(CUstream h) {
	ENTER;
	CUstream_st *s = stream(h);
	if (forbidden(s)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	finish(lock, s, [&] { return empty(s); });
	return s->context->sticky;
}
API cuStreamQuery(CUstream h) {
	ENTER;
	CUstream_st *s = stream(h);
	if (forbidden(s)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (!empty(s)) step(lock, nullptr);
	if (s->context->sticky) return s->context->sticky;
	return empty(s) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
API cuStreamWaitEvent(CUstream h, CUevent e, unsigned) {
	ENTER;
	CUstream_st *s = stream(h);
	if (e->capture) { // joins the capture
		if (s->capture && s->capture != e->capture->capture) return CUDA_ERROR_STREAM_CAPTURE_MERGE;
		s->capture = e->capture->capture, s->origin = e->capture;
		return CUDA_SUCCESS; // captured operations run in the order of their capture
	}
	uint64_t g = e->recorded;
	if (g == 0) return CUDA_SUCCESS;
	return push(lock, s, {"wait", {}, [e, g] { return e->done >= g; }, nullptr, 0});
}
API cuLaunchHostFunc(CUstream h, CUhostFn f, void *data) {
	ENTER;
	return push(lock, stream(h), {"host", [=](std::string *) { f(data); return CUDA_SUCCESS; }, {}, nullptr, 0});
}

API cuEventCreate(CUevent *e, unsigned) {
	ENTER;
	*e = new CUevent_st;
	(*e)->context = current;
	S->events.insert(*e);
	return CUDA_SUCCESS;
}
API cuEventDestroy(CUevent e) {
	Lock lock(S->m);
	finish(lock, nullptr, [&] { return e->done >= e->recorded; });
	S->events.erase(e);
	delete e;
	return CUDA_SUCCESS;
}
API cuEventRecord(CUevent e, CUstream h) {
	ENTER;
	CUstream_st *s = stream(h);
	if (s->capture) { e->capture = s->origin; return CUDA_SUCCESS; }
	e->capture = nullptr, e->stream = s;
	return push(lock, s, {"event", {}, {}, e, ++e->recorded});
}
API cuEventQuery(CUevent e) {
	ENTER;
	if (e->capture) { forbidden(e->capture); return CUDA_ERROR_CAPTURED_EVENT; }
	if (e->done < e->recorded) // lazily: what is asked for first, and only where that waits another stream
		(S->lazy && S->streams.count(e->stream) && step(lock, e->stream)) || step(lock, nullptr);
	if (e->context->sticky) return e->context->sticky;
	return e->done >= e->recorded ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
API cuEventSynchronize(CUevent e) {
	ENTER;
	if (e->capture) { forbidden(e->capture); return CUDA_ERROR_CAPTURED_EVENT; }
	finish(lock, S->streams.count(e->stream) ? e->stream : nullptr, [&] { return e->done >= e->recorded; });
	return e->context->sticky;
}
API cuEventElapsedTime(float *ms, CUevent a, CUevent b) {
	ENTER;
	if (a->done < a->recorded || b->done < b->recorded) return CUDA_ERROR_NOT_READY;
	*ms = std::chrono::duration<float, std::milli>(b->when - a->when).count();
	return CUDA_SUCCESS;
}

API cuStreamBeginCapture(CUstream s, CUstreamCaptureMode) {
	ENTER;
	if (!s || s->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	s->capture = new CUgraph_st, s->origin = s, s->broken = false;
	return CUDA_SUCCESS;
}
API cuStreamEndCapture(CUstream s, CUgraph *g) {
	ENTER;
	if (!s->capture || s->origin != s) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	*g = s->capture;
	bool broken = s->broken;
	for (CUstream_st *x : S->streams) if (x->capture == *g) x->capture = nullptr, x->origin = nullptr;
	for (CUevent_st *e : S->events) if (e->capture == s) e->capture = nullptr;
	if (broken) { delete *g; *g = nullptr; return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED; }
	return CUDA_SUCCESS;
}
API cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus *v) {
	ENTER;
	*v = s->capture ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}
API cuGraphInstantiateWithFlags(CUgraphExec *x, CUgraph g, unsigned long long) {
	ENTER;
	*x = new CUgraphExec_st{current, g->ops};
	S->graphs.insert(*x);
	return CUDA_SUCCESS;
}
API cuGraphLaunch(CUgraphExec x, CUstream h) {
	if (S->none) return CUDA_SUCCESS;
	ENTER;
	if (!S->graphs.count(x)) { complain("launch of a graph that was destroyed"); return CUDA_ERROR_INVALID_VALUE; }
	for (Op &o : x->ops)
		for (auto &use : o.uses) {
			const Allocation *a = anywhere(use.first);
			if (a && a->id == use.second) continue;
			complain(std::string("a graph has a ") + o.name + " of memory that was freed");
			return CUDA_ERROR_INVALID_VALUE;
		}
	auto ops = std::make_shared<std::vector<Op>>(x->ops);
	return push(lock, stream(h), {"graph", [ops](std::string *why) {
		for (Op &o : *ops) if (o.run) if (CUresult r = o.run(why)) return r;
		return CUDA_SUCCESS;
	}, {}, nullptr, 0});
}
API cuGraphDestroy(CUgraph g) { Lock lock(S->m); delete g; return CUDA_SUCCESS; }
API cuGraphExecDestroy(CUgraphExec x) {
	Lock lock(S->m);
	if (!S->graphs.erase(x)) return CUDA_ERROR_INVALID_VALUE;
	delete x;
	return CUDA_SUCCESS;
}

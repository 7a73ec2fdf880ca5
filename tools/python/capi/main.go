// Command capi is the shared library of the Python package: package native behind a C ABI. It is the only code here that
// needs cgo:
//
//	go build -buildmode=c-shared -tags pebblegozstd -o gstore/_gstore.so ./tools/python/capi
//
// All strings are bytes with a length. gstore_start begins a call and returns its operation; gstore_wait waits for it at
// most so many milliseconds and is 0 as long as it is under way, else 1 with the reply filled in; the reply is valid until
// gstore_release. gstore_cancel, gstore_release and gstore_drop return 0, or, where gstore panicked, an operation that says
// so. Nothing that C gets points into Go's heap, and no panic gets to C.
package main

/*
#include <stdint.h>
#include <stdlib.h>

typedef struct {
	void   *data;
	int64_t bytes;
} gstore_array;

typedef struct {
	int32_t       kind;       // of the error, 0: none
	int32_t       arrays;
	int64_t       handle;     // of the object made, 0: none
	int64_t       text_bytes;
	char         *text;       // JSON, or the error's message
	gstore_array *array;
} gstore_reply;
*/
import "C"

import (
	"sync"
	"time"
	"unsafe"

	"github.com/gstore/gstore/blocks/panics"
	"github.com/gstore/gstore/tools/python/native"
)

func main() {}

// replies holds the C memory of replies that were handed out, by operation.
var replies sync.Map

// caught is deferred by every function that C calls: a panic goes to failed as an error, since one that goes past Go's
// frames ends the process.
func caught(failed func(err error)) {
	if p := recover(); p != nil {
		failed(panics.Of(p))
	}
}

// operation is the number of an operation that says what a function without a reply failed with.
func operation(to *C.int64_t) func(err error) {
	return func(err error) { *to = C.int64_t(native.Failed(err)) }
}

//export gstore_abi
func gstore_abi() C.int32_t { return native.ABI }

//export gstore_start
func gstore_start(handle C.int64_t, method *C.char, methodBytes C.int64_t, request *C.char, requestBytes C.int64_t, arrays *C.gstore_array, n C.int32_t, op *C.int64_t) {
	defer caught(operation(op))
	list := make([][]byte, n)
	for i, a := range unsafe.Slice(arrays, int(n)) {
		if a.bytes > 0 {
			list[i] = unsafe.Slice((*byte)(a.data), int(a.bytes))
		}
	}
	name := C.GoStringN(method, C.int(methodBytes))
	text := C.GoBytes(unsafe.Pointer(request), C.int(requestBytes))
	*op = C.int64_t(native.Start(int64(handle), name, text, list))
}

//export gstore_wait
func gstore_wait(op C.int64_t, milliseconds C.int32_t, reply *C.gstore_reply) (done C.int32_t) {
	defer caught(func(err error) {
		fill(op, reply, &native.Reply{Err: err})
		done = 1
	})
	r := native.Wait(int64(op), time.Duration(milliseconds)*time.Millisecond)
	if r == nil {
		return 0
	}
	fill(op, reply, r)
	return 1
}

// fill copies what an operation came to into memory of C.
func fill(op C.int64_t, reply *C.gstore_reply, r *native.Reply) {
	text := r.Text
	if r.Err != nil {
		text = []byte(r.Err.Error())
	}
	*reply = C.gstore_reply{kind: C.int32_t(native.Kind(r.Err)), handle: C.int64_t(r.Handle), text_bytes: C.int64_t(len(text))}
	memory := []unsafe.Pointer{C.CBytes(text)}
	reply.text = (*C.char)(memory[0])
	if n := len(r.Arrays); n > 0 && r.Err == nil {
		table := C.calloc(C.size_t(n), C.size_t(unsafe.Sizeof(C.gstore_array{})))
		for i, b := range r.Arrays {
			if len(b) > 0 {
				unsafe.Slice((*C.gstore_array)(table), n)[i] = C.gstore_array{data: unsafe.Pointer(unsafe.SliceData(b)), bytes: C.int64_t(len(b))}
			}
		}
		memory = append(memory, table)
		reply.arrays, reply.array = C.int32_t(n), (*C.gstore_array)(table)
	}
	if old, had := replies.Swap(int64(op), memory); had {
		release(old)
	}
}

func release(memory any) {
	for _, p := range memory.([]unsafe.Pointer) {
		C.free(p)
	}
}

//export gstore_cancel
func gstore_cancel(op C.int64_t) (failed C.int64_t) {
	defer caught(operation(&failed))
	native.Cancel(int64(op))
	return 0
}

//export gstore_release
func gstore_release(op C.int64_t) (failed C.int64_t) {
	defer caught(operation(&failed))
	if old, had := replies.LoadAndDelete(int64(op)); had {
		release(old)
	}
	native.Release(int64(op))
	return 0
}

//export gstore_drop
func gstore_drop(handle C.int64_t) (failed C.int64_t) {
	defer caught(operation(&failed))
	_ = native.Drop(int64(handle))
	return 0
}

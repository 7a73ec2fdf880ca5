// Command capi is the shared library of the Python package: package native behind a C ABI. It is the only code here that
// needs cgo:
//
//	go build -buildmode=c-shared -tags pebblegozstd -o gstore/_gstore.so ./tools/python/capi
//
// All strings are bytes with a length. gstore_start begins a call and returns its operation; gstore_wait waits for it at
// most so many milliseconds and is 0 as long as it is under way, else 1 with the reply filled in; the reply is valid until
// gstore_release. Nothing that C gets points into Go's heap.
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

	"github.com/gstore/gstore/tools/python/native"
)

func main() {}

// replies holds the C memory of replies that were handed out, by operation.
var replies sync.Map

//export gstore_abi
func gstore_abi() C.int32_t { return native.ABI }

//export gstore_start
func gstore_start(handle C.int64_t, method *C.char, methodBytes C.int64_t, request *C.char, requestBytes C.int64_t, arrays *C.gstore_array, n C.int32_t, op *C.int64_t) {
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
func gstore_wait(op C.int64_t, milliseconds C.int32_t, reply *C.gstore_reply) C.int32_t {
	r := native.Wait(int64(op), time.Duration(milliseconds)*time.Millisecond)
	if r == nil {
		return 0
	}
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
	return 1
}

func release(memory any) {
	for _, p := range memory.([]unsafe.Pointer) {
		C.free(p)
	}
}

//export gstore_cancel
func gstore_cancel(op C.int64_t) { native.Cancel(int64(op)) }

//export gstore_release
func gstore_release(op C.int64_t) {
	native.Release(int64(op))
	if old, had := replies.LoadAndDelete(int64(op)); had {
		release(old)
	}
}

//export gstore_drop
func gstore_drop(handle C.int64_t) { _ = native.Drop(int64(handle)) }

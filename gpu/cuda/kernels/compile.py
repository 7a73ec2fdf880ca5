"""Compiles gstore.cu to cubins and PTX with NVRTC out of Python wheels: no nvcc, no host compiler.

	python3 compile.py WHEELS KERNELS

WHEELS is where nvidia-cuda-nvrtc-cu12 and nvidia-cuda-runtime-cu12 were unpacked (../build.sh does);
images go to KERNELS/images. The same sources and compiler give the same bytes."""
import ctypes, gzip, hashlib, multiprocessing, os, sys, time

wheels, here = sys.argv[1], sys.argv[2]
rtc = ctypes.CDLL(f"{wheels}/nvidia/cuda_nvrtc/lib/libnvrtc.so.12")


def take(program, size, get):
    n = ctypes.c_size_t()
    assert getattr(rtc, size)(program, ctypes.byref(n)) == 0
    b = ctypes.create_string_buffer(n.value)
    assert getattr(rtc, get)(program, b) == 0
    return b.raw[: n.value]


source = open(f"{here}/gstore.cu", "rb").read()


def compile(arch):
    began, program = time.time(), ctypes.c_void_p()
    rtc.nvrtcCreateProgram(ctypes.byref(program), source, b"gstore.cu", 0, None, None)
    options = [f"--gpu-architecture={arch}", f"-I{here}", f"-I{wheels}/nvidia/cuda_runtime/include", "--std=c++17"]
    code = rtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*[o.encode() for o in options]))
    log = take(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog").rstrip(b"\0").decode().strip()
    if log:
        print(log)
    if code:
        sys.exit(f"gstore.cu: NVRTC failed for {arch}")
    if arch.startswith("sm_"):
        image, name = take(program, "nvrtcGetCUBINSize", "nvrtcGetCUBIN"), f"{arch}.cubin.gz"
    else:
        image, name = take(program, "nvrtcGetPTXSize", "nvrtcGetPTX").rstrip(b"\0") + b"\n", f"{arch}.ptx.gz"
    packed = gzip.compress(image, 9, mtime=0)
    open(f"{here}/images/{name}", "wb").write(packed)
    print(f"{name}: {len(packed)} bytes, {len(image)} unpacked, {time.time() - began:.1f} s", flush=True)


os.makedirs(f"{here}/images", exist_ok=True)
with multiprocessing.Pool(os.cpu_count()) as pool:
    pool.map(compile, sys.argv[3:] or ("sm_80", "sm_86", "sm_89", "sm_90", "compute_80"), chunksize=1)

# A test compares this with the sources, so that nobody forgets to compile.
h = hashlib.sha256()
for n in sorted(os.listdir(here)):
    if n.endswith((".cu", ".h")):
        h.update(open(f"{here}/{n}", "rb").read())
open(f"{here}/images/SOURCES", "w").write(h.hexdigest() + "\n")

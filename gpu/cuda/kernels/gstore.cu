// All kernels of gstore, as one module.
#include "messages.cu"
#include "edges.cu"
#include "elementwise.cu"
#include "gemm.cu"
#include "loss.cu"
#include "norm.cu"
#include "sort.cu"
#include "rows.cu"

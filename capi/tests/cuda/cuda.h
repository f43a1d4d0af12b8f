/* NOT NVIDIA'S. What capi/examples/decode_cuda.cpp and the tests use of the CUDA driver's interface, declared by us so that they
 * are compiled, and run on the stand-in for the driver (tests/fake_cuda), where there is no CUDA toolkit. */
#ifndef UT_CUDA_STUB_H
#define UT_CUDA_STUB_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st* CUcontext;
typedef struct CUstream_st* CUstream;

#define CUDA_SUCCESS 0
#define CU_STREAM_NON_BLOCKING 1
#define cuMemAlloc cuMemAlloc_v2
#define cuMemFree cuMemFree_v2
#define cuMemcpyHtoDAsync cuMemcpyHtoDAsync_v2
#define cuMemcpyDtoHAsync cuMemcpyDtoHAsync_v2

CUresult cuInit(unsigned flags);
CUresult cuDeviceGet(CUdevice* device, int ordinal);
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuStreamCreate(CUstream* stream, unsigned flags);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuMemAlloc(CUdeviceptr* at, size_t bytes);
CUresult cuMemFree(CUdeviceptr at);
CUresult cuMemHostAlloc(void** at, size_t bytes, unsigned flags);
CUresult cuMemFreeHost(void* at);
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream);
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuGetErrorString(CUresult error, const char** text);

#ifdef __cplusplus
}
#endif
#endif

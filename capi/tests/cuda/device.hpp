// A device's memory for the tests: arrays of exactly their size there, brought and taken by a stream.
#pragma once
#include <cuda.h>

#include <cstring>
#include <memory>
#include <vector>

#include "../../examples/dump.hpp"

inline void check_cuda(CUresult result, const char* what)
{
  const char* why = "unknown";
  if (result != CUDA_SUCCESS) cuGetErrorString(result, &why), fail(what, why);
}

// Makes the context of the first device current, for as long as the process lives.
inline CUcontext use_device()
{
  CUdevice device;
  CUcontext context;
  check_cuda(cuInit(0), "cuInit");
  check_cuda(cuDeviceGet(&device, 0), "cuDeviceGet");
  check_cuda(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  check_cuda(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  return context;
}

inline CUstream new_stream()
{
  CUstream stream;
  check_cuda(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  return stream;
}

// Pinned memory of the host.
template<class T> class Pinned {
public:
  explicit Pinned(size_t n) : m_n(n) { check_cuda(cuMemHostAlloc(&m_at, n * sizeof(T) + 1, 0), "cuMemHostAlloc"); }
  ~Pinned() { cuMemFreeHost(m_at); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  T* data() const { return static_cast<T*>(m_at); }
  size_t size() const { return m_n; }

private:
  void* m_at = nullptr;
  size_t m_n;
};

// Memory of the device: `n` elements and not one byte more, but a byte where there is none.
template<class T> class OnDevice {
public:
  explicit OnDevice(size_t n) : m_n(n)
  {
    check_cuda(cuMemAlloc(&m_at, n ? n * sizeof(T) : 1), "cuMemAlloc");
  }

  // On its way there, on the stream: it is not waited for.
  OnDevice(const T* from, size_t n, CUstream stream) : OnDevice(n)
  {
    m_staged.emplace_back(new Pinned<T>(n));
    if (n) std::memcpy(m_staged[0]->data(), from, n * sizeof(T));
    if (n) check_cuda(cuMemcpyHtoDAsync(m_at, m_staged[0]->data(), n * sizeof(T), stream), "copy to the device");
  }

  ~OnDevice() { cuMemFree(m_at); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  T* data() const { return reinterpret_cast<T*>(m_at); }
  size_t size() const { return m_n; }

  // What is there when the stream has come to here.
  std::vector<T> get(CUstream stream) const
  {
    const Pinned<T> staged {m_n};
    if (m_n) check_cuda(cuMemcpyDtoHAsync(staged.data(), m_at, m_n * sizeof(T), stream), "copy from the device");
    check_cuda(cuStreamSynchronize(stream), "cuStreamSynchronize");
    return {staged.data(), staged.data() + m_n};
  }

private:
  CUdeviceptr m_at = 0;
  size_t m_n;
  std::vector<std::unique_ptr<Pinned<T>>> m_staged;
};

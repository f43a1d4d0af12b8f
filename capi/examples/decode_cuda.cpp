// Decodes dumps on a GPU, as a stage of a sequence does: in the caller's context, on his stream, in his memory. Only the number
// of hits is waited for, because their memory is allocated in between. Prints event, group, id and x.
//
//     g++ -std=c++17 capi/examples/decode_cuda.cpp $(pkg-config --cflags --libs ut_decoding cuda) && ./a.out …
#include <cuda.h>

#include "dump.hpp"

namespace {

void check_cuda(CUresult result, const char* what)
{
  const char* why = "unknown";
  if (result != CUDA_SUCCESS) cuGetErrorString(result, &why), fail(what, why);
}

// Device memory; a framework takes it from a pool.
CUdeviceptr device_memory(size_t bytes)
{
  CUdeviceptr at = 0;
  check_cuda(cuMemAlloc(&at, bytes ? bytes : 1), "cuMemAlloc");
  return at;
}

// Pinned memory, so that copies are asynchronous.
void* pinned_memory(size_t bytes)
{
  void* at = nullptr;
  check_cuda(cuMemHostAlloc(&at, bytes ? bytes : 1, 0), "cuMemHostAlloc");
  return at;
}

// An array on its way to the device.
template<class T> const T* send(const T* from, size_t n, CUstream stream)
{
  const CUdeviceptr to = device_memory(n * sizeof(T));
  void* staged = pinned_memory(n * sizeof(T));
  if (n) std::memcpy(staged, from, n * sizeof(T));
  if (n) check_cuda(cuMemcpyHtoDAsync(to, staged, n * sizeof(T), stream), "copy to the device");
  return reinterpret_cast<const T*>(to);
}

} // namespace

int main(int argc, char** argv)
{
  if (argc < 4) return std::fprintf(stderr, "usage: %s BOARDS GEOMETRY DUMP...\n", argv[0]), 2;
  CUdevice gpu;
  CUcontext context;
  CUstream stream;
  check_cuda(cuInit(0), "cuInit");
  check_cuda(cuDeviceGet(&gpu, 0), "cuDeviceGet");
  check_cuda(cuDevicePrimaryCtxRetain(&context, gpu), "cuDevicePrimaryCtxRetain");
  check_cuda(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  check_cuda(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");

  // Once for a run.
  UtTables* tables = nullptr;
  check(ut_tables_from_files(argv[1], argv[2], UT_GROUPS_Y_ROWS, &tables), "tables");
  UtCuda* cuda = nullptr;
  check(ut_cuda_new(tables, nullptr, context, &cuda), "decoder");
  const size_t n_groups = ut_tables_n_groups(tables);
  ut_tables_free(tables);

  // The batch on the device, where another stage may have put it. Nothing is waited for.
  const Batch batch = std::getenv("MEP") ? mep_batch(argc - 3, argv + 3) : allen_batch(argc - 3, argv + 3);
  UtBatch there = batch.view();
  there.raw = send(there.raw, there.raw_bytes, stream);
  there.offsets = send(there.offsets, there.n_offsets, stream);
  there.sizes = send(there.sizes, there.n_sizes, stream);
  there.types = send(there.types, there.n_types, stream);

  // Sizes first.
  UtCudaWork work {};
  work.size = sizeof work;
  work.stream = stream;
  check(ut_cuda_scratch_bytes(cuda, &there, &work.scratch_bytes), "scratch");
  work.scratch = reinterpret_cast<void*>(device_memory(work.scratch_bytes));
  work.result = static_cast<UtCudaResult*>(pinned_memory(sizeof(UtCudaResult)));
  check(ut_cuda_count(cuda, &there, &work), "count");
  check_cuda(cuStreamSynchronize(stream), "count");

  // Then memory of exactly that size, and the work.
  const size_t n_hits = work.result->n_hits, bytes = n_hits * UT_HIT_BYTES;
  const CUdeviceptr memory = device_memory(bytes);
  UtHits hits {};
  hits.size = sizeof hits;
  hits.n_offsets = there.n_events * n_groups + 1;
  hits.offsets = reinterpret_cast<uint32_t*>(device_memory(4 * hits.n_offsets));
  check(ut_hits_in(reinterpret_cast<void*>(memory), bytes, n_hits, &hits), "hits");
  check(ut_cuda_write(cuda, &there, &work, &hits), "write");

  // The next stage would go on on the stream; this program looks at the hits.
  auto* offsets = static_cast<uint32_t*>(pinned_memory(4 * hits.n_offsets));
  auto* words = static_cast<uint32_t*>(pinned_memory(bytes));
  check_cuda(cuMemcpyDtoHAsync(offsets, reinterpret_cast<CUdeviceptr>(hits.offsets), 4 * hits.n_offsets, stream), "copy");
  if (bytes) check_cuda(cuMemcpyDtoHAsync(words, memory, bytes, stream), "copy");
  check_cuda(cuStreamSynchronize(stream), "write");
  for (size_t event = 0; event < there.n_events; ++event) {
    for (size_t group = 0; group < n_groups; ++group) {
      const uint32_t* ends = &offsets[event * n_groups + group];
      for (uint32_t i = ends[0]; i < ends[1]; ++i) {
        float x;
        std::memcpy(&x, &words[3 * n_hits + i], 4);
        std::printf("%zu %zu %u %a\n", event, group, words[6 * n_hits + i], x);
      }
    }
  }
  ut_cuda_free(cuda);
  // The rest ends with the process.
}

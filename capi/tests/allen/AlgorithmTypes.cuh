// NOT ALLEN'S. A stub of the contract between Allen and its algorithms, written for this test from what is publicly known of
// it, as small as the example needs: each argument has memory of its own, a thread, and there is no scheduler. For the CPU the
// "device" is the host; with TARGET_DEVICE_CUDA arguments lie in memory of the device, or in pinned memory of the host.
// It says what runs where, as Allen's headers do: nvcc compiles the algorithm on it (`.ci/release`), and nothing is run then.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

// The memory of an argument, as large as it is, full of what nobody wrote. `get` and `=` are the test's.
#ifdef TARGET_DEVICE_CUDA
#include "../cuda/device.hpp"
inline CUstream stub_stream()
{
  static thread_local const CUstream stream = new_stream();
  return stream;
}
template<class T, bool on_device> class Store {
  using Memory = std::conditional_t<on_device, OnDevice<T>, Pinned<T>>;

public:
  Store& operator=(const std::vector<T>& values)
  {
    std::unique_ptr<Memory> memory;
    if constexpr (on_device) memory.reset(new Memory(values.data(), values.size(), stub_stream()));
    else memory.reset(new Memory(values.size())), std::memcpy(memory->data(), values.data(), values.size() * sizeof(T));
    // Before what was there is given back, and what the new one is copied from.
    check_cuda(cuStreamSynchronize(stub_stream()), "cuStreamSynchronize");
    m_memory = std::move(memory);
    return *this;
  }
  void resize(size_t n) { *this = std::vector<T>(n, T {0x55}); }
  std::vector<T> get() const
  {
    if constexpr (on_device) return m_memory->get(stub_stream());
    else return {data(), data() + size()};
  }
  T* data() const { return m_memory->data(); }
  size_t size() const { return m_memory->size(); }

private:
  std::unique_ptr<Memory> m_memory;
};
#else
template<class T, bool> class Store {
public:
  Store& operator=(const std::vector<T>& values) { return m_memory = values, *this; }
  void resize(size_t n) { m_memory.assign(n, T {0x55}); }
  const std::vector<T>& get() const { return m_memory; }
  T* data() { return m_memory.data(); }
  size_t size() const { return m_memory.size(); }

private:
  std::vector<T> m_memory;
};
#endif

#ifndef __CUDACC__
#define __global__
#define __device__
#define __host__
#endif

struct mask_t {
  unsigned m_data = 0;
  __host__ __device__ operator unsigned() const { return m_data; }
};

// An argument as a kernel has it. Here each has its memory in `ArgumentReferences`, by the argument's name.
template<class T, bool on_device> struct Argument {
  using type = T;
  using store = Store<T, on_device>;
  T* m_data = nullptr;
  size_t m_size = 0;
  __host__ __device__ T* data() const { return m_data; }
  __host__ __device__ size_t size() const { return m_size; }
  __host__ __device__ T& operator[](unsigned i) const { return m_data[i]; }
};

#define UT_STUB_ARGUMENT(name, type, on_device) struct name : public Argument<type, on_device> {}
#define HOST_INPUT(name, type) UT_STUB_ARGUMENT(name, type, false)
#define HOST_OUTPUT(name, type) UT_STUB_ARGUMENT(name, type, false)
#define DEVICE_INPUT(name, type) UT_STUB_ARGUMENT(name, type, true)
#define DEVICE_OUTPUT(name, type) UT_STUB_ARGUMENT(name, type, true)
#define MASK_INPUT(name) UT_STUB_ARGUMENT(name, mask_t, true)
#define INSTANTIATE_ALGORITHM(type)

#ifndef __CUDACC__
struct dim3 {
  explicit dim3(unsigned x) : x {x} {}
  unsigned x;
};
// A block is run by one thread, as on Allen's CPU target.
constexpr struct {
  unsigned x = 0;
} threadIdx;
constexpr struct {
  unsigned x = 1;
} blockDim;
#endif

struct StrException : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct RuntimeOptions {
  std::tuple<unsigned, unsigned> event_interval;
  bool mep_layout = false;
};

struct Constants {
  std::vector<char> host_ut_boards, host_ut_geometry;
};

// Memory of each argument, behind a pointer as Allen's store is.
template<class Parameters> struct ArgumentReferences {
  template<class A> typename A::store& of() const
  {
    static thread_local typename A::store memory;
    return memory;
  }
};

namespace Allen {
  struct Context {
    unsigned stream_id = 0;
#ifdef TARGET_DEVICE_CUDA
    CUstream stream() const { return stub_stream(); }
#endif
  };

  template<class T> class Property {
  public:
    template<class Owner> Property(Owner*, const char*, T value, const char*) : m_value(value) {}
    operator T() const { return m_value; }
    Property& operator=(T value) { return m_value = value, *this; }

  private:
    T m_value;
  };

  struct BaseAlgorithm {};

  template<class A, class P> void memset_async(const ArgumentReferences<P>& arguments, int value, const Context&)
  {
    using T = typename A::type;
    auto& memory = arguments.template of<A>();
    std::vector<T> values(memory.size());
    std::memset(values.data(), value, values.size() * sizeof(T));
    memory = values;
  }

  inline void synchronize(const Context&)
  {
#ifdef TARGET_DEVICE_CUDA
    check_cuda(cuStreamSynchronize(stub_stream()), "cuStreamSynchronize");
#endif
  }

  namespace contract {
    struct Precondition;
  }
} // namespace Allen

struct ArgumentOperations {
  template<class A, class P> static void set_size(const ArgumentReferences<P>& arguments, size_t size)
  {
    arguments.template of<A>().resize(size);
  }
  template<class A, class P> static void resize(const ArgumentReferences<P>& arguments, size_t size)
  {
    set_size<A>(arguments, size);
  }
  template<class A, class P> static size_t size(const ArgumentReferences<P>& arguments)
  {
    return arguments.template of<A>().size();
  }
  template<class A, class P> static auto* data(const ArgumentReferences<P>& arguments)
  {
    return arguments.template of<A>().data();
  }
  template<class A, class P> static auto first(const ArgumentReferences<P>& arguments)
  {
    return *arguments.template of<A>().data();
  }
  template<class T, class P> static auto make_device_buffer(const ArgumentReferences<P>&, size_t size)
  {
    return Buffer<T, true> {size};
  }
  template<class T, class P> static auto make_host_buffer(const ArgumentReferences<P>&, size_t size)
  {
    return Buffer<T, false> {size};
  }

private:
  template<class T, bool on_device> struct Buffer : Store<T, on_device> {
    explicit Buffer(size_t size) { this->resize(size); }
#ifdef TARGET_DEVICE_CUDA
    // Given back in the order of the stream, as Allen's is.
    ~Buffer() { Allen::synchronize({}); }
#endif
  };
};

// What a kernel reads, where it runs here. The memory of the device is not the host's: it is copied.
template<class T> const T* on_host(const T* at, [[maybe_unused]] size_t size)
{
#ifdef TARGET_DEVICE_CUDA
  static thread_local std::vector<T> copy;
  const Pinned<T> staged {size};
  const CUdeviceptr from = reinterpret_cast<CUdeviceptr>(at);
  if (size) check_cuda(cuMemcpyDtoHAsync(staged.data(), from, size * sizeof(T), stub_stream()), "copy from the device");
  check_cuda(cuStreamSynchronize(stub_stream()), "cuStreamSynchronize");
  copy.assign(staged.data(), staged.data() + size);
  return copy.data();
#else
  return at;
#endif
}

struct Allen::contract::Precondition : ArgumentOperations {
  void require(bool condition, const std::string& what) const
  {
    if (!condition) throw StrException {what};
  }
};

struct DeviceAlgorithm : Allen::BaseAlgorithm, ArgumentOperations {
  // Runs a kernel on the host when the stream has come to it.
  template<class Function> static auto global_function(Function function)
  {
    return [function]([[maybe_unused]] dim3 grid, [[maybe_unused]] dim3 block, const Allen::Context& context) {
      return [=, &context](const auto& arguments, const unsigned* report, auto... others) {
        Allen::synchronize(context);
        const auto all = parameters(arguments);
#ifdef __CUDACC__
        function<<<grid, block, 0, context.stream()>>>(all, report, others...);
#else
        function(all, on_host(report, all.dev_ut_hit_offsets.size() / 72 * 15), others...);
#endif
      };
    };
  }

private:
  template<class P> static P parameters(const ArgumentReferences<P>& arguments)
  {
    P all;
    fill(arguments, all.dev_event_list);
    fill(arguments, all.dev_ut_hit_offsets);
    return all;
  }
  template<class A, class P> static void fill(const ArgumentReferences<P>& arguments, A& argument)
  {
    using T = typename A::type;
    static thread_local std::vector<T> copy;
    argument.m_size = size<A>(arguments);
    const T* at = on_host(data<A>(arguments), argument.m_size);
    copy.assign(at, at + argument.m_size);
    argument.m_data = copy.data();
  }
};

// NOT ALLEN'S. A stub of the contract between Allen and its algorithms, written for this test from what is publicly known of
// it, as small as the example needs: each argument has memory of its own, and there is no scheduler. For the CPU the "device" is
// the host; with TARGET_DEVICE_CUDA arguments lie in memory of the device, or in pinned memory of the host.
#pragma once
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

// The memory of an argument, as large as it is, full of what nobody wrote. `get` and `=` are the test's.
#ifdef TARGET_DEVICE_CUDA
#include "device.hpp"
inline CUstream stub_stream()
{
  static const CUstream stream = new_stream();
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
  const std::vector<T>& get() const { return m_memory; }
  T* data() { return m_memory.data(); }
  size_t size() const { return m_memory.size(); }

private:
  std::vector<T> m_memory;
};
#endif

// An argument: a type with a value type. Here each has its memory in `ArgumentReferences`, by the argument's name.
template<class T, bool on_device> struct Argument {
  using value_type = T;
  using store = Store<T, on_device>;
};

#define UT_STUB_ARGUMENT(name, type, on_device)     \
  struct name : public Argument<type, on_device> {}; \
  type*
#define HOST_INPUT(name, type) UT_STUB_ARGUMENT(name, type, false)
#define HOST_OUTPUT(name, type) UT_STUB_ARGUMENT(name, type, false)
#define DEVICE_INPUT(name, type) UT_STUB_ARGUMENT(name, type, true)
#define DEVICE_OUTPUT(name, type) UT_STUB_ARGUMENT(name, type, true)
#define MASK_INPUT(name) UT_STUB_ARGUMENT(name, unsigned, true)
#define INSTANTIATE_ALGORITHM(type)

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
    static typename A::store memory;
    return memory;
  }
};

namespace Allen {
  struct Context {
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

  template<class A, class P> void memset_async(const ArgumentReferences<P>& arguments, int value, const Context&)
  {
    using T = typename A::value_type;
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
} // namespace Allen

struct DeviceAlgorithm {
  template<class A, class P> static void set_size(const ArgumentReferences<P>& arguments, size_t size)
  {
    using T = typename A::value_type;
    arguments.template of<A>() = std::vector<T>(size, static_cast<T>(0x55));
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
};

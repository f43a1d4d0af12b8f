// NOT ALLEN'S. A stub of the contract between Allen and its algorithms, written for this test from what is publicly known of
// it, as small as the example needs: arguments are vectors, the "device" is the host, and there is no scheduler.
#pragma once
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

// An argument: a type with a value type. Here each has its memory in `ArgumentReferences`, by the argument's name.
template<class T> struct Argument {
  using value_type = T;
};

#define UT_STUB_ARGUMENT(name, type)     \
  struct name : public Argument<type> {}; \
  type*
#define HOST_INPUT(name, type) UT_STUB_ARGUMENT(name, type)
#define HOST_OUTPUT(name, type) UT_STUB_ARGUMENT(name, type)
#define DEVICE_INPUT(name, type) UT_STUB_ARGUMENT(name, type)
#define DEVICE_OUTPUT(name, type) UT_STUB_ARGUMENT(name, type)
#define MASK_INPUT(name) UT_STUB_ARGUMENT(name, unsigned)
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
  template<class A> std::vector<typename A::value_type>& of() const
  {
    static std::vector<typename A::value_type> memory;
    return memory;
  }
};

namespace Allen {
  struct Context {
    void* stream() const { return nullptr; }
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
    auto& memory = arguments.template of<A>();
    std::memset(memory.data(), value, memory.size() * sizeof(typename A::value_type));
  }

  inline void synchronize(const Context&) {}
} // namespace Allen

struct DeviceAlgorithm {
  template<class A, class P> static void set_size(const ArgumentReferences<P>& arguments, size_t size)
  {
    arguments.template of<A>().assign(size, static_cast<typename A::value_type>(0x55));
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
    return arguments.template of<A>().at(0);
  }
};

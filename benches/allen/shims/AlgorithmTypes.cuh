// Stands in for the part of Allen's framework that its UT decoder uses: arrays that algorithms share by name, properties,
// and the launch of kernels, which here is a loop over blocks.
#pragma once

#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "BackendCommon.h"
#include "Logger.h"

namespace beside {
  /// Memory that is kept from batch to batch, as Allen keeps its own: only the first batches pay for it.
  struct Array {
    void* data = nullptr;
    std::size_t size = 0;     // elements
    std::size_t capacity = 0; // bytes; 0: not ours
  };

  /// All arrays, by name. Never freed: they live as long as the program.
  inline std::map<std::string, Array>& arrays()
  {
    static std::map<std::string, Array> all;
    return all;
  }

  /// Makes room for `size` elements of `bytes` bytes.
  inline void reserve(Array& array, std::size_t size, std::size_t bytes)
  {
    const std::size_t wanted = std::max<std::size_t>(size * bytes, 1);
    if (array.capacity < wanted) {
      const std::size_t capacity = (wanted + wanted / 2 + 63) / 64 * 64;
      void* data = std::aligned_alloc(64, capacity);
      if (data == nullptr) throw std::bad_alloc();
      std::memset(data, 0, capacity);
      if (array.capacity > 0) std::free(array.data);
      array.data = data;
      array.capacity = capacity;
    }
    array.size = size;
  }

  /// An array in the hands of a kernel: its address, as it was when the kernel was launched.
  template<class T>
  struct Slot {
    using type = T;
    T* address = nullptr;
    explicit Slot(const char* name)
    {
      const auto found = arrays().find(name);
      if (found != arrays().end()) address = static_cast<T*>(found->second.data);
    }
    T* data() const { return address; }
    operator T*() const { return address; }
  };

  /// Values of properties that are not to be the default.
  inline std::map<std::string, int>& settings()
  {
    static std::map<std::string, int> all;
    return all;
  }
} // namespace beside

#define BESIDE_ARRAY(name, type)                   \
  struct name : beside::Slot<type> {               \
    static constexpr const char* in_store = #name; \
    name() : beside::Slot<type>(#name) {}          \
  };                                               \
  name
#define HOST_INPUT(name, type) BESIDE_ARRAY(name, const type)
#define DEVICE_INPUT(name, type) BESIDE_ARRAY(name, const type)
#define HOST_OUTPUT(name, type) BESIDE_ARRAY(name, type)
#define DEVICE_OUTPUT(name, type) BESIDE_ARRAY(name, type)
#define MASK_INPUT(name) BESIDE_ARRAY(name, const unsigned)
#define INSTANTIATE_ALGORITHM(algorithm)

/// The arrays of an algorithm. As parameters of a kernel they become addresses.
template<class Parameters>
struct ArgumentReferences {
  operator Parameters() const { return {}; }
};

struct RuntimeOptions {
  std::tuple<unsigned, unsigned> event_interval {0, 0};
  bool mep_layout = false;
};

struct Constants {
  std::vector<char> dev_ut_boards, dev_ut_geometry;
  std::vector<std::uint8_t> dev_ut_board_to_sector_group_map;
  std::vector<std::uint16_t> dev_ut_board_geometry_map;
};

namespace Allen {
  template<class T>
  class Property {
    T m_value;

  public:
    Property(const void*, const char* name, T value, const char*) : m_value(value)
    {
      if constexpr (std::is_arithmetic_v<T>) {
        const auto set = beside::settings().find(name);
        if (set != beside::settings().end()) m_value = static_cast<T>(set->second);
      }
    }
    T value() const { return m_value; }
    operator T() const { return m_value; }
  };

  template<class Array, class Arguments>
  void memset_async(const Arguments&, int byte, const Context&)
  {
    const beside::Array& array = beside::arrays()[Array::in_store];
    std::memset(array.data, byte, array.size * sizeof(typename Array::type));
  }
} // namespace Allen

/// What the algorithms inherit.
struct DeviceAlgorithm {
  int m_verbosity = logger::info;

  template<class Array, class Arguments>
  static auto* data(const Arguments&)
  {
    return static_cast<typename Array::type*>(beside::arrays()[Array::in_store].data);
  }

  template<class Array, class Arguments>
  static auto first(const Arguments& arguments)
  {
    return *data<Array>(arguments);
  }

  template<class Array, class Arguments>
  static std::size_t size(const Arguments&)
  {
    return beside::arrays()[Array::in_store].size;
  }

  template<class Array, class Arguments>
  static void set_size(const Arguments&, std::size_t size)
  {
    beside::reserve(beside::arrays()[Array::in_store], size, sizeof(typename Array::type));
  }

  template<class Array, class Arguments>
  static void resize(const Arguments& arguments, std::size_t size)
  {
    set_size<Array>(arguments, size);
  }

  template<class Array, class Arguments>
  static void print(const Arguments&)
  {}

  /// A kernel that is called with its grid and block first and with its parameters then.
  template<class... P>
  static auto global_function(void (*kernel)(P...))
  {
    return [kernel](dim3 grid, dim3, const Allen::Context&) {
      return [kernel, grid](const auto&... arguments) {
        const std::tuple<P...> parameters {static_cast<P>(arguments)...};
        gridDim = grid;
        for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z)
          for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
            for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x) std::apply(kernel, parameters);
      };
    };
  }
};

// Stands in for the part of Allen's backend for CPUs that its UT decoder uses: kernels are plain functions, a block has one
// thread, and what is atomic on a GPU is an ordinary update.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __shared__
#define __syncthreads()

using std::max;
using std::min;

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3() = default;
  dim3(unsigned x, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

constexpr struct {
  unsigned x, y, z;
} threadIdx {0, 0, 0}, blockDim {1, 1, 1};

/// The block that a thread of the machine is at.
inline thread_local dim3 blockIdx, gridDim;

template<class T, class U>
T atomicAdd(T* place, U more)
{
  const T before = *place;
  *place = before + more;
  return before;
}

/// `t` is `To`, const where `From` is.
template<class From, class To>
struct ForwardType {
  using t = std::conditional_t<std::is_const_v<From>, const To, To>;
};

namespace Allen {
  struct Context {};
  namespace device {
    using std::bit_cast;
  }
} // namespace Allen

/// An LHCbID is the kind of detector in the upper four bits and the detector's own channel below.
namespace lhcb_id {
  enum class LHCbIDType : unsigned { UT = 3 };

  inline unsigned set_detector_type_id(LHCbIDType type, unsigned channel)
  {
    return static_cast<unsigned>(type) << 28 | (channel & 0x0FFFFFFF);
  }
} // namespace lhcb_id

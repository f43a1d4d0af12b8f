// NOT ALLEN'S. A stub of its accumulators: numbers that kernels of any thread add to, read by the test.
#pragma once
#include "AlgorithmTypes.cuh"

// As in Allen, kernels alone may add: a call from the host is an error of nvcc.
inline __device__ void stub_add(unsigned* to, unsigned value)
{
#ifdef __CUDACC__
  atomicAdd(to, value);
#else
  __atomic_add_fetch(to, value, __ATOMIC_RELAXED);
#endif
}

namespace Allen::Monitoring {
  template<class T> struct DeviceCounter {
    T* m_data;
    __device__ void increment() const { stub_add(m_data, 1); }
  };
  template<class T> struct DeviceAveragingCounter {
    T* m_data;
    __device__ T* data() const { return m_data; }
    __device__ void add(T value) const
    {
      stub_add(&m_data[0], value);
      stub_add(&m_data[1], 1);
    }
  };

  // `numbers` is the test's: a counter's, a sum and its entries.
  template<class Device> struct Accumulator {
    Accumulator(const BaseAlgorithm*, std::string name) : name {std::move(name)} {}
    Device data(const Context&) const { return {numbers}; }
    std::string name;
    mutable unsigned numbers[2] {};
  };
  template<class T = unsigned> using Counter = Accumulator<DeviceCounter<T>>;
  template<class T = unsigned> using AveragingCounter = Accumulator<DeviceAveragingCounter<T>>;

  struct Axis {
    unsigned bins;
    float low, high;
  };
  template<class T = unsigned> struct Histogram {
    struct DeviceType {
      unsigned* m_data;
      __device__ void increment(unsigned) const { stub_add(m_data, 1); }
    };
    Histogram(const BaseAlgorithm*, std::string, std::string, Axis) {}
    DeviceType data(const Context&) const { return {&entries}; }
    mutable unsigned entries = 0;
  };
} // namespace Allen::Monitoring

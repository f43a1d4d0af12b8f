// NOT ALLEN'S. A stub of its accumulators: numbers that kernels of any thread add to, read by the test.
#pragma once
#include "AlgorithmTypes.cuh"

namespace Allen::Monitoring {
  template<class T> struct DeviceCounter {
    T* m_data;
    T* data() const { return m_data; }
    void increment() const { __atomic_add_fetch(m_data, 1, __ATOMIC_RELAXED); }
  };
  template<class T> struct DeviceAveragingCounter {
    T* m_data;
    T* data() const { return m_data; }
    void add(T value) const
    {
      __atomic_add_fetch(&m_data[0], value, __ATOMIC_RELAXED);
      __atomic_add_fetch(&m_data[1], 1, __ATOMIC_RELAXED);
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
      void increment(unsigned) const { __atomic_add_fetch(m_data, 1, __ATOMIC_RELAXED); }
    };
    Histogram(const BaseAlgorithm*, std::string, std::string, Axis) {}
    DeviceType data(const Context&) const { return {&entries}; }
    mutable unsigned entries = 0;
  };
} // namespace Allen::Monitoring

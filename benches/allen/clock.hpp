// The two clocks, and what is said of many measurements.
#pragma once

#include <algorithm>
#include <ctime>
#include <vector>

inline double seconds_of(clockid_t clock)
{
  timespec now {};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// CPU time of this thread: what other programs take of the machine is not in it.
inline double cpu_seconds() { return seconds_of(CLOCK_THREAD_CPUTIME_ID); }

inline double wall_seconds() { return seconds_of(CLOCK_MONOTONIC); }

struct Spread {
  double median = 0, best = 0;
  explicit Spread(std::vector<double> rates)
  {
    std::sort(rates.begin(), rates.end());
    const std::size_t n = rates.size();
    median = (rates[(n - 1) / 2] + rates[n / 2]) / 2;
    best = rates.back();
  }
};

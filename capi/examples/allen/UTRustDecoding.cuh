// UT decoding for Allen by libut_decoding, in the place of Allen's own: raw banks in, UT hits and their offsets out, in the
// shape that Allen's consumers take. docs/integration.md says how to add it to Allen, and what was tried with
// which version of Allen.
//
// Ours, written from what is publicly known of Allen's contract for algorithms.
#pragma once

#ifdef TARGET_DEVICE_HIP
#error "libut_decoding has kernels for NVIDIA GPUs only: build Allen for CUDA or for the CPU"
#endif

#include <array>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "AlgorithmTypes.cuh"
#include "AllenMonitoring.h"
#include "ut_decoding.h"

namespace ut_rust_decoding {
  struct Parameters {
    // The batch, as `data_provider_t` of bank type UT gives it.
    HOST_INPUT(host_number_of_events_t, unsigned) host_number_of_events;
    HOST_INPUT(host_raw_bank_version_t, int) host_raw_bank_version;
    MASK_INPUT(dev_event_list_t) dev_event_list;
    DEVICE_INPUT(dev_ut_raw_input_t, char) dev_ut_raw_input;
    DEVICE_INPUT(dev_ut_raw_input_offsets_t, unsigned) dev_ut_raw_input_offsets;
    DEVICE_INPUT(dev_ut_raw_input_sizes_t, unsigned) dev_ut_raw_input_sizes;
    DEVICE_INPUT(dev_ut_raw_input_types_t, unsigned) dev_ut_raw_input_types;
    // What consumers take.
    HOST_OUTPUT(host_accumulated_number_of_ut_hits_t, unsigned) host_accumulated_number_of_ut_hits;
    DEVICE_OUTPUT(dev_ut_hit_offsets_t, unsigned) dev_ut_hit_offsets;
    DEVICE_OUTPUT(dev_ut_hits_t, char) dev_ut_hits;
  };

  // Requires that the version of the banks is known and is that of the boards. Without Allen's contracts such banks are skipped
  // and counted as wrong_version.
  struct version_checks : public Allen::contract::Precondition {
    void operator()(
      const ArgumentReferences<Parameters>& arguments,
      const RuntimeOptions& runtime_options,
      const Constants& constants,
      const Allen::Context& context) const;
  };

  // Accumulators of the stream, by the counter's number in the report.
  using Counts = std::array<Allen::Monitoring::DeviceAveragingCounter<unsigned>, UT_N_COUNTS>;
  using Histogram = Allen::Monitoring::Histogram<>;

  // Adds the selected events' hits and reports to the accumulators.
  __global__ void monitor(
    Parameters parameters,
    const unsigned* report,
    Counts counts,
    Allen::Monitoring::DeviceAveragingCounter<unsigned> hits,
    Allen::Monitoring::DeviceCounter<unsigned> troubled,
    Histogram::DeviceType hits_of_event);

  // Decoders of one set of tables. Any number of threads use them at a time: a GPU's is shared, a CPU's is lent to one.
  class Decoders;

  struct ut_rust_decoding_t : public DeviceAlgorithm, Parameters {
    using contracts = std::tuple<version_checks>;

    ut_rust_decoding_t();
    void set_arguments_size(ArgumentReferences<Parameters> arguments, const RuntimeOptions&, const Constants&) const;
    void operator()(
      const ArgumentReferences<Parameters>& arguments,
      const RuntimeOptions& runtime_options,
      const Constants& constants,
      const Allen::Context& context) const;
    // Called when the conditions have changed. Calls in progress keep the tables that they started with.
    void update(const Constants& constants) const;

  private:
    Allen::Property<bool> m_cluster_ut_hits {this, "cluster_ut_hits", true, "whether to cluster UT hits"};
    Allen::Property<int> m_position_method {this, "position_method", 0, "0: weighted by ADC counts, 1: geometric"};
    Allen::Property<unsigned> m_max_cluster_size {this, "max_cluster_size", 128u, "max size of UT clusters"};
    Allen::Property<bool> m_save_clusters_above_max {this, "save_clusters_above_max", false, "cut larger ones"};
    Allen::Property<unsigned> m_flip_from {this, "flip_from", 511u, "flipped strips count from 511, or 512 before v7r9"};

    Allen::Monitoring::AveragingCounter<> m_hits {this, "n_ut_hits"};
    Allen::Monitoring::Counter<> m_troubled {this, "n_events_with_trouble"};
    Histogram m_hits_of_event {this, "ut_hits_of_event", "UT hits per event", {100u, 0.f, 10000.f}};
    // One for each counter of the report, named after it: banks, strips, and each trouble.
    std::vector<std::unique_ptr<Allen::Monitoring::AveragingCounter<>>> m_counts;

    // A scheduler calls one object from several threads.
    mutable std::mutex m_mutex;
    mutable std::shared_ptr<Decoders> m_decoders;

    template<std::size_t... I> Counts counts(const Allen::Context& context, std::index_sequence<I...>) const
    {
      return {m_counts[I]->data(context)...};
    }
    UtBatch batch(const ArgumentReferences<Parameters>& arguments, const RuntimeOptions& runtime_options) const;
  };
} // namespace ut_rust_decoding

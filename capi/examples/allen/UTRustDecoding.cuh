// UT decoding for Allen by libut_decoding, in the place of Allen's own: raw banks in, UT hits and their offsets out, in the
// shape that Allen's consumers take. docs/integration.md goes through it argument by argument.
//
// Ours, written from what is publicly known of Allen's contract for algorithms in August 2026.
#pragma once

#include <memory>

#include "AlgorithmTypes.cuh"
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
    // Between counting and writing.
    DEVICE_OUTPUT(dev_ut_scratch_t, char) dev_ut_scratch;
    // On a GPU: the number of hits, and whether something was wrong.
    HOST_OUTPUT(host_ut_result_t, unsigned) host_ut_result;
    // What consumers take.
    HOST_OUTPUT(host_accumulated_number_of_ut_hits_t, unsigned) host_accumulated_number_of_ut_hits;
    DEVICE_OUTPUT(dev_ut_hit_offsets_t, unsigned) dev_ut_hit_offsets;
    DEVICE_OUTPUT(dev_ut_hits_t, char) dev_ut_hits;
  };

  struct ut_rust_decoding_t : public DeviceAlgorithm, Parameters {
    void set_arguments_size(ArgumentReferences<Parameters> arguments, const RuntimeOptions&, const Constants&) const;
    void operator()(
      const ArgumentReferences<Parameters>& arguments,
      const RuntimeOptions& runtime_options,
      const Constants& constants,
      const Allen::Context& context) const;
    // Called when the conditions have changed, with nothing of this algorithm in flight.
    void update(const Constants& constants) const;

  private:
    Allen::Property<bool> m_cluster_ut_hits {this, "cluster_ut_hits", true, "whether to cluster UT hits"};
    Allen::Property<int> m_position_method {this, "position_method", 0, "0: weighted by ADC counts, 1: geometric"};
    Allen::Property<unsigned> m_max_cluster_size {this, "max_cluster_size", 128u, "max size of UT clusters"};
    Allen::Property<bool> m_save_clusters_above_max {this, "save_clusters_above_max", false, "cut larger ones"};

#ifdef TARGET_DEVICE_CUDA
    using Decoder = UtCuda;
#else
    using Decoder = UtDecoder;
#endif
    struct Free {
      void operator()(Decoder* decoder) const;
    };
    // Allen's algorithms are const; each of its streams has its own.
    mutable std::unique_ptr<Decoder, Free> m_decoder;

    UtBatch batch(const ArgumentReferences<Parameters>& arguments, const RuntimeOptions& runtime_options) const;
  };
} // namespace ut_rust_decoding

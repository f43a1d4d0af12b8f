// Allen's UT decoder: the algorithms in the order of Allen's sequence, on the arrays of the shims.
#pragma once

#include <array>
#include <functional>

#include "UTDecodingDecodeClusters.cuh"
#include "UTDecodingGetBankOffsets.cuh"
#include "UTDecodingGetHitOffsets.cuh"
#include "UTDecodingHitClustering.cuh"
#include "UTDecodingPredecodeHits.cuh"
#include "UTUniqueID.cuh"
#include "clock.hpp"
#include "events.hpp"

/// Hits of a batch in Allen's order; group g of event e is [offsets[e * n_groups + g], offsets[... + 1]).
struct AllensHits {
  std::uint32_t n_hits;
  const unsigned* offsets;
  const char* data;
};

class AllensDecoder {
public:
  static constexpr std::size_t n_groups = UT::Constants::n_groups;
  static constexpr std::array<const char*, 5> names {
    "bank offsets", "hit offsets", "predecode", "cluster and sort", "decode"};

  /// CPU time of each algorithm so far, in seconds.
  std::array<double, 5> seconds {};

  AllensDecoder(const std::vector<char>& boards, const std::vector<char>& geometry) :
    version {static_cast<int>(UTBoards {boards}.version)}
  {
    constants.dev_ut_boards = boards;
    constants.dev_ut_geometry = geometry;
    const UTBoards table {boards};
    for (std::uint32_t lane = 0; lane < table.number_of_channels; ++lane) {
      constants.dev_ut_board_geometry_map.push_back(static_cast<std::uint16_t>(sector_unique_id(
        table.sides[lane], table.layers[lane], table.staves[lane], table.faces[lane], table.modules[lane],
        table.sectors[lane])));
      constants.dev_ut_board_to_sector_group_map.push_back(static_cast<std::uint8_t>(
        get_sector_group_id(table.staves[lane], table.faces[lane], table.modules[lane]) +
        table.layers[lane] * UT::Constants::n_groups_in_layer));
    }
  }

  AllensHits decode(const Batch& batch)
  {
    while (events.size() < batch.n_events) events.push_back(static_cast<unsigned>(events.size()));
    n_events = batch.n_events;
    lend("host_number_of_events_t", &n_events, 1);
    lend("dev_event_list_t", events.data(), n_events);
    lend("host_raw_bank_version_t", &version, 1);
    lend("dev_ut_raw_input_t", batch.raw.data(), batch.raw.size());
    lend("dev_ut_raw_input_offsets_t", batch.offsets.data(), batch.offsets.size());
    lend("dev_ut_raw_input_sizes_t", batch.sizes.data(), batch.sizes.size());
    lend("dev_ut_raw_input_types_t", batch.types.data(), batch.types.size());
    run<ut_decoding_get_bank_offsets::Parameters>(bank_offsets, 0);
    run<ut_decoding_get_hit_offsets::Parameters>(hit_offsets, 1);
    run<ut_decoding_predecode_hits::Parameters>(predecode, 2);
    run<ut_decoding_hit_clustering::Parameters>(clustering, 3);
    run<ut_decoding_decode_clusters::Parameters>(clusters, 4);
    auto& arrays = beside::arrays();
    return {
      *static_cast<const unsigned*>(arrays["host_ut_num_clusters_t"].data),
      static_cast<const unsigned*>(arrays["dev_ut_clusters_sector_group_offsets_t"].data),
      static_cast<const char*>(arrays["dev_ut_hits_t"].data)};
  }

private:
  int version;
  unsigned n_events = 0;
  std::vector<unsigned> events;
  Constants constants;
  ut_decoding_get_bank_offsets::ut_decoding_get_bank_offsets_t bank_offsets;
  ut_decoding_get_hit_offsets::ut_decoding_get_hit_offsets_t hit_offsets;
  ut_decoding_predecode_hits::ut_decoding_predecode_hits_t predecode;
  ut_decoding_hit_clustering::ut_decoding_hit_clustering_t clustering;
  ut_decoding_decode_clusters::ut_decoding_decode_clusters_t clusters;

  /// Lets the algorithms read memory that is not theirs; none of them writes these.
  template<class T>
  static void lend(const char* name, const T* data, std::size_t size)
  {
    beside::arrays()[name] = {const_cast<T*>(data), size, 0};
  }

  template<class Parameters, class Algorithm>
  void run(const Algorithm& algorithm, std::size_t index)
  {
    const ArgumentReferences<Parameters> arguments;
    const double start = cpu_seconds();
    algorithm.set_arguments_size(arguments, RuntimeOptions {}, constants);
    algorithm(arguments, RuntimeOptions {}, constants, Allen::Context {});
    seconds[index] += cpu_seconds() - start;
  }
};

// See UTRustDecoding.cuh.
#include "UTRustDecoding.cuh"

INSTANTIATE_ALGORITHM(ut_rust_decoding::ut_rust_decoding_t)

namespace {
  void check(UtStatus status)
  {
    if (status != UT_OK) throw StrException {std::string {"UT decoding: "} + ut_message()};
  }
} // namespace

void ut_rust_decoding::ut_rust_decoding_t::Free::operator()(Decoder* decoder) const
{
#ifdef TARGET_DEVICE_CUDA
  ut_cuda_free(decoder);
#else
  ut_decoder_free(decoder);
#endif
}

void ut_rust_decoding::ut_rust_decoding_t::update(const Constants& constants) const
{
  const auto bytes = [](const std::vector<char>& blob) { return reinterpret_cast<const uint8_t*>(blob.data()); };
  const auto &boards = constants.host_ut_boards, &geometry = constants.host_ut_geometry;
  UtTables* tables = nullptr;
  check(ut_tables_from_memory(
    bytes(boards), boards.size(), bytes(geometry), geometry.size(), UT_GROUPS_Y_ROWS, &tables));
  const std::unique_ptr<UtTables, decltype(&ut_tables_free)> owner {tables, ut_tables_free};

  UtOptions options {};
  options.size = sizeof options;
  options.no_clustering = !m_cluster_ut_hits;
  options.geometric = m_position_method == 1;
  options.max_cluster_size = m_max_cluster_size;
  options.save_above_max = m_save_clusters_above_max;
  options.flip_from_511 = 1; // Allen since !2178; 0 before
  Decoder* decoder = nullptr;
#ifdef TARGET_DEVICE_CUDA
  // NULL: the context that is current, which is the one of Allen's memory. Waits: compiles the kernels, copies the tables.
  check(ut_cuda_new(tables, &options, nullptr, &decoder));
#else
  check(ut_decoder_new(tables, &options, &decoder));
#endif
  m_decoder.reset(decoder);
}

UtBatch ut_rust_decoding::ut_rust_decoding_t::batch(
  const ArgumentReferences<Parameters>& arguments,
  const RuntimeOptions& runtime_options) const
{
  UtBatch batch {};
  batch.size = sizeof batch;
  batch.layout = runtime_options.mep_layout ? UT_LAYOUT_MEP : UT_LAYOUT_ALLEN;
  batch.n_events = first<host_number_of_events_t>(arguments);
  batch.first_event = std::get<0>(runtime_options.event_interval);
  batch.only_selected = 1;
  batch.selected = data<dev_event_list_t>(arguments);
  batch.n_selected = size<dev_event_list_t>(arguments);
  batch.raw = reinterpret_cast<const uint8_t*>(data<dev_ut_raw_input_t>(arguments));
  batch.raw_bytes = size<dev_ut_raw_input_t>(arguments);
  batch.offsets = data<dev_ut_raw_input_offsets_t>(arguments);
  batch.n_offsets = size<dev_ut_raw_input_offsets_t>(arguments);
  batch.sizes = data<dev_ut_raw_input_sizes_t>(arguments);
  batch.n_sizes = size<dev_ut_raw_input_sizes_t>(arguments);
  batch.types = data<dev_ut_raw_input_types_t>(arguments);
  batch.n_types = size<dev_ut_raw_input_types_t>(arguments);
  batch.version = first<host_raw_bank_version_t>(arguments);
  return batch;
}

void ut_rust_decoding::ut_rust_decoding_t::set_arguments_size(
  ArgumentReferences<Parameters> arguments,
  const RuntimeOptions&,
  const Constants&) const
{
  set_size<dev_ut_hit_offsets_t>(arguments, first<host_number_of_events_t>(arguments) * 72 + 1);
  set_size<host_ut_result_t>(arguments, 2);
  set_size<host_accumulated_number_of_ut_hits_t>(arguments, 1);
  // Both are resized when it is known how large they are.
  set_size<dev_ut_scratch_t>(arguments, 0);
  set_size<dev_ut_hits_t>(arguments, 0);
}

void ut_rust_decoding::ut_rust_decoding_t::operator()(
  const ArgumentReferences<Parameters>& arguments,
  const RuntimeOptions& runtime_options,
  const Constants& constants,
  const Allen::Context& context) const
{
  data<host_accumulated_number_of_ut_hits_t>(arguments)[0] = 0;
  if (first<host_raw_bank_version_t>(arguments) < 0) { // no UT banks in the data
    Allen::memset_async<dev_ut_hit_offsets_t>(arguments, 0, context);
    return;
  }
  if (!m_decoder) update(constants);
  const UtBatch batch = this->batch(arguments, runtime_options);
  UtHits hits {};
  hits.size = sizeof hits;
  hits.offsets = data<dev_ut_hit_offsets_t>(arguments);
  hits.n_offsets = size<dev_ut_hit_offsets_t>(arguments);

#ifdef TARGET_DEVICE_CUDA
  UtCudaWork work {};
  work.size = sizeof work;
  work.stream = context.stream();
  check(ut_cuda_scratch_bytes(m_decoder.get(), &batch, &work.scratch_bytes));
  resize<dev_ut_scratch_t>(arguments, work.scratch_bytes);
  work.scratch = data<dev_ut_scratch_t>(arguments);
  work.result = reinterpret_cast<UtCudaResult*>(data<host_ut_result_t>(arguments)); // Allen's host memory is pinned
  check(ut_cuda_count(m_decoder.get(), &batch, &work));
  Allen::synchronize(context); // the host needs the number of hits, as after each of Allen's own prefix sums
  const unsigned n_hits = work.result->n_hits;
  if (work.result->trouble) throw StrException {"UT decoding: an event is listed that the slice does not have"};
#else
  check(ut_decoder_count(m_decoder.get(), &batch, &hits));
  const unsigned n_hits = hits.n_hits;
#endif

  resize<dev_ut_hits_t>(arguments, static_cast<size_t>(n_hits) * UT_HIT_BYTES); // throws where there is no memory
  check(ut_hits_in(data<dev_ut_hits_t>(arguments), size<dev_ut_hits_t>(arguments), n_hits, &hits));
#ifdef TARGET_DEVICE_CUDA
  work.result = nullptr; // nothing may be written to host memory after this returns
  check(ut_cuda_write(m_decoder.get(), &batch, &work, &hits));
#else
  check(ut_decoder_decode(m_decoder.get(), &batch, &hits));
#endif
  data<host_accumulated_number_of_ut_hits_t>(arguments)[0] = n_hits;
}

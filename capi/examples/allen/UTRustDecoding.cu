// See UTRustDecoding.cuh.
#include "UTRustDecoding.cuh"

#include <cstring>
#include <string>

INSTANTIATE_ALGORITHM(ut_rust_decoding::ut_rust_decoding_t)

namespace {
  // Groups of hits in an event: rows in y.
  constexpr unsigned n_groups = 72;
  // The report has banks, strips and three statistics, then the troubles.
  constexpr unsigned first_trouble = 5;

  void check(UtStatus status)
  {
    if (status != UT_OK) throw StrException {std::string {"UT decoding: "} + ut_message()};
  }

} // namespace

class ut_rust_decoding::Decoders {
public:
#ifdef TARGET_DEVICE_CUDA
  using Decoder = UtCuda;
#else
  using Decoder = UtDecoder;
#endif
  struct Free {
    void operator()(UtTables* tables) const { ut_tables_free(tables); }
#ifdef TARGET_DEVICE_CUDA
    void operator()(Decoder* decoder) const { ut_cuda_free(decoder); }
#else
    void operator()(Decoder* decoder) const { ut_decoder_free(decoder); }
#endif
  };

  Decoders(const std::vector<char>& boards, const std::vector<char>& geometry, const UtOptions& options) :
    m_options {options}
  {
    const auto bytes = [](const std::vector<char>& blob) { return reinterpret_cast<const uint8_t*>(blob.data()); };
    UtTables* tables = nullptr;
    check(ut_tables_from_memory(
      bytes(boards), boards.size(), bytes(geometry), geometry.size(), UT_GROUPS_Y_ROWS, &tables));
    m_tables.reset(tables);
    m_idle.push_back(make());
  }

  // A decoder for as long as this lives, and what made it.
  class Lease {
  public:
    explicit Lease(std::shared_ptr<Decoders> from) : m_from {std::move(from)}
    {
#ifndef TARGET_DEVICE_CUDA
      {
        const std::lock_guard lock {m_from->m_mutex};
        if (!m_from->m_idle.empty()) {
          m_mine = std::move(m_from->m_idle.back());
          m_from->m_idle.pop_back();
        }
      }
      if (!m_mine) m_mine = m_from->make();
#endif
    }
    ~Lease()
    {
      if (!m_mine) return;
      const std::lock_guard lock {m_from->m_mutex};
      m_from->m_idle.push_back(std::move(m_mine));
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Decoder* get() const { return m_mine ? m_mine.get() : m_from->m_idle.front().get(); }

  private:
    std::shared_ptr<Decoders> m_from;
    std::unique_ptr<Decoder, Free> m_mine;
  };

private:
  std::unique_ptr<Decoder, Free> make() const
  {
    Decoder* decoder = nullptr;
#ifdef TARGET_DEVICE_CUDA
    // NULL: the context that is current, which is the one of Allen's memory. Waits: compiles the kernels, copies the tables.
    check(ut_cuda_new(m_tables.get(), &m_options, nullptr, &decoder));
#else
    check(ut_decoder_new(m_tables.get(), &m_options, &decoder));
#endif
    return std::unique_ptr<Decoder, Free> {decoder};
  }

  std::unique_ptr<UtTables, Free> m_tables;
  UtOptions m_options;
  std::mutex m_mutex;
  std::vector<std::unique_ptr<Decoder, Free>> m_idle;
};

ut_rust_decoding::ut_rust_decoding_t::ut_rust_decoding_t()
{
  for (unsigned count = 0; count < UT_N_COUNTS; ++count)
    m_counts.push_back(std::make_unique<Allen::Monitoring::AveragingCounter<>>(this, ut_count_name(count)));
}

void ut_rust_decoding::version_checks::operator()(
  const ArgumentReferences<Parameters>& arguments,
  const RuntimeOptions&,
  const Constants& constants,
  const Allen::Context&) const
{
  const int version = first<Parameters::host_raw_bank_version_t>(arguments);
  // The second word of the boards.
  uint32_t boards = 0;
  if (constants.host_ut_boards.size() >= 8) std::memcpy(&boards, constants.host_ut_boards.data() + 4, 4);
  require(version == -1 || version == 3 || version == 4, "the UT banks have version 3 or 4, or -1: there are none");
  require(version == -1 || version == static_cast<int>(boards), "the UT banks have the version of the boards");
}

void ut_rust_decoding::ut_rust_decoding_t::update(const Constants& constants) const
{
  UtOptions options {};
  options.size = sizeof options;
  options.no_clustering = !m_cluster_ut_hits;
  options.geometric = m_position_method == 1;
  options.max_cluster_size = m_max_cluster_size;
  options.save_above_max = m_save_clusters_above_max;
  options.flip_from = m_flip_from;
  auto decoders = std::make_shared<Decoders>(constants.host_ut_boards, constants.host_ut_geometry, options);
  const std::lock_guard lock {m_mutex};
  m_decoders.swap(decoders);
}

UtBatch ut_rust_decoding::ut_rust_decoding_t::batch(
  const ArgumentReferences<Parameters>& arguments,
  const RuntimeOptions& runtime_options) const
{
  static_assert(sizeof(mask_t) == sizeof(uint32_t), "the event list is a list of words");
  UtBatch batch {};
  batch.size = sizeof batch;
  batch.layout = runtime_options.mep_layout ? UT_LAYOUT_MEP : UT_LAYOUT_ALLEN;
  batch.n_events = first<host_number_of_events_t>(arguments);
  batch.first_event = std::get<0>(runtime_options.event_interval);
  batch.only_selected = 1;
  batch.selected = reinterpret_cast<const uint32_t*>(data<dev_event_list_t>(arguments));
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
  set_size<dev_ut_hit_offsets_t>(arguments, first<host_number_of_events_t>(arguments) * n_groups + 1);
  set_size<host_accumulated_number_of_ut_hits_t>(arguments, 1);
  // It is resized when it is known how large it is.
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
  const auto decoders = [this] {
    const std::lock_guard lock {m_mutex};
    return m_decoders;
  };
  // Two threads may both find none; the tables of the last of them stay.
  if (!decoders()) update(constants);
  const Decoders::Lease decoder {decoders()};
  const UtBatch batch = this->batch(arguments, runtime_options);
  // A word where there are no events: Allen reserves no memory of no bytes.
  auto report = make_device_buffer<unsigned>(arguments, batch.n_events * UT_N_COUNTS + 1);
  UtHits hits {};
  hits.size = sizeof hits;
  hits.offsets = data<dev_ut_hit_offsets_t>(arguments);
  hits.n_offsets = size<dev_ut_hit_offsets_t>(arguments);
  hits.report = report.data();
  hits.n_report = report.size();

#ifdef TARGET_DEVICE_CUDA
  UtCudaWork work {};
  work.size = sizeof work;
  work.stream = context.stream();
  check(ut_cuda_scratch_bytes(decoder.get(), &batch, &work.scratch_bytes));
  auto scratch = make_device_buffer<char>(arguments, work.scratch_bytes);
  auto result = make_host_buffer<unsigned>(arguments, 2); // Allen's host memory is pinned
  work.scratch = scratch.data();
  work.result = reinterpret_cast<UtCudaResult*>(result.data());
  check(ut_cuda_count(decoder.get(), &batch, &work));
  Allen::synchronize(context); // the host needs the number of hits, as after each of Allen's own prefix sums
  const unsigned n_hits = work.result->n_hits;
  if (work.result->trouble) throw StrException {"UT decoding: an event is listed that the slice does not have"};
#else
  check(ut_decoder_count(decoder.get(), &batch, &hits));
  const unsigned n_hits = hits.n_hits;
#endif

  resize<dev_ut_hits_t>(arguments, static_cast<size_t>(n_hits) * UT_HIT_BYTES); // throws where there is no memory
  check(ut_hits_in(data<dev_ut_hits_t>(arguments), size<dev_ut_hits_t>(arguments), n_hits, &hits));
#ifdef TARGET_DEVICE_CUDA
  work.result = nullptr; // nothing may be written to host memory after this returns
  check(ut_cuda_write(decoder.get(), &batch, &work, &hits));
#else
  check(ut_decoder_decode(decoder.get(), &batch, &hits));
#endif
  data<host_accumulated_number_of_ut_hits_t>(arguments)[0] = n_hits;

  global_function(monitor)(dim3(1), dim3(256), context)(
    arguments,
    report.data(),
    counts(context, std::make_index_sequence<UT_N_COUNTS> {}),
    m_hits.data(context),
    m_troubled.data(context),
    m_hits_of_event.data(context));
}

__global__ void ut_rust_decoding::monitor(
  Parameters parameters,
  const unsigned* report,
  Counts counts,
  Allen::Monitoring::DeviceAveragingCounter<unsigned> hits,
  Allen::Monitoring::DeviceCounter<unsigned> troubled,
  Histogram::DeviceType hits_of_event)
{
  for (unsigned i = threadIdx.x; i < parameters.dev_event_list.size(); i += blockDim.x) {
    const unsigned event = parameters.dev_event_list[i];
    const unsigned* offsets = parameters.dev_ut_hit_offsets.data() + event * n_groups;
    const unsigned n = offsets[n_groups] - offsets[0];
    hits.add(n);
    hits_of_event.increment(n);
    bool has_trouble = false;
    for (unsigned count = 0; count < UT_N_COUNTS; ++count) {
      const unsigned found = report[event * UT_N_COUNTS + count];
      counts[count].add(found);
      has_trouble |= count >= first_trouble && found;
    }
    if (has_trouble) troubled.increment();
  }
}

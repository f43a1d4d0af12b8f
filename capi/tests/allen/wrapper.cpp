// Runs the example algorithm for Allen over the stub of Allen's contract, and checks what consumers rely on: one allocation
// of exactly n * 28 bytes, back to back; events * 72 + 1 offsets; unselected events empty; the interval; no banks at all.
//
//     wrapper BOARDS GEOMETRY DUMP DUMP...
#include "../../examples/allen/UTRustDecoding.cu"

#include "../../examples/dump.hpp"

using namespace ut_rust_decoding;

namespace {

void expect(bool holds, const char* what)
{
  if (!holds) fail("failed", what);
}

template<class T> std::vector<T> as(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

// Decodes `n` events from `start` on, those of the list, and gives offsets and ids.
struct Result {
  std::vector<unsigned> offsets, ids;
};

Result run(const ut_rust_decoding_t& algorithm, const Batch& batch, const Constants& constants, unsigned start, unsigned n,
           const std::vector<unsigned>& list, int version)
{
  ArgumentReferences<Parameters> arguments;
  arguments.of<Parameters::host_number_of_events_t>() = std::vector<unsigned> {n};
  arguments.of<Parameters::host_raw_bank_version_t>() = std::vector<int> {version};
  arguments.of<Parameters::dev_event_list_t>() = list;
  arguments.of<Parameters::dev_ut_raw_input_t>() = as<char>(batch.raw);
  arguments.of<Parameters::dev_ut_raw_input_offsets_t>() = batch.offsets;
  arguments.of<Parameters::dev_ut_raw_input_sizes_t>() = batch.sizes;
  arguments.of<Parameters::dev_ut_raw_input_types_t>() = batch.types;
  RuntimeOptions options {};
  options.event_interval = {start, start + n};
  options.mep_layout = batch.layout == UT_LAYOUT_MEP;
  algorithm.set_arguments_size(arguments, options, constants);
  algorithm(arguments, options, constants, Allen::Context {});

  const std::vector<unsigned> offsets = arguments.of<Parameters::dev_ut_hit_offsets_t>().get();
  const std::vector<char> hits = arguments.of<Parameters::dev_ut_hits_t>().get();
  const unsigned n_hits = arguments.of<Parameters::host_accumulated_number_of_ut_hits_t>().get().at(0);
  expect(offsets.size() == n * 72 + 1 && offsets[0] == 0 && offsets.back() == n_hits, "offsets");
  expect(hits.size() == size_t {n_hits} * 28, "exactly 28 bytes a hit");
  Result result {offsets, std::vector<unsigned>(n_hits)};
  if (n_hits) std::memcpy(result.ids.data(), hits.data() + 24 * size_t {n_hits}, 4 * size_t {n_hits});
  for (unsigned id : result.ids) expect(id >> 28 == 3, "ids lie behind the six arrays of floats");
  return result;
}

} // namespace

int main(int argc, char** argv)
{
  if (argc < 5) return std::fprintf(stderr, "usage: %s BOARDS GEOMETRY DUMP DUMP...\n", argv[0]), 2;
#ifdef TARGET_DEVICE_CUDA
  use_device();
#endif
  const Constants constants {as<char>(read_file(argv[1])), as<char>(read_file(argv[2]))};
  const int version = constants.host_ut_boards.at(4);
  const ut_rust_decoding_t algorithm {};
  for (const Batch& batch : {allen_batch(argc - 3, argv + 3), mep_batch(argc - 3, argv + 3)}) {
    const unsigned n = batch.n_events;
    std::vector<unsigned> all;
    for (unsigned event = 0; event < n; ++event) all.push_back(event);
    const Result whole = run(algorithm, batch, constants, 0, n, all, version);
    expect(!whole.ids.empty(), "there are hits");
    const Result last = run(algorithm, batch, constants, 1, n - 1, {n - 2}, version);
    expect(last.offsets[(n - 2) * 72] == 0, "events that are not selected are empty");
    expect(last.ids == std::vector<unsigned>(whole.ids.begin() + whole.offsets[(n - 1) * 72], whole.ids.end()),
           "the selected event of an interval is that of the whole");
    expect(run(algorithm, batch, constants, 0, n, {}, version).ids.empty(), "an empty list selects nothing");
    expect(run(algorithm, batch, constants, 0, n, all, -1).ids.empty(), "version -1: there are no UT banks");
    std::printf("%zu hits through the algorithm for Allen\n", whole.ids.size());
  }
#ifdef TARGET_DEVICE_CUDA
  try {
    run(algorithm, allen_batch(argc - 3, argv + 3), constants, 0, 1, {1}, version);
    expect(false, "an event that the slice does not have is an error");
  } catch (const StrException& error) {
    expect(std::string {error.what()}.find("does not have") != std::string::npos, "the error says what is wrong");
  }
#endif
  try {
    algorithm.update(Constants {});
    expect(false, "no tables are an error");
  } catch (const StrException& error) {
    expect(std::string {error.what()}.find("boards") != std::string::npos, "the error says what is wrong");
  }
}

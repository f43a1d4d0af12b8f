// Runs the example algorithm for Allen over the stub of Allen's contract, and checks what consumers rely on: one allocation
// of exactly n * 28 bytes, back to back; events * 72 + 1 offsets; unselected events empty; the interval; no banks at all; no
// hit, one, and more than 16 bits can number; several threads with one algorithm; the contract; the accumulators.
//
//     wrapper BOARDS GEOMETRY DUMP DUMP...
#include <algorithm>
#include <memory>
#include <mutex>
#include <thread>

#include "../../examples/dump.hpp"
#include "AllenMonitoring.h"
// Properties and accumulators are looked at.
#define private public
#include "../../examples/allen/UTRustDecoding.cu"
#undef private

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
  std::vector<mask_t> mask;
  for (unsigned event : list) mask.push_back(mask_t {event});
  arguments.of<Parameters::dev_event_list_t>() = mask;
  arguments.of<Parameters::dev_ut_raw_input_t>() = as<char>(batch.raw);
  arguments.of<Parameters::dev_ut_raw_input_offsets_t>() = batch.offsets;
  arguments.of<Parameters::dev_ut_raw_input_sizes_t>() = batch.sizes;
  arguments.of<Parameters::dev_ut_raw_input_types_t>() = batch.types;
  RuntimeOptions options {};
  options.event_interval = {start, start + n};
  options.mep_layout = batch.layout == UT_LAYOUT_MEP;
  version_checks {}(arguments, options, constants, Allen::Context {});
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

// An event of all boards with `n` hits in each lane (format v5) or bank (v4); with `one`, of them only the first board's first.
Batch made(int version, uint32_t n_boards, unsigned n, bool one)
{
  Batch batch;
  batch.n_events = 1;
  batch.offsets = {0};
  std::vector<uint16_t> sizes;
  std::vector<uint32_t> table {n_boards}, banks;
  for (uint32_t board = 0; board < n_boards; ++board) {
    const unsigned hits = one && board > 0 ? 0 : n, lanes = one ? 1 : 6;
    std::vector<uint8_t> payload(version == 4 ? 8 : 4);
    if (version == 4) {
      // The counts of lanes 0 to 5.
      for (unsigned lane = 0; lane < lanes; ++lane) payload[(unsigned[]) {4, 5, 6, 7, 0, 1}[lane]] = hits;
      payload.resize(8 + 32 * ((hits + 1) / 2) + 24);
      for (unsigned i = 0; i < hits; ++i)
        for (unsigned lane = 0; lane < lanes; ++lane) {
          const uint16_t word = static_cast<uint16_t>(2 * i << 5 | 20);
          std::memcpy(&payload[8 + 2 * (16 * (i / 2) + 2 * (5 - lane) + i % 2)], &word, 2);
        }
    } else {
      std::memcpy(payload.data(), &hits, 2);
      for (unsigned i = 0; i < hits; ++i)
        for (const unsigned byte : {i % 512 << 2 & 255, i % 512 >> 6}) payload.push_back(static_cast<uint8_t>(byte));
    }
    sizes.push_back(static_cast<uint16_t>(payload.size()));
    payload.resize((payload.size() + 3) / 4 * 4);
    table.push_back(static_cast<uint32_t>(4 * banks.size()));
    banks.push_back(board);
    banks.resize(banks.size() + payload.size() / 4);
    std::memcpy(&banks[banks.size() - payload.size() / 4], payload.data(), payload.size());
  }
  table.push_back(static_cast<uint32_t>(4 * banks.size()));
  table.insert(table.end(), banks.begin(), banks.end());
  batch.raw.resize(4 * table.size());
  std::memcpy(batch.raw.data(), table.data(), batch.raw.size());
  batch.sizes = rows<uint16_t>({sizes});
  batch.types = rows<uint8_t>({std::vector<uint8_t>(n_boards, 66)});
  return batch;
}

unsigned sum(const ut_rust_decoding_t& algorithm, const std::string& name)
{
  for (const auto& count : algorithm.m_counts)
    if (count->name == name) return count->numbers[0];
  fail("there is no counter", name.c_str());
}

template<class Function> void throws(const char* part, Function function)
{
  try {
    function();
  } catch (const StrException& error) {
    return expect(std::string {error.what()}.find(part) != std::string::npos, error.what());
  }
  expect(false, part);
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
  throws("does not have", [&] { run(algorithm, allen_batch(argc - 3, argv + 3), constants, 0, 1, {1}, version); });
#endif
  throws("boards", [&] { algorithm.update(Constants {}); });
  throws("version of the boards", [&] { run(algorithm, allen_batch(argc - 3, argv + 3), constants, 0, 1, {0}, 7 - version); });
  throws("version 3 or 4", [&] { run(algorithm, allen_batch(argc - 3, argv + 3), constants, 0, 1, {0}, 5); });

  uint32_t n_boards;
  std::memcpy(&n_boards, constants.host_ut_boards.data(), 4);
#ifdef TARGET_DEVICE_CUDA
  const unsigned rounds = 2, many = 1; // on the stand-in a hit takes a millisecond
  const size_t least_of_many = 2;
#else
  const unsigned rounds = 20, many = version == 4 ? 254 : 1000;
  const size_t least_of_many = 65536;
#endif
  for (const auto& [n, one, least, most] : std::vector<std::tuple<unsigned, bool, size_t, size_t>> {
         {0, false, 0, 0}, {1, true, 1, 1}, {many, false, least_of_many, 1u << 20}}) {
    const ut_rust_decoding_t alone {};
    const size_t hits = run(alone, made(version, n_boards, n, one), constants, 0, 1, {0}, version).ids.size();
    expect(least <= hits && hits <= most, "no hit, one hit, more than 65535 hits");
    expect(alone.m_hits.numbers[0] == hits && alone.m_hits.numbers[1] == 1, "hits are counted, an entry an event");
    expect(alone.m_hits_of_event.entries == 1 && sum(alone, "strips") >= hits, "the report is counted");
    // Some lanes and boards are not connected, which is counted; nothing else is wrong.
    expect(sum(alone, "truncated") + sum(alone, "broken_event") == 0, "the banks are whole");
  }
  Batch cut = made(version, n_boards, 4, false);
  cut.sizes = rows<uint16_t>({std::vector<uint16_t>(n_boards, version == 4 ? 24 : 4)});
  const ut_rust_decoding_t troubled {};
  run(troubled, cut, constants, 0, 1, {0}, version);
  expect(troubled.m_troubled.numbers[0] == 1 && sum(troubled, "truncated") > 0, "troubles are counted");

  // Flipped sectors are a strip further with 512: other places, of the same ids. Banks of v4 have none.
  const Batch batch = allen_batch(argc - 3, argv + 3);
  const std::vector<unsigned> first {0};
  ut_rust_decoding_t before {};
  before.m_flip_from = 512u;
  std::vector<unsigned> now = run(algorithm, batch, constants, 0, 1, first, version).ids;
  const std::vector<char> places = ArgumentReferences<Parameters> {}.of<Parameters::dev_ut_hits_t>().get();
  std::vector<unsigned> then = run(before, batch, constants, 0, 1, first, version).ids;
  expect((places == ArgumentReferences<Parameters> {}.of<Parameters::dev_ut_hits_t>().get()) == (version == 3), "flip_from");
  std::sort(now.begin(), now.end()), std::sort(then.begin(), then.end());
  expect(now == then, "the ids do not depend on flip_from");

  // A scheduler shares the algorithm. New tables may come at any time.
  const Result expected = run(algorithm, batch, constants, 0, 1, first, version);
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < 2; ++thread)
    threads.emplace_back([&, thread] {
#ifdef TARGET_DEVICE_CUDA
      use_device();
#endif
      for (unsigned round = 0; round < rounds; ++round) {
        if (thread == 1 && round == rounds / 2) algorithm.update(constants);
        const Result found = run(algorithm, batch, constants, 0, 1, first, version);
        expect(found.ids == expected.ids && found.offsets == expected.offsets, "the same hits on every thread");
      }
    });
  for (auto& thread : threads) thread.join();
}

// The GPU's part of the C interface: the same hits, offsets and report as the CPU's, for whole batches, intervals, lists and one
// version; memory of exactly the right size; streams that are late; several threads; every wrong argument. capi/test.sh runs it
// on the stand-in for the driver, which says it when memory is touched that was not allocated.
//
//     interface_cuda BOARDS GEOMETRY DUMP DUMP...
#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "device.hpp"

namespace {

std::atomic<int> failures {0};

void expect(bool holds, const std::string& what)
{
  if (holds) return;
  std::fprintf(stderr, "failed: %s (last message: %s)\n", what.c_str(), ut_message());
  ++failures;
}

void refuses(UtStatus status, UtStatus expected, const std::string& part, const std::string& what)
{
  expect(status == expected, what + ": status " + std::to_string(status) + " and not " + std::to_string(expected));
  expect(std::string {ut_message()}.find(part) != std::string::npos, what + ": the message says \"" + part + "\"");
}

struct Decoded {
  std::vector<uint32_t> words, offsets, report;

  bool operator==(const Decoded& other) const
  {
    return words == other.words && offsets == other.offsets && report == other.report;
  }
};

Decoded on_cpu(UtDecoder* decoder, const UtBatch& batch, size_t n_groups)
{
  Decoded decoded;
  decoded.offsets.resize(batch.n_events * n_groups + 1);
  decoded.report.resize(batch.n_events * UT_N_COUNTS);
  UtHits hits {};
  hits.size = sizeof hits;
  hits.offsets = decoded.offsets.data(), hits.n_offsets = decoded.offsets.size();
  if (batch.n_events) hits.report = decoded.report.data(), hits.n_report = decoded.report.size();
  check(ut_decoder_count(decoder, &batch, &hits), "count");
  const size_t n = hits.n_hits;
  decoded.words.resize(7 * n);
  check(ut_hits_in(decoded.words.data(), n * UT_HIT_BYTES, n, &hits), "hits");
  check(ut_decoder_decode(decoder, &batch, &hits), "decode");
  return decoded;
}

// A batch on the device, counted and to be written.
class Flight {
public:
  Flight(const UtCuda* cuda, const UtBatch& batch, size_t n_groups, CUstream stream) :
    m_cuda(cuda), m_batch(batch), m_raw(batch.raw, batch.raw_bytes, stream), m_offsets(batch.offsets, batch.n_offsets, stream),
    m_sizes(batch.sizes, batch.n_sizes, stream), m_types(batch.types, batch.n_types, stream),
    m_selected(batch.selected, batch.n_selected, stream), m_result(1), m_groups(batch.n_events * n_groups + 1),
    m_report(batch.n_events * UT_N_COUNTS), m_stream(stream)
  {
    m_batch.raw = m_raw.data(), m_batch.offsets = m_offsets.data();
    m_batch.sizes = m_sizes.data(), m_batch.types = m_types.data();
    if (batch.selected) m_batch.selected = m_selected.data();
    // Where there are versions, they are the types.
    if (batch.versions) m_batch.versions = m_types.data();
    m_work.size = sizeof m_work;
    m_work.stream = stream;
    m_work.result = m_result.data();
    check(ut_cuda_scratch_bytes(cuda, &m_batch, &m_work.scratch_bytes), "scratch");
    m_scratch.reset(new OnDevice<uint8_t>(m_work.scratch_bytes));
    m_work.scratch = m_scratch->data();
    check(ut_cuda_count(cuda, &m_batch, &m_work), "count");
  }

  const UtCudaResult& result() const
  {
    check_cuda(cuStreamSynchronize(m_stream), "cuStreamSynchronize");
    return *m_result.data();
  }

  // Room for `n` hits.
  void write(size_t n)
  {
    m_words.reset(new OnDevice<uint32_t>(7 * n));
    UtHits hits {};
    hits.size = sizeof hits;
    hits.offsets = m_groups.data(), hits.n_offsets = m_groups.size();
    if (m_report.size()) hits.report = m_report.data(), hits.n_report = m_report.size();
    check(ut_hits_in(m_words->data(), n * UT_HIT_BYTES, n, &hits), "hits");
    check(ut_cuda_write(m_cuda, &m_batch, &m_work, &hits), "write");
    // What the calls were given may change after them.
    std::memset(&hits, 0xFF, sizeof hits);
  }

  Decoded get() const { return {m_words->get(m_stream), m_groups.get(m_stream), m_report.get(m_stream)}; }
  const UtBatch& batch() const { return m_batch; }
  const UtCudaWork& work() const { return m_work; }

private:
  const UtCuda* m_cuda;
  UtBatch m_batch;
  OnDevice<uint8_t> m_raw;
  OnDevice<uint32_t> m_offsets, m_sizes, m_types, m_selected;
  Pinned<UtCudaResult> m_result;
  UtCudaWork m_work {};
  OnDevice<uint32_t> m_groups, m_report;
  std::unique_ptr<OnDevice<uint8_t>> m_scratch;
  std::unique_ptr<OnDevice<uint32_t>> m_words;
  CUstream m_stream;
};

// All parts of a batch that one can ask for.
std::vector<UtBatch> parts(const Batch& batch, uint32_t version)
{
  static const uint32_t list[] = {1, 0, 1};
  const UtBatch all = batch.view();
  std::vector<UtBatch> parts(7, all);
  parts[1].only_selected = 1, parts[1].selected = list, parts[1].n_selected = 1;
  parts[2].only_selected = 1, parts[2].selected = list, parts[2].n_selected = 3;
  parts[3].only_selected = 1;
  parts[4].first_event = 1, parts[4].n_events = all.n_events - 1;
  parts[5].first_event = all.n_events - 1, parts[5].n_events = 1;
  parts[5].only_selected = 1, parts[5].selected = list + 1, parts[5].n_selected = 1;
  parts[6].version = version;
  return parts;
}

void same_as_on_the_cpu(const UtCuda* cuda, UtDecoder* decoder, const Batch& batch, size_t n_groups, uint32_t version)
{
  const CUstream stream = new_stream();
  // All in flight at the same time.
  std::vector<std::unique_ptr<Flight>> flights;
  const auto batches = parts(batch, version);
  for (const UtBatch& part : batches) flights.emplace_back(new Flight(cuda, part, n_groups, stream));
  std::vector<size_t> counted;
  for (const auto& flight : flights) {
    expect(flight->result().trouble == 0, "no trouble");
    counted.push_back(flight->result().n_hits);
  }
  for (size_t i = 0; i < flights.size(); ++i) flights[i]->write(counted[i]);
  for (size_t i = 0; i < flights.size(); ++i) {
    const Decoded expected = on_cpu(decoder, batches[i], n_groups);
    expect(7 * counted[i] == expected.words.size(), "as many hits as on the CPU, part " + std::to_string(i));
    expect(flights[i]->result().n_hits == counted[i] && flights[i]->result().trouble == 0, "the result is said again");
    expect(flights[i]->get() == expected, "the bits of the CPU, part " + std::to_string(i));
  }
  expect(counted[0] > 0 && counted[1] > 0 && counted[3] == 0, "the parts differ");
  Flight on_default {cuda, batches[0], n_groups, nullptr};
  on_default.write(on_default.result().n_hits);
  expect(on_default.get() == on_cpu(decoder, batches[0], n_groups), "NULL is a stream");
}

void troubles(const UtCuda* cuda, UtDecoder* decoder, const Batch& batch, size_t n_groups)
{
  const CUstream stream = new_stream();
  const uint32_t list[] = {0, batch.n_events, 0xFFFFFFFF};
  UtBatch part = batch.view();
  part.only_selected = 1, part.selected = list, part.n_selected = 3;
  Flight flight {cuda, part, n_groups, stream};
  expect(flight.result().trouble == UT_CUDA_NO_SUCH_EVENT, "an event that is not there is said");
  const size_t n = flight.result().n_hits;
  flight.write(n - 1);
  expect(flight.result().trouble == UT_CUDA_NO_ROOM && flight.result().n_hits == n, "one hit too many is said");
  flight.write(n);
  part.n_selected = 1;
  expect(flight.result().trouble == 0 && flight.get() == on_cpu(decoder, part, n_groups), "the others are decoded");
  // No version is 66 or 68.
  UtBatch versioned = batch.view();
  versioned.versions = versioned.types, versioned.n_versions = versioned.n_types;
  Flight skipped {cuda, versioned, n_groups, stream};
  skipped.write(0);
  expect(skipped.result().trouble == UT_CUDA_WRONG_VERSION && skipped.result().n_hits == 0, "another version is said");
}

void threads(const UtCuda* cuda, const CUcontext context, UtDecoder* decoder, const Batch& batch, size_t n_groups)
{
  const Decoded expected = on_cpu(decoder, batch.view(), n_groups);
  std::vector<std::thread> workers;
  for (int thread = 0; thread < 3; ++thread) {
    workers.emplace_back([&] {
      check_cuda(cuCtxSetCurrent(context), "cuCtxSetCurrent");
      const CUstream stream = new_stream();
      for (int round = 0; round < 3; ++round) {
        Flight flight {cuda, batch.view(), n_groups, stream};
        flight.write(flight.result().n_hits);
        expect(flight.get() == expected, "threads share the decoder, each with its stream");
      }
    });
  }
  for (auto& worker : workers) worker.join();
}

void wrong_arguments(const UtCuda* cuda, const Batch& good, size_t n_groups, uint32_t version)
{
  const CUstream stream = new_stream();
  Flight flight {cuda, good.view(), n_groups, stream};
  const size_t n = flight.result().n_hits;
  OnDevice<uint32_t> memory {7 * n}, offsets {good.n_events * n_groups + 1}, report {good.n_events * UT_N_COUNTS};
  UtHits right {};
  right.size = sizeof right;
  right.offsets = offsets.data(), right.n_offsets = offsets.size();
  right.report = report.data(), right.n_report = report.size();
  check(ut_hits_in(memory.data(), n * UT_HIT_BYTES, n, &right), "hits");

  const auto batch_with = [&](const std::function<void(UtBatch&)>& change, UtStatus status, const char* part) {
    UtBatch batch = flight.batch();
    change(batch);
    refuses(ut_cuda_count(cuda, &batch, &flight.work()), status, part, "count, batch");
    refuses(ut_cuda_write(cuda, &batch, &flight.work(), &right), status, part, "write, batch");
  };
  batch_with([](UtBatch& b) { b.size = 0; }, UT_BAD_ARGUMENT, "UtBatch.size");
  batch_with([](UtBatch& b) { b.layout = 9; }, UT_BAD_ARGUMENT, "layout is 9");
  batch_with([](UtBatch& b) { b.raw = nullptr; }, UT_BAD_ARGUMENT, "UtBatch.raw is NULL");
  batch_with([](UtBatch& b) { b.offsets = nullptr; }, UT_BAD_ARGUMENT, "UtBatch.offsets is NULL");
  batch_with([](UtBatch& b) { b.sizes = reinterpret_cast<const uint32_t*>(3); }, UT_BAD_ARGUMENT, "not aligned");
  batch_with([](UtBatch& b) { b.only_selected = 2; }, UT_BAD_ARGUMENT, "only_selected is 2");
  batch_with([](UtBatch& b) { b.only_selected = 1, b.n_selected = 1; }, UT_BAD_ARGUMENT, "selected is NULL");
  batch_with([](UtBatch& b) { b.n_selected = 1; }, UT_BAD_ARGUMENT, "only_selected is 0");
  batch_with([](UtBatch& b) { b.version = 256; }, UT_BAD_ARGUMENT, "version is 256");
  batch_with([](UtBatch& b) { b.version = 5; }, UT_BAD_ARGUMENT, "version is 5");
  batch_with([&](UtBatch& b) { b.version = 7 - version; }, UT_WRONG_VERSION, "the tables are for version");
  batch_with([&](UtBatch& b) { b.version = version, b.versions = b.types, b.n_versions = b.n_types; }, UT_BAD_ARGUMENT,
             "one of them");
  batch_with([](UtBatch& b) { b.reserved = 5; }, UT_BAD_ARGUMENT, "reserved");
  batch_with([](UtBatch& b) { b.raw_bytes = size_t {1} << 32; }, UT_CAPACITY, "4 GiB");
  if (good.layout == UT_LAYOUT_ALLEN) {
    batch_with([](UtBatch& b) { b.n_events += 1; }, UT_BAD_ARGUMENT, "too few");
    batch_with([](UtBatch& b) { b.first_event = 0xFFFFFFFF; }, UT_BAD_ARGUMENT, "too few");
  } else {
    batch_with([](UtBatch& b) { b.n_events = 0xFFFFFFFF; }, UT_CAPACITY, "too many for one batch");
    batch_with([](UtBatch& b) { b.n_events += 1000; }, UT_CAPACITY, "the batch"); // work space, or offsets
  }

  const auto work_with = [&](const std::function<void(UtCudaWork&)>& change, UtStatus status, const char* part) {
    UtCudaWork work = flight.work();
    change(work);
    refuses(ut_cuda_count(cuda, &flight.batch(), &work), status, part, "count, work");
    refuses(ut_cuda_write(cuda, &flight.batch(), &work, &right), status, part, "write, work");
  };
  work_with([](UtCudaWork& w) { w.size = 8; }, UT_BAD_ARGUMENT, "UtCudaWork.size");
  work_with([](UtCudaWork& w) { w.scratch = nullptr; }, UT_BAD_ARGUMENT, "scratch is NULL");
  work_with([](UtCudaWork& w) { --w.scratch_bytes; }, UT_CAPACITY, "work space");
  work_with([](UtCudaWork& w) { w.scratch_bytes = 0; }, UT_CAPACITY, "work space");
  work_with([](UtCudaWork& w) { w.result = reinterpret_cast<UtCudaResult*>(reinterpret_cast<uintptr_t>(w.result) + 1); },
            UT_BAD_ARGUMENT, "result is not aligned");

  const auto hits_with = [&](const std::function<void(UtHits&)>& change, UtStatus status, const char* part) {
    UtHits hits = right;
    change(hits);
    refuses(ut_cuda_write(cuda, &flight.batch(), &flight.work(), &hits), status, part, "write, hits");
  };
  hits_with([](UtHits& h) { h.size = 1; }, UT_BAD_ARGUMENT, "UtHits.size");
  hits_with([](UtHits& h) { h.weight = nullptr; }, UT_BAD_ARGUMENT, "UtHits.weight is NULL");
  hits_with([](UtHits& h) { h.id = reinterpret_cast<uint32_t*>(1); }, UT_BAD_ARGUMENT, "not aligned");
  hits_with([](UtHits& h) { h.offsets = nullptr; }, UT_BAD_ARGUMENT, "UtHits.offsets is NULL");
  hits_with([](UtHits& h) { h.n_offsets = 0; }, UT_BAD_ARGUMENT, "n_offsets is 0");
  hits_with([](UtHits& h) { --h.n_offsets; }, UT_CAPACITY, "events");
  hits_with([](UtHits& h) { --h.n_report; }, UT_CAPACITY, "events");
  hits_with([](UtHits& h) { h.n_report = 0; }, UT_BAD_ARGUMENT, "either both are 0 or neither is");
  hits_with([](UtHits& h) { h.clusters = h.id; }, UT_BAD_ARGUMENT, "clusters");

  size_t bytes = 1;
  refuses(ut_cuda_count(cuda, nullptr, &flight.work()), UT_BAD_ARGUMENT, "UtBatch is NULL", "no batch");
  refuses(ut_cuda_count(cuda, &flight.batch(), nullptr), UT_BAD_ARGUMENT, "UtCudaWork is NULL", "no work");
  refuses(ut_cuda_write(cuda, &flight.batch(), &flight.work(), nullptr), UT_BAD_ARGUMENT, "UtHits is NULL", "no hits");
  refuses(ut_cuda_scratch_bytes(cuda, nullptr, &bytes), UT_BAD_ARGUMENT, "UtBatch is NULL", "no batch");
  refuses(ut_cuda_scratch_bytes(cuda, &flight.batch(), nullptr), UT_BAD_ARGUMENT, "scratch_bytes", "nowhere to write");
  // Lengths alone are enough to ask for the work space; nothing was written by what was refused.
  UtBatch lengths = flight.batch();
  lengths.raw = nullptr, lengths.offsets = lengths.sizes = lengths.types = nullptr;
  expect(ut_cuda_scratch_bytes(cuda, &lengths, &bytes) == UT_OK && bytes == flight.work().scratch_bytes, "lengths are enough");
  flight.write(n);
  expect(flight.result().trouble == 0 && flight.result().n_hits == n, "and the batch is written after all of that");
  UtBatch none {};
  none.size = sizeof none;
  Flight empty {cuda, none, n_groups, stream};
  expect(empty.result().n_hits == 0 && empty.result().trouble == 0, "no events have no hits");
  empty.write(0);
  expect(empty.get().offsets == std::vector<uint32_t> {0}, "and one offset");
}

// Every sector is of a kind of its own: whole batches and lists of events are decoded all the same.
void any_tables(const char* boards, const char* geometry, const CUcontext context, const Batch& batch)
{
  const auto lanes = read_file(boards);
  auto places = read_file(geometry);
  const size_t n_sectors = 1048;
  for (size_t sector = 0; sector < n_sectors; ++sector) {
    float dy;
    uint8_t* at = places.data() + 4 * (1 + 2 * n_sectors + sector);
    std::memcpy(&dy, at, 4);
    dy += 0.001f * static_cast<float>(sector);
    std::memcpy(at, &dy, 4);
  }
  UtTables* tables = nullptr;
  check(ut_tables_from_memory(lanes.data(), lanes.size(), places.data(), places.size(), UT_GROUPS_Y_ROWS, &tables), "tables");
  UtDecoder* decoder = nullptr;
  check(ut_decoder_new(tables, nullptr, &decoder), "decoder");
  UtCuda* cuda = nullptr;
  check(ut_cuda_new(tables, nullptr, context, &cuda), "decoder on the device");
  const size_t n_groups = ut_tables_n_groups(tables);
  ut_tables_free(tables);
  const CUstream stream = new_stream();
  {
    Flight flight {cuda, batch.view(), n_groups, stream};
    flight.write(flight.result().n_hits);
    expect(flight.get() == on_cpu(decoder, batch.view(), n_groups), "whole batches are decoded");
    static const uint32_t list[] = {0};
    UtBatch listed = batch.view();
    listed.only_selected = 1, listed.selected = list, listed.n_selected = 1;
    Flight some {cuda, listed, n_groups, stream};
    some.write(some.result().n_hits);
    expect(some.get() == on_cpu(decoder, listed, n_groups), "a list of events is decoded");
  }
  ut_cuda_free(cuda);
  ut_decoder_free(decoder);
}

} // namespace

int main(int argc, char** argv)
{
  if (argc < 5) return std::fprintf(stderr, "usage: %s BOARDS GEOMETRY DUMP DUMP...\n", argv[0]), 2;
  const CUcontext context = use_device();
  UtTables* tables = nullptr;
  check(ut_tables_from_files(argv[1], argv[2], UT_GROUPS_Y_ROWS, &tables), "tables");
  UtDecoder* decoder = nullptr;
  check(ut_decoder_new(tables, nullptr, &decoder), "decoder");
  UtCuda *cuda = nullptr, *current = nullptr;
  check(ut_cuda_new(tables, nullptr, context, &cuda), "decoder on the device");
  // NULL: the context that is current.
  check(ut_cuda_new(tables, nullptr, nullptr, &current), "decoder on the device");
  const size_t n_groups = ut_tables_n_groups(tables);
  const uint32_t version = ut_tables_bank_version(tables);
  ut_tables_free(tables);
  for (const Batch& batch : {allen_batch(argc - 3, argv + 3), mep_batch(argc - 3, argv + 3)}) {
    same_as_on_the_cpu(cuda, decoder, batch, n_groups, version);
    troubles(current, decoder, batch, n_groups);
    threads(cuda, context, decoder, batch, n_groups);
    wrong_arguments(cuda, batch, n_groups, version);
  }
  any_tables(argv[1], argv[2], context, allen_batch(argc - 3, argv + 3));
  ut_cuda_free(current);
  ut_cuda_free(cuda);
  ut_decoder_free(decoder);
  std::printf("on the device: %d failures\n", failures.load());
  return failures != 0;
}

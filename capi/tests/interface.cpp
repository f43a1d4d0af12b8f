// Uses the C interface as no one should: every wrong argument, arrays of exactly the right size between pages that nobody may
// touch, several threads, damaged batches. capi/test.sh runs it plainly, under AddressSanitizer and under valgrind.
//
//     interface BOARDS GEOMETRY DUMP...     (dumps of the same boards; UT_ROUNDS=N: fewer damaged batches, for valgrind)
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <tuple>

#include "../examples/dump.hpp"
#include "../examples/window.hpp"

namespace {

int failures = 0;

void expect(bool holds, const std::string& what)
{
  if (holds) return;
  std::fprintf(stderr, "failed: %s (last message: %s)\n", what.c_str(), ut_message());
  ++failures;
}

// Memory that ends where a page begins that cannot be touched; in front of it is another one, up to which it is filled.
class Guarded {
public:
  explicit Guarded(size_t bytes) : m_bytes(bytes)
  {
    const size_t page = sysconf(_SC_PAGESIZE);
    m_pages = (bytes + page - 1) / page * page;
    m_map = static_cast<uint8_t*>(mmap(nullptr, m_pages + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (m_map == MAP_FAILED || (m_pages && mprotect(m_map + page, m_pages, PROT_READ | PROT_WRITE))) fail("mmap", "failed");
    m_begin = m_map + page + m_pages - bytes;
    m_front = m_pages - bytes;
    std::memset(m_map + page, 0xA5, m_pages);
  }

  ~Guarded()
  {
    for (size_t i = 0; i < m_front; ++i) expect((m_begin - m_front)[i] == 0xA5, "nothing is written before an array");
    munmap(m_map, m_pages + 2 * sysconf(_SC_PAGESIZE));
  }

  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  template<class T> T* as() { return reinterpret_cast<T*>(m_begin); }
  size_t bytes() const { return m_bytes; }

private:
  size_t m_bytes, m_pages, m_front;
  uint8_t *m_map, *m_begin;
};

struct Decoded {
  UtStatus status;
  std::vector<uint32_t> words, offsets, report;
  size_t n_hits = 0;

  bool operator==(const Decoded& other) const
  {
    return status == other.status && words == other.words && offsets == other.offsets && report == other.report;
  }
};

// Counts, then decodes into memory of exactly that size, all of it guarded, the batch too.
Decoded decode(UtDecoder* decoder, const UtBatch& batch, size_t n_groups)
{
  std::vector<std::unique_ptr<Guarded>> guards;
  const auto guard = [&](const void* from, size_t bytes) {
    guards.push_back(std::make_unique<Guarded>(bytes));
    if (bytes) std::memcpy(guards.back()->as<uint8_t>(), from, bytes);
    return guards.back()->as<uint8_t>();
  };
  const auto words = [&](const uint32_t* from, size_t n) { return reinterpret_cast<uint32_t*>(guard(from, 4 * n)); };
  UtBatch guarded = batch;
  guarded.raw = guard(batch.raw, batch.raw_bytes);
  guarded.offsets = words(batch.offsets, batch.n_offsets);
  guarded.sizes = words(batch.sizes, batch.n_sizes);
  guarded.types = words(batch.types, batch.n_types);
  if (batch.selected) guarded.selected = words(batch.selected, batch.n_selected);
  if (batch.versions) guarded.versions = words(batch.versions, batch.n_versions);

  Guarded offsets {4 * (batch.n_events * n_groups + 1)}, report {4 * batch.n_events * UT_N_COUNTS};
  UtHits hits {};
  hits.size = sizeof hits;
  hits.offsets = offsets.as<uint32_t>();
  hits.n_offsets = offsets.bytes() / 4;
  if (batch.n_events) hits.report = report.as<uint32_t>(), hits.n_report = report.bytes() / 4;
  Decoded decoded;
  decoded.status = ut_decoder_count(decoder, &guarded, &hits);
  if (decoded.status != UT_OK) return decoded;
  const size_t n = hits.n_hits;
  expect(hits.offsets[hits.n_offsets - 1] == n, "the last offset is the number of hits");
  std::vector<uint32_t> counted(hits.offsets, hits.offsets + hits.n_offsets);
  Guarded memory {n * UT_HIT_BYTES};
  expect(ut_hits_in(memory.as<void>(), memory.bytes(), n, &hits) == UT_OK, "hits are laid out");
  decoded.status = ut_decoder_decode(decoder, &guarded, &hits);
  expect(decoded.status == UT_OK, "what was counted is decoded");
  decoded.n_hits = hits.n_hits;
  expect(hits.n_hits == n, "as many hits as counted");
  decoded.words.assign(memory.as<uint32_t>(), memory.as<uint32_t>() + 7 * n);
  decoded.offsets.assign(hits.offsets, hits.offsets + hits.n_offsets);
  expect(decoded.offsets == counted, "the offsets are those of the count");
  if (hits.report) decoded.report.assign(hits.report, hits.report + hits.n_report);
  if (n > 0) {
    Guarded small {(n - 1) * UT_HIT_BYTES};
    expect(ut_hits_in(small.as<void>(), small.bytes(), n - 1, &hits) == UT_OK, "hits are laid out");
    expect(ut_decoder_decode(decoder, &guarded, &hits) == UT_CAPACITY && hits.n_hits == 0, "one hit too many");
  }
  return decoded;
}

UtTables* tables_of(const char* boards, const char* geometry, uint32_t grouping = UT_GROUPS_Y_ROWS)
{
  UtTables* tables = nullptr;
  check(ut_tables_from_files(boards, geometry, grouping, &tables), "tables");
  return tables;
}

UtDecoder* decoder_of(const UtTables* tables)
{
  UtOptions options {};
  options.size = sizeof options;
  UtDecoder* decoder = nullptr;
  check(ut_decoder_new(tables, &options, &decoder), "decoder");
  return decoder;
}

// A call that must fail, for the reason that part of the message names.
void refuses(UtStatus status, UtStatus expected, const std::string& part, const std::string& what)
{
  expect(status == expected, what + ": status " + std::to_string(status) + " and not " + std::to_string(expected));
  const std::string message = ut_message();
  expect(message.find(part) != std::string::npos, what + ": the message says \"" + part + "\"");
}

void wrong_tables(const char* boards, const char* geometry)
{
  UtTables* tables = nullptr;
  refuses(ut_tables_from_files(nullptr, geometry, 0, &tables), UT_BAD_ARGUMENT, "boards is NULL", "no boards");
  refuses(ut_tables_from_files(boards, nullptr, 0, &tables), UT_BAD_ARGUMENT, "geometry is NULL", "no geometry");
  refuses(ut_tables_from_files(boards, geometry, 2, &tables), UT_BAD_ARGUMENT, "grouping 2", "no such grouping");
  refuses(ut_tables_from_files(boards, geometry, 0, nullptr), UT_BAD_ARGUMENT, "tables", "nowhere to write");
  refuses(ut_tables_from_files("none", geometry, 0, &tables), UT_BAD_TABLES, "none", "no such file");
  refuses(ut_tables_from_files("\xFF", geometry, 0, &tables), UT_BAD_ARGUMENT, "UTF-8", "a name that is none");
  refuses(ut_tables_from_files(geometry, boards, 0, &tables), UT_BAD_TABLES, geometry, "files exchanged");
  auto bytes = read_file(boards);
  const auto places = read_file(geometry);
  for (size_t cut : {size_t {0}, size_t {3}, bytes.size() - 1}) {
    Guarded short_of {cut};
    if (cut) std::memcpy(short_of.as<uint8_t>(), bytes.data(), cut);
    refuses(ut_tables_from_memory(short_of.as<uint8_t>(), cut, places.data(), places.size(), 0, &tables), UT_BAD_TABLES,
            "boards", "boards cut");
  }
  refuses(ut_tables_from_memory(nullptr, 8, places.data(), places.size(), 0, &tables), UT_BAD_ARGUMENT, "boards is NULL",
          "boards that are not there");
  refuses(ut_tables_from_memory(bytes.data(), SIZE_MAX, places.data(), places.size(), 0, &tables), UT_BAD_ARGUMENT,
          "cannot have", "more boards than memory");
  bytes[4] = 9;
  refuses(ut_tables_from_memory(bytes.data(), bytes.size(), places.data(), places.size(), 0, &tables), UT_BAD_TABLES,
          "byte 4", "a version that is none");
  expect(tables == nullptr, "no tables were made");
  expect(ut_tables_n_groups(nullptr) == 0 && ut_tables_bank_version(nullptr) == 0, "no tables have no groups");
  ut_tables_free(nullptr);
}

void wrong_options(const UtTables* tables)
{
  const auto with = [&](const std::function<void(UtOptions&)>& change, UtStatus status, const char* part) {
    UtOptions options {};
    options.size = sizeof options;
    change(options);
    UtDecoder* decoder = nullptr;
    refuses(ut_decoder_new(tables, &options, &decoder), status, part, "options");
    expect(decoder == nullptr, "no decoder was made");
  };
  with([](UtOptions& o) { o.size = 0; }, UT_BAD_ARGUMENT, "UtOptions.size is 0");
  with([](UtOptions& o) { o.size = sizeof o - 4; }, UT_BAD_ARGUMENT, "UtOptions.size");
  with([](UtOptions& o) { o.size = SIZE_MAX; }, UT_BAD_ARGUMENT, "UtOptions.size");
  with([](UtOptions& o) { o.no_clustering = 2; }, UT_BAD_ARGUMENT, "no_clustering is 2");
  with([](UtOptions& o) { o.geometric = 7; }, UT_BAD_ARGUMENT, "geometric is 7");
  with([](UtOptions& o) { o.save_above_max = ~0u; }, UT_BAD_ARGUMENT, "save_above_max");
  with([](UtOptions& o) { o.flip_from = 1; }, UT_BAD_ARGUMENT, "flip_from");
  with([](UtOptions& o) { o.reserved = 1; }, UT_BAD_ARGUMENT, "reserved");
  UtDecoder* decoder = nullptr;
  refuses(ut_decoder_new(nullptr, nullptr, &decoder), UT_BAD_ARGUMENT, "tables is NULL", "no tables");
  refuses(ut_decoder_new(tables, nullptr, nullptr), UT_BAD_ARGUMENT, "decoder", "nowhere to write");
  // The struct of another version of the header.
  struct { UtOptions options; uint64_t more; } other {};
  other.options.size = sizeof other;
  refuses(ut_decoder_new(tables, &other.options, &decoder), UT_BAD_ARGUMENT, "UtOptions.size", "another version");
}

// Without a GPU there is an error, and with or without one, wrong arguments are refused.
void wrong_cuda(const UtTables* tables)
{
  UtCuda* cuda = nullptr;
  const UtStatus made = ut_cuda_new(tables, nullptr, nullptr, &cuda);
  if (made != UT_OK) refuses(made, UT_NO_DEVICE, "", "no GPU, or no context");
  ut_cuda_free(cuda);
  cuda = nullptr;
  UtBatch batch {};
  batch.size = sizeof batch;
  UtHits hits {};
  hits.size = sizeof hits;
  UtCudaWork work {};
  work.size = sizeof work;
  size_t bytes = 0;
  refuses(ut_cuda_new(nullptr, nullptr, nullptr, &cuda), UT_BAD_ARGUMENT, "tables is NULL", "no tables");
  refuses(ut_cuda_new(tables, nullptr, nullptr, nullptr), UT_BAD_ARGUMENT, "cuda", "nowhere to write");
  refuses(ut_cuda_scratch_bytes(nullptr, &batch, &bytes), UT_BAD_ARGUMENT, "cuda is NULL", "no decoder");
  refuses(ut_cuda_count(nullptr, &batch, &work), UT_BAD_ARGUMENT, "cuda is NULL", "no decoder");
  refuses(ut_cuda_write(nullptr, &batch, &work, &hits), UT_BAD_ARGUMENT, "cuda is NULL", "no decoder");
  ut_cuda_free(nullptr);
}

void wrong_batches(UtDecoder* decoder, const UtBatch& good, size_t n_groups, bool v4)
{
  std::vector<uint32_t> offsets(good.n_events * n_groups + 1), report(good.n_events * UT_N_COUNTS);
  std::vector<uint32_t> memory(7 * 100000);
  UtHits hits {};
  hits.size = sizeof hits;
  hits.offsets = offsets.data();
  hits.n_offsets = offsets.size();
  hits.report = report.data();
  hits.n_report = report.size();
  check(ut_hits_in(memory.data(), 4 * memory.size(), memory.size() / 7, &hits), "hits");
  expect(ut_decoder_decode(decoder, &good, &hits) == UT_OK && hits.n_hits > 0, "the batch is a good one");

  // What lies in the outputs before a call that is refused lies there afterwards.
  const auto is_untouched = [&](const auto& call) {
    const auto before = std::make_tuple(offsets, report, memory);
    call();
    expect(before == std::tie(offsets, report, memory), "outputs are untouched on failure");
  };
  const auto batch_with = [&](const std::function<void(UtBatch&)>& change, UtStatus status, const char* part) {
    UtBatch batch = good;
    change(batch);
    is_untouched([&] {
      refuses(ut_decoder_decode(decoder, &batch, &hits), status, part, "batch");
      expect(hits.n_hits == 0, "an error has no hits");
      refuses(ut_decoder_count(decoder, &batch, &hits), status, part, "batch");
    });
  };
  static const uint32_t list[] = {0, 0xFFFFFFFF};
  batch_with([](UtBatch& b) { b.size = 0; }, UT_BAD_ARGUMENT, "UtBatch.size");
  batch_with([](UtBatch& b) { b.size = 3; }, UT_BAD_ARGUMENT, "UtBatch.size");
  batch_with([](UtBatch& b) { b.size = 1 << 20; }, UT_BAD_ARGUMENT, "UtBatch.size");
  batch_with([](UtBatch& b) { b.layout = 2; }, UT_BAD_ARGUMENT, "layout is 2");
  batch_with([](UtBatch& b) { b.raw = nullptr; }, UT_BAD_ARGUMENT, "UtBatch.raw is NULL");
  batch_with([](UtBatch& b) { b.offsets = nullptr; }, UT_BAD_ARGUMENT, "UtBatch.offsets is NULL");
  batch_with([](UtBatch& b) { b.sizes = nullptr; }, UT_BAD_ARGUMENT, "UtBatch.sizes is NULL");
  batch_with([](UtBatch& b) { b.types = nullptr; }, UT_BAD_ARGUMENT, "UtBatch.types is NULL");
  batch_with([](UtBatch& b) { b.offsets = nullptr, b.n_offsets = 0; }, UT_BAD_ARGUMENT, "offsets has 0 words");
  batch_with([](UtBatch& b) { b.sizes = nullptr, b.n_sizes = 0; }, UT_BAD_ARGUMENT, "sizes");
  batch_with([](UtBatch& b) { b.types = nullptr, b.n_types = 0; }, UT_BAD_ARGUMENT, "types");
  batch_with([](UtBatch& b) { b.n_offsets = SIZE_MAX; }, UT_BAD_ARGUMENT, "cannot have");
  batch_with([](UtBatch& b) { b.raw_bytes = SIZE_MAX; }, UT_BAD_ARGUMENT, "cannot have");
  batch_with([](UtBatch& b) { b.offsets = reinterpret_cast<const uint32_t*>(reinterpret_cast<uintptr_t>(b.offsets) + 2); },
             UT_BAD_ARGUMENT, "not aligned");
  batch_with([](UtBatch& b) { b.only_selected = 2; }, UT_BAD_ARGUMENT, "only_selected is 2");
  batch_with([](UtBatch& b) { b.only_selected = 1, b.n_selected = 3; }, UT_BAD_ARGUMENT, "selected is NULL");
  batch_with([](UtBatch& b) { b.selected = list, b.n_selected = 2; }, UT_BAD_ARGUMENT, "only_selected is 0");
  batch_with([](UtBatch& b) { b.only_selected = 1, b.selected = list, b.n_selected = 2; }, UT_BAD_ARGUMENT, "4294967295");
  batch_with([](UtBatch& b) { b.version = 256; }, UT_BAD_ARGUMENT, "version is 256");
  batch_with([](UtBatch& b) { b.version = 4, b.versions = list, b.n_versions = 2; }, UT_BAD_ARGUMENT, "one of them");
  batch_with([](UtBatch& b) { b.reserved = 1; }, UT_BAD_ARGUMENT, "reserved");
  if (good.layout == UT_LAYOUT_ALLEN) {
    batch_with([](UtBatch& b) { b.n_events = 0xFFFFFFFF; }, UT_BAD_ARGUMENT, "4294967295");
    batch_with([](UtBatch& b) { b.first_event = 1; }, UT_BAD_ARGUMENT, "too few");
  } else {
    batch_with([](UtBatch& b) { b.n_events = 0xFFFFFFFF; }, UT_CAPACITY, "4294967295");
  }

  const auto hits_with = [&](const std::function<void(UtHits&)>& change, UtStatus status, const char* part) {
    UtHits changed = hits;
    change(changed);
    const auto call = [&] { refuses(ut_decoder_decode(decoder, &good, &changed), status, part, "hits"); };
    // Where the hits have too little room, that is found out while they are written.
    if (std::string {part} == "hits") call();
    else is_untouched(call);
  };
  hits_with([](UtHits& h) { h.size = 8; }, UT_BAD_ARGUMENT, "UtHits.size");
  hits_with([](UtHits& h) { h.y_begin = nullptr; }, UT_BAD_ARGUMENT, "UtHits.y_begin is NULL");
  hits_with([](UtHits& h) { h.id = nullptr; }, UT_BAD_ARGUMENT, "UtHits.id is NULL");
  hits_with([](UtHits& h) { h.offsets = nullptr; }, UT_BAD_ARGUMENT, "UtHits.offsets is NULL");
  hits_with([](UtHits& h) { h.n_offsets = 0; }, UT_BAD_ARGUMENT, "n_offsets is 0");
  hits_with([](UtHits& h) { h.report = nullptr; }, UT_BAD_ARGUMENT, "report");
  hits_with([](UtHits& h) { h.n_report = 0; }, UT_BAD_ARGUMENT, "report");
  hits_with([](UtHits& h) { --h.n_report; }, UT_CAPACITY, "events");
  hits_with([](UtHits& h) { --h.n_offsets; }, UT_CAPACITY, "events");
  hits_with([](UtHits& h) { h.max_hits = SIZE_MAX / 4; }, UT_BAD_ARGUMENT, "cannot have");
  hits_with([](UtHits& h) { h.max_hits = 1; }, UT_CAPACITY, "hits");
  hits_with([](UtHits& h) { h.max_hits = 0; }, UT_CAPACITY, "hits");
  hits_with([](UtHits& h) { h.y_end = h.y_begin + 1; }, UT_BAD_ARGUMENT, "y_begin and UtHits.y_end overlap");
  hits_with([](UtHits& h) { h.id = h.offsets; }, UT_BAD_ARGUMENT, "overlap");
  hits_with([&](UtHits& h) { h.offsets = const_cast<uint32_t*>(good.offsets); }, UT_BAD_ARGUMENT, "overlap");
  hits_with([](UtHits& h) { h.weight = reinterpret_cast<float*>(reinterpret_cast<uintptr_t>(h.weight) + 1); },
            UT_BAD_ARGUMENT, "not aligned");

  for (const auto call : {ut_decoder_count, ut_decoder_decode}) {
    hits.n_hits = 7;
    refuses(call(nullptr, &good, &hits), UT_BAD_ARGUMENT, "decoder is NULL", "no decoder");
    expect(hits.n_hits == 0, "no decoder has no hits");
  }
  refuses(ut_decoder_decode(decoder, nullptr, &hits), UT_BAD_ARGUMENT, "UtBatch is NULL", "no batch");
  refuses(ut_decoder_decode(decoder, &good, nullptr), UT_BAD_ARGUMENT, "UtHits is NULL", "no hits");
  refuses(ut_hits_in(memory.data(), 27, 1, &hits), UT_BAD_ARGUMENT, "28 bytes", "too little memory");
  refuses(ut_hits_in(memory.data(), SIZE_MAX, SIZE_MAX / 2, &hits), UT_BAD_ARGUMENT, "cannot have", "too many hits");
  refuses(ut_hits_in(nullptr, 28, 1, &hits), UT_BAD_ARGUMENT, "memory is NULL", "no memory");
  expect(std::string {"avx512 avx2 scalar"}.find(ut_vector_level()) != std::string::npos, "a level of vectors");
  expect(ut_count_name(UT_N_COUNTS) == nullptr && ut_count_name(0) != nullptr, "counters have names, and no others");
  expect(ut_decoder_decode(decoder, &good, &hits) == UT_OK && hits.n_hits > 0, "the decoder is as good as before");

  // Clusters: the charge of each, which v4 banks do not tell.
  std::vector<uint32_t> clusters(hits.max_hits);
  UtHits described = hits;
  described.clusters = clusters.data();
  if (v4) {
    refuses(ut_decoder_decode(decoder, &good, &described), UT_BAD_ARGUMENT, "v4", "clusters");
  } else {
    expect(ut_decoder_decode(decoder, &good, &described) == UT_OK, "clusters are given");
    for (size_t i = 0; i < described.n_hits; ++i) expect((clusters[i] & 0x1FFF) > 0, "clusters have a charge");
  }

  UtBatch none {};
  none.size = sizeof none;
  expect(ut_decoder_decode(decoder, &none, &hits) == UT_OK && hits.n_hits == 0, "no events need no arrays");
  hits.report = nullptr, hits.n_report = 0;
  expect(ut_decoder_decode(decoder, &good, &hits) == UT_OK && hits.n_hits > 0, "the report need not be wanted");
}

// The events of a list, and of an interval, are those of the whole.
void selections(UtDecoder* decoder, const UtBatch& good, size_t n_groups)
{
  const Decoded whole = decode(decoder, good, n_groups);
  const auto ids = [&](const Decoded& decoded, size_t event) {
    const auto begin = decoded.words.begin() + 6 * decoded.n_hits;
    return std::vector<uint32_t>(begin + decoded.offsets[event * n_groups], begin + decoded.offsets[(event + 1) * n_groups]);
  };
  const uint32_t last = good.n_events - 1;
  UtBatch batch = good;
  batch.only_selected = 1;
  batch.selected = &last;
  batch.n_selected = 1;
  Decoded part = decode(decoder, batch, n_groups);
  expect(part.status == UT_OK && part.n_hits > 0 && ids(part, last) == ids(whole, last), "the selected event");
  for (uint32_t event = 0; event < last; ++event) expect(ids(part, event).empty(), "the others are empty");
  batch.n_selected = 0;
  expect(decode(decoder, batch, n_groups).n_hits == 0, "an empty list selects nothing");
  batch = good;
  batch.first_event = 1;
  --batch.n_events;
  part = decode(decoder, batch, n_groups);
  for (uint32_t event = 0; event < last; ++event) expect(ids(part, event) == ids(whole, event + 1), "the interval");
}

void damaged(UtDecoder* decoder, Batch batch, size_t n_groups, int rounds)
{
  std::mt19937 random {1};
  const Batch good = batch;
  for (int round = 0; round < rounds; ++round) {
    batch = good;
    for (int n = random() % 4; n >= 0; --n) {
      batch.raw[random() % batch.raw.size()] ^= 1 << random() % 8;
      batch.raw[random() % std::min<size_t>(batch.raw.size(), 1000)] = static_cast<uint8_t>(random());
      auto& words = std::array {&batch.offsets, &batch.sizes, &batch.types}[random() % 3][0];
      words[random() % words.size()] = random() % 2 ? static_cast<uint32_t>(random()) : static_cast<uint32_t>(random() % 999);
    }
    if (round % 3 == 0) batch.raw.resize(random() % batch.raw.size());
    const UtStatus status = decode(decoder, batch.view(), n_groups).status;
    expect(status == UT_OK || status == UT_CAPACITY || status == UT_BAD_ARGUMENT, "a damaged batch is decoded");
  }
}

void threads(const char* boards, const char* geometry, const Batch& batch)
{
  UtTables* tables = tables_of(boards, geometry);
  const size_t n_groups = ut_tables_n_groups(tables);
  UtDecoder* shared = decoder_of(tables);
  const Decoded expected = decode(shared, batch.view(), n_groups);
  std::atomic<int> wrong {0}, busy {0};
  std::vector<std::thread> workers;
  for (uint32_t thread = 0; thread < 4; ++thread) {
    workers.emplace_back([&] {
      UtDecoder* own = decoder_of(tables);
      std::vector<uint32_t> offsets(batch.n_events * n_groups + 1), memory(7 * expected.n_hits);
      UtHits hits {};
      hits.size = sizeof hits;
      hits.offsets = offsets.data();
      hits.n_offsets = offsets.size();
      ut_hits_in(memory.data(), 4 * memory.size(), expected.n_hits, &hits);
      const UtBatch view = batch.view();
      for (int round = 0; round < 20; ++round) {
        if (ut_decoder_decode(own, &view, &hits) != UT_OK || memory != expected.words || offsets != expected.offsets) ++wrong;
        // One decoder for all: who comes second is told so.
        const UtStatus status = ut_decoder_decode(shared, &view, &hits);
        if (status == UT_BAD_ARGUMENT && std::string {ut_message()}.find("another thread") != std::string::npos) ++busy;
        else if (status != UT_OK || memory != expected.words) ++wrong;
      }
      ut_decoder_free(own);
    });
  }
  for (auto& worker : workers) worker.join();
  ut_decoder_free(shared);
  ut_tables_free(tables);
  expect(wrong == 0, "threads share tables, each with its decoder");
  std::printf("threads: the shared decoder was busy %d times of 80\n", busy.load());
}

// The binary search finds what looking at every hit finds.
void windows(UtDecoder* decoder, const Batch& batch)
{
  const Decoded decoded = decode(decoder, batch.view(), n_layers * groups_per_layer);
  std::vector<uint32_t> words = decoded.words, offsets = decoded.offsets;
  UtHits hits {};
  hits.size = sizeof hits;
  check(ut_hits_in(words.data(), 4 * words.size(), decoded.n_hits, &hits), "hits");
  hits.offsets = offsets.data();
  size_t n_found = 0;
  for (float slope : {-0.2f, -0.03f, 0.01f, 0.1f}) {
    for (float tilt : {-0.15f, 0.02f, 0.2f}) {
      const Track track {1, -2, slope, tilt};
      const auto found = hits_near(hits, 0, track, 20);
      for (size_t layer = 0; layer < n_layers; ++layer) {
        std::vector<uint32_t> all;
        const uint32_t* ends = &offsets[layer * groups_per_layer];
        for (uint32_t i = ends[0]; i < ends[groups_per_layer]; ++i) {
          if (is_near(hits, i, track, 20, 1)) all.push_back(i);
        }
        expect(found[layer] == all, "hits in a window");
        n_found += all.size();
      }
    }
  }
  expect(n_found > 0, "some hits are in a window");
}

} // namespace

int main(int argc, char** argv)
{
  if (argc < 5) return std::fprintf(stderr, "usage: %s BOARDS GEOMETRY DUMP DUMP...\n", argv[0]), 2;
  expect(ut_abi_version() == UT_ABI_VERSION, "library and header agree");
  expect(*ut_message() == 0, "there is no message before the first error");
  const int rounds = std::getenv("UT_ROUNDS") ? std::atoi(std::getenv("UT_ROUNDS")) : 200;
  wrong_tables(argv[1], argv[2]);
  UtTables* tables = tables_of(argv[1], argv[2]);
  wrong_options(tables);
  wrong_cuda(tables);
  const size_t n_groups = ut_tables_n_groups(tables);
  const bool v4 = ut_tables_bank_version(tables) == 3;
  UtDecoder* decoder = decoder_of(tables);
  ut_tables_free(tables);
  const Batch allen = allen_batch(argc - 3, argv + 3), mep = mep_batch(argc - 3, argv + 3);
  const Decoded decoded = decode(decoder, allen.view(), n_groups);
  expect(decoded.n_hits > 0 && decoded == decode(decoder, mep.view(), n_groups), "both layouts have the same hits");
  for (const Batch& batch : {allen, mep}) {
    wrong_batches(decoder, batch.view(), n_groups, v4);
    selections(decoder, batch.view(), n_groups);
    damaged(decoder, batch, n_groups, rounds);
  }
  if (decoded.n_hits > 0) windows(decoder, allen);
  threads(argv[1], argv[2], allen);
  ut_decoder_free(decoder);
  ut_decoder_free(nullptr);
  std::printf("%zu hits, %d failures\n", decoded.n_hits, failures);
  return failures != 0;
}

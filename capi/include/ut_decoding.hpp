// ut_decoding for C++17: tables, decoders and hits that give themselves back, spans, and exceptions. Header only, over
// ut_decoding.h, which says what every number means. capi/examples/decode_hits.cpp decodes files with it.
//
//     const ut::Tables tables {"boards.bin", "geometry.bin"};
//     ut::Decoder decoder {tables};                       // one per thread
//     const ut::Hits hits = decoder.decode(batch);        // throws ut::Error
//     for (uint32_t i : hits.group(event, group)) use(hits.x_at_y_eq0()[i], hits.id()[i]);
//
// A framework whose scheduler chooses the thread has a pool of decoders, and changes the tables while others decode
// (capi/examples/decode_threads.cpp):
//
//     ut::Pool pool {ut::Tables {"boards.bin", "geometry.bin"}};
//     const ut::Hits hits = pool.decode(batch);           // any number of threads at a time
//     pool.change(ut::Tables {"new_boards.bin", "new_geometry.bin"});
//
// A call that throws has changed nothing that its caller sees.
#ifndef UT_DECODING_HPP
#define UT_DECODING_HPP

#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ut_decoding.h"

namespace ut {

// A call that failed: its status, and in words what was wrong.
struct Error : std::runtime_error {
  explicit Error(UtStatus of) : std::runtime_error {ut_message()}, status {of} {}
  UtStatus status;
};

inline void check(UtStatus status)
{
  if (status != UT_OK) throw Error {status};
}

// Elements of somebody else's memory; std::span of C++20, as far as it is needed here.
template<class T> class Span {
public:
  Span() = default;
  Span(T* data, size_t size) : m_data {data}, m_size {size} {}
  template<class Container, class = decltype(std::declval<Container&>().data())>
  Span(Container&& container) : m_data {container.data()}, m_size {container.size()}
  {}
  T* data() const { return m_data; }
  size_t size() const { return m_size; }
  bool empty() const { return m_size == 0; }
  T& operator[](size_t i) const { return m_data[i]; }
  T* begin() const { return m_data; }
  T* end() const { return m_data + m_size; }

private:
  T* m_data = nullptr;
  size_t m_size = 0;
};

// The production values, to be changed.
inline UtOptions options()
{
  UtOptions all {};
  all.size = sizeof all;
  return all;
}

// A batch in memory that outlives it; fields that are not arguments are set afterwards.
inline UtBatch batch(
  uint32_t layout,
  uint32_t n_events,
  Span<const uint8_t> raw,
  Span<const uint32_t> offsets,
  Span<const uint32_t> sizes,
  Span<const uint32_t> types)
{
  UtBatch made {};
  made.size = sizeof made;
  made.layout = layout;
  made.n_events = n_events;
  made.raw = raw.data();
  made.raw_bytes = raw.size();
  made.offsets = offsets.data();
  made.n_offsets = offsets.size();
  made.sizes = sizes.data();
  made.n_sizes = sizes.size();
  made.types = types.data();
  made.n_types = types.size();
  return made;
}

// Boards, geometry and grouping of a detector. Any number of threads and decoders use them at the same time.
class Tables {
public:
  Tables(const std::string& boards, const std::string& geometry, uint32_t grouping = UT_GROUPS_Y_ROWS)
  {
    UtTables* tables = nullptr;
    check(ut_tables_from_files(boards.c_str(), geometry.c_str(), grouping, &tables));
    m_tables.reset(tables);
  }
  // From the contents of the files.
  Tables(Span<const uint8_t> boards, Span<const uint8_t> geometry, uint32_t grouping = UT_GROUPS_Y_ROWS)
  {
    UtTables* tables = nullptr;
    check(ut_tables_from_memory(boards.data(), boards.size(), geometry.data(), geometry.size(), grouping, &tables));
    m_tables.reset(tables);
  }
  const UtTables* get() const { return m_tables.get(); }
  size_t n_groups() const { return ut_tables_n_groups(get()); }
  uint32_t bank_version() const { return ut_tables_bank_version(get()); }

private:
  struct Free {
    void operator()(UtTables* tables) const { ut_tables_free(tables); }
  };
  std::unique_ptr<UtTables, Free> m_tables;
};

// Hits of a batch: seven arrays, back to back as Allen's consumers take them, ends of groups, and the report.
class Hits {
public:
  // Numbers from `first` to before `last`.
  struct Range {
    struct Iterator {
      uint32_t at;
      uint32_t operator*() const { return at; }
      Iterator& operator++()
      {
        ++at;
        return *this;
      }
      bool operator!=(Iterator other) const { return at != other.at; }
    };
    uint32_t first, last;
    Iterator begin() const { return {first}; }
    Iterator end() const { return {last}; }
    size_t size() const { return last - first; }
  };

  size_t size() const { return m_size; }
  size_t n_events() const { return m_report.size() / UT_N_COUNTS; }
  size_t n_groups() const { return n_events() ? (m_offsets.size() - 1) / n_events() : 0; }
  Span<const float> y_begin() const { return floats(0); }
  Span<const float> y_end() const { return floats(1); }
  Span<const float> z_at_y_eq0() const { return floats(2); }
  Span<const float> x_at_y_eq0() const { return floats(3); }
  Span<const float> dx_dy() const { return floats(4); }
  Span<const float> weight() const { return floats(5); }
  Span<const uint32_t> id() const { return {m_id, m_size}; }
  // The arrays as they lie: 28 bytes a hit.
  Span<const char> memory() const { return {m_memory.get(), m_size * UT_HIT_BYTES}; }
  Span<const uint32_t> offsets() const { return m_offsets; }
  // The hits of a group of an event.
  Range group(size_t event, size_t group) const
  {
    const size_t at = event * n_groups() + group;
    return {m_offsets.at(at), m_offsets.at(at + 1)};
  }
  // The counters of an event, named by ut_count_name.
  Span<const uint32_t> report(size_t event) const
  {
    if (event >= n_events()) throw std::out_of_range {"ut::Hits::report"};
    return {m_report.data() + event * UT_N_COUNTS, UT_N_COUNTS};
  }

private:
  friend class Decoder;
  Span<const float> floats(size_t i) const { return {m_floats ? m_floats + i * m_size : nullptr, m_size}; }

  // As new char[] gives it, aligned for any number, and not set to 0 first.
  std::unique_ptr<char[]> m_memory;
  const float* m_floats = nullptr;
  const uint32_t* m_id = nullptr;
  size_t m_size = 0;
  std::vector<uint32_t> m_offsets, m_report;
};

// Decodes batches on the CPU; one thread at a time uses it.
class Decoder {
public:
  explicit Decoder(const Tables& tables) : Decoder {tables, ut::options()} {}
  Decoder(const Tables& tables, const UtOptions& options) : m_n_groups {tables.n_groups()}
  {
    UtDecoder* decoder = nullptr;
    check(ut_decoder_new(tables.get(), &options, &decoder));
    m_decoder.reset(decoder);
  }
  UtDecoder* get() const { return m_decoder.get(); }
  // Counts, allocates as much as the hits take, and decodes.
  Hits decode(const UtBatch& batch)
  {
    Hits hits;
    hits.m_offsets.resize(size_t {batch.n_events} * m_n_groups + 1);
    hits.m_report.resize(size_t {batch.n_events} * UT_N_COUNTS);
    UtHits out {};
    out.size = sizeof out;
    out.offsets = hits.m_offsets.data();
    out.n_offsets = hits.m_offsets.size();
    out.report = hits.m_report.empty() ? nullptr : hits.m_report.data();
    out.n_report = hits.m_report.size();
    check(ut_decoder_count(get(), &batch, &out));
    hits.m_size = out.n_hits;
    hits.m_memory.reset(new char[hits.m_size * UT_HIT_BYTES + 1]);
    check(ut_hits_in(hits.m_memory.get(), hits.m_size * UT_HIT_BYTES, hits.m_size, &out));
    check(ut_decoder_decode(get(), &batch, &out));
    hits.m_floats = out.y_begin;
    hits.m_id = out.id;
    return hits;
  }

private:
  struct Free {
    void operator()(UtDecoder* decoder) const { ut_decoder_free(decoder); }
  };
  std::unique_ptr<UtDecoder, Free> m_decoder;
  size_t m_n_groups;
};

// Decoders for any number of threads: as many as decode at the same time, made when they are first needed.
class Pool {
  // Decoders of one set of tables.
  struct Run {
    Tables tables;
    std::mutex mutex;
    std::vector<std::unique_ptr<Decoder>> idle;
  };

public:
  explicit Pool(Tables tables) : Pool {std::move(tables), ut::options()} {}
  Pool(Tables tables, const UtOptions& options) : m_options {options} { change(std::move(tables)); }

  // Takes other tables for all calls that begin from now on, on any thread. Calls in progress finish with the tables with
  // which they began, and the last of them frees these.
  void change(Tables tables)
  {
    std::shared_ptr<Run> next {new Run {std::move(tables), {}, {}}};
    // A mistake shows here, and not in a thread that decodes.
    next->idle.push_back(std::make_unique<Decoder>(next->tables, m_options));
    const std::lock_guard<std::mutex> lock {m_mutex};
    m_run.swap(next);
  }

  // A decoder for as long as this lives: for several batches with the same tables.
  class Lease {
  public:
    ~Lease()
    {
      if (!m_decoder) return;
      const std::lock_guard<std::mutex> lock {m_run->mutex};
      m_run->idle.push_back(std::move(m_decoder));
    }
    Lease(Lease&&) = default;
    Lease& operator=(Lease&&) = delete;
    Decoder* operator->() const { return m_decoder.get(); }

  private:
    friend class Pool;
    Lease(std::shared_ptr<Run> run, const UtOptions& options) : m_run {std::move(run)}
    {
      {
        const std::lock_guard<std::mutex> lock {m_run->mutex};
        if (!m_run->idle.empty()) {
          m_decoder = std::move(m_run->idle.back());
          m_run->idle.pop_back();
        }
      }
      if (!m_decoder) m_decoder = std::make_unique<Decoder>(m_run->tables, options);
    }
    std::shared_ptr<Run> m_run;
    std::unique_ptr<Decoder> m_decoder;
  };

  Lease lend()
  {
    std::shared_ptr<Run> run;
    {
      const std::lock_guard<std::mutex> lock {m_mutex};
      run = m_run;
    }
    return {std::move(run), m_options};
  }

  Hits decode(const UtBatch& batch) { return lend()->decode(batch); }

private:
  UtOptions m_options;
  std::mutex m_mutex;
  std::shared_ptr<Run> m_run;
};

} // namespace ut

#endif

// Reads events in the form of Allen's dumps (what `ut-decode convert --to allen` writes): an event a file, only its block.
// Sizes and types are not part of it: sizes follow from the table of banks, and all banks are of type 66.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "ut_decoding.h"

struct Bank {
  uint32_t source_id;
  const uint8_t* payload;
  uint16_t size;
};

// Ends the program with a message; a framework would throw.
[[noreturn]] inline void fail(const char* what, const char* why)
{
  std::fprintf(stderr, "%s: %s\n", what, why);
  std::exit(1);
}

inline void check(UtStatus status, const char* what)
{
  if (status != UT_OK) fail(what, ut_message());
}

inline std::vector<uint8_t> read_file(const char* path)
{
  std::ifstream file {path, std::ios::binary};
  if (!file) fail(path, "cannot be read");
  return {std::istreambuf_iterator<char> {file}, {}};
}

// The banks of a block.
inline std::vector<Bank> banks_of(const std::vector<uint8_t>& block, const char* path)
{
  const auto word = [&](size_t i) { uint32_t w; std::memcpy(&w, block.data() + 4 * i, 4); return size_t {w}; };
  const size_t n_banks = block.size() < 8 ? 0 : word(0);
  // (No event has as many banks.)
  if (block.size() < 8 || n_banks > 65535 || block.size() / 4 < n_banks + 2) fail(path, "is not a dump");
  const size_t base = 4 * (n_banks + 2);
  std::vector<Bank> banks;
  for (size_t bank = 0; bank < n_banks; ++bank) {
    const size_t begin = base + word(1 + bank), end = base + word(2 + bank);
    if (end < begin + 4 || end > block.size()) fail(path, "has a bank that is not there");
    uint32_t source_id;
    std::memcpy(&source_id, block.data() + begin, 4);
    banks.push_back({source_id, block.data() + begin + 4, static_cast<uint16_t>(end - begin - 4)});
  }
  return banks;
}

// Rows of numbers as a batch has them: first a word for each row that says where it begins, then the rows.
template<class T> std::vector<uint32_t> rows(const std::vector<std::vector<T>>& rows)
{
  size_t n = rows.size() * 4 / sizeof(T);
  for (const auto& row : rows) n += row.size();
  std::vector<uint32_t> words((n * sizeof(T) + 3) / 4);
  size_t place = rows.size() * 4 / sizeof(T);
  for (size_t i = 0; i < rows.size(); ++i) {
    words[i] = static_cast<uint32_t>(place);
    if (!rows[i].empty()) std::memcpy(reinterpret_cast<T*>(words.data()) + place, rows[i].data(), rows[i].size() * sizeof(T));
    place += rows[i].size();
  }
  return words;
}

// A batch with the arrays that it points to.
struct Batch {
  uint32_t layout = UT_LAYOUT_ALLEN, n_events = 0;
  std::vector<uint8_t> raw;
  std::vector<uint32_t> offsets, sizes, types;

  UtBatch view() const
  {
    UtBatch batch {};
    batch.size = sizeof batch;
    batch.layout = layout;
    batch.n_events = n_events;
    batch.raw = raw.data();
    batch.raw_bytes = raw.size();
    batch.offsets = offsets.data();
    batch.n_offsets = offsets.size();
    batch.sizes = sizes.data();
    batch.n_sizes = sizes.size();
    batch.types = types.data();
    batch.n_types = types.size();
    return batch;
  }
};

// Event by event, as Allen holds them: here nothing but the blocks one after the other.
inline Batch allen_batch(int n_files, char** files)
{
  Batch batch;
  std::vector<std::vector<uint16_t>> sizes;
  std::vector<std::vector<uint8_t>> types;
  for (int i = 0; i < n_files; ++i) {
    const auto block = read_file(files[i]);
    sizes.emplace_back();
    for (const auto& bank : banks_of(block, files[i])) sizes.back().push_back(bank.size);
    types.emplace_back(sizes.back().size(), 66);
    batch.offsets.push_back(static_cast<uint32_t>(batch.raw.size()));
    batch.raw.insert(batch.raw.end(), block.begin(), block.end());
    ++batch.n_events;
  }
  batch.sizes = rows(sizes);
  batch.types = rows(types);
  return batch;
}

// Bank by bank, as the event builder delivers them. The events must have the same boards in the same order.
inline Batch mep_batch(int n_files, char** files)
{
  Batch batch;
  batch.layout = UT_LAYOUT_MEP;
  std::vector<std::vector<uint8_t>> blocks;
  std::vector<std::vector<Bank>> events;
  for (int i = 0; i < n_files; ++i) {
    blocks.push_back(read_file(files[i]));
    events.push_back(banks_of(blocks.back(), files[i]));
    if (events[i].size() != events[0].size()) fail(files[i], "has other boards than the first event");
  }
  const size_t n_banks = events.empty() ? 0 : events[0].size();
  batch.n_events = static_cast<uint32_t>(events.size());
  batch.offsets.resize(2 + n_banks * (1 + events.size()));
  batch.offsets[0] = static_cast<uint32_t>(n_banks);
  std::vector<std::vector<uint16_t>> sizes(n_banks);
  const std::vector<std::vector<uint8_t>> types(n_banks, std::vector<uint8_t>(events.size(), 66));
  for (size_t bank = 0; bank < n_banks; ++bank) {
    batch.offsets[2 + bank] = events[0][bank].source_id;
    for (size_t event = 0; event < events.size(); ++event) {
      const Bank& from = events[event][bank];
      if (from.source_id != events[0][bank].source_id) fail(files[event], "has other boards than the first event");
      batch.offsets[2 + n_banks * (1 + event) + bank] = static_cast<uint32_t>(batch.raw.size());
      batch.raw.insert(batch.raw.end(), from.payload, from.payload + from.size);
      sizes[bank].push_back(from.size);
    }
  }
  batch.sizes = rows(sizes);
  batch.types = rows(types);
  return batch;
}

// Events from an MDF file, as batches in Allen layout. The files are the user's own or the tool's: what is wrong with them
// ends the program.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

[[noreturn]] inline void fail(const std::string& what)
{
  std::fprintf(stderr, "beside: %s\n", what.c_str());
  std::exit(1);
}

inline std::vector<char> read_file(const std::string& path)
{
  std::ifstream file {path, std::ios::binary};
  if (!file) fail(path + ": cannot be read");
  return {std::istreambuf_iterator<char> {file}, {}};
}

template<class T>
T load(const char* from)
{
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// A UT bank in the bytes of a file.
struct Bank {
  std::uint32_t source_id;
  std::uint8_t type;
  const char* payload;
  std::uint32_t bytes;
};

using Event = std::vector<Bank>;

/// The banks of types 66 and 68 and of one version, event by event. They point into `file`.
inline std::vector<Event> read_mdf(const std::vector<char>& file, std::uint8_t version)
{
  constexpr std::size_t fixed = 20; // three sizes, the checksum, compression and types
  std::vector<Event> events;
  for (std::size_t at = 0; at + fixed <= file.size();) {
    const char* event = file.data() + at;
    const auto size = load<std::uint32_t>(event);
    const std::size_t header = fixed + 4 * (static_cast<std::uint8_t>(event[17]) & 15);
    if (size < header || size > file.size() - at || event[16] != 0) fail("an event of the MDF file is damaged");
    Event banks;
    for (std::size_t place = header; place + 8 <= size;) {
      const char* bank = event + place;
      const auto bytes = load<std::uint16_t>(bank + 2);
      if (load<std::uint16_t>(bank) != 0xCBCB || bytes < 8 || place + bytes > size) fail("a bank of the file is damaged");
      const auto type = load<std::uint8_t>(bank + 4);
      if ((type == 66 || type == 68) && load<std::uint8_t>(bank + 5) == version) {
        banks.push_back({load<std::uint16_t>(bank + 6), type, bank + 8, bytes - 8u});
      }
      place += (bytes + 3u) / 4 * 4;
    }
    events.push_back(std::move(banks));
    at += size;
  }
  if (events.empty()) fail("there is no event in the MDF file");
  return events;
}

/// Events in Allen layout. The vectors of words hold a table of places first, then what lies there.
struct Batch {
  std::uint32_t n_events = 0;
  std::vector<char> raw;
  std::vector<std::uint32_t> offsets, sizes, types;
};

inline void append(std::vector<char>& bytes, std::uint32_t word)
{
  const char* from = reinterpret_cast<const char*>(&word);
  bytes.insert(bytes.end(), from, from + 4);
}

/// `count` events from number `first` on; beyond the last one it begins again.
inline Batch make_batch(const std::vector<Event>& events, std::size_t first, std::size_t count)
{
  Batch batch;
  batch.n_events = static_cast<std::uint32_t>(count);
  std::vector<std::uint16_t> sizes;
  std::vector<std::uint8_t> types;
  for (std::size_t i = 0; i < count; ++i) {
    const Event& event = events[(first + i) % events.size()];
    batch.offsets.push_back(static_cast<std::uint32_t>(batch.raw.size()));
    batch.sizes.push_back(static_cast<std::uint32_t>(2 * count + sizes.size()));
    batch.types.push_back(static_cast<std::uint32_t>(4 * count + types.size()));
    append(batch.raw, static_cast<std::uint32_t>(event.size()));
    std::uint32_t place = 0;
    for (const Bank& bank : event) {
      append(batch.raw, place);
      place += 4 + (bank.bytes + 3) / 4 * 4;
    }
    append(batch.raw, place);
    for (const Bank& bank : event) {
      append(batch.raw, bank.source_id);
      batch.raw.insert(batch.raw.end(), bank.payload, bank.payload + bank.bytes);
      batch.raw.resize((batch.raw.size() + 3) / 4 * 4);
      sizes.push_back(static_cast<std::uint16_t>(bank.bytes));
      types.push_back(bank.type);
    }
  }
  batch.raw.resize(batch.raw.size() + 64); // nothing is read there, but Allen does not check
  batch.sizes.resize(count + (sizes.size() + 1) / 2);
  std::memcpy(batch.sizes.data() + count, sizes.data(), 2 * sizes.size());
  batch.types.resize(count + (types.size() + 3) / 4);
  std::memcpy(batch.types.data() + count, types.data(), types.size());
  return batch;
}

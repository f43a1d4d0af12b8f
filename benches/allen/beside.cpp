// Allen's UT decoder and ours, in one program, on the same batches: whether they make the same hits, and how fast each is.
// They take turns, on one thread, and each turn is timed by the CPU time of the thread. See run.sh.
#include <charconv>
#include <string_view>

#include "agreement.hpp"

namespace {
  /// Ours, through the C interface.
  class OurDecoder {
  public:
    OurDecoder(const std::string& boards, const std::string& geometry, UtOptions options, std::size_t max_events,
               std::size_t max_hits)
    {
      options.threads = 1;
      decoder = ut_decoder_new(boards.c_str(), geometry.c_str(), &options, max_events, max_hits, error, sizeof error);
      if (decoder == nullptr) fail(error);
    }
    ~OurDecoder() { ut_decoder_free(decoder); }
    OurDecoder(const OurDecoder&) = delete;
    OurDecoder& operator=(const OurDecoder&) = delete;

    UtHits decode(const Batch& batch)
    {
      UtBatch in {};
      in.layout = UT_LAYOUT_ALLEN;
      in.n_events = batch.n_events;
      in.raw = reinterpret_cast<const uint8_t*>(batch.raw.data());
      in.raw_bytes = batch.raw.size();
      in.offsets = batch.offsets.data();
      in.n_offsets = batch.offsets.size();
      in.sizes = batch.sizes.data();
      in.n_sizes = batch.sizes.size();
      in.types = batch.types.data();
      in.n_types = batch.types.size();
      UtHits hits {};
      if (ut_decoder_decode(decoder, &in, &hits, error, sizeof error) != 0) fail(error);
      return hits;
    }

  private:
    UtDecoder* decoder;
    char error[512];
  };

  struct Arguments {
    std::string boards, geometry, mdf, json;
    std::size_t events = 0; // 0: those of the file, but 1000 at least
    std::size_t batch = 256;
    double duration = 5;
    bool no_clustering = false;
  };

  template<class T>
  T number(std::string_view text)
  {
    T value {};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc {} || end != text.data() + text.size() || value <= T {}) {
      fail(std::string {text} + ": not a positive number");
    }
    return value;
  }

  Arguments parse(int argc, char** argv)
  {
    Arguments arguments;
    std::vector<std::string> names;
    for (int i = 1; i < argc; ++i) {
      const std::string_view option {argv[i]};
      const auto value = [&]() -> std::string_view {
        if (i + 1 == argc) fail(std::string {option} + ": its value is missing");
        return argv[++i];
      };
      if (option == "--events") arguments.events = number<std::size_t>(value());
      else if (option == "--batch") arguments.batch = number<std::size_t>(value());
      else if (option == "--duration") arguments.duration = number<double>(value());
      else if (option == "--no-clustering") arguments.no_clustering = true;
      else if (option == "--json") arguments.json = value();
      else if (option.substr(0, 2) == "--") fail(std::string {option} + ": no such option");
      else names.emplace_back(option);
    }
    if (names.size() != 3) fail("usage: beside BOARDS GEOMETRY EVENTS.mdf [OPTION…]");
    arguments.boards = names[0];
    arguments.geometry = names[1];
    arguments.mdf = names[2];
    return arguments;
  }

  /// Events a second of one of the two, turn by turn, by each clock.
  struct Rates {
    std::vector<double> cpu, wall;

    template<class Decode>
    void turn(const std::vector<Batch>& batches, std::size_t passes, std::size_t events, Decode&& decode)
    {
      const double wall_start = wall_seconds(), cpu_start = cpu_seconds();
      for (std::size_t pass = 0; pass < passes; ++pass) {
        for (const Batch& batch : batches) decode(batch);
      }
      const double n = static_cast<double>(passes * events);
      cpu.push_back(n / (cpu_seconds() - cpu_start));
      wall.push_back(n / (wall_seconds() - wall_start));
    }
  };

  /// Passes that take a turn of about a tenth of a second.
  template<class Decode>
  std::size_t passes(const std::vector<Batch>& batches, std::size_t events, Decode&& decode)
  {
    Rates rates;
    rates.turn(batches, 1, events, decode);
    rates.turn(batches, 2, events, decode);
    return static_cast<std::size_t>(0.1 * rates.cpu.back() / static_cast<double>(events)) + 1;
  }

  void write_rates(std::FILE* out, const char* name, const Rates& rates)
  {
    const Spread cpu {rates.cpu}, wall {rates.wall};
    std::fprintf(
      out,
      "  \"%s\": {\"events_per_cpu_second\": {\"median\": %.1f, \"best\": %.1f}, "
      "\"events_per_second\": {\"median\": %.1f, \"best\": %.1f}, \"turns\": %zu},\n",
      name, cpu.median, cpu.best, wall.median, wall.best, rates.cpu.size());
  }

  void print_rates(const char* name, const Rates& rates)
  {
    const Spread cpu {rates.cpu}, wall {rates.wall};
    std::printf("  %-24s%12.0f%12.0f%12.2f%14.0f\n", name, cpu.median, cpu.best, 1e6 / cpu.median, wall.median);
  }
} // namespace

int main(int argc, char** argv)
{
  const Arguments arguments = parse(argc, argv);
  const std::vector<char> boards = read_file(arguments.boards), geometry = read_file(arguments.geometry);
  const std::vector<char> file = read_file(arguments.mdf);
  if (boards.size() < 8 || boards.size() != 8 + load<std::uint32_t>(boards.data()) * 49u * 4) fail("no boards table");
  if (geometry.size() < 4) fail("no geometry table");
  const auto sectors = load<std::uint32_t>(geometry.data()) & 0xFFFF, fields = load<std::uint32_t>(geometry.data()) >> 16;
  if (sectors != 1048 || geometry.size() != 4 + sectors * 4 * (10u + (fields > 0))) fail("no geometry table");
  const auto version = static_cast<std::uint8_t>(load<std::uint32_t>(boards.data() + 4));
  const std::vector<Event> read = read_mdf(file, version);
  const std::size_t events = arguments.events > 0 ? arguments.events : std::max<std::size_t>(read.size(), 1000);
  std::vector<Batch> batches;
  std::size_t max_hits = 0;
  for (std::size_t first = 0; first < events; first += arguments.batch) {
    batches.push_back(make_batch(read, first, std::min(arguments.batch, events - first)));
    max_hits = std::max(max_hits, batches.back().raw.size() / 2);
  }

  UtOptions options {};
  options.no_clustering = arguments.no_clustering;
  beside::settings()["cluster_ut_hits"] = !arguments.no_clustering;
  beside::settings()["save_clusters_above_max"] = 0;
  AllensDecoder allen {boards, geometry};

  // Strips of flipped sectors count from 511 in Allen since 2025, from 512 before: whichever agrees is Allen's.
  Agreement agreement;
  for (const std::uint32_t from_511 : {1u, 0u}) {
    UtOptions other = options;
    other.flip_from_511 = from_511;
    OurDecoder ours {arguments.boards, arguments.geometry, other, arguments.batch, max_hits};
    Agreement found;
    for (const Batch& batch : batches) found.add(allen.decode(batch), ours.decode(batch), batch.n_events);
    if (found.same_bits > agreement.same_bits || from_511 == 1) {
      agreement = found;
      options.flip_from_511 = from_511;
    }
    if (found.complete()) break;
  }

  OurDecoder ours {arguments.boards, arguments.geometry, options, arguments.batch, max_hits};
  const auto decode_allen = [&](const Batch& batch) { allen.decode(batch); };
  const auto decode_ours = [&](const Batch& batch) { ours.decode(batch); };
  const std::size_t allens_passes = passes(batches, events, decode_allen);
  const std::size_t our_passes = passes(batches, events, decode_ours);
  allen.seconds = {};
  Rates allens_rates, our_rates;
  const double start = wall_seconds();
  while (allens_rates.cpu.size() < 5 || wall_seconds() - start < arguments.duration) {
    allens_rates.turn(batches, allens_passes, events, decode_allen);
    our_rates.turn(batches, our_passes, events, decode_ours);
  }

  const Spread allens_cpu {allens_rates.cpu}, our_cpu {our_rates.cpu};
  // A turn of ours and the turn of Allen's before it had much the same machine.
  std::vector<double> ratios;
  for (std::size_t i = 0; i < our_rates.cpu.size(); ++i) ratios.push_back(our_rates.cpu[i] / allens_rates.cpu[i]);
  const double median_ratio = Spread {ratios}.median, best_ratio = our_cpu.best / allens_cpu.best;
  const double allens_events = static_cast<double>(allens_rates.cpu.size() * allens_passes * events);
  std::printf(
    "%s, %s: %zu events (%zu distinct), batches of %zu, one thread\n", version == 3 ? "v4" : "v5",
    version == 3 || arguments.no_clustering ? "no clustering" : "clustering", events, std::min(events, read.size()),
    arguments.batch);
  std::printf(
    "  hits: Allen %lu, ours %lu; same LHCbID in the same group %lu, same bits %lu, also at the same place %lu\n"
    "  events with the same hits: %lu of %lu; flipped sectors from %u\n",
    agreement.hits, agreement.ours, agreement.same_ids, agreement.same_bits, agreement.same_place,
    agreement.equal_events, agreement.events, options.flip_from_511 ? 511 : 512);
  std::printf("  %-24s%12s%12s%12s%14s\n", "events/s of CPU time", "median", "best", "us/event", "by the clock");
  print_rates("Allen", allens_rates);
  print_rates("ours, C interface", our_rates);
  std::printf("  %-24s%12.2f%12.2f\n", "ours / Allen", median_ratio, best_ratio);
  std::printf("  Allen, us/event:");
  for (std::size_t i = 0; i < allen.seconds.size(); ++i) {
    std::printf(" %s %.2f%c", AllensDecoder::names[i], 1e6 * allen.seconds[i] / allens_events, i < 4 ? ',' : '\n');
  }
  if (arguments.json.empty()) return 0;

  std::FILE* out = std::fopen(arguments.json.c_str(), "w");
  if (out == nullptr) fail(arguments.json + ": cannot be written");
  std::fprintf(
    out,
    "{\n  \"bank_version\": %u,\n  \"clustering\": %s,\n  \"events\": %zu,\n  \"distinct_events\": %zu,\n"
    "  \"batch\": %zu,\n",
    version, arguments.no_clustering || version == 3 ? "false" : "true", events, std::min(events, read.size()),
    arguments.batch);
  std::fprintf(
    out,
    "  \"agreement\": {\"events\": %lu, \"equal_events\": %lu, \"hits_allen\": %lu, \"hits_ours\": %lu, "
    "\"same_ids\": %lu, \"same_bits\": %lu, \"same_place\": %lu, \"flip\": %u, \"agreed\": %s},\n",
    agreement.events, agreement.equal_events, agreement.hits, agreement.ours, agreement.same_ids, agreement.same_bits,
    agreement.same_place, options.flip_from_511 ? 511 : 512,
    agreement.complete() ? "true" : "false");
  write_rates(out, "allen", allens_rates);
  write_rates(out, "ours", our_rates);
  std::fprintf(out, "  \"allen_us_per_event\": {");
  for (std::size_t i = 0; i < allen.seconds.size(); ++i) {
    std::fprintf(
      out, "%s\"%s\": %.3f", i > 0 ? ", " : "", AllensDecoder::names[i], 1e6 * allen.seconds[i] / allens_events);
  }
  std::fprintf(
    out, "},\n  \"ratio_of_cpu_time\": {\"median_of_turns\": %.3f, \"of_best\": %.3f}\n}\n", median_ratio, best_ratio);
  if (std::fclose(out) != 0) fail(arguments.json + ": cannot be written");
  return 0;
}

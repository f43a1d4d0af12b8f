// Decodes dumps in Allen layout, an event a file, and prints the hits: event, group, id and x. The hits lie in one piece of
// memory of exactly the size that they need, as Allen's consumers take them.
//
//     capi/install.sh PREFIX
//     g++ -std=c++17 capi/examples/decode_dump.cpp $(PKG_CONFIG_PATH=PREFIX/lib/pkgconfig pkg-config --cflags --libs ut_decoding)
//     LD_LIBRARY_PATH=PREFIX/lib ./a.out boards.bin geometry.bin 1_0.bin 1_1.bin
#include <memory>

#include "dump.hpp"

int main(int argc, char** argv)
{
  if (argc < 4) return std::fprintf(stderr, "usage: %s BOARDS GEOMETRY DUMP...\n", argv[0]), 2;
  if (ut_abi_version() != UT_ABI_VERSION) fail("libut_decoding", "has another interface than the header");

  // Once for a run. The tables can be shared by any number of decoders.
  UtTables* tables = nullptr;
  check(ut_tables_from_files(argv[1], argv[2], UT_GROUPS_Y_ROWS, &tables), "tables");
  UtDecoder* decoder = nullptr;
  check(ut_decoder_new(tables, nullptr, &decoder), "decoder");
  const size_t n_groups = ut_tables_n_groups(tables);
  ut_tables_free(tables);

  // For each batch: sizes first, then memory, then the work.
  const Batch batch = allen_batch(argc - 3, argv + 3);
  const UtBatch view = batch.view();
  std::vector<uint32_t> offsets(view.n_events * n_groups + 1), report(view.n_events * UT_N_COUNTS);
  UtHits hits {};
  hits.size = sizeof hits;
  hits.offsets = offsets.data();
  hits.n_offsets = offsets.size();
  hits.report = report.data();
  hits.n_report = report.size();
  check(ut_decoder_count(decoder, &view, &hits), "count");
  const size_t n_hits = hits.n_hits, bytes = n_hits * UT_HIT_BYTES;
  const std::unique_ptr<void, decltype(&std::free)> memory {std::malloc(bytes), std::free};
  check(ut_hits_in(memory.get(), bytes, n_hits, &hits), "hits");
  check(ut_decoder_decode(decoder, &view, &hits), "decode");

  for (size_t event = 0; event < view.n_events; ++event) {
    for (size_t group = 0; group < n_groups; ++group) {
      const uint32_t* ends = &offsets[event * n_groups + group];
      for (uint32_t i = ends[0]; i < ends[1]; ++i) {
        std::printf("%zu %zu %u %a\n", event, group, hits.id[i], hits.x_at_y_eq0[i]);
      }
    }
  }
  for (size_t count = 0; count < UT_N_COUNTS; ++count) {
    uint64_t sum = 0;
    for (size_t event = 0; event < view.n_events; ++event) sum += report[event * UT_N_COUNTS + count];
    std::fprintf(stderr, "%s %llu\n", ut_count_name(count), static_cast<unsigned long long>(sum));
  }
  ut_decoder_free(decoder);
}

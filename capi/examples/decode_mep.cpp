// Decodes events in MEP layout, as the event builder delivers them: bank by bank. The events come from dumps, an event a
// file, of the same boards. Where memory is not short, room for the most hits that the batch can have spares the counting.
//
//     g++ -std=c++17 capi/examples/decode_mep.cpp $(PKG_CONFIG_PATH=PREFIX/lib/pkgconfig pkg-config --cflags --libs ut_decoding)
//     LD_LIBRARY_PATH=PREFIX/lib ./a.out boards.bin geometry.bin 1_0.bin 1_1.bin
#include "dump.hpp"

int main(int argc, char** argv)
{
  if (argc < 4) return std::fprintf(stderr, "usage: %s BOARDS GEOMETRY DUMP...\n", argv[0]), 2;

  // Tables from memory, such as a conditions database has them.
  const auto boards = read_file(argv[1]), geometry = read_file(argv[2]);
  UtTables* tables = nullptr;
  check(ut_tables_from_memory(boards.data(), boards.size(), geometry.data(), geometry.size(), UT_GROUPS_Y_ROWS, &tables),
        "tables");
  UtDecoder* decoder = nullptr;
  check(ut_decoder_new(tables, nullptr, &decoder), "decoder");
  const size_t n_groups = ut_tables_n_groups(tables);

  const Batch batch = mep_batch(argc - 3, argv + 3);
  UtBatch view = batch.view();
  view.version = ut_tables_bank_version(tables); // one number for all banks, as a slice of Allen's has it
  const size_t max_hits = view.raw_bytes / 2;
  std::vector<uint32_t> memory(max_hits * UT_HIT_BYTES / 4), offsets(view.n_events * n_groups + 1);
  UtHits hits {};
  hits.size = sizeof hits;
  hits.offsets = offsets.data();
  hits.n_offsets = offsets.size();
  check(ut_hits_in(memory.data(), memory.size() * 4, max_hits, &hits), "hits");
  check(ut_decoder_decode(decoder, &view, &hits), "decode");

  for (size_t event = 0; event < view.n_events; ++event) {
    for (size_t group = 0; group < n_groups; ++group) {
      const uint32_t* ends = &offsets[event * n_groups + group];
      for (uint32_t i = ends[0]; i < ends[1]; ++i) {
        std::printf("%zu %zu %u %a\n", event, group, hits.id[i], hits.x_at_y_eq0[i]);
      }
    }
  }
  ut_decoder_free(decoder);
  ut_tables_free(tables);
}

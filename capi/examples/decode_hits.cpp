// Decodes dumps in Allen layout with the C++ wrapper, and prints the hits as decode_dump does: event, group, id and x.
//
//     capi/install.sh PREFIX
//     g++ -std=c++17 capi/examples/decode_hits.cpp $(PKG_CONFIG_PATH=PREFIX/lib/pkgconfig pkg-config --cflags --libs ut_decoding)
//     LD_LIBRARY_PATH=PREFIX/lib ./a.out boards.bin geometry.bin 1_0.bin 1_1.bin
#include "dump.hpp"
#include "ut_decoding.hpp"

int main(int argc, char** argv)
try {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s BOARDS GEOMETRY DUMP...\n", argv[0]);
    return 2;
  }
  const ut::Tables tables {argv[1], argv[2]};
  ut::Decoder decoder {tables};
  const Batch files = allen_batch(argc - 3, argv + 3);
  UtBatch batch = ut::batch(files.layout, files.n_events, files.raw, files.offsets, files.sizes, files.types);
  const ut::Hits hits = decoder.decode(batch);
  for (size_t event = 0; event < hits.n_events(); ++event)
    for (size_t group = 0; group < hits.n_groups(); ++group)
      for (uint32_t i : hits.group(event, group))
        std::printf("%zu %zu %u %a\n", event, group, hits.id()[i], hits.x_at_y_eq0()[i]);
  std::fprintf(stderr, "%zu hits, with %s instructions\n", hits.size(), ut_vector_level());

  // A mistake is an exception, and what was there is as it was.
  batch.layout = 7;
  try {
    decoder.decode(batch);
  } catch (const ut::Error& error) {
    std::fprintf(stderr, "as expected, %s\n", error.what());
    return error.status == UT_BAD_ARGUMENT ? 0 : 1;
  }
  return 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

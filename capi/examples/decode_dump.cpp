// Decodes one event of an Allen-layout dump (the block that `ut-decode convert --to allen` writes) and prints its hits:
//
//     g++ -std=c++17 -I capi/include capi/examples/decode_dump.cpp target/release/libut_decoding_c.a -lpthread -ldl -lm
//     ./a.out boards.bin geometry.bin 1_0.bin
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "ut_decoding.h"

int main(int argc, char** argv)
{
  if (argc != 4) return std::fprintf(stderr, "usage: %s BOARDS GEOMETRY DUMP\n", argv[0]), 2;
  std::ifstream file {argv[3], std::ios::binary};
  const std::vector<char> raw {std::istreambuf_iterator<char> {file}, {}};
  if (raw.size() < 8) return std::fprintf(stderr, "%s: no dump\n", argv[3]), 1;

  // A dump holds the block alone: sizes follow from the table of banks, and every bank is of type 66.
  const auto word = [&](size_t i) { uint32_t w; std::memcpy(&w, raw.data() + 4 * i, 4); return w; };
  const uint32_t n_banks = word(0);
  if (raw.size() / 4 < n_banks + 2u) return std::fprintf(stderr, "%s: the table is cut\n", argv[3]), 1;
  std::vector<uint32_t> offsets {0}, sizes(1 + (n_banks + 1) / 2), types(1 + (n_banks + 3) / 4, 0x42424242);
  sizes[0] = 2; // the first size comes after one word, that is two u16
  types[0] = 4; // and the first type after four bytes
  for (uint32_t bank = 0; bank < n_banks; ++bank) {
    sizes[1 + bank / 2] |= (word(2 + bank) - word(1 + bank) - 4) << 16 * (bank % 2);
  }

  char error[512];
  UtOptions options {};
  UtDecoder* decoder = ut_decoder_new(argv[1], argv[2], &options, 1, raw.size() / 2, error, sizeof error);
  if (!decoder) return std::fprintf(stderr, "%s\n", error), 1;
  UtBatch batch {};
  batch.layout = UT_LAYOUT_ALLEN;
  batch.n_events = 1;
  batch.raw = reinterpret_cast<const uint8_t*>(raw.data());
  batch.raw_bytes = raw.size();
  batch.offsets = offsets.data();
  batch.n_offsets = offsets.size();
  batch.sizes = sizes.data();
  batch.n_sizes = sizes.size();
  batch.types = types.data();
  batch.n_types = types.size();
  UtHits hits {};
  if (ut_decoder_decode(decoder, &batch, &hits, error, sizeof error)) return std::fprintf(stderr, "%s\n", error), 1;

  for (size_t group = 0; group < hits.n_groups; ++group) {
    for (uint32_t i = hits.offsets[group]; i < hits.offsets[group + 1]; ++i) {
      std::printf("%zu %u %a\n", group, hits.id[i], hits.x_at_y_eq0[i]);
    }
  }
  for (size_t count = 0; count < UT_N_COUNTS; ++count) {
    std::fprintf(stderr, "%s %u\n", ut_count_name(count), hits.report[count]);
  }
  ut_decoder_free(decoder);
}

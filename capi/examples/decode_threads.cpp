// Decodes dumps on four threads with one pool of decoders, while the tables change again and again, as between two runs.
// Prints the hits as decode_hits does.
//
//     export PKG_CONFIG_PATH=PREFIX/lib/pkgconfig
//     g++ -std=c++17 -pthread capi/examples/decode_threads.cpp $(pkg-config --cflags --libs ut_decoding)
//     LD_LIBRARY_PATH=PREFIX/lib ./a.out boards.bin geometry.bin 1_0.bin 1_1.bin
#include <algorithm>
#include <atomic>
#include <thread>

#include "dump.hpp"
#include "ut_decoding.hpp"

int main(int argc, char** argv)
try {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s BOARDS GEOMETRY DUMP...\n", argv[0]);
    return 2;
  }
  ut::Pool pool {ut::Tables {argv[1], argv[2]}};
  const Batch files = allen_batch(argc - 3, argv + 3);
  const UtBatch batch = ut::batch(files.layout, files.n_events, files.raw, files.offsets, files.sizes, files.types);
  const ut::Hits hits = pool.decode(batch);

  // Threads as a scheduler has them: none of them knows about tables.
  std::atomic<unsigned> running {4}, wrong {0};
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < 4; ++thread)
    threads.emplace_back([&] {
      for (unsigned round = 0; round < 300; ++round) try {
          const ut::Hits again = pool.decode(batch);
          wrong += !std::equal(hits.id().begin(), hits.id().end(), again.id().begin(), again.id().end());
        } catch (const ut::Error&) {
          ++wrong;
        }
      --running;
    });
  unsigned changes = 0;
  for (; running > 0; ++changes) pool.change(ut::Tables {argv[1], argv[2]});
  for (auto& thread : threads) thread.join();

  for (size_t event = 0; event < hits.n_events(); ++event)
    for (size_t group = 0; group < hits.n_groups(); ++group)
      for (uint32_t i : hits.group(event, group))
        std::printf("%zu %zu %u %a\n", event, group, hits.id()[i], hits.x_at_y_eq0()[i]);
  std::fprintf(stderr, "1200 batches alike on 4 threads, while the tables changed %u times\n", changes);
  return wrong > 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

/* What a decoder has to offer, as a shared library, to be compared with ours by examples/beside.rs: these three functions.
 * They are called on one thread, with batches in Allen layout (capi/include/ut_decoding.h explains the arrays).
 */
#ifndef UT_BESIDE_H
#define UT_BESIDE_H

#include <stddef.h>
#include <stdint.h>

typedef struct BesideDecoder BesideDecoder;

/* Zeros are the production values. */
typedef struct {
  uint32_t no_clustering; /* 1: every strip is a hit */
  uint32_t flip_from_511; /* 1: flipped sectors count from 511, 0: from 512 */
} BesideOptions;

typedef struct {
  size_t n_events;
  const uint8_t* raw;
  size_t raw_bytes;
  const uint32_t* offsets;
  size_t n_offsets;
  const uint32_t* sizes;
  size_t n_sizes;
  const uint32_t* types;
  size_t n_types;
  const uint32_t* versions; /* NULL: all banks are of the boards' version */
  size_t n_versions;
} BesideBatch;

/* Arrays of the decoder, which stay until its next call. The hits of a group may come in any order. */
typedef struct {
  size_t n_hits;
  size_t n_groups;
  const uint32_t* offsets; /* n_events * n_groups + 1 */
  const float* y_begin;
  const float* y_end;
  const float* z_at_y_eq0;
  const float* x_at_y_eq0;
  const float* dx_dy;
  const float* weight;
  const uint32_t* id;
} BesideHits;

/* A decoder for batches of at most so many events and hits, with the tables of these files and groups of rows in y. NULL on
 * failure, with the cause in `error`, which has room for `error_bytes` bytes. */
BesideDecoder* beside_new(const char* boards, const char* geometry, const BesideOptions* options, size_t max_events,
                          size_t max_hits, char* error, size_t error_bytes);

/* 0 when done; else the cause is in `error`. */
int beside_decode(BesideDecoder* decoder, const BesideBatch* batch, BesideHits* hits, char* error, size_t error_bytes);

void beside_free(BesideDecoder* decoder);

#endif

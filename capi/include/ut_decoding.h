/* C interface of ut-decoding: decoding of LHCb Upstream Tracker (UT) raw banks into hits on the CPU.
 *
 * A decoder is made once for one detector and one set of options, for a declared capacity, and then fed batch after
 * batch. It is not to be used by two threads at a time; make one for each. Link with libut_decoding_c.a (and -lpthread
 * -ldl -lm) or libut_decoding_c.so: `cargo build --release -p ut-decoding-c`.
 *
 * capi/examples/beside.rs compares another decoder with this one. That decoder is a shared library with the functions
 * ut_decoder_new, ut_decoder_decode and ut_decoder_free, declared as here. It gets threads = 1 and batches in Allen layout,
 * may give the hits of a group in any order, and may leave `report` NULL. Functions and arrays must behave as described
 * here: arrays have the lengths given and stay until the next call.
 */
#ifndef UT_DECODING_H
#define UT_DECODING_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct UtDecoder UtDecoder;

/* Zero-initialised, these are the production values of August 2024. */
typedef struct {
  uint32_t no_clustering;    /* 1: every strip is a hit */
  uint32_t geometric;        /* 1: plain mean of the strips; 0: weighted by ADC counts */
  uint32_t max_cluster_size; /* strips; 0 means 128 */
  uint32_t save_above_max;   /* 1: clusters beyond the maximum are cut, not dropped */
  uint32_t flip_from_511;    /* 1: flipped sectors count from 511 (Allen !2178), 0: from 512 */
  uint32_t unique_x;         /* 1: groups of distinct x; 0: 72 rows in y */
  uint32_t threads;          /* 0: all cores; at most 1024 */
} UtOptions;

enum { UT_LAYOUT_ALLEN = 0, UT_LAYOUT_MEP = 1 };

/* Raw banks as Allen holds them. Nothing in here is trusted; every length is checked against the ones given. */
typedef struct {
  uint32_t layout;
  uint32_t n_events;
  const uint8_t* raw;
  size_t raw_bytes;
  const uint32_t* offsets; /* Allen: one an event. MEP: n_banks, 0, sourceIDs, then n_banks an event */
  size_t n_offsets;
  const uint32_t* sizes; /* Allen's words: places, counted in u16, then u16 payload bytes */
  size_t n_sizes;
  const uint32_t* types; /* likewise with u8 bank types */
  size_t n_types;
  const uint32_t* versions; /* likewise with u8 version bytes; or NULL: all banks are of the boards' version */
  size_t n_versions;
} UtBatch;

/* Counters of the report, in the order in which they lie; names as in ut_count_name(). */
enum { UT_N_COUNTS = 15 };

/* Views into the decoder, good until its next call. */
typedef struct {
  size_t n_hits;
  size_t n_groups;         /* sector groups of an event */
  const uint32_t* offsets; /* n_events * n_groups + 1: group g of event e is [offsets[e*n_groups+g], offsets[...+1]) */
  const float* y_begin;
  const float* y_end;
  const float* z_at_y_eq0;
  const float* x_at_y_eq0;
  const float* dx_dy;
  const float* weight;
  const uint32_t* id;     /* LHCbID */
  const uint32_t* report; /* n_events rows of UT_N_COUNTS counters */
} UtHits;

/* Makes a decoder from a boards file and a geometry file. NULL on failure, with the cause in `error` (cut to
 * `error_bytes`, always ended by 0; may be NULL). */
UtDecoder* ut_decoder_new(const char* boards, const char* geometry, const UtOptions* options, size_t max_events,
                          size_t max_hits, char* error, size_t error_bytes);

/* Decodes a batch. 0 when done; 1 on failure, with the cause in `error`. */
int ut_decoder_decode(UtDecoder* decoder, const UtBatch* batch, UtHits* hits, char* error, size_t error_bytes);

/* Frees a decoder, or does nothing with NULL. */
void ut_decoder_free(UtDecoder* decoder);

/* The name of a counter in the policy table, or NULL where there is no such counter. Do not free it. */
const char* ut_count_name(size_t count);

#ifdef __cplusplus
}
#endif
#endif

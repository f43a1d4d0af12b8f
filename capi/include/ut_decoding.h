/* ut_decoding: decodes raw banks of LHCb's Upstream Tracker (UT) into hits, on CPUs and NVIDIA GPUs, in the caller's memory.
 *
 * Made by cbindgen from capi/src; do not edit. docs/integration.md says how to begin, capi/examples has programs.
 *
 * - Structs are set to 0, then their first field to their size: `UtBatch batch = {0}; batch.size = sizeof batch;`.
 * - Calls return UT_OK, or an error, which ut_message() explains. None throws, and none ends the program.
 * - After an error outputs are untouched, but for `UtHits.n_hits`, which is 0. Only where the hits are more than `max_hits`
 *   (UT_CAPACITY), or after UT_INTERNAL, the caller's arrays hold anything; nothing is written beyond them.
 * - The library takes no thread and no memory but what a function says.
 * - On a CPU: ut_tables_from_…, ut_decoder_new, and for each batch ut_decoder_decode, before it ut_decoder_count where memory is
 *   to be exactly as large as the hits. On a GPU: ut_cuda_new, and for each batch ut_cuda_scratch_bytes, ut_cuda_count,
 *   ut_cuda_write, with the same UtBatch and UtHits, whose pointers are of the device then.
 */

#ifndef UT_DECODING_H
#define UT_DECODING_H

#include <stddef.h>
#include <stdint.h>

// Version of this interface. Programs compiled with a header of this version run with every
// library of this version, which is also in the shared library's name.
#define UT_ABI_VERSION 1

// Groups of rows in y, 72 per event: group 18 * layer + row.
#define UT_GROUPS_Y_ROWS 0

// Groups of sectors of nearly the same x, as Allen had them in 2024: 84 in the real geometry.
#define UT_GROUPS_UNIQUE_X 1

// Added to a grouping: boards and geometry need not fit each other, and sizes of banks are not
// compared with the version.
#define UT_TRUST_TABLES 256

// Event by event: the block of event `e` begins at `raw + offsets[e]`.
#define UT_LAYOUT_ALLEN 0

// Bank by bank, as the event builder delivers: the payload of bank `b` of event `e` is at
// `raw + offsets[2 + n_banks * (1 + e) + b]`.
#define UT_LAYOUT_MEP 1

// Version byte of banks of format v4: simulation up to 2021.
#define UT_VERSION_V4 3

// Version byte of banks of format v5: Run 3.
#define UT_VERSION_V5 4

// Number of counters of an event in the report; `ut_count_name()` names them in their order.
#define UT_N_COUNTS 15

// Number of bytes per hit: seven numbers of four bytes.
#define UT_HIT_BYTES 28

// In `UtCudaResult.trouble` of ut_cuda_count: fragments of the batch overlap, which no reader
// produces, so that it has more strips than the work space has room for. Some events have no hits:
// do not write them, and decode the batch on the CPU.
#define UT_CUDA_TOO_MANY_STRIPS 1

// In `UtCudaResult.trouble` of ut_cuda_write: `n_hits` exceeds `max_hits`. Events that did not fit
// are not written.
#define UT_CUDA_NO_ROOM 2

// In `UtCudaResult.trouble` of ut_cuda_count: `selected` lists events that the batch does not
// have. They are left out.
#define UT_CUDA_NO_SUCH_EVENT 4

// In `UtCudaResult.trouble` of ut_cuda_write: by `versions`, some banks have another version than
// the tables. They have no hits.
#define UT_CUDA_WRONG_VERSION 8

// A decoder on a GPU: tables and compiled kernels. It keeps nothing of a batch: any number of
// batches can be in flight, on any streams and from any threads, if each has a separate work
// space.
typedef struct UtCuda UtCuda;

// A decoder for CPUs, which works in the calling thread. One thread at a time may use it: a second
// one gets UT_BAD_ARGUMENT. A program with several threads makes one decoder per thread. It takes
// 4 MB, for any batch; and if the caller wants no report, 60 bytes for each event of the largest
// batch.
typedef struct UtDecoder UtDecoder;

// Boards, geometry and grouping of a detector, checked. Immutable: any threads and decoders may
// share them.
typedef struct UtTables UtTables;

// Result of a call: UT_OK, or one of the errors below. `ut_message()` says more.
typedef int32_t UtStatus;

// Arrays of the caller for the results of a batch, each aligned to 4 bytes, none overlapping
// another. Set everything to 0, then `size`, and the arrays that are wanted.
//
// Hits are ordered by event, group (see UT_GROUPS_Y_ROWS), x and id. An event has
// `ut_tables_n_groups()` groups. The seven arrays may lie anywhere, with room for `max_hits` each;
// `ut_hits_in()` lays them out back to back in one piece of memory, which with exactly as much
// room as hits is the shape that Allen's consumers take.
typedef struct {
  // sizeof(UtHits).
  size_t size;
  // Room for hits in each of the seven arrays. `ut_decoder_count()` uses neither.
  size_t max_hits;
  // y of the strip's lower end, mm.
  float *y_begin;
  // y of the strip's upper end, mm.
  float *y_end;
  // z at y = 0, mm.
  float *z_at_y_eq0;
  // x at y = 0, mm.
  float *x_at_y_eq0;
  // Slope dx/dy of the strip.
  float *dx_dy;
  // Inverse variance, 12 / pitch², 1/mm².
  float *weight;
  // LHCbID: 3 in the top four bits, then the channel: sector, and strip counted from 0
  // (docs/columns.md).
  uint32_t *id;
  // Strips of each hit, in one word: the sum of their ADC counts in bits 0 to 12, their number
  // in bits 13 to 20, the first strip in bits 21 to 29. For format v5 on the CPU only; NULL: not
  // wanted.
  uint32_t *clusters;
  // Offsets of groups: group `g` of event `e` has the hits from `offsets[e * n_groups + g]` to
  // the next offset; the last offset is the number of hits. Events that are not selected are
  // empty.
  uint32_t *offsets;
  // Number of words of `offsets`, at least n_events * n_groups + 1.
  size_t n_offsets;
  // UT_N_COUNTS counters per event: banks and strips, then statistics and troubles
  // (docs/policy.md). NULL: not wanted.
  uint32_t *report;
  // Number of words of `report`, at least n_events * UT_N_COUNTS if it is wanted.
  size_t n_report;
  // Number of hits, written by ut_decoder_count and ut_decoder_decode; 0 after an error. On a
  // GPU, UtCudaResult has it.
  size_t n_hits;
} UtHits;

// Rules by which banks become hits. Set everything to 0, then `size`: these are the production
// values of 2026. Banks of format v4 come clustered: nothing here changes their hits.
typedef struct {
  // sizeof(UtOptions).
  size_t size;
  // 1: every strip is a hit.
  uint32_t no_clustering;
  // 1: a cluster's position is the plain mean of its strips; 0: the mean weighted by ADC counts.
  uint32_t geometric;
  // Maximum number of strips of a cluster; 0: 128.
  uint32_t max_cluster_size;
  // 1: clusters above the maximum are cut to their first strips; 0: they are dropped.
  uint32_t save_above_max;
  // Number from which strips of flipped sectors count: 511 (Allen since v7r9; also 0), or 512.
  // v4 banks have none.
  uint32_t flip_from;
  // Reserved: 0.
  uint32_t reserved;
} UtOptions;

// Raw banks in memory of the caller. The contents are not trusted: each number is checked against
// the lengths given here before it is used; a contradiction costs only its bank or event, and is
// counted. Set everything to 0, then `size`.
//
// All numbers are little endian. Allen layout: at `raw + offsets[e]` begin `u32 n_banks; u32
// rel[n_banks + 1];`, and after them the banks, each at its `rel`, counted from there: a `u32`
// sourceID, then the payload, padded to 4 bytes. MEP layout: `offsets` are n_banks, 0, n_banks
// sourceIDs, then per event n_banks offsets of payloads in `raw`. docs/format.md has the rest.
typedef struct {
  // sizeof(UtBatch).
  size_t size;
  // UT_LAYOUT_ALLEN or UT_LAYOUT_MEP.
  uint32_t layout;
  // Number of events from `first_event` on, selected or not. Results have a place for each.
  uint32_t n_events;
  // Index of the first event to decode. Other than 0 to decode an interval of the events in the
  // arrays.
  uint32_t first_event;
  // 1: decodes only the events in `selected`; the others have no hits and no counts. 0: decodes
  // all.
  uint32_t only_selected;
  // Events to decode, counted from `first_event`, each below `n_events`, in any order;
  // repetitions do no harm.
  const uint32_t *selected;
  // Number of words of `selected`; may be 0.
  size_t n_selected;
  // Bytes that `offsets` point into, at any address.
  const uint8_t *raw;
  // Number of bytes of `raw`; on a GPU less than 4 GiB.
  size_t raw_bytes;
  // Positions of events or payloads, as above.
  const uint32_t *offsets;
  // Number of words of `offsets`, at least one for each event up to the last (Allen), or
  // 2 + n_banks * (1 + first_event + n_events) (MEP).
  size_t n_offsets;
  // Sizes of payloads in bytes, without sourceID word and padding, as u16. First comes a word
  // for each event (Allen) or bank (MEP): the place of its sizes, counted in u16 from the start
  // of this array. Then come the sizes.
  const uint32_t *sizes;
  // Number of words of `sizes`.
  size_t n_sizes;
  // Bank types as u8, after words as in `sizes`, which count bytes here. Banks of types 66 and
  // 68 have hits.
  const uint32_t *types;
  // Number of words of `types`.
  size_t n_types;
  // Versions of banks as u8, laid out like `types`; NULL: all banks have the version `version`.
  const uint32_t *versions;
  // Number of words of `versions`.
  size_t n_versions;
  // Version of all banks if `versions` is NULL: UT_VERSION_V4, UT_VERSION_V5, or 0 for the
  // version of the tables. Banks of another version than the tables have no hits, and are
  // counted. If all banks have another version, the call returns UT_WRONG_VERSION. On the CPU it
  // also does if `versions` is NULL and the banks have sizes that only the other format has.
  uint32_t version;
  // Reserved: 0.
  uint32_t reserved;
} UtBatch;

// Result of a call, in pinned memory of the host, written once the stream has reached the call.
typedef struct {
  // Number of hits of the batch.
  uint32_t n_hits;
  // 0, or the sum of UT_CUDA_TOO_MANY_STRIPS, UT_CUDA_NO_ROOM, UT_CUDA_NO_SUCH_EVENT and
  // UT_CUDA_WRONG_VERSION, for this call.
  uint32_t trouble;
} UtCudaResult;

// Stream and memory for a batch. Set everything to 0, then `size`.
typedef struct {
  // sizeof(UtCudaWork).
  size_t size;
  // Stream of the context, a CUstream or cudaStream_t; NULL: the default stream.
  void *stream;
  // Device memory at any address, which nothing else uses from ut_cuda_count until ut_cuda_write
  // is done.
  void *scratch;
  // Number of bytes of `scratch`, at least the number from ut_cuda_scratch_bytes.
  size_t scratch_bytes;
  // Pinned memory of the host, or NULL: not wanted.
  UtCudaResult *result;
} UtCudaWork;

// The call succeeded.
#define UT_OK 0

// An argument is wrong: NULL where a pointer is required, misaligned, a value that does not exist,
// a struct of a size that no version has, arrays that overlap, an event that the batch does not
// have. Nothing was written.
#define UT_BAD_ARGUMENT 1

// Boards or geometry cannot be read, or contradict each other or the UT. The message names file,
// field and byte.
#define UT_BAD_TABLES 2

// The system refused the memory.
#define UT_NO_MEMORY 3

// There is no GPU, or none that can run the kernels. The message says why, and what to do.
#define UT_NO_DEVICE 4

// The results do not fit into the caller's arrays. Ask for the size first, or decode half of the
// events at a time.
#define UT_CAPACITY 5

// The driver of the GPU reported a failure. The context may be lost.
#define UT_DEVICE_FAILED 6

// A bug of this library.
#define UT_INTERNAL 7

// All banks have another version than the tables. Their versions say so or, if the batch has none,
// their sizes do. There are no hits.
#define UT_WRONG_VERSION 8

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the library's version of the interface, to be compared with UT_ABI_VERSION.
uint32_t ut_abi_version(void);

// Returns version and commit, as "0.1.0, commit 0123456789ab", or "unknown" if built without git.
// Do not free it.
const char *ut_version(void);

// Returns the vector instructions of CPU decoders here: "avx512", "avx2" or "scalar". Do not free
// it.
const char *ut_vector_level(void);

// Returns the name of a counter of the report (docs/policy.md), or NULL if there is none. Do not
// free it.
const char *ut_count_name(size_t count);

// Returns the message of this thread's last call that failed: one line, ended by 0, "" before the
// first. Valid until the thread's next failure; do not free it.
const char *ut_message(void);

// Makes tables from boards and geometry files that fit each other. `grouping`: UT_GROUPS_Y_ROWS,
// UT_GROUPS_UNIQUE_X.
//
// Preconditions:
// - `boards` and `geometry` are NULL or strings ended by 0.
// - `tables` is NULL or can be written.
UtStatus ut_tables_from_files(const char *boards, const char *geometry, uint32_t grouping, UtTables **tables);

// Makes tables from the contents of boards and geometry files, such as Allen's blobs, which may be
// freed afterwards.
//
// Preconditions:
// - `boards` and `geometry` are each NULL or can be read for their bytes.
// - `tables` is NULL or can be written.
UtStatus ut_tables_from_memory(const uint8_t *boards,
                               size_t boards_bytes,
                               const uint8_t *geometry,
                               size_t geometry_bytes,
                               uint32_t grouping,
                               UtTables **tables);

// Frees tables. Decoders made with them continue.
//
// Preconditions:
// - `tables` is NULL, or was made by this library and is not used any more.
void ut_tables_free(UtTables *tables);

// Returns the number of sector groups of an event; 0 if `tables` is NULL.
//
// Preconditions:
// - `tables` is NULL, or was made by this library and is not freed.
size_t ut_tables_n_groups(const UtTables *tables);

// Returns the version byte of the boards' banks: 3 (format v4) or 4 (format v5); 0 if `tables` is
// NULL.
//
// Preconditions:
// - `tables` is NULL, or was made by this library and is not freed.
uint32_t ut_tables_bank_version(const UtTables *tables);

// Lays out the seven arrays of `hits` back to back in `memory`, which has `bytes` bytes: y_begin,
// y_end, z_at_y_eq0, x_at_y_eq0, dx_dy, weight, id, each with room for `n_hits` hits, together
// n_hits * UT_HIT_BYTES bytes. Sets `max_hits`.
//
// Preconditions:
// - `hits` is NULL or points to a UtHits whose `size` is set, and can be written.
UtStatus ut_hits_in(void *memory, size_t bytes, size_t n_hits, UtHits *hits);

// Makes a decoder for the tables, which may be freed afterwards. `options` may be NULL.
//
// Preconditions:
// - `tables` is NULL, or was made by this library and is not freed.
// - `options` is NULL, or points to a UtOptions whose `size` is set.
// - `decoder` is NULL or can be written.
UtStatus ut_decoder_new(const UtTables *tables, const UtOptions *options, UtDecoder **decoder);

// Writes the number of hits of a batch to `hits->n_hits`, and `hits->offsets` and, if wanted,
// `hits->report`, as ut_decoder_decode does. For programs that allocate exactly as much as they
// need.
//
// Preconditions:
// - As ut_decoder_decode, but that the arrays of hits are not used.
UtStatus ut_decoder_count(UtDecoder *decoder, const UtBatch *batch, UtHits *hits);

// Decodes a batch into the arrays of `hits`. After the first batches it allocates nothing more.
//
// Preconditions:
// - `decoder` is NULL, or was made by ut_decoder_new and is not freed.
// - `batch` is NULL, or a UtBatch whose `size` is set, and whose pointers are NULL or readable for
//   their lengths; nothing writes there during the call.
// - `hits` is NULL, or a UtHits whose `size` is set, and whose pointers are NULL or can be read
//   and written for their lengths; nothing else uses them during the call.
UtStatus ut_decoder_decode(UtDecoder *decoder, const UtBatch *batch, UtHits *hits);

// Frees a decoder.
//
// Preconditions:
// - `decoder` is NULL, or was made by ut_decoder_new and is not used any more.
void ut_decoder_free(UtDecoder *decoder);

// Makes a decoder in `context`, a CUcontext; NULL: in the calling thread's current one, such as
// the CUDA runtime's. Waits while it compiles the kernels, which the driver keeps for the next
// time, and copies the tables, which may be freed then. `options` may be NULL. Leaves the context
// current.
//
// Preconditions:
// - `tables` is NULL, or was made by this library and is not freed.
// - `options` is NULL, or points to a UtOptions whose `size` is set.
// - `context` is NULL or a context of this process; it is not destroyed before the decoder is
//   freed.
// - `cuda` is NULL or can be written.
UtStatus ut_cuda_new(const UtTables *tables, const UtOptions *options, void *context, UtCuda **cuda);

// Writes the number of bytes of work space that the batch takes, whatever its contents: only the
// lengths of the arrays matter, and the pointers may be NULL or of the device. It is three times
// the raw bytes (v4: four times), some 1100 bytes per event, and in MEP layout 4 bytes per bank.
// Between the calls, the work space holds all clusters, so that the banks are read only once.
//
// Preconditions:
// - `cuda` is NULL, or was made by ut_cuda_new and is not freed.
// - `batch` is NULL, or points to a UtBatch whose `size` is set.
// - `scratch_bytes` is NULL or can be written.
UtStatus ut_cuda_scratch_bytes(const UtCuda *cuda, const UtBatch *batch, size_t *scratch_bytes);

// Queues the count of a batch's hits on the stream, and returns: nothing waits, and no device
// memory is allocated. Once the stream has reached it, `work->result` has the number of hits.
// Arrays are read on the device; `version`, `first_event` and all lengths are numbers of the
// struct. Selected events that the batch does not have are ignored, and flagged in the result. If
// this or ut_cuda_write returns UT_DEVICE_FAILED, it has waited for the stream: nothing of the
// call is still in flight, unless the waiting failed as well.
//
// Preconditions:
// - `cuda` is NULL, or was made by ut_cuda_new and is not freed; it is not freed before the stream
//   has done this.
// - `batch` and `work` are NULL, or point to a struct whose `size` is set. The structs may change
//   after the call.
// - Until the stream has done this, every pointer in the structs is memory of the device
//   (`work->result`: pinned memory of the host) of the length in the struct, nothing else writes
//   there, and nothing else reads the results.
UtStatus ut_cuda_count(const UtCuda *cuda, const UtBatch *batch, const UtCudaWork *work);

// Queues writing hits, offsets and report of a batch that ut_cuda_count has counted with the same
// `batch` and `work`, and returns: nothing waits, and no device memory is allocated. All pointers
// of `hits` are of the device, with room for at least the counted hits; ut_hits_in with exactly as
// many lays them out back to back. `work->result`, which may be NULL, is written again once the
// stream has reached it.
//
// Preconditions:
// - As ut_cuda_count; and the same batch was counted with this work space, on this stream or one
//   that it waits for, and nothing was written there since.
// - `hits` is NULL, or points to a struct whose `size` is set. Each of its pointers is NULL, or
//   memory of the device of the length in the struct, which overlaps nothing else.
UtStatus ut_cuda_write(const UtCuda *cuda, const UtBatch *batch, const UtCudaWork *work, const UtHits *hits);

// Frees a decoder.
//
// Preconditions:
// - `cuda` is NULL, or was made by ut_cuda_new, nothing of it is in flight, and it is not used any
//   more.
void ut_cuda_free(UtCuda *cuda);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* UT_DECODING_H */

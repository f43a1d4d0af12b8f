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

// The version of this interface. Programs that were compiled with a header of this version run with every library that has
// it; the name of the shared library has it, too.
#define UT_ABI_VERSION 1

// Groups of rows in y, 72 an event: group 18 * layer + row.
#define UT_GROUPS_Y_ROWS 0

// Groups of sectors of nearly the same x, as Allen had them in 2024: 84 in the real geometry.
#define UT_GROUPS_UNIQUE_X 1

// Added to a grouping: boards and geometry need not fit each other, and batches without a version are not looked at for one.
// For callers who know better: hits are where these tables say.
#define UT_TRUST_TABLES 256

// Event by event: the block of event `e` is at `raw + offsets[e]`.
#define UT_LAYOUT_ALLEN 0

// Bank by bank, as the event builder delivers them: the fragment of bank `b` of event `e` is at
// `raw + offsets[2 + n_banks * (1 + e) + b]`.
#define UT_LAYOUT_MEP 1

// The version byte of banks of format v4: simulation up to 2021.
#define UT_VERSION_V4 3

// The version byte of banks of format v5: Run 3.
#define UT_VERSION_V5 4

// Counters of an event in the report, in the order in which they lie; `ut_count_name()` has their names.
#define UT_N_COUNTS 15

// Bytes of a hit: seven numbers of four.
#define UT_HIT_BYTES 28

// In `UtCudaResult.trouble`, of ut_cuda_write: `max_hits` is less than `n_hits`. The events whose hits did not fit were not
// written.
#define UT_CUDA_NO_ROOM 2

// In `UtCudaResult.trouble`, of ut_cuda_count: `selected` lists an event that the batch does not have. It is left out.
#define UT_CUDA_NO_SUCH_EVENT 4

// In `UtCudaResult.trouble`, of ut_cuda_write: `versions` says that banks are of another version than the tables'. They have no hits.
#define UT_CUDA_WRONG_VERSION 8

// A decoder on a GPU: tables, and compiled kernels. It keeps nothing of a batch, so that any number of batches can be in
// flight, on as many streams and from as many threads as one likes, each with a work space of its own.
typedef struct UtCuda UtCuda;

// Decodes batches on the CPU. One thread at a time may use it: a second one gets UT_BAD_ARGUMENT. A forked process does not
// have the threads of a decoder made before with more than one: there, decoding and counting return UT_BAD_ARGUMENT, and
// it can be freed. It takes 7 MB a thread, whatever the batches hold; and if the caller wants no report, 60 bytes for each
// event of the largest batch.
typedef struct UtDecoder UtDecoder;

// Boards, geometry and grouping of a detector, checked. They never change, and any number of threads and decoders can use
// them at the same time.
typedef struct UtTables UtTables;

// Result of a call: UT_OK, or one of the errors below. `ut_message()` says more.
typedef int32_t UtStatus;

// Place of a hit: the fields of its LHCbID, and what the tables know of its strip. docs/columns.md says what each means.
typedef struct {
  // Sector id, 0 to 1047; 65535 where the detector has no such sector.
  uint16_t sector_id;
  // Strip of the sector, 0 to 511.
  uint16_t strip;
  // 0 to 3: UTaX, UTaU, UTbV, UTbX.
  uint8_t layer;
  // 0: C, x < 0; 1: A.
  uint8_t side;
  // Stave of the half-layer, 0 to 8, counted from the beam.
  uint8_t stave;
  // Face of the stave, 0 or 1.
  uint8_t face;
  // Module of the stave, 0 to 7.
  uint8_t module;
  // Sector of the module, 0 or 1.
  uint8_t sector;
  // Board that reads the strip; 255 where none does.
  uint8_t board;
  // Lane of the board, 0 to 5; 255 where none reads the strip.
  uint8_t lane;
  // 1: the sector's strips are numbered against x.
  uint8_t flipped;
  // 0.
  uint8_t reserved;
} UtPlace;

// Arrays of the caller for the results of a batch, each aligned to 4 bytes, none overlapping another. Set everything
// to 0, then `size`, and what is wanted.
//
// Hits lie event by event, in an event group by group (see UT_GROUPS_Y_ROWS), and in a group by ascending x and id. An event
// has `n_groups` groups, as `ut_tables_n_groups()` says. The seven arrays may lie anywhere, with room for `max_hits` each;
// `ut_hits_in()` lays them out back to back in one piece of memory, which with exactly as much room as there are hits is the
// shape that Allen's consumers take.
typedef struct {
  // sizeof(UtHits).
  size_t size;
  // Room for hits in each of the seven arrays. `ut_decoder_count()` does not look at it, nor at them.
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
  // LHCbID: 3 in the top four bits, then the channel: sector, and strip counted from 0 (docs/columns.md).
  uint32_t *id;
  // Strips of each hit, in a word: bits 0 to 12 the sum of their ADC counts, 13 to 20 their number, 21 to 29
  // the first of them. Of format v5 and on the CPU only; NULL: not wanted.
  uint32_t *clusters;
  // Ends of groups: those of group `g` of event `e` are the hits from `offsets[e * n_groups + g]` to
  // `offsets[e * n_groups + g + 1]`, and the last one is the number of hits. Events that are not selected are empty.
  uint32_t *offsets;
  // Words of `offsets`, at least n_events * n_groups + 1.
  size_t n_offsets;
  // UT_N_COUNTS counters an event: the banks and strips that were read, then what was wrong (docs/policy.md). NULL: not
  // wanted.
  uint32_t *report;
  // Words of `report`, at least n_events * UT_N_COUNTS where it is wanted.
  size_t n_report;
  // Written by ut_decoder_count and ut_decoder_decode: the number of hits. 0 after an error. A GPU's is in UtCudaResult.
  size_t n_hits;
} UtHits;

// Rules by which banks become hits. Set everything to 0, then `size`: these are the production values of 2026. The banks of
// format v4 come clustered, and none of this changes their hits, nor anything the results of another field.
typedef struct {
  // sizeof(UtOptions).
  size_t size;
  // 1: every strip is a hit.
  uint32_t no_clustering;
  // 1: a cluster's position is the plain mean of its strips; 0: the mean weighted by ADC counts.
  uint32_t geometric;
  // Strips that a cluster may have; 0: 128.
  uint32_t max_cluster_size;
  // 1: clusters above the maximum are cut to their first strips; 0: they are dropped.
  uint32_t save_above_max;
  // Number from which strips of flipped sectors count: 511 (Allen since v7r9), or 512 (before); 0: 511. v4 banks have none.
  uint32_t flip_from;
  // Threads that share the events of a batch on the CPU: 0 and 1 mean the thread that calls, and none is started; at most
  // 1024. The results are the same. A trigger that has its own threads makes a decoder for each of them.
  uint32_t threads;
} UtOptions;

// Raw banks where they lie. The bytes and words are not trusted: each is checked against the lengths given here before it
// is followed, and what contradicts itself costs only its bank or event, and is counted. Set everything to 0, then `size`.
//
// All numbers are little endian. Allen layout: at `raw + offsets[e]` begin `u32 n_banks; u32 rel[n_banks + 1];` and behind
// them the banks, each at the place that `rel` says, counted from there: a `u32` sourceID, then the payload, padded to 4
// bytes. MEP layout: `offsets` are n_banks, 0, n_banks sourceIDs, then n_banks offsets into `raw` an event; at each of them
// is the payload alone. docs/format.md has the rest.
typedef struct {
  // sizeof(UtBatch).
  size_t size;
  // UT_LAYOUT_ALLEN or UT_LAYOUT_MEP.
  uint32_t layout;
  // Events, from `first_event` on, selected or not. Results have a place for each of them.
  uint32_t n_events;
  // The first event, as the arrays count them: not 0 where an interval of the events that they hold is decoded.
  uint32_t first_event;
  // 1: only the events that `selected` lists are decoded; the others have no hits, and nothing is counted for them. 0: all.
  uint32_t only_selected;
  // The events to decode, counted from `first_event`, each below `n_events`, in any order; one that is listed twice is
  // decoded once.
  const uint32_t *selected;
  // Words of `selected`; may be 0.
  size_t n_selected;
  // The bytes that `offsets` point into, at any address.
  const uint8_t *raw;
  // Bytes of `raw`; on a GPU less than 4 GiB.
  size_t raw_bytes;
  // Positions of events or fragments, as said above.
  const uint32_t *offsets;
  // Words of `offsets`: one for each event up to the last one that is decoded (Allen), or
  // 2 + n_banks * (1 + first_event + n_events) (MEP). There may be more.
  size_t n_offsets;
  // Sizes of the payloads in bytes, without sourceID word and padding, as u16: first a word for each event (Allen) or bank
  // (MEP) that says where its sizes begin, counted in u16 from the start of this array; then the sizes, bank by bank
  // (Allen) or event by event (MEP).
  const uint32_t *sizes;
  // Words of `sizes`.
  size_t n_sizes;
  // The same with u8 bank types, counted in bytes. Types 66 and 68 have hits.
  const uint32_t *types;
  // Words of `types`.
  size_t n_types;
  // The same with the u8 version of each bank; NULL: all banks have that of `version`.
  const uint32_t *versions;
  // Words of `versions`.
  size_t n_versions;
  // Version of all banks where `versions` is NULL: UT_VERSION_V4, UT_VERSION_V5, or 0 where it is not known: then it
  // is taken to be that of the tables. Banks of a version other than the tables' have no hits, and are counted; if all
  // are, that is UT_WRONG_VERSION.
  uint32_t version;
  // 0.
  uint32_t reserved;
} UtBatch;

// Result of a call, written once the stream has reached it. Lies in pinned memory of the host.
typedef struct {
  // The number of hits of the batch.
  uint32_t n_hits;
  // 0, or the sum of UT_CUDA_NO_ROOM, UT_CUDA_NO_SUCH_EVENT and UT_CUDA_WRONG_VERSION, of this call.
  uint32_t trouble;
} UtCudaResult;

// The stream and the memory for a batch. Set everything to 0, then `size`.
typedef struct {
  // sizeof(UtCudaWork).
  size_t size;
  // The stream, a CUstream or cudaStream_t of the context; NULL: its default stream.
  void *stream;
  // Device memory at any address. Nothing else uses it from ut_cuda_count until ut_cuda_write is done; then it is free.
  void *scratch;
  // Bytes of `scratch`, at least as many as ut_cuda_scratch_bytes says.
  size_t scratch_bytes;
  // Pinned memory of the host, or NULL: not wanted.
  UtCudaResult *result;
} UtCudaWork;

// The call did what it says.
#define UT_OK 0

// An argument is wrong: NULL where a pointer is required, misaligned, a value that does not exist, a struct of a size
// that no version has, arrays that overlap, an event that the batch does not have. Nothing was written.
#define UT_BAD_ARGUMENT 1

// Boards or geometry cannot be read, or contradict themselves or what a UT can be. The message names file, field and
// byte.
#define UT_BAD_TABLES 2

// The system refused the memory or the threads.
#define UT_NO_MEMORY 3

// There is no GPU, or none that can run the kernels. The message says why, and what to do.
#define UT_NO_DEVICE 4

// The results do not fit into the caller's arrays. Ask for the size first, or decode half of the events at a time.
#define UT_CAPACITY 5

// The driver of the GPU reported a failure. The context may be lost.
#define UT_DEVICE_FAILED 6

// A fault of this library.
#define UT_INTERNAL 7

// All banks are of another version than the tables', by what the batch says, or clearly by their sizes where it says
// nothing. There are no hits.
#define UT_WRONG_VERSION 8

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the interface that the library has, to be compared with UT_ABI_VERSION.
uint32_t ut_abi_version(void);

// Version and commit of the library, as "0.1.0, commit 0123456789ab"; "unknown" where it was built without git. Do not free it.
const char *ut_version(void);

// The vector instructions with which decoders on the CPU run on this machine: "avx512", "avx2", "neon" or "scalar". Do not
// free it.
const char *ut_vector_level(void);

// The name of a counter of the report, as docs/policy.md has it, or NULL where there is no such counter. Do not free it.
const char *ut_count_name(size_t count);

// Returns what was wrong with the last call of this thread that did not return UT_OK: one line, ended by 0, "" before the
// first
// one. Good until the thread's next call that fails; do not free it.
const char *ut_message(void);

// Makes tables from a boards file and a geometry file that fit each other. `grouping` is UT_GROUPS_Y_ROWS or
// UT_GROUPS_UNIQUE_X.
//
// Preconditions:
// - `boards` and `geometry` are NULL or strings ended by 0.
// - `tables` is NULL or can be written.
UtStatus ut_tables_from_files(const char *boards, const char *geometry, uint32_t grouping, UtTables **tables);

// Makes tables from the contents of a boards file and of a geometry file, such as Allen's blobs, which may be given back
// after the call and lie at any address.
//
// Preconditions:
// - `boards` and `geometry` are each NULL or can be read for so many bytes.
// - `tables` is NULL or can be written.
UtStatus ut_tables_from_memory(const uint8_t *boards,
                               size_t boards_bytes,
                               const uint8_t *geometry,
                               size_t geometry_bytes,
                               uint32_t grouping,
                               UtTables **tables);

// Gives tables back. Decoders that were made with them go on: they hold what they need.
//
// Preconditions:
// - `tables` is NULL, or was made by this library and is not used any more.
void ut_tables_free(UtTables *tables);

// Sector groups of an event: hits come group by group. 0 where `tables` is NULL.
//
// Preconditions:
// - `tables` is NULL, or was made by this library and is not given back.
size_t ut_tables_n_groups(const UtTables *tables);

// The version byte of the banks that the boards send: 3 (format v4) or 4 (format v5). 0 where `tables` is NULL.
//
// Preconditions:
// - `tables` is NULL, or was made by this library and is not given back.
uint32_t ut_tables_bank_version(const UtTables *tables);

// Writes the place of each of the `n` LHCbIDs at `ids`, as decoding gave them, to `places`. Charge and strips of a
// cluster are in `UtHits.clusters`.
//
// Preconditions:
// - `tables` is NULL, or was made by this library and is not given back.
// - `ids` is NULL or can be read for `n` words.
// - `places` is NULL or can be written for `n` places, and nobody else uses them during the call.
UtStatus ut_tables_places(const UtTables *tables, const uint32_t *ids, size_t n, UtPlace *places);

// Lays out the seven arrays of `hits` back to back in `memory`, which has `bytes` bytes: y_begin, y_end, z_at_y_eq0,
// x_at_y_eq0, dx_dy, weight, id, each with room for `n_hits` hits, together n_hits * UT_HIT_BYTES bytes. Sets `max_hits`.
//
// Preconditions:
// - `hits` is NULL or points to a UtHits whose `size` is set, and can be written.
UtStatus ut_hits_in(void *memory,
                    size_t bytes,
                    size_t n_hits,
                    UtHits *hits);

// Makes a decoder for the tables, which may be given back afterwards. `options` may be NULL.
//
// Preconditions:
// - `tables` is NULL, or was made by this library and is not given back.
// - `options` is NULL, or points to a UtOptions whose `size` is set.
// - `decoder` is NULL or can be written.
UtStatus ut_decoder_new(const UtTables *tables, const UtOptions *options, UtDecoder **decoder);

// Replaces the tables of a decoder, for a new run. Other decoders go on with theirs.
//
// Preconditions:
// - `decoder` is NULL, or was made by ut_decoder_new and is not freed.
// - `tables` is NULL, or was made by this library and is not given back.
UtStatus ut_decoder_set_tables(UtDecoder *decoder, const UtTables *tables);

// Writes the most hits that the batch can have, whatever its bytes are, from the sizes of its banks: arrays of so many
// never overflow. Takes about as long as counting; `raw_bytes / 2` takes no time, and is more unless fragments overlap.
//
// Preconditions:
// - `decoder` is NULL, or was made by ut_decoder_new and is not freed.
// - `batch` is NULL, or points to a UtBatch whose `size` is set, and whose pointers are each NULL or can be read for the
//   length beside them.
// - `max_hits` is NULL or can be written.
UtStatus ut_decoder_max_hits(UtDecoder *decoder,
                             const UtBatch *batch,
                             size_t *max_hits);

// Counts the hits of a batch into `hits->n_hits`, and writes `hits->offsets` and, if wanted, `hits->report`, all as
// ut_decoder_decode would. For programs that allocate exactly as much as they need; the others spare the time.
//
// Preconditions:
// - As ut_decoder_decode, but that the arrays of hits are not used.
UtStatus ut_decoder_count(UtDecoder *decoder, const UtBatch *batch, UtHits *hits);

// Decodes a batch into the arrays of `hits`. Waits for all of it; allocates nothing, after the first batches, with one
// thread.
//
// Preconditions:
// - `decoder` is NULL, or was made by ut_decoder_new and is not freed.
// - `batch` is NULL, or points to a UtBatch whose `size` is set, and whose pointers are each NULL or can be read for the
//   length beside them; nothing writes there during the call.
// - `hits` is NULL, or points to a UtHits whose `size` is set, and whose pointers are each NULL or can be read and written
//   for the length beside them; nothing else uses them during the call.
UtStatus ut_decoder_decode(UtDecoder *decoder,
                           const UtBatch *batch,
                           UtHits *hits);

// Gives a decoder back.
//
// Preconditions:
// - `decoder` is NULL, or was made by ut_decoder_new and is not used any more.
void ut_decoder_free(UtDecoder *decoder);

// Makes a decoder in `context`, a CUcontext, or where that is NULL, in the context that is current on the calling thread
// (such as the one that the CUDA runtime uses). Waits: compiles the kernels, which the driver keeps for the next time, and
// copies the tables, which may be given back afterwards. Of `options`, which may be NULL, `threads` is not used. Leaves the
// context current.
//
// Preconditions:
// - `tables` is NULL, or was made by this library and is not given back.
// - `options` is NULL, or points to a UtOptions whose `size` is set.
// - `context` is NULL or a context of this process; it is not destroyed before the decoder is freed.
// - `cuda` is NULL or can be written.
UtStatus ut_cuda_new(const UtTables *tables,
                     const UtOptions *options,
                     void *context,
                     UtCuda **cuda);

// Writes how many bytes of work space the batch takes, whatever its bytes are. Looks at the lengths of the arrays alone:
// its pointers may be those of the device, or not be known yet and NULL. Here and in the other calls, a list of events is
// refused with UT_BAD_ARGUMENT if the tables have more than 96 groups, 24 kinds of sectors or 1200 connected lanes.
//
// Preconditions:
// - `cuda` is NULL, or was made by ut_cuda_new and is not freed.
// - `batch` is NULL, or points to a UtBatch whose `size` is set.
// - `scratch_bytes` is NULL or can be written.
UtStatus ut_cuda_scratch_bytes(const UtCuda *cuda,
                               const UtBatch *batch,
                               size_t *scratch_bytes);

// Queues the count of a batch's hits on the stream, and returns: nothing waits, and no device memory is allocated. Once the stream
// has reached it, `work->result` has the number of hits. Banks, offsets, sizes, types, versions and the list of selected events
// are read where they are, on the device; `version`, `first_event` and all lengths are numbers of the struct. What the list
// names is therefore seen only there: an event that the batch does not have is ignored and flagged in the result. If this or
// ut_cuda_write returns UT_DEVICE_FAILED, it has waited for the stream: nothing of the call is still in flight, unless the
// waiting failed as well.
//
// Preconditions:
// - `cuda` is NULL, or was made by ut_cuda_new and is not freed; it is not freed before the stream has done this.
// - `batch` and `work` are NULL, or point to a struct whose `size` is set. The structs may change after the call.
// - Until the stream has done this, every pointer in them is memory of the device (that of `work->result`: pinned memory of
//   the host) for the length beside it, and nothing else writes there, nor reads what is written.
UtStatus ut_cuda_count(const UtCuda *cuda,
                       const UtBatch *batch,
                       const UtCudaWork *work);

// Puts on the stream what writes hits, offsets and report of a batch that ut_cuda_count has counted with the same `batch` and
// `work`, and returns: nothing waits, and no device memory is taken. All pointers of `hits` are of the device. Its arrays have room
// for at least as many hits as were counted; with ut_hits_in and exactly as many, they lie back to back. `work->result` is
// written again when the stream has come there: it stays valid until then, or is NULL.
//
// Preconditions:
// - As ut_cuda_count; and the same batch was counted with this work space, on this stream or one that it waits for, and
//   nothing was written there since.
// - `hits` is NULL, or points to a struct whose `size` is set, and whose pointers are each NULL or memory of the device for
//   the length beside it, apart from each other and from everything else.
UtStatus ut_cuda_write(const UtCuda *cuda,
                       const UtBatch *batch,
                       const UtCudaWork *work,
                       const UtHits *hits);

// Gives a decoder back.
//
// Preconditions:
// - `cuda` is NULL, or was made by ut_cuda_new, nothing of it is in flight, and it is not used any more.
void ut_cuda_free(UtCuda *cuda);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* UT_DECODING_H */

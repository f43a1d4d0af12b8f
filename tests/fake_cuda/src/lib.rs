//! A fake CUDA driver, which replaces `libcuda` in tests and runs kernels on the PTX interpreter.
//!
//! It lets tests run the code between this project and a GPU (contexts, streams, events, copies,
//! modules, launches) without one. Its times are numbers of operations, and say nothing about a
//! GPU.
//!
//! Where hardware may be late, the fake is: an operation on a stream is executed when a call waits
//! for it, not before, and with the contents that host memory has then. A `FAKE_CUDA_SEED` other
//! than 0 also lets streams run ahead, in an order drawn from the seed. A source that changes too
//! early, or a result that is read too early, shows as wrong bits. Misuse that a real driver
//! notices only sometimes is always an error here, reported on standard error in lines that begin
//! with "fake cuda:".
//!
//! | environment | default | |
//! |---|---|---|
//! | `FAKE_CUDA_SEED` | 0 | order of streams, blocks and lanes |
//! | `FAKE_CUDA_DEVICES` | 1 | number of devices; 0: a machine without a GPU |
//! | `FAKE_CUDA_VERSION` | 13000 | version of the driver |
//! | `FAKE_CUDA_CAPABILITY` | 80 | compute capability without the dot, or one per device: `75,90` |
//! | `FAKE_CUDA_MEMORY` | 4294967296 | memory of each device in bytes |
//! | `FAKE_CUDA_PAGEABLE` | | `refuse`: asynchronous copies must be from and to pinned memory |
//! | `FAKE_CUDA_CLOCK` | 0 | clock rate of multiprocessors and memory in kHz; 0: unknown |
//! | `FAKE_CUDA_COUNTS` | | file for the cost of each launch: the kernel, seven counts of each block, issues of each instruction |
//! | `FAKE_CUDA_REFUSE` | | name of a function that the driver does not support |
//! | `FAKE_CUDA_BREAK` | | `KERNEL=wrong`, `hang`, `fault` or `missing`: fault of a kernel |
//!
//! When a context ends, the driver reports how often memory was allocated and pinned, streams were
//! waited for, and kernels were launched.

#[allow(
    clippy::missing_safety_doc,
    reason = "the driver's own documentation says it"
)]
mod api;
mod driver;
mod host;
mod settings;
mod stream;

//! A fake CUDA driver: it takes the place of `libcuda` in the tests, and runs launches on the PTX interpreter.
//!
//! What it is for: the code between this project and a GPU (contexts, streams, events, copies, modules, launches) can
//! be run without one. Times that it gives are counts of what was done, never a GPU's.
//!
//! Where hardware may be late, it is: what is put on a stream is done when somebody waits for it, not before, and from
//! the host's memory as it is then. `FAKE_CUDA_SEED` other than 0 also lets streams run ahead, in an order drawn from
//! it. So a copy whose source changed too early or a result that was looked at too early shows as wrong bits. What a
//! real driver would only sometimes notice is always an error here, and said on standard error, each line beginning
//! with "fake cuda:".
//!
//! | environment | default | |
//! |---|---|---|
//! | `FAKE_CUDA_SEED` | 0 | order of streams, blocks and lanes |
//! | `FAKE_CUDA_DEVICES` | 1 | how many there are; 0 is what a machine without a GPU answers |
//! | `FAKE_CUDA_VERSION` | 13000 | of the driver |
//! | `FAKE_CUDA_CAPABILITY` | 80 | compute capability, without the dot; a list, as `75,90`: of one device after the other |
//! | `FAKE_CUDA_MEMORY` | 4294967296 | bytes of each device |
//! | `FAKE_CUDA_PAGEABLE` | | `refuse`: asynchronous copies must be from and to pinned memory |
//! | `FAKE_CUDA_CLOCK` | 0 | kHz that the clocks of multiprocessors and memory are said to have; 0: unknown |
//! | `FAKE_CUDA_REFUSE` | | the name of a function that this driver does not support |
//! | `FAKE_CUDA_BREAK` | | `KERNEL=wrong`, `hang`, `fault` or `missing`: how a kernel goes wrong |
//!
//! When a context ends it says how often memory was allocated and pinned, streams were waited for and kernels launched.

#[allow(clippy::missing_safety_doc, reason = "the driver's own documentation says it")]
mod api;
mod driver;
mod host;
mod settings;
mod stream;

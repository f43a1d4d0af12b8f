//! Compiles a crate of kernels to PTX, in a build script or a test.
//!
//! [`Compiler`] calls `rustc` directly for `core`, an empty `compiler_builtins`, this crate and the
//! kernels: no cargo runs inside cargo, nothing is downloaded, and the same compiler gives the same
//! bytes everywhere. [`check()`] finds things that compile and make a bad kernel: a stack, calls,
//! panics, generic accesses. [`Ptxas`] assembles PTX for an architecture and reports the resources
//! of each kernel.
//!
//! The compiler must be able to make `core` for `nvptx64-nvidia-cuda`, which needs its library's
//! source: Debian's `rustc-web` with `rust-web-src`, or a rustup nightly with `rust-src`.
//!
//! | flag | why |
//! |---|---|
//! | `-Ctarget-cpu=sm_75` | the oldest architecture that CUDA 13 knows; the driver compiles from here for newer ones |
//! | `-Cpanic=immediate-abort` | a panic is a `trap`; otherwise `.func`s and strings for messages that nothing prints |
//! | `-Zmir-enable-passes=-JumpThreading` | MIR jump threading duplicates barriers |
//! | `-Clto=fat`, `-Ccodegen-units=1` | one module, everything inlined, the same text every time |
//! | `-Clinker=true` | there is nothing to link: the assembly is the result |

pub mod check;
mod compiler;
pub mod ptxas;

pub use check::{Flaw, check};
pub use compiler::{Compiler, KernelCrate, TARGET, header_field};
pub use ptxas::{ARCHS, Ptxas, Usage};

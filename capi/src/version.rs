//! The version of the interface, and names.

use std::ffi::{CString, c_char};
use std::sync::OnceLock;

use ut_decoding::Count;
use ut_decoding::decoder::cpu::Simd;

use crate::batch::UtBatch;
use crate::cuda::UtCudaWork;
use crate::decoder::UtOptions;
use crate::hits::{UT_HIT_BYTES, UT_N_COUNTS, UtHits};
use crate::memory::Versioned;

/// The version of this interface. Programs that were compiled with a header of this version run with every library that has
/// it; the name of the shared library has it, too.
pub const UT_ABI_VERSION: u32 = 1;

// Version 1 has no fields that came later.
const _: () = assert!(size_of::<UtBatch>() == UtBatch::FIRST_SIZE);
const _: () = assert!(size_of::<UtHits>() == UtHits::FIRST_SIZE);
const _: () = assert!(size_of::<UtOptions>() == UtOptions::FIRST_SIZE);
const _: () = assert!(size_of::<UtCudaWork>() == UtCudaWork::FIRST_SIZE);
const _: () = assert!(UT_N_COUNTS == Count::ALL.len() && UT_HIT_BYTES == 7 * size_of::<u32>());

/// The version of the interface that the library has, to be compared with UT_ABI_VERSION.
#[unsafe(no_mangle)]
pub extern "C" fn ut_abi_version() -> u32 {
    UT_ABI_VERSION
}

/// Version and commit of the library, as "0.1.0, commit 0123456789ab"; "unknown" where it was built without git. Do not free it.
#[unsafe(no_mangle)]
pub extern "C" fn ut_version() -> *const c_char {
    static VERSION: OnceLock<CString> = OnceLock::new();
    let commit = option_env!("UT_DECODE_COMMIT").unwrap_or("unknown");
    let make = || CString::new(format!("{}, commit {commit}", env!("CARGO_PKG_VERSION"))).unwrap_or_default();
    VERSION.get_or_init(make).as_ptr()
}

/// The vector instructions with which decoders on the CPU run on this machine: "avx512", "avx2", "neon" or "scalar". Do not
/// free it.
#[unsafe(no_mangle)]
pub extern "C" fn ut_vector_level() -> *const c_char {
    static NAME: OnceLock<CString> = OnceLock::new();
    let name = || CString::new(Simd::Auto.resolve().unwrap_or(Simd::Scalar).name()).unwrap_or_default();
    NAME.get_or_init(name).as_ptr()
}

/// The name of a counter of the report, as docs/policy.md has it, or NULL where there is no such counter. Do not free it.
#[unsafe(no_mangle)]
pub extern "C" fn ut_count_name(count: usize) -> *const c_char {
    static NAMES: OnceLock<Vec<CString>> = OnceLock::new();
    let names = NAMES.get_or_init(|| Count::ALL.iter().filter_map(|count| CString::new(count.name()).ok()).collect());
    names.get(count).map_or(std::ptr::null(), |name| name.as_ptr())
}

//! The version of the interface, and names.

use std::ffi::{CString, c_char};
use std::sync::OnceLock;

use ut_decoding::Count;
use ut_decoding::decoder::cpu::Simd;

use crate::batch::UtBatch;
use crate::cuda::UtCudaWork;
use crate::decoder::UtOptions;
use crate::hits::{UT_HIT_BYTES, UT_N_COUNTS, UtHits};

/// Version of this interface. Programs compiled with a header of this version run with every
/// library of this version, which is also in the shared library's name.
pub const UT_ABI_VERSION: u32 = 1;

// These sizes are part of version 1: other sizes need another version.
const _: () = assert!(size_of::<UtBatch>() == 128 && size_of::<UtHits>() == 120);
const _: () = assert!(size_of::<UtOptions>() == 32 && size_of::<UtCudaWork>() == 40);
const _: () = assert!(UT_N_COUNTS == Count::ALL.len() && UT_HIT_BYTES == 7 * size_of::<u32>());

/// Returns the library's version of the interface, to be compared with UT_ABI_VERSION.
#[unsafe(no_mangle)]
pub extern "C" fn ut_abi_version() -> u32 {
    UT_ABI_VERSION
}

/// Returns version and commit, as "0.1.0, commit 0123456789ab", or "unknown" if built without git.
/// Do not free it.
#[unsafe(no_mangle)]
pub extern "C" fn ut_version() -> *const c_char {
    static VERSION: OnceLock<CString> = OnceLock::new();
    let commit = option_env!("UT_DECODE_COMMIT").unwrap_or("unknown");
    let make = || {
        CString::new(format!("{}, commit {commit}", env!("CARGO_PKG_VERSION"))).unwrap_or_default()
    };
    VERSION.get_or_init(make).as_ptr()
}

/// Returns the vector instructions of CPU decoders here: "avx512", "avx2" or "scalar". Do not free
/// it.
#[unsafe(no_mangle)]
pub extern "C" fn ut_vector_level() -> *const c_char {
    static NAME: OnceLock<CString> = OnceLock::new();
    let name =
        || CString::new(Simd::Auto.resolve().unwrap_or(Simd::Scalar).name()).unwrap_or_default();
    NAME.get_or_init(name).as_ptr()
}

/// Returns the name of a counter of the report (docs/policy.md), or NULL if there is none. Do not
/// free it.
#[unsafe(no_mangle)]
pub extern "C" fn ut_count_name(count: usize) -> *const c_char {
    static NAMES: OnceLock<Vec<CString>> = OnceLock::new();
    let names = NAMES.get_or_init(|| {
        Count::ALL
            .iter()
            .filter_map(|count| CString::new(count.name()).ok())
            .collect()
    });
    names
        .get(count)
        .map_or(std::ptr::null(), |name| name.as_ptr())
}

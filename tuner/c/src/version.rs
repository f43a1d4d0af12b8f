//! Versions of the library and of its interface.

use std::ffi::{CString, c_char};
use std::sync::OnceLock;

/// Version of this interface. Programs compiled with a header of this version run with every
/// library of this version, which is also in the shared library's name.
pub const TUNER_ABI_VERSION: u32 = 1;

/// Returns the library's version of the interface.
#[unsafe(no_mangle)]
pub extern "C" fn tuner_abi_version() -> u32 {
    TUNER_ABI_VERSION
}

/// Returns version and commit, as "0.1.0, commit 0123456789ab", or "unknown" if built without git.
#[unsafe(no_mangle)]
pub extern "C" fn tuner_version() -> *const c_char {
    static VERSION: OnceLock<CString> = OnceLock::new();
    let commit = option_env!("UT_DECODE_COMMIT").unwrap_or("unknown");
    let make = || {
        CString::new(format!("{}, commit {commit}", env!("CARGO_PKG_VERSION"))).unwrap_or_default()
    };
    VERSION.get_or_init(make).as_ptr()
}

//! The files of `kernels/ptx`, for the build script that writes them and the tests that check them.

/// File names without `.ptx`. Each is compiled with `--cfg ptx_unit="…"` and stands on its own: a decoder loads the
/// kernels of its own format and layout only.
pub const UNITS: [&str; 9] = [
    "v4_allen",
    "v4_mep",
    "v5_allen",
    "v5_mep",
    "v5_allen_ladder",
    "v4_allen_fused",
    "v4_mep_fused",
    "v5_allen_fused",
    "v5_mep_fused",
];

/// Beginnings of entry names, and the threads that a block of such a kernel may have. The fused kernel would take more than
/// the 64 registers that blocks of 1024 threads leave it, for no gain: fewer warps would fit.
pub const MAX_THREADS: &[(&str, u32)] = &[("fused__", 1024)];

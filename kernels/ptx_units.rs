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

//! The files of `kernels/ptx`, for the build script that writes them and the tests that check them.

/// File names without `.ptx`. Each is compiled with `--cfg ptx_unit="…"` and stands on its own: a decoder loads the
/// kernels of its own format and layout only.
pub const UNITS: [&str; 13] = [
    "v4_allen",
    "v4_mep",
    "v5_allen",
    "v5_mep",
    "v5_allen_ladder",
    "v4_allen_fused",
    "v4_mep_fused",
    "v5_allen_fused",
    "v5_mep_fused",
    "v4_allen_ranked",
    "v4_mep_ranked",
    "v5_allen_ranked",
    "v5_mep_ranked",
];

/// Beginnings of entry names, and the registers that a thread of such a kernel may have. With 48, five blocks of 256 threads
/// of the fused kernel fit on a multiprocessor of sm_80 and sm_90, and at most eight bytes a thread are spilled. With 64, four
/// of the kernel that repairs groups do, not two: its warps wait for memory.
pub const MAX_REGISTERS: &[(&str, u32)] =
    &[("fused__", 48), ("fused_others__", 64), ("cluster__", 40), ("cluster_unusual__", 64)];

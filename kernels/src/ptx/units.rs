//! The files of `kernels/ptx`, for the build script that writes them and the tests that check them.

/// File names without `.ptx`. Each is compiled with `--cfg ptx_unit="…"` and stands on its own: a
/// decoder loads the kernels of its own format and layout only.
pub const UNITS: [&str; 9] = [
    "v4_allen",
    "v4_mep",
    "v5_allen",
    "v5_mep",
    "v5_allen_ladder",
    "v4_allen_ranked",
    "v4_mep_ranked",
    "v5_allen_ranked",
    "v5_mep_ranked",
];

/// Beginnings of entry names, and the registers that a thread of such a kernel may have. With 40,
/// six blocks of `cluster` fit on a multiprocessor of sm_80 and newer, where nothing is spilled.
/// With 64, four blocks of `cluster_unusual` and of `sort_groups` do.
pub const MAX_REGISTERS: &[(&str, u32)] = &[
    ("cluster__", 40),
    ("cluster_unusual__", 64),
    ("sort_groups__", 64),
];

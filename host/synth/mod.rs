//! A synthetic UT and seeded minimum-bias-like events: what the tool works on when there is no file.

/// The trigger-mask words (sub-header words 0…3) of MDF files that `ut-decode generate` made, by which they are
/// recognised: "UT-SYNTHETIC-001" in ASCII, which no trigger configuration yields.
pub const MARK: [u32; 4] = [
    u32::from_le_bytes(*b"UT-S"),
    u32::from_le_bytes(*b"YNTH"),
    u32::from_le_bytes(*b"ETIC"),
    u32::from_le_bytes(*b"-001"),
];

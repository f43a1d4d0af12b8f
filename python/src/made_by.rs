//! Version and commit of the wheel, for pages and files.

pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Commit of the sources, if it is known.
pub const COMMIT: Option<&str> = option_env!("UT_DECODE_COMMIT");

/// Returns both as the tool says them.
pub fn in_words() -> String {
    format!(
        "ut-decode {VERSION}, commit {}",
        COMMIT.unwrap_or("unknown")
    )
}

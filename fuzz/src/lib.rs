//! Fuzzing targets: a function of bytes for everything that reads bytes from outside. A target panics when the code under
//! it does what it must not: panics itself, or gives different results on two ways that must agree.
//!
//! `fuzz/run.sh TARGET SECONDS` runs one under libFuzzer, on stable Rust. What it kept is in `fixtures/fuzz/TARGET`, and
//! `tests/replay.rs` runs all of it with the ordinary tests.

mod decode;
mod files;
mod tables;
mod tuning;

/// A target.
pub type Target = fn(&[u8]);

/// Every target by its name, which is that of its folder in `fixtures/fuzz`.
pub const TARGETS: [(&str, Target); 11] = [
    ("banks", decode::banks),
    ("batch", decode::batch),
    ("banks-emulated", decode::banks_emulated),
    ("batch-emulated", decode::batch_emulated),
    ("file", files::file),
    ("mdf", files::mdf),
    ("packets", files::packets),
    ("tables", tables::tables),
    ("expression", tuning::expression),
    ("space", tuning::space),
    ("recording", tuning::recording),
];

/// The bytes of an input, taken from the front; zeros where there are none left.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn u8(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or_default()
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.u8(), self.u8()])
    }

    /// At most `n` bytes.
    fn take(&mut self, n: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

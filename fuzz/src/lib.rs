//! Fuzzing targets: a function of bytes for everything that reads bytes from outside. A target panics when the code under
//! it does what it must not: panics itself, or gives different results on two ways that must agree.
//!
//! `fuzz/run.sh TARGET SECONDS` runs one under libFuzzer, on stable Rust. What it kept is in `fixtures/fuzz/TARGET`, and
//! `tests/replay.rs` runs all of it with the ordinary tests. docs/fuzzing.md says how long each ran.

mod c_interface;
mod decode;
mod files;
mod kept;
pub mod seeds;
mod tables;
pub mod text;
mod tuning;

/// A target.
pub type Target = fn(&[u8]);

/// Every target by its name, which is that of its folder in `fixtures/fuzz`.
pub const TARGETS: [(&str, Target); 20] = [
    ("banks", decode::banks),
    ("batch", decode::batch),
    ("banks-emulated", decode::banks_emulated),
    ("batch-emulated", decode::batch_emulated),
    ("c-batch", c_interface::batch),
    ("file", files::file),
    ("mdf", files::mdf),
    ("blocks", files::blocks),
    ("packets", files::packets),
    ("tables", tables::tables),
    ("mask", tables::mask),
    ("expression", tuning::expression),
    ("space", tuning::space),
    ("chain", tuning::chain),
    ("recording", tuning::recording),
    ("store", kept::store),
    ("import", kept::import),
    ("sums", kept::sums),
    ("settings", kept::settings),
    ("sets", kept::sets),
];

/// Targets whose inputs are text: the fuzzer mutates them with [`text`].
pub const TEXT_TARGETS: [&str; 8] = ["mask", "expression", "space", "chain", "recording", "import", "settings", "sets"];

/// The bytes of an input, taken from the front; zeros where there are none left.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn u8(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or_default()
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.u8(), self.u8()])
    }

    fn u32(&mut self) -> u32 {
        u32::from(self.u16()) | u32::from(self.u16()) << 16
    }

    /// At most `n` bytes.
    fn take(&mut self, n: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// As many words as the next byte says, or fewer.
    fn words(&mut self) -> Vec<u32> {
        let n = usize::from(self.u8());
        self.take(4 * n).as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
    }

    const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Writes `data` to the file `name` of a folder that is this process' own, in memory where there is such a folder.
fn file_of(name: &str, data: &[u8]) -> std::path::PathBuf {
    use std::sync::OnceLock;
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let make = || tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary folder");
    let path = FOLDER.get_or_init(make).path().join(name);
    std::fs::write(&path, data).expect("memory takes a small file");
    path
}

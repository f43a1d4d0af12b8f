//! Fuzzing targets: functions of bytes, one for each way in which bytes come from outside. A target
//! panics if the tested code panics, or if two ways that must agree give different results.
//!
//! `fuzz/run.sh TARGET SECONDS` runs one under libFuzzer, on stable Rust; `tests/replay.rs` runs
//! `fixtures/fuzz/TARGET`.
//!
//! A target turns bytes into the structure that the code expects, for example a batch with tables
//! that contradict each other, rather than handing over bytes of which a first check would refuse
//! nearly all. Where there are two implementations (the reference and a decoder, a writer and a
//! reader), both run, and a difference is a failure: a wrong result is found, and not only a crash.

mod batches;
mod files;
mod tuning;

/// Fuzzing target: panics if the code mishandles the bytes.
pub type Target = fn(&[u8]);

/// Targets with their names, which are also the names of their folders in `fixtures/fuzz`.
pub const TARGETS: [(&str, Target); 6] = [
    ("decode", batches::decode),
    ("c-batch", batches::c_batch),
    ("file", files::file),
    ("tables", files::tables),
    ("store", tuning::store),
    ("text", tuning::text),
];

/// Reader of an input from the front. After the end it gives zeros.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn u8(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or_default()
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.u8(), self.u8()])
    }

    /// Takes at most `n` bytes.
    fn take(&mut self, n: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Takes a byte, and then at most that number of words.
    fn words(&mut self) -> Vec<u32> {
        let n = usize::from(self.u8());
        self.take(4 * n)
            .as_chunks::<4>()
            .0
            .iter()
            .map(|word| u32::from_le_bytes(*word))
            .collect()
    }
}

/// Writes `data` to the file `name` in a folder of this process, in memory where there is such a
/// folder.
fn file_of(name: &str, data: &[u8]) -> std::path::PathBuf {
    static FOLDER: std::sync::OnceLock<tempfile::TempDir> = std::sync::OnceLock::new();
    let make = || {
        tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .expect("a temporary folder")
    };
    let path = FOLDER.get_or_init(make).path().join(name);
    std::fs::write(&path, data).expect("memory takes a small file");
    path
}

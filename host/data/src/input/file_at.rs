//! A file that several threads read, each where it needs to.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A regular file, read at places that the reader names.
#[derive(Clone, Debug)]
pub struct FileAt {
    file: Arc<File>,
    /// Bytes of the file that all its readers have read.
    read: Arc<AtomicU64>,
}

impl FileAt {
    /// Adds the bytes that are read of `file` to `read`.
    pub const fn new(file: Arc<File>, read: Arc<AtomicU64>) -> Self {
        Self { file, read }
    }

    /// Fills `bytes` from byte `at` of the file on, and returns how many were there.
    pub fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        let n = fill(bytes, |rest, n| {
            self.file.read_at(rest, at.saturating_add(n as u64))
        })?;
        self.read.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }

    /// Returns a reader of the bytes from `at` to `end`.
    pub const fn bytes(self, at: u64, end: u64) -> Bytes {
        Bytes {
            file: self,
            at,
            end,
        }
    }
}

/// Fills `bytes` by calls of `read`, which gets the empty rest and the bytes before it; returns the
/// bytes read.
pub fn fill(
    bytes: &mut [u8],
    mut read: impl FnMut(&mut [u8], usize) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut n = 0;
    while n < bytes.len() {
        match read(&mut bytes[n..], n) {
            Ok(0) => break,
            Ok(more) => n += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(n)
}

/// The bytes of a file in their order. Skipped bytes are not read.
#[derive(Clone, Debug)]
pub struct Bytes {
    pub file: FileAt,
    at: u64,
    end: u64,
}

impl Bytes {
    /// Goes on `n` bytes earlier, which were read and will be read again.
    pub fn step_back(&mut self, n: usize) {
        self.at -= n as u64;
        self.file.read.fetch_sub(n as u64, Ordering::Relaxed);
    }

    /// Goes on `n` bytes later.
    pub const fn pass(&mut self, n: u64) {
        self.at = self.at.saturating_add(n);
    }
}

impl Read for Bytes {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let n = bytes
            .len()
            .min(usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX));
        let n = self.file.read_at(&mut bytes[..n], self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

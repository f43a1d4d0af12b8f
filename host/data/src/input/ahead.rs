//! Unpacks compressed files before their turn, with one thread per file.
//!
//! A compressed stream can be unpacked by one thread only, and only one thread fetches at a time
//! (see `pipeline`). So while one file is read, the compressed files after it are unpacked into
//! memory, up to a limit.
//!
//! An unpacking thread sends its file in blocks of 128 KiB through a channel of bounded length. If
//! the reader is slower, the channel is full and the thread waits; if the reader is faster, it
//! waits for the next block. The limit of 64 MiB is shared among the files. A reader that gives up
//! early drops its end of the channel, which ends the thread at its next block.
//!
//! Some files need far more memory to unpack (zstd with `--long`). These are not unpacked ahead:
//! the thread stops where it finds this out, and the reader opens the file once more when its turn
//! comes, and skips the bytes that it has had.

use std::collections::VecDeque;
use std::io::{self, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;

use super::part::InputPart;
use super::pool::{BufferPool, PooledBuffer};
use super::recognise::{Input, Opened, open_sparingly, takes_more_memory};

/// Maximum number of unpacked bytes that wait, over all files.
const WAITING: usize = 64 << 20;

/// Size of a block in bytes: at least as many as a decoder gives at once.
const BLOCK: usize = 1 << 17;

/// Reads smaller than this go through one more buffer.
const SMALL: usize = 1 << 12;

#[derive(Debug)]
pub struct Ahead {
    /// Maximum number of files to unpack at the same time, including the file being read.
    files: usize,
    /// Files by their place in the list of inputs. Nothing is sent for one that cannot be opened.
    started: VecDeque<(usize, Receiver<Opened>)>,
    /// The first file not looked at yet.
    next: usize,
    blocks: BufferPool,
}

impl Ahead {
    pub fn new(files: usize) -> Self {
        Self {
            files: files.max(1),
            started: VecDeque::new(),
            next: 0,
            blocks: BufferPool::default(),
        }
    }

    /// Starts unpacking the files after file `i` of `parts`, and returns file `i` if it was started
    /// before. `None` if it was not, or could not be opened: the caller then opens it and gets the
    /// error.
    pub fn reach(
        &mut self,
        parts: &[InputPart],
        i: usize,
        read: &Arc<AtomicU64>,
    ) -> Option<Opened> {
        for (j, part) in parts
            .iter()
            .enumerate()
            .take(i + self.files)
            .skip(self.next.max(i + 1))
        {
            self.next = j + 1;
            if part.is_compressed_file() {
                let (part, read, pool) = (part.clone(), Arc::clone(read), self.blocks.clone());
                let n = (WAITING / BLOCK / self.files).max(2);
                let (to, opened) = sync_channel(1);
                let thread = Builder::new().name("unpacking".to_owned());
                if thread
                    .spawn(move || unpack(&part, &read, &to, &pool, n))
                    .is_ok()
                {
                    self.started.push_back((j, opened));
                }
            }
        }
        let (_, opened) = self.started.pop_front_if(|(file, _)| *file == i)?;
        opened.recv().ok()
    }
}

/// Opens a file, sends it, and unpacks it, at most `n` blocks ahead, until the receiver is gone.
fn unpack(
    part: &InputPart,
    read: &Arc<AtomicU64>,
    to: &SyncSender<Opened>,
    pool: &BufferPool,
    n: usize,
) {
    let Ok(opened) = open_sparingly(part.name(), read) else {
        return;
    };
    let (send, blocks) = sync_channel(n);
    let unpacked = UnpackedFile {
        blocks,
        block: UnpackedBlock::default(),
        at: 0,
        given: 0,
        ended: false,
        file: (part.clone(), Arc::clone(read)),
        again: None,
    };
    let input = BufReader::with_capacity(SMALL, Input::new(unpacked));
    // The buffer is still empty.
    let mut from = opened.input.into_inner();
    if to
        .send(Opened {
            input,
            length: None,
            format: opened.format,
            file: None,
        })
        .is_err()
    {
        return;
    }
    loop {
        let mut bytes = pool.take();
        bytes.resize(BLOCK, 0);
        let block = match from.read(&mut bytes) {
            Ok(length) => Ok(UnpackedBlock { bytes, length }),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let is_last = !block.as_ref().is_ok_and(|block| block.length > 0);
        if send.send(block).is_err() || is_last {
            return;
        }
    }
}

/// Bytes of an unpacked file; none at its end.
#[derive(Debug, Default)]
struct UnpackedBlock {
    bytes: PooledBuffer,
    length: usize,
}

/// The bytes of a file that another thread unpacks.
struct UnpackedFile {
    blocks: Receiver<io::Result<UnpackedBlock>>,
    block: UnpackedBlock,
    at: usize,
    /// Number of bytes of the file handed out so far.
    given: u64,
    ended: bool,
    file: (InputPart, Arc<AtomicU64>),
    /// The file, opened again if it takes more memory than is allowed ahead.
    again: Option<BufReader<Input>>,
}

impl UnpackedFile {
    /// Reads the file, with as much memory as it takes, from its beginning to where the other
    /// thread stopped.
    fn begin_again(&mut self) -> io::Result<&mut BufReader<Input>> {
        let (part, read) = &self.file;
        let (Opened { mut input, .. }, ..) = part.open(read).map_err(io::Error::other)?;
        io::copy(&mut input.by_ref().take(self.given), &mut io::sink())?;
        Ok(self.again.insert(input))
    }
}

impl Read for UnpackedFile {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if let Some(again) = &mut self.again {
            return again.read(bytes);
        }
        if self.at == self.block.length && !self.ended && !bytes.is_empty() {
            // The pool gets the last block back first.
            (self.block, self.at) = (UnpackedBlock::default(), 0);
            self.block = match self.blocks.recv() {
                Ok(Ok(block)) => block,
                // The file has this error in any amount of memory.
                Ok(Err(error)) if !takes_more_memory(&error) => {
                    self.ended = true;
                    return Err(error);
                }
                _ => return self.begin_again()?.read(bytes),
            };
            self.ended = self.block.length == 0;
        }
        let n = bytes.len().min(self.block.length - self.at);
        bytes[..n].copy_from_slice(&self.block.bytes[self.at..self.at + n]);
        self.at += n;
        self.given += n as u64;
        Ok(n)
    }
}

#[cfg(all(test, feature = "containers"))]
mod tests {
    use std::io::Read;
    use std::sync::Arc;

    use super::{Ahead, BLOCK, InputPart, WAITING};

    fn packed(bytes: &[u8]) -> Vec<u8> {
        zstd::encode_all(bytes, 1).unwrap()
    }

    #[test]
    fn files_come_in_order_and_uncompressed_files_are_not_unpacked() {
        let directory = tempfile::tempdir().unwrap();
        let of = |i: usize| {
            (0..i * BLOCK / 2 + i)
                .map(|byte| (byte * 7 / 5 + i) as u8)
                .collect::<Vec<u8>>()
        };
        let parts: Vec<InputPart> = (0..7)
            .map(|i| {
                let path = directory.path().join(format!("{i}.mdf"));
                match i {
                    4 => {}
                    3 => std::fs::write(&path, of(i)).unwrap(),
                    _ => std::fs::write(&path, packed(&of(i))).unwrap(),
                }
                InputPart::file(path)
            })
            .collect();
        let (mut ahead, read) = (Ahead::new(3), Arc::default());
        for i in 0..parts.len() {
            let found = ahead.reach(&parts, i, &read);
            assert_eq!(found.is_some(), ![0, 3, 4].contains(&i), "file {i}");
            if let Some(mut opened) = found {
                let mut bytes = Vec::new();
                opened.input.read_to_end(&mut bytes).unwrap();
                assert_eq!(bytes, of(i), "file {i}");
                assert_eq!(opened.input.read(&mut [0; 9]).unwrap(), 0);
            }
        }
    }

    #[test]
    fn waiting_work_is_bounded_and_unwanted_work_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("zeros.zst");
        let zeros = vec![0; 2 * WAITING];
        std::fs::write(&path, packed(&zeros)).unwrap();
        let (mut ahead, parts) = (Ahead::new(2), vec![InputPart::file(path); 2]);
        let pool = ahead.blocks.clone();
        assert!(ahead.reach(&parts, 0, &Arc::default()).is_none());
        let mut opened = ahead.reach(&parts, 1, &Arc::default()).unwrap();
        let mut bytes = Vec::new();
        opened.input.read_to_end(&mut bytes).unwrap();
        assert!(bytes == zeros);
        drop(opened);
        // Half of the blocks for each file, one in the hands of either thread, and one more for a
        // race for the pool.
        assert!(
            pool.len() <= WAITING / BLOCK / 2 + 3,
            "{} blocks",
            pool.len()
        );
    }

    #[test]
    fn a_frame_that_takes_more_memory_waits_for_its_turn() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("long.zst");
        let bytes: Vec<u8> = (0..3 * BLOCK as u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 20) as u8)
            .collect();
        let mut encoder = zstd::Encoder::new(packed(&bytes), 1).unwrap();
        encoder.window_log(24).unwrap();
        std::io::Write::write_all(&mut encoder, &bytes).unwrap();
        std::fs::write(&path, encoder.finish().unwrap()).unwrap();
        let parts = vec![InputPart::file(path); 2];
        let mut ahead = Ahead::new(2);
        assert!(ahead.reach(&parts, 0, &Arc::default()).is_none());
        let (mut found, mut opened) =
            (Vec::new(), ahead.reach(&parts, 1, &Arc::default()).unwrap());
        opened.input.read_to_end(&mut found).unwrap();
        assert!(found == bytes.repeat(2));
    }

    #[test]
    fn every_reader_gets_the_same_bytes_of_a_damaged_stream() {
        let directory = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..7 * BLOCK as u32 / 2)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 20) as u8)
            .collect();
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.include_checksum(true).unwrap();
        std::io::Write::write_all(&mut encoder, &bytes).unwrap();
        let mut packed = encoder.finish().unwrap();
        let middle = packed.len() * 3 / 5;
        packed[middle..middle + 8]
            .iter_mut()
            .for_each(|byte| *byte ^= 0x5a);
        let path = directory.path().join("damaged.zst");
        std::fs::write(&path, &packed).unwrap();
        let parts = vec![InputPart::file(path); 2];
        let mut first: Option<Vec<u8>> = None;
        for at_once in [1 << 10, BLOCK, 2 * BLOCK, 8 * BLOCK] {
            let mut ahead = Ahead::new(2);
            assert!(ahead.reach(&parts, 0, &Arc::default()).is_none());
            let read = [
                ahead.reach(&parts, 1, &Arc::default()).unwrap(),
                parts[0].open(&Arc::default()).unwrap().0,
            ];
            for mut opened in read {
                let (mut found, mut more) = (Vec::<u8>::new(), vec![0; at_once]);
                let error = loop {
                    match opened.input.read(&mut more) {
                        Ok(n) => {
                            assert!(n > 0);
                            found.extend(&more[..n]);
                        }
                        Err(error) => break error,
                    }
                };
                assert!(error.to_string().contains("damaged"), "{error}");
                let first = first.get_or_insert_with(|| found.clone());
                assert!(
                    !found.is_empty() && found == *first,
                    "{} bytes, {at_once} at once",
                    found.len()
                );
            }
        }
    }
}

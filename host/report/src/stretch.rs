//! Successive events of a file: banks and numbers that an event shares with the previous one.
//!
//! Threads and machines sum parts of a file. The ends of a part stay in the sums, so that the last
//! event of one part can be compared with the first of the next, in whatever order parts are added.
//!
//! For example, three machines sum the events 0 to 999, 1000 to 1999 and 2000 to 2999 of a file.
//! Each keeps the hashes of the banks of its first and last event. When the sums are added, event
//! 999 meets event 1000, and the pair is compared as if one machine had read both. The parts may
//! arrive in any order: a stretch waits until its neighbour comes.

use super::bins::both;
use super::run::{BoardSum, RunView, Stretch};
use ut_data::detector::BankVersion;
use ut_data::hash;
use ut_data::input::{BankEntry, Origin, RawEvent, kind};
use ut_format::bank::{COUNT_BYTES, board_of};

/// Maximum number of stretches in sums: a selection can leave every event alone.
pub const MOST: usize = 4096;

/// Minimum number of strips of a bank to compare: banks with fewer may be equal by chance.
///
/// A bank with one hit has 3072 places for it (times the charge), so that a quiet board repeats one
/// by chance now and then.
const STRIPS: usize = 4;

/// Number of bytes of a bank to compare.
///
/// The first 128 bytes hold the first rows, with up to eight hits of each lane. A bank that agrees
/// there and in its length is the same bank.
const COMPARED: usize = 128;

/// Returns the hash of a bank with hits; 0 for one with few.
fn of_bank(payload: &[u8], version: BankVersion) -> u32 {
    let strips = match version {
        BankVersion::V5 => COUNT_BYTES
            .iter()
            .map(|&at| payload.get(at).map_or(0, |&n| usize::from(n)))
            .sum(),
        BankVersion::V4 => payload
            .first_chunk()
            .map_or(0, |&n| usize::from(u16::from_le_bytes(n))),
    };
    if strips < STRIPS {
        return 0;
    }
    let words = payload[..payload.len().min(COMPARED)].chunks_exact(8);
    let words = words.map(|word| {
        word.first_chunk()
            .map_or(0, |&word| u64::from_le_bytes(word))
    });
    (hash(words.chain([payload.len() as u64])) as u32).max(1)
}

impl RunView {
    /// Adds a stretch: joins it to the stretches before and after it.
    pub fn add_stretch(&mut self, mut new: Stretch) {
        let before = |new: &Stretch, of: &Stretch| {
            of.file == new.file && of.events.1.checked_add(1) == Some(new.events.0)
        };
        if let Some(at) = self.stretches.iter().position(|of| before(&new, of)) {
            let first = self.stretches.remove(at);
            new = self.joined(first, new);
        }
        if let Some(at) = self.stretches.iter().position(|of| before(of, &new)) {
            let last = self.stretches.remove(at);
            new = self.joined(new, last);
        }
        let at = self.stretches.partition_point(|of| *of < new);
        self.stretches.insert(at, new);
        self.stretches.truncate(MOST);
    }

    fn joined(&mut self, first: Stretch, second: Stretch) -> Stretch {
        let Stretch {
            file,
            events: (begin, _),
            number,
            runs: (run, of_first),
            head,
            tail,
        } = first;
        self.compare(&tail, of_first, &second.head, second.runs.0, second.number);
        Stretch {
            file,
            events: (begin, second.events.1),
            number,
            runs: (run, second.runs.1),
            head,
            tail: second.tail,
        }
    }

    /// Counts the banks of an event that repeat the previous event, and a change of the run.
    fn compare(
        &mut self,
        before: &[u32],
        run_before: Option<u32>,
        banks: &[u32],
        run: Option<u32>,
        number: Option<u64>,
    ) {
        self.run_changes += u64::from(
            run_before
                .zip(run)
                .is_some_and(|(before, run)| before != run),
        );
        for (board, (before, bank)) in before.iter().zip(banks).enumerate() {
            if *bank == 0 || before != bank || board >= self.boards.len() {
                continue;
            }
            self.add_to_board(
                Some(board as u32),
                number,
                BoardSum {
                    repeats: 1,
                    ..BoardSum::default()
                },
            );
        }
    }
}

/// Follows the events of a file.
#[derive(Debug)]
pub struct Follower {
    version: BankVersion,
    now: Option<(u32, Stretch)>,
    banks: Vec<u32>,
    done: Vec<Stretch>,
}

impl Follower {
    pub fn new(version: BankVersion, n_boards: usize) -> Self {
        Self {
            version,
            now: None,
            banks: vec![0; n_boards],
            done: Vec::new(),
        }
    }

    /// Adds the next event, and counts its banks in `view`.
    pub fn add(
        &mut self,
        view: &mut RunView,
        event: &RawEvent<'_>,
        origin: Origin,
        number: Option<u64>,
    ) {
        self.banks.fill(0);
        let decoded = |bank: &&BankEntry| kind::is_decoded(bank.kind);
        let (mut any, n) = (false, self.banks.len());
        let mut span = number.map(|number| view.spans.at(number));
        if let Some(span) = &mut span {
            span.boards.resize(n, BoardSum::default());
        }
        for bank in event.entries.iter().filter(decoded) {
            any = true;
            let Some(board) = board_of(bank.source_id)
                .map(|board| board as usize)
                .filter(|&board| board < n)
            else {
                continue;
            };
            let payload = event
                .data
                .get(bank.start..bank.start + bank.length)
                .unwrap_or_default();
            self.banks[board] = of_bank(payload, self.version);
            let sum = BoardSum {
                banks: 1,
                bytes: bank.length as u64,
                ..BoardSum::default()
            };
            view.boards[board] += &sum;
            if let Some(span) = &mut span {
                span.boards[board] += &sum;
            }
        }
        view.ut_events += u64::from(any);
        if let Some(span) = span {
            span.ut_events += u64::from(any);
            span.times = both(
                span.times,
                event
                    .odin
                    .and_then(|odin| odin.facts?.time)
                    .map(|time| (time, time)),
            );
        }
        match &mut self.now {
            Some((file, stretch))
                if *file == origin.file && stretch.events.1 + 1 == origin.event =>
            {
                view.compare(
                    &stretch.tail,
                    stretch.runs.1,
                    &self.banks,
                    event.run,
                    number,
                );
                (stretch.events.1, stretch.runs.1) = (origin.event, event.run);
                stretch.tail.clone_from(&self.banks);
            }
            _ => {
                self.done
                    .extend(self.now.take().map(|(_, stretch)| stretch));
                let name = event
                    .file
                    .file_name()
                    .unwrap_or(event.file.as_os_str())
                    .as_encoded_bytes();
                let stretch = Stretch {
                    file: hash(name.iter().map(|&byte| u64::from(byte))),
                    events: (origin.event, origin.event),
                    number,
                    runs: (event.run, event.run),
                    head: self.banks.clone(),
                    tail: self.banks.clone(),
                };
                self.now = Some((origin.file, stretch));
            }
        }
    }

    /// Returns the stretches since the last call.
    pub fn take(&mut self) -> Vec<Stretch> {
        self.done
            .extend(self.now.take().map(|(_, stretch)| stretch));
        std::mem::take(&mut self.done)
    }
}

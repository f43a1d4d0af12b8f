//! Troubles of an event with their bank, board and byte.
//!
//! Decoders count troubles by event, which costs them nothing. This walks through the banks of one
//! event again by the rows of `docs/policy.md`. Without a board table it knows boards by their
//! numbers alone, and no unconnected lanes.
//!
//! Its sums over an event agree with the decoders' counts, which a test compares. Here each trouble
//! also has its bank, its byte in the payload and, where it helps, details: which count stood
//! there, and how many bytes that count needs.

use ut_format::bank::COUNT_BYTES;
use ut_format::bank::board_of;

use ut_data::Count;
use ut_data::detector::{BankVersion, Boards, LANES_PER_BOARD, Lane};
use ut_data::input::{Bank, kind};

/// Boards of the two read-outs: ids 0…239 of format v4, of which 180 are in use, and 0…215 of
/// format v5.
const BOARDS: [(BankVersion, usize); 2] = [(BankVersion::V4, 240), (BankVersion::V5, 216)];

/// Trouble of a bank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BankTrouble {
    /// Kind of trouble; never [`Count::BrokenEvent`], which is of an event.
    pub count: Count,
    /// Count in the report: hits of `unconnected_hits`, else 1.
    pub n: u32,
    /// Place of the bank among those that were handed over.
    pub bank: usize,
    /// SourceID of the bank header.
    pub source_id: u32,
    /// Board, where the sourceID names one.
    pub board: Option<u32>,
    /// Lane, 0…5, of troubles of a lane.
    pub lane: Option<u8>,
    /// Byte of the payload with the trouble.
    pub byte: usize,
    /// Details, for a person; empty where the trouble's name says all.
    pub what: String,
}

/// Returns the meaning of a counter, in words.
pub const fn meaning(count: Count) -> &'static str {
    match count {
        Count::Banks => "banks decoded",
        Count::Strips => "strips read",
        Count::OtherTypes => "banks of other types, skipped",
        Count::ZeroChargeClusters => "clusters without charge, not made hits",
        Count::OversizedClusters => "clusters above the maximum size",
        Count::SurplusBanks => "more UT banks than boards, skipped",
        Count::WrongVersion => "banks of another version than the board table's, skipped",
        Count::UnknownBoard => "banks of boards that the board table does not have, skipped",
        Count::RepeatedBoard => "banks of a board that had sent one already, decoded",
        Count::Short => "banks too short for the hits they announce, without hits",
        Count::BadHeader => "banks with a lane count of 255, dropped",
        Count::Truncated => "banks shorter than their counts say, dropped",
        Count::UnconnectedHits => "hits on lanes that nothing is connected to, skipped",
        Count::UnsortedLanes => "lanes whose strips do not ascend, decoded",
        Count::BrokenEvent => "events given up before their end",
    }
}

#[derive(Clone, Copy, Debug)]
enum Rules<'a> {
    Table(&'a Boards),
    /// The format of banks whose version is not known.
    Format(Option<BankVersion>),
}

impl Rules<'_> {
    /// Returns the format of a bank; `None` where its version is wrong or unknown.
    fn version(self, bank: &Bank<'_>) -> Option<BankVersion> {
        match self {
            Self::Table(boards) => bank
                .version
                .is_none_or(|byte| byte == boards.version.byte())
                .then_some(boards.version),
            Self::Format(format) => bank.version.map_or(format, BankVersion::from_byte),
        }
    }

    fn n_boards(self, version: Option<BankVersion>) -> usize {
        match self {
            Self::Table(boards) => boards.n_boards(),
            Self::Format(_) => BOARDS
                .iter()
                .find(|(of, _)| Some(*of) == version)
                .map_or(BOARDS[0].1, |&(_, boards)| boards),
        }
    }

    /// Returns true if the board is in use.
    fn has(self, board: u32, version: BankVersion) -> bool {
        match self {
            Self::Table(boards) => boards
                .strips_per_hybrid
                .get(board as usize)
                .is_some_and(|&strips| strips != 0),
            Self::Format(_) => (board as usize) < self.n_boards(Some(version)),
        }
    }

    /// Returns true if a sensor is connected to a lane; a lane above 5 is none.
    fn is_connected(self, board: u32, lane: usize) -> bool {
        lane < LANES_PER_BOARD
            && match self {
                Self::Table(boards) => boards
                    .lanes
                    .get(board as usize * LANES_PER_BOARD + lane)
                    .is_some_and(Lane::is_connected),
                Self::Format(_) => true,
            }
    }
}

/// Finds the troubles of an event's banks by the board table of its detector, as every decoder
/// counts them.
pub fn troubles<'a>(
    boards: &Boards,
    banks: impl IntoIterator<Item = Bank<'a>>,
    found: impl FnMut(BankTrouble),
) {
    walk(Rules::Table(boards), banks, found);
}

/// Finds the troubles of banks of either format without a board table. Banks without a format are
/// taken as `format`, or skipped if there is none. Troubles that only a table shows are not found.
pub fn troubles_without_table<'a>(
    format: Option<BankVersion>,
    banks: impl IntoIterator<Item = Bank<'a>>,
    found: impl FnMut(BankTrouble),
) {
    walk(Rules::Format(format), banks, found);
}

fn walk<'a>(
    rules: Rules<'_>,
    banks: impl IntoIterator<Item = Bank<'a>>,
    mut found: impl FnMut(BankTrouble),
) {
    let mut ut_banks = 0;
    let mut seen: Vec<bool> = Vec::new();
    let decoded = banks
        .into_iter()
        .enumerate()
        .filter(|(_, bank)| kind::is_decoded(bank.kind));
    for (place, bank) in decoded {
        let board = board_of(bank.source_id);
        let mut tell = |count, n, lane: Option<usize>, byte, what: String| {
            let lane = lane.map(|lane| lane as u8);
            found(BankTrouble {
                count,
                n,
                bank: place,
                source_id: bank.source_id,
                board,
                lane,
                byte,
                what,
            });
        };
        let whole = None;
        let version = rules.version(&bank);
        ut_banks += 1;
        let n_boards = rules.n_boards(version);
        if ut_banks > n_boards {
            tell(
                Count::SurplusBanks,
                1,
                whole,
                0,
                format!("UT bank {ut_banks} of the event; there are {n_boards} boards"),
            );
            continue;
        }
        let Some(version) = version else {
            // Without a table and a version, the format is unknown, not wrong.
            if let Some(byte) = bank.version {
                tell(Count::WrongVersion, 1, whole, 0, format!("version {byte}"));
            }
            continue;
        };
        let Some(board) = board.filter(|&board| rules.has(board, version)) else {
            tell(
                Count::UnknownBoard,
                1,
                whole,
                0,
                format!("sourceID 0x{:04x}", bank.source_id),
            );
            continue;
        };
        let at = board as usize;
        if seen.len() <= at {
            seen.resize(at + 1, false);
        }
        if std::mem::replace(&mut seen[at], true) {
            tell(Count::RepeatedBoard, 1, whole, 0, String::new());
        }
        match version {
            BankVersion::V4 => v4(rules, board, bank.payload, &mut tell),
            BankVersion::V5 => v5(rules, board, bank.payload, &mut tell),
        }
    }
}

fn v4(
    rules: Rules<'_>,
    board: u32,
    payload: &[u8],
    tell: &mut impl FnMut(Count, u32, Option<usize>, usize, String),
) {
    const STRIPS_PER_HYBRID: usize = 512;
    let Some(n) = half_word(payload, 0).filter(|_| payload.len() >= 4) else {
        let what = format!("{} bytes; the header takes 4", payload.len());
        return tell(Count::Truncated, 1, None, payload.len(), what);
    };
    let needed = 4 + 2 * n;
    if payload.len() < needed {
        let what = format!(
            "{n} clusters need {needed} bytes, there are {}",
            payload.len()
        );
        return tell(Count::Truncated, 1, None, payload.len(), what);
    }
    let per_hybrid = match rules {
        Rules::Table(boards) => boards.strips_per_hybrid[board as usize] as usize,
        Rules::Format(_) => STRIPS_PER_HYBRID,
    };
    let mut unconnected = [(0u32, 0); 8];
    for i in 0..n {
        let lane =
            (half_word(payload, 4 + 2 * i).unwrap_or_default() >> 2 & 0xFFF) / per_hybrid.max(1);
        if !rules.is_connected(board, lane) {
            // Channels go up to 4095: with 512 strips per hybrid, 7 is the last.
            let (count, first) = &mut unconnected[lane.min(7)];
            if *count == 0 {
                *first = 4 + 2 * i;
            }
            *count += 1;
        }
    }
    for (lane, (count, first)) in unconnected
        .into_iter()
        .enumerate()
        .filter(|(_, (count, _))| *count > 0)
    {
        tell(
            Count::UnconnectedHits,
            count,
            Some(lane),
            first,
            format!("{count} clusters on hybrid {lane}"),
        );
    }
}

fn v5(
    rules: Rules<'_>,
    board: u32,
    payload: &[u8],
    tell: &mut impl FnMut(Count, u32, Option<usize>, usize, String),
) {
    let counts = COUNT_BYTES.map(|at| payload.get(at).map_or(0, |&n| usize::from(n)));
    let most = counts.into_iter().max().unwrap_or_default();
    if payload.len() < 24 {
        if most > 0 {
            let what = format!(
                "{} bytes, and {most} hits in a lane announced",
                payload.len()
            );
            tell(Count::Short, 1, None, payload.len(), what);
        }
        return;
    }
    if let Some(lane) = counts.iter().position(|&n| n == 255) {
        return tell(
            Count::BadHeader,
            1,
            Some(lane),
            COUNT_BYTES[lane],
            "a count of 255".to_owned(),
        );
    }
    let needed = 32 * most.div_ceil(2);
    if payload.len() < needed {
        let what = format!(
            "{most} hits in a lane need {needed} bytes, there are {}",
            payload.len()
        );
        return tell(Count::Truncated, 1, None, payload.len(), what);
    }
    for (lane, &n) in counts.iter().enumerate().filter(|(_, n)| **n > 0) {
        if !rules.is_connected(board, lane) {
            let what = format!("{n} hits");
            tell(
                Count::UnconnectedHits,
                n as u32,
                Some(lane),
                COUNT_BYTES[lane],
                what,
            );
            continue;
        }
        let byte =
            |hit: usize| 8 + 2 * (16 * (hit / 2) + 2 * (LANES_PER_BOARD - 1 - lane) + hit % 2);
        let strip = |hit: usize| half_word(payload, byte(hit)).unwrap_or_default() >> 5 & 0x1FF;
        if let Some(hit) = (1..n).find(|&hit| strip(hit - 1) >= strip(hit)) {
            let what = format!("strip {} after {}", strip(hit), strip(hit - 1));
            tell(Count::UnsortedLanes, 1, Some(lane), byte(hit), what);
        }
    }
}

fn half_word(bytes: &[u8], at: usize) -> Option<usize> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|&word| usize::from(u16::from_le_bytes(word)))
}

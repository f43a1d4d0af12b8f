//! Strips whose hits are left out, from a text file (`docs/tables.md`).
//!
//! A mask works on hits, after decoding: a bit for each strip of the detector is all that it needs, every backend and
//! option gives the same, and the report still says what the data hold.

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::memory::read_text;
use ut_kernels::bank::board_of;
use ut_kernels::detector::LANES_PER_BOARD;

use super::{BankVersion, DetectorTables, LhcbId, N_SECTORS, STRIPS_PER_SECTOR, SUB_SECTOR_BIT, Slot};

/// ChannelIDs of the UT have 23 bits.
const CHANNELS: usize = 1 << 23;

/// Bytes of the largest mask: one that names each strip of the detector by itself takes some 10 MB.
const LARGEST: u64 = 32 << 20;

/// Strips whose hits are left out.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Mask {
    /// One bit per ChannelID.
    bits: Vec<u64>,
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mask of {} strips", self.n_strips())
    }
}

/// Reason that a file is not a mask.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says it; lines count from 1")]
pub enum MaskError {
    #[error("cannot read {}", file.display())]
    Read { file: PathBuf, source: std::io::Error },
    #[error("{}, line {line}: {what}", file.display())]
    Line { file: PathBuf, line: usize, what: String },
}

impl Mask {
    /// Reads a mask for the detector of `tables`.
    pub fn read(path: impl AsRef<Path>, tables: &DetectorTables) -> Result<Self, MaskError> {
        let file = path.as_ref();
        let text = std::fs::File::open(file)
            .and_then(|text| read_text(text, LARGEST))
            .map_err(|source| MaskError::Read { file: file.to_path_buf(), source })?;
        let error = |(line, what)| MaskError::Line { file: file.to_path_buf(), line, what };
        Self::parse(&text, tables).map_err(error)
    }

    /// Reads the text of a mask; the error is the line, from 1, that names nothing of this detector, and the reason.
    pub fn parse(text: &str, tables: &DetectorTables) -> Result<Self, (usize, String)> {
        let mut named = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            add(&words, tables, &mut named).map_err(|what| (i + 1, what))?;
        }
        Ok(Self::of(named))
    }

    /// The mask as bytes, which differ between masks of different strips.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.bits.iter().flat_map(|bits| bits.to_le_bytes()).collect()
    }

    /// Strips of the mask.
    pub fn n_strips(&self) -> u64 {
        self.bits.iter().map(|bits| u64::from(bits.count_ones())).sum()
    }

    /// Returns true if hits with this LHCbID are left out.
    pub fn contains(&self, lhcb_id: u32) -> bool {
        let (id, channel) = (LhcbId(lhcb_id), LhcbId(lhcb_id).channel().0);
        id.is_ut() && self.bits.get(channel as usize / 64).is_some_and(|bits| bits >> (channel % 64) & 1 != 0)
    }

    /// Makes the mask of these ChannelIDs. Each strip is set once, however many ranges name it.
    fn of(mut named: Vec<Range<u64>>) -> Self {
        let mut mask = Self { bits: vec![0; CHANNELS / 64] };
        named.sort_unstable_by_key(|channels| channels.start);
        let mut done = 0;
        for channels in named {
            for channel in channels.start.max(done)..channels.end {
                mask.bits[channel as usize / 64] |= 1 << (channel % 64);
            }
            done = done.max(channels.end);
        }
        mask
    }
}

/// Adds the ChannelIDs that a line names.
fn add(words: &[&str], tables: &DetectorTables, named: &mut Vec<Range<u64>>) -> Result<(), String> {
    match *words {
        [] => Ok(()),
        ["board", source_id] => {
            let board = board(source_id, tables)?;
            let lanes = (0..LANES_PER_BOARD).filter_map(|lane| channels_of(board, lane, tables));
            named.extend(lanes);
            Ok(())
        }
        ["board", source_id, "lane", lane] => {
            let board = board(source_id, tables)?;
            let n = number(lane)?;
            let channels = (n < LANES_PER_BOARD as u32).then(|| channels_of(board, n as usize, tables)).flatten();
            named.push(channels.ok_or(format!("nothing is connected to lane {lane} of board {source_id}"))?);
            Ok(())
        }
        ["sector", sector] => add_sector(sector, "0-511", tables, named),
        ["sector", sector, "strips", strips] => add_sector(sector, strips, tables, named),
        ["lhcbid", ids] => {
            for ids in ranges(ids, u32::MAX) {
                let ids = ids?;
                let [first, last] = [ids.start, ids.end - 1].map(|id| LhcbId(id as u32));
                let [from, to] = [first, last].map(|id| id.channel().0);
                if !first.is_ut() || !last.is_ut() || to >= CHANNELS as u32 {
                    return Err(format!("0x{:x} to 0x{:x} are not LHCbIDs of the UT's strips", first.0, last.0));
                }
                let channels = u64::from(from)..u64::from(to) + 1;
                let is_read = |slot: &Slot| {
                    let base = u64::from(slot.chan_id & !(STRIPS_PER_SECTOR - 1));
                    slot.chan_id != 0 && base < channels.end && channels.start < base + u64::from(STRIPS_PER_SECTOR)
                };
                if !tables.slots().iter().any(is_read) {
                    return Err(format!("no lane of the board table reads 0x{:x} to 0x{:x}", first.0, last.0));
                }
                named.push(channels);
            }
            Ok(())
        }
        _ => Err("a line is `board SOURCEID`, `board SOURCEID lane N`, `sector N`, `sector N strips LIST` or \
                  `lhcbid LIST`"
            .to_owned()),
    }
}

fn add_sector(sector: &str, strips: &str, tables: &DetectorTables, named: &mut Vec<Range<u64>>) -> Result<(), String> {
    let n = number(sector)?;
    if n as usize >= N_SECTORS {
        return Err(format!("there is no sector {sector}; the ids are 0 to {}", N_SECTORS - 1));
    }
    let slot = tables.slots().iter().find(|slot| slot.chan_id != 0 && u32::from(slot.sector) == n);
    let base = slot.ok_or_else(|| format!("no lane of the board table reads sector {sector}"))?.chan_id
        & !(STRIPS_PER_SECTOR - 1);
    for strips in ranges(strips, STRIPS_PER_SECTOR - 1) {
        let strips = strips?;
        named.push(u64::from(base) + strips.start..u64::from(base) + strips.end);
    }
    Ok(())
}

fn number(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("{text:?} is not a number"))
}

/// Parses numbers up to `most` in ranges with both ends, as `3,10-20`.
fn ranges(text: &str, most: u32) -> impl Iterator<Item = Result<Range<u64>, String>> {
    let range = move |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if last < first {
            return Err(format!("{part:?} ends before it begins"));
        }
        if last > most {
            return Err(format!("{last} is beyond {most}"));
        }
        Ok(u64::from(first)..u64::from(last) + 1)
    };
    text.split(',').map(range)
}

/// The board with a sourceID, by its place in the table.
fn board(source_id: &str, tables: &DetectorTables) -> Result<usize, String> {
    let boards = tables.boards();
    let board = board_of(number(source_id)?).map(|board| board as usize);
    board
        .filter(|&board| boards.strips_per_hybrid.get(board).is_some_and(|&strips| strips != 0))
        .ok_or_else(|| format!("no board of the board table has sourceID {source_id}"))
}

/// The ChannelIDs that a lane reads; `None` where nothing is connected.
fn channels_of(board: usize, lane: usize, tables: &DetectorTables) -> Option<Range<u64>> {
    let sector_of = |channel: u32| channel & !(STRIPS_PER_SECTOR - 1);
    let place = board * LANES_PER_BOARD + lane;
    let channel = tables.slots().get(place)?.chan_id;
    if channel == 0 {
        return None;
    }
    let base = u64::from(sector_of(channel));
    let (half, all) = (u64::from(SUB_SECTOR_BIT), u64::from(STRIPS_PER_SECTOR));
    // A lane reads half of its sector only if another lane reads the other half. A table may also name the same half twice, or
    // put the other half on a board that is off: then the lane has the whole sector.
    let has_other_half = |(other, slot): (usize, &Slot)| {
        slot.chan_id != 0
            && sector_of(slot.chan_id) == sector_of(channel)
            && (slot.chan_id ^ channel) & SUB_SECTOR_BIT != 0
            && tables.boards().strips_per_hybrid[other / LANES_PER_BOARD] != 0
    };
    let shared = tables.boards().version == BankVersion::V5 && tables.slots().iter().enumerate().any(has_other_half);
    Some(match (shared, channel & SUB_SECTOR_BIT != 0) {
        (false, _) => base..base + all,
        (true, false) => base..base + half,
        (true, true) => base + half..base + all,
    })
}

#[cfg(test)]
mod tests {
    use super::Mask;
    use crate::detector::{
        BankVersion, Boards, DetectorTables, Geometry, Grouping, Lane, N_SECTORS, Sector, sector_id,
    };

    /// Board 0 reads sector `A` on lane 0 and the halves of `B` on lanes 1 and 2; board 1 reads sector `A`'s neighbour.
    fn tables() -> (DetectorTables, [Lane; 3]) {
        changed(|_| ())
    }

    fn changed(change: impl Fn(&mut Boards)) -> (DetectorTables, [Lane; 3]) {
        let lane = |module, sector| {
            let lane = Lane { module, sector, stave: 3, layer: 1, side: 1, kind: 2, ..Lane::default() };
            Lane { chan_id: lane.channel(), ..lane }
        };
        let [a, b, c] = [lane(1, 0), lane(5, 0), lane(2, 0)];
        let mut lanes = vec![Lane::default(); 12];
        lanes[0] = a;
        lanes[1] = b;
        lanes[2] = Lane { chan_id: b.chan_id | 256, ..b };
        lanes[6] = c;
        let mut boards = Boards { version: BankVersion::V5, strips_per_hybrid: vec![512; 2], lanes };
        change(&mut boards);
        let sector = Sector { pitch: 0.1, dy: 1.0, ..Sector::default() };
        let geometry = Geometry { version: 1, sectors: vec![sector; N_SECTORS] };
        (DetectorTables::trusting(boards, geometry, Grouping::YRows).unwrap(), [a, b, c])
    }

    fn masked(text: &str) -> Vec<(usize, u32)> {
        let (tables, lanes) = tables();
        let mask = Mask::parse(text, &tables).unwrap();
        let ids =
            lanes.iter().enumerate().flat_map(|(i, lane)| (0..512).map(move |s| (i, s, 3 << 28 | (lane.chan_id + s))));
        let found: Vec<_> = ids.filter(|&(_, _, id)| mask.contains(id)).map(|(i, s, _)| (i, s)).collect();
        assert_eq!(mask.n_strips(), found.len() as u64, "{text}");
        found
    }

    #[test]
    fn boards_lanes_sectors_strips_and_ids_mask_what_they_name() {
        let (_, lanes) = tables();
        let all = |i| (0..512).map(move |s| (i, s));
        let sector = sector_id(&lanes[2]).unwrap();
        let id = 3 << 28 | lanes[0].chan_id;
        for (text, expected) in [
            (String::new(), vec![]),
            ("# nothing\n\n   # nor here".to_owned(), vec![]),
            ("board 0x2801".to_owned(), all(0).chain(all(1)).collect()),
            ("board 0".to_owned(), all(0).chain(all(1)).collect()),
            ("board 0x2801 lane 0 # all of a sector".to_owned(), all(0).collect()),
            ("board 0x2801 lane 1".to_owned(), (0..256).map(|s| (1, s)).collect()),
            ("board 0x2801 lane 2".to_owned(), (256..512).map(|s| (1, s)).collect()),
            (format!("sector {sector}"), all(2).collect()),
            (format!("sector {sector} strips 511,3-5,4"), vec![(2, 3), (2, 4), (2, 5), (2, 511)]),
            (format!("lhcbid {id}-{},0x{:x}", id + 1, id + 9), vec![(0, 0), (0, 1), (0, 9)]),
            (format!("sector {sector} strips 1\r\nlhcbid {id}"), vec![(0, 0), (2, 1)]),
        ] {
            assert_eq!(masked(&text), expected, "{text}");
        }
    }

    #[test]
    fn strips_that_many_lines_name_are_set_once() {
        let (tables, _) = tables();
        // All channels of the detector, and all but the first: bit by bit, it would take hours.
        let mask = "lhcbid 0x30000000-0x307fffff\nlhcbid 0x30000001-0x307fffff\n".repeat(50_000);
        assert_eq!(Mask::parse(&mask, &tables).unwrap().n_strips(), 1 << 23);
        let (line, _) = Mask::parse(&format!("{mask}board 9"), &tables).unwrap_err();
        assert_eq!(line, 100_001);
    }

    #[test]
    fn ids_of_other_detectors_are_not_masked_and_a_range_may_begin_and_end_between_sectors() {
        let (tables, lanes) = tables();
        let id = 3 << 28 | lanes[0].chan_id;
        let mask = Mask::parse(&format!("lhcbid {}-{id},{}-{}", id - 9, id + 511, id + 520), &tables).unwrap();
        assert!(mask.contains(id) && mask.contains(id + 511) && !mask.contains(id + 1));
        assert!(!mask.contains(id & 0x0FFF_FFFF) && !mask.contains(id | 1 << 30));
        for nothing in [format!("lhcbid {}-{}", id - 9, id - 1), format!("lhcbid {}-{}", id + 512, id + 520)] {
            assert!(Mask::parse(&nothing, &tables).is_err(), "{nothing}");
        }
    }

    #[test]
    fn a_board_that_is_off_cannot_be_masked_and_v4_lanes_never_share_a_sector() {
        let (tables, _) = changed(|boards| boards.strips_per_hybrid[1] = 0);
        let (line, message) = Mask::parse("board 0\nboard 1", &tables).unwrap_err();
        assert!(line == 2 && message.contains("no board"), "{message}");
        let (tables, _) = changed(|boards| {
            boards.version = BankVersion::V4;
            boards.lanes[2] = Lane::default();
            boards.lanes[7] = boards.lanes[0];
        });
        assert_eq!(Mask::parse("board 0 lane 0", &tables).unwrap().n_strips(), 512);
    }

    #[test]
    fn a_lane_has_half_a_sector_only_if_a_board_in_use_reads_the_other_half() {
        let strips = |change: &dyn Fn(&mut Boards), line| {
            let (tables, _) = changed(change);
            Mask::parse(line, &tables).unwrap().n_strips()
        };
        let same_again = |boards: &mut Boards| boards.lanes[7] = boards.lanes[0];
        assert_eq!(strips(&same_again, "board 0 lane 0"), 512);
        assert_eq!(strips(&same_again, "board 1 lane 1"), 512);
        let other_half = |boards: &mut Boards| {
            boards.lanes[7] = Lane { chan_id: boards.lanes[0].chan_id | 256, ..boards.lanes[0] };
        };
        assert_eq!(strips(&other_half, "board 0 lane 0"), 256);
        let off = |boards: &mut Boards| {
            other_half(boards);
            boards.strips_per_hybrid[1] = 0;
        };
        assert_eq!(strips(&off, "board 0 lane 0"), 512);
    }

    #[test]
    fn what_the_detector_does_not_have_is_an_error_with_its_line() {
        let (tables, _) = tables();
        for (line, what) in [
            ("bord 1", "a line is"),
            ("board 0x2801 lane", "a line is"),
            ("board 0x2802", "no board"),
            ("board 5", "no board"),
            ("board x", "is not a number"),
            ("board 0 lane 3", "nothing is connected to lane 3"),
            ("board 0 lane 6", "nothing is connected to lane 6"),
            ("sector 1048", "no sector 1048"),
            ("sector 0", "no lane"),
            ("sector 0 strips", "a line is"),
            ("lhcbid 1", "not LHCbIDs of the UT"),
            ("lhcbid 0x3fffffff", "not LHCbIDs of the UT"),
            ("lhcbid 0x30000000-4294967295", "not LHCbIDs of the UT"),
            ("lhcbid 4294967296", "is not a number"),
            // Bits 21 and 22 are 2 in every channel of the UT.
            ("lhcbid 0x30001234", "no lane of the board table reads 0x30001234 to 0x30001234"),
            ("lhcbid 0x30000000-0x303fffff,0x30400000-0x305fffff", "no lane"),
        ] {
            let (at, message) = Mask::parse(&format!("\n# fine\n{line}\n"), &tables).unwrap_err();
            assert!(at == 3 && message.contains(what), "{line}: {message}");
        }
        let (_, lanes) = self::tables();
        let sector = sector_id(&lanes[0]).unwrap();
        for (strips, what) in [("512", "beyond 511"), ("5-3", "ends before it begins"), ("1,", "is not a number")] {
            let (_, message) = Mask::parse(&format!("sector {sector} strips {strips}"), &tables).unwrap_err();
            assert!(message.contains(what), "{message}");
        }
    }
}

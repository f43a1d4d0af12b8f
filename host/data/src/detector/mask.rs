//! Strips whose hits are left out, from a text file (`docs/tables.md`).
//!
//! A mask removes hits after decoding. It needs one bit per strip of the detector, works the same
//! for every backend and option, and leaves the report an account of the data as they are.
//!
//! The bits are indexed by `ChannelID`: 2²³ bits, 1 MiB, for the 536,576 strips. An index by sector
//! and strip would be smaller, but a hit carries its LHCbID, and this way the test of a hit is one
//! shift and one look-up.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use crate::error_kind::ErrorKind;
use crate::memory::read_text;
use ut_format::bank::board_of;

use super::{Connection, DetectorTables, LhcbId, N_SECTORS, STRIPS_PER_SECTOR};

/// Number of ChannelIDs, which have 23 bits.
const CHANNELS: usize = 1 << 23;

/// Maximum size of a mask file in bytes. A file that names every strip by itself takes some 10 MB.
const LARGEST: u64 = 32 << 20;

/// Strips whose hits are left out.
///
/// ```no_run
/// use ut_data::detector::Mask;
/// use ut_data::{DetectorTables, Grouping};
///
/// let tables = DetectorTables::read("ut_boards.bin", "ut_geometry.bin", Grouping::YRows)?;
/// let mask = Mask::parse("sector 17 strips 0-3,511 # noisy", &tables).expect("a good mask");
/// assert_eq!(mask.n_strips(), 5);
/// // After decoding: hits.retain(|id| !mask.contains(id))
/// # Ok::<(), ut_data::TablesError>(())
/// ```
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
#[non_exhaustive]
pub enum MaskError {
    #[error("cannot read {}", file.display())]
    Read {
        file: PathBuf,
        source: std::io::Error,
    },
    #[error("{}, line {line}: {what}", file.display())]
    Line {
        file: PathBuf,
        line: usize,
        what: String,
    },
}

impl MaskError {
    /// Returns the kind: [`ErrorKind::File`] or [`ErrorKind::Tables`].
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Read { .. } => ErrorKind::File,
            Self::Line { .. } => ErrorKind::Tables,
        }
    }
}

impl Mask {
    /// Reads a mask for the detector of `tables`.
    pub fn read(path: impl AsRef<Path>, tables: &DetectorTables) -> Result<Self, MaskError> {
        let file = path.as_ref();
        let text = std::fs::File::open(file)
            .and_then(|text| read_text(text, LARGEST))
            .map_err(|source| MaskError::Read {
                file: file.to_path_buf(),
                source,
            })?;
        let error = |(line, what)| MaskError::Line {
            file: file.to_path_buf(),
            line,
            what,
        };
        Self::parse(&text, tables).map_err(error)
    }

    /// Reads the text of a mask.
    ///
    /// # Errors
    /// If a line is malformed, or names something that the detector does not have: the number of
    /// the line, from 1, and the reason.
    pub fn parse(text: &str, tables: &DetectorTables) -> Result<Self, (usize, String)> {
        let mut mask = Self {
            bits: vec![0; CHANNELS / 64],
        };
        for (i, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            mask.add(&words, tables).map_err(|what| (i + 1, what))?;
        }
        Ok(mask)
    }

    /// Returns the mask as bytes. Masks of different strips have different bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.bits
            .iter()
            .flat_map(|bits| bits.to_le_bytes())
            .collect()
    }

    /// Returns the number of strips in the mask.
    pub fn n_strips(&self) -> u64 {
        self.bits
            .iter()
            .map(|bits| u64::from(bits.count_ones()))
            .sum()
    }

    /// Returns true if hits with this LHCbID are left out.
    pub fn contains(&self, lhcb_id: u32) -> bool {
        let (id, channel) = (LhcbId(lhcb_id), LhcbId(lhcb_id).channel().0);
        id.is_ut()
            && self
                .bits
                .get(channel as usize / 64)
                .is_some_and(|bits| bits >> (channel % 64) & 1 != 0)
    }

    /// Adds the strips that a line names.
    fn add(&mut self, words: &[&str], tables: &DetectorTables) -> Result<(), String> {
        match *words {
            [] => {}
            ["board", source_id] => {
                let board = board(source_id, tables)?;
                let connections = tables
                    .connections()
                    .filter(|of| usize::from(of.lane.board) == board);
                connections.for_each(|of| self.set(of.sector, of.strips.0..=of.strips.1, tables));
            }
            ["board", source_id, "lane", lane] => {
                let (board, n) = (board(source_id, tables)?, number(lane)?);
                let is_named = |of: &Connection| {
                    usize::from(of.lane.board) == board && u32::from(of.lane.lane) == n
                };
                let of = tables.connections().find(is_named);
                let of = of.ok_or_else(|| {
                    format!("nothing is connected to lane {lane} of board {source_id}")
                })?;
                self.set(of.sector, of.strips.0..=of.strips.1, tables);
            }
            ["sector", sector] => self.set(read_sector(sector, tables)?, 0..=511, tables),
            ["sector", sector, "strips", strips] => {
                let sector = read_sector(sector, tables)?;
                strips.split(',').try_for_each(|part| {
                    range(part).map(|strips| self.set(sector, strips, tables))
                })?;
            }
            _ => {
                let forms = "`board SOURCEID`, `board SOURCEID lane N`, `sector N` or `sector N strips LIST`";
                return Err(format!("a line is {forms}"));
            }
        }
        Ok(())
    }

    fn set(&mut self, sector: u16, strips: RangeInclusive<u16>, tables: &DetectorTables) {
        let base = tables.places()[usize::from(sector)].channel.0 as usize;
        for channel in strips.map(|strip| base + usize::from(strip)) {
            self.bits[channel / 64] |= 1 << (channel % 64);
        }
    }
}

/// Reads the id of a sector, `531` or `0x213`.
///
/// # Errors
/// If the text is wrong; the error says what.
pub fn parse_sector(text: &str) -> Result<u16, String> {
    match number(text)? {
        n if (n as usize) < N_SECTORS => Ok(n as u16),
        _ => Err(format!(
            "there is no sector {text}; the ids are 0 to {}",
            N_SECTORS - 1
        )),
    }
}

/// Reads a sector id, which must belong to a sector that a lane reads.
fn read_sector(text: &str, tables: &DetectorTables) -> Result<u16, String> {
    let sector = parse_sector(text)?;
    if tables.places()[usize::from(sector)].lanes == [None; 2] {
        return Err(format!("no lane of the board table reads sector {text}"));
    }
    Ok(sector)
}

fn number(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("{text:?} is not a number"))
}

/// Parses a strip, or a range of strips with both ends, as `10-20`.
fn range(part: &str) -> Result<RangeInclusive<u16>, String> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    let (first, last) = (number(first)?, number(last)?);
    if last < first {
        return Err(format!("{part:?} ends before it begins"));
    }
    if last >= STRIPS_PER_SECTOR {
        return Err(format!("{last} is beyond {}", STRIPS_PER_SECTOR - 1));
    }
    Ok(first as u16..=last as u16)
}

/// Reads the number of a board, or its sourceID, which is larger: `3` or `0x2c02` (in
/// `docs/format.md`, "From sourceID to board").
///
/// ```
/// use ut_data::detector::parse_board;
///
/// assert_eq!((parse_board("3"), parse_board("0x2c02"), parse_board("11266")), (Ok(3), Ok(3), Ok(3)));
/// assert!(parse_board("0x2800").is_err());
/// ```
///
/// # Errors
/// If the text is wrong; the error says what.
pub fn parse_board(text: &str) -> Result<u32, String> {
    board_of(number(text)?).ok_or_else(|| format!("no board has sourceID {text}"))
}

/// Reads a board that the tables have.
fn board(text: &str, tables: &DetectorTables) -> Result<usize, String> {
    let board = parse_board(text)? as usize;
    let strips = tables.boards().strips_per_hybrid.get(board);
    if strips.is_some_and(|&strips| strips != 0) {
        Ok(board)
    } else {
        Err(format!("no board of the board table has sourceID {text}"))
    }
}

#[cfg(test)]
mod tests {
    use super::Mask;
    use crate::detector::{
        BankVersion, Boards, DetectorTables, Geometry, Grouping, Lane, N_SECTORS, Sector, sector_id,
    };

    /// Board 0 reads sector `A` on lane 0 and the halves of `B` on lanes 1 and 2; board 1 reads
    /// sector `A`'s neighbour.
    fn tables() -> (DetectorTables, [Lane; 3]) {
        changed(|_| ())
    }

    fn changed(change: impl Fn(&mut Boards)) -> (DetectorTables, [Lane; 3]) {
        let lane = |module, sector| {
            let lane = Lane {
                module,
                sector,
                stave: 3,
                layer: 1,
                side: 1,
                kind: 2,
                ..Lane::default()
            };
            Lane {
                chan_id: lane.channel(),
                ..lane
            }
        };
        let [a, b, c] = [lane(1, 0), lane(5, 0), lane(2, 0)];
        let mut lanes = vec![Lane::default(); 12];
        lanes[0] = a;
        lanes[1] = b;
        lanes[2] = Lane {
            chan_id: b.chan_id | 256,
            ..b
        };
        lanes[6] = c;
        let mut boards = Boards {
            version: BankVersion::V5,
            strips_per_hybrid: vec![512; 2],
            lanes,
        };
        change(&mut boards);
        let sector = Sector {
            pitch: 0.1,
            dy: 1.0,
            ..Sector::default()
        };
        let geometry = Geometry {
            version: 1,
            sectors: vec![sector; N_SECTORS],
        };
        (
            DetectorTables::trusting(boards, geometry, Grouping::YRows).unwrap(),
            [a, b, c],
        )
    }

    fn masked(text: &str) -> Vec<(usize, u32)> {
        let (tables, lanes) = tables();
        let mask = Mask::parse(text, &tables).unwrap();
        let ids = lanes
            .iter()
            .enumerate()
            .flat_map(|(i, lane)| (0..512).map(move |s| (i, s, 3 << 28 | (lane.chan_id + s))));
        let found: Vec<_> = ids
            .filter(|&(_, _, id)| mask.contains(id))
            .map(|(i, s, _)| (i, s))
            .collect();
        assert_eq!(mask.n_strips(), found.len() as u64, "{text}");
        found
    }

    #[test]
    fn boards_lanes_sectors_and_strips_are_masked() {
        let (_, lanes) = tables();
        let all = |i| (0..512).map(move |s| (i, s));
        let sector = sector_id(&lanes[2]).unwrap();
        for (text, expected) in [
            (String::new(), vec![]),
            ("# nothing\n\n   # nor here".to_owned(), vec![]),
            ("board 0x2801".to_owned(), all(0).chain(all(1)).collect()),
            ("board 0".to_owned(), all(0).chain(all(1)).collect()),
            (
                "board 0x2801 lane 0 # all of a sector".to_owned(),
                all(0).collect(),
            ),
            (
                "board 0x2801 lane 1".to_owned(),
                (0..256).map(|s| (1, s)).collect(),
            ),
            (
                "board 0x2801 lane 2".to_owned(),
                (256..512).map(|s| (1, s)).collect(),
            ),
            (format!("sector {sector}"), all(2).collect()),
            (
                format!("sector {sector} strips 511,3-5,4"),
                vec![(2, 3), (2, 4), (2, 5), (2, 511)],
            ),
            (
                format!("sector {sector} strips 1\r\nsector 0x{sector:x} strips 7"),
                vec![(2, 1), (2, 7)],
            ),
        ] {
            assert_eq!(masked(&text), expected, "{text}");
        }
    }

    #[test]
    fn a_disabled_board_cannot_be_masked_and_v4_lanes_never_share_a_sector() {
        let (tables, _) = changed(|boards| boards.strips_per_hybrid[1] = 0);
        let (line, message) = Mask::parse("board 0\nboard 1", &tables).unwrap_err();
        assert!(line == 2 && message.contains("no board"), "{message}");
        let (tables, _) = changed(|boards| {
            boards.version = BankVersion::V4;
            boards.lanes[2] = Lane::default();
            boards.lanes[7] = boards.lanes[0];
        });
        assert_eq!(
            Mask::parse("board 0 lane 0", &tables).unwrap().n_strips(),
            512
        );
    }

    #[test]
    fn unknown_parts_of_the_detector_are_an_error_with_the_line() {
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
            ("sector 4294967296", "is not a number"),
        ] {
            let (at, message) = Mask::parse(&format!("\n# fine\n{line}\n"), &tables).unwrap_err();
            assert!(at == 3 && message.contains(what), "{line}: {message}");
        }
        let (_, lanes) = self::tables();
        let sector = sector_id(&lanes[0]).unwrap();
        for (strips, what) in [
            ("512", "beyond 511"),
            ("5-3", "ends before it begins"),
            ("1,", "is not a number"),
        ] {
            let (_, message) =
                Mask::parse(&format!("sector {sector} strips {strips}"), &tables).unwrap_err();
            assert!(message.contains(what), "{message}");
        }
    }
}

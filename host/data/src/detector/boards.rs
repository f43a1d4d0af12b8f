//! The boards file: the sector that each lane of each board reads (`docs/format.md`, "Boards
//! file").
//!
//! All words are u32, little endian: `n_boards, version, stripsPerHybrid[n]`, then eight arrays of
//! `6 n` words, one word per lane slot. A slot that nothing is connected to is all zeros.
//!
//! A table of `n` boards has `8 + 4 n + 192 n` bytes: 42,344 with the 216 boards of v5, and 47,048
//! with the 240 board numbers of v4. A lane's fields and its `chanID` say the same in two ways, and
//! validation compares them: where they differ, the file is damaged or its writer had another
//! layout in mind, and every LHCbID of the lane would be suspect.

use std::path::Path;

use ut_format::detector::{BankVersion, LANES_PER_BOARD, Lane};

use super::error::{TablesError, check_length, header_word, read_file, word, write_file};
use super::file_layout::{BOARDS, BOARDS_HEADER, LANE_ARRAYS, MAX_BOARDS, check_kind, lane_offset};
use super::{STRIPS_PER_SECTOR, sector_id};

/// Bit 8 of a `ChannelID`: the second half-sector, on v5 lanes that read out 256 strips.
///
/// Only the table marks the half. Hit words of such a lane count strips from the beginning of the
/// whole sector, so decoders clear the strip bits of `chanID` before they add a strip. Otherwise
/// 256 would be added twice, and the sum would carry into the bit of the sector.
pub(crate) const SUB_SECTOR_BIT: u32 = 1 << 8;

/// Detector type of the UT in `ChannelID`.
const UT: u32 = 2;

/// Returns the fields of a lane, in the order of [`LANE_ARRAYS`].
fn words(lane: &Lane) -> [u32; LANE_ARRAYS.len()] {
    bytemuck::cast(*lane)
}

/// Contents of a boards file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boards {
    /// Format of the banks that these boards send.
    pub version: BankVersion,
    /// Number of strips of a hybrid, by board: 512, or 0 where there is no such board.
    pub strips_per_hybrid: Vec<u32>,
    /// Lanes by slot, `board * 6 + lane`: six per board.
    pub lanes: Vec<Lane>,
}

impl Boards {
    /// Returns the number of boards in the table, used or not.
    pub const fn n_boards(&self) -> usize {
        self.strips_per_hybrid.len()
    }

    /// Reads a boards file.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, TablesError> {
        let path = path.as_ref();
        Self::parse(&read_file(path)?, &path.display().to_string())
    }

    /// Parses a boards file; errors call it `name`.
    pub fn parse(bytes: &[u8], name: &str) -> Result<Self, TablesError> {
        check_kind(bytes, name, BOARDS)?;
        let n_boards = header_word(bytes, name, 0)? as usize;
        check_count(n_boards, name)?;
        let byte = header_word(bytes, name, 1)?;
        let version = u8::try_from(byte).ok().and_then(BankVersion::from_byte);
        let unknown = || {
            TablesError::value(
                name,
                "version",
                4,
                byte,
                "it must be 3 (v4 banks) or 4 (v5 banks)",
            )
        };
        let version = version.ok_or_else(unknown)?;
        let n_slots = LANES_PER_BOARD * n_boards;
        check_length(bytes, name, lane_offset(n_boards, LANE_ARRAYS.len(), 0))?;

        let at = |index: usize| word(bytes, index).unwrap_or_default();
        let strips_per_hybrid = (0..n_boards)
            .map(|board| at(BOARDS_HEADER / 4 + board))
            .collect();
        let lanes = (0..n_slots)
            .map(|slot| std::array::from_fn(|array| at(lane_offset(n_boards, array, slot) / 4)))
            .map(bytemuck::cast::<[u32; LANE_ARRAYS.len()], Lane>)
            .collect();
        let boards = Self {
            version,
            strips_per_hybrid,
            lanes,
        };
        boards.validate(name)?;
        Ok(boards)
    }

    /// Checks that the table describes a UT; errors call it `name`. [`Boards::parse`] calls this.
    ///
    /// After this check a `ChannelID` without its strip bits determines the sector, and every
    /// connected lane has one. A table may switch a board off (`stripsPerHybrid` 0) whose lanes are
    /// connected, and may connect a sector twice.
    ///
    /// # Errors
    /// - no boards, more than [`MAX_BOARDS`], or a number of lanes other than six per board;
    /// - `stripsPerHybrid` other than 512 and 0: sectors have 512 strips, and ids that are not in
    ///   use have 0;
    /// - a lane with a sector that does not exist, with a `chanID` that says something else than
    ///   the other fields or has strip bits set (v5: other than bit 8, the second half-sector), or
    ///   without a `chanID` but not all zeros.
    pub fn validate(&self, name: &str) -> Result<(), TablesError> {
        let n_boards = self.n_boards();
        check_count(n_boards, name)?;
        if self.lanes.len() != LANES_PER_BOARD * n_boards {
            let (byte, n) = (lane_offset(n_boards, 0, 0), self.lanes.len());
            return Err(TablesError::value(
                name,
                "number of lanes",
                byte,
                n,
                "it must be six per board",
            ));
        }
        for (board, &strips) in self.strips_per_hybrid.iter().enumerate() {
            if strips != 0 && strips != STRIPS_PER_SECTOR {
                let (field, byte) = (
                    format!("stripsPerHybrid[{board}]"),
                    BOARDS_HEADER + 4 * board,
                );
                let why = "a hybrid has 512 strips, or 0 where there is no such board";
                return Err(TablesError::value(name, &field, byte, strips, why));
            }
        }
        for (slot, lane) in self.lanes.iter().enumerate() {
            if let Err((array, why)) = check_lane(lane, self.version) {
                let (field, byte) = (
                    format!("{}[{slot}]", LANE_ARRAYS[array]),
                    lane_offset(n_boards, array, slot),
                );
                let why = format!(
                    "board {}, lane {}: {why}",
                    slot / LANES_PER_BOARD,
                    slot % LANES_PER_BOARD
                );
                return Err(TablesError::value(
                    name,
                    &field,
                    byte,
                    words(lane)[array],
                    &why,
                ));
            }
        }
        Ok(())
    }

    /// Returns the bytes of the boards file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut contents = vec![self.n_boards() as u32, u32::from(self.version.byte())];
        contents.extend(&self.strips_per_hybrid);
        for array in 0..LANE_ARRAYS.len() {
            contents.extend(self.lanes.iter().map(|lane| words(lane)[array]));
        }
        contents.into_iter().flat_map(u32::to_le_bytes).collect()
    }

    /// Writes the boards file.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), TablesError> {
        let path = path.as_ref();
        self.validate(&path.display().to_string())?;
        write_file(path, &self.to_bytes())
    }
}

fn check_count(n_boards: usize, name: &str) -> Result<(), TablesError> {
    if (1..=MAX_BOARDS).contains(&n_boards) {
        return Ok(());
    }
    Err(TablesError::value(
        name,
        "n_boards",
        0,
        n_boards,
        &format!("it must be between 1 and {MAX_BOARDS}"),
    ))
}

/// Checks one lane; the error is the faulty array, an index into [`LANE_ARRAYS`], and the reason.
fn check_lane(lane: &Lane, version: BankVersion) -> Result<(), (usize, String)> {
    let words = words(lane);
    let chan_id = LANE_ARRAYS.len() - 1;
    if !lane.is_connected() {
        return match words.iter().position(|&word| word != 0) {
            Some(array) => Err((
                array,
                "the lane has no chanID, so it must be all zeros".into(),
            )),
            None => Ok(()),
        };
    }
    if lane.kind != UT {
        return Err((6, "the detector type must be 2 (UT)".into()));
    }
    if sector_id(lane).is_none() {
        // Name the first field that is out of range by itself. If there is none, the combination of
        // fields does not exist.
        let limits = [1, 7, 1, if lane.layer < 2 { 7 } else { 8 }, 3, 1];
        let array = (0..limits.len())
            .find(|&array| words[array] > limits[array])
            .unwrap_or(0);
        let Lane {
            sector,
            module,
            face,
            stave,
            layer,
            side,
            ..
        } = lane;
        let place = format!(
            "side {side}, layer {layer}, stave {stave}, face {face}, module {module}, sector {sector}"
        );
        return Err((array, format!("the UT has no such sector ({place})")));
    }
    let strips = match version {
        BankVersion::V4 => 0,
        BankVersion::V5 => SUB_SECTOR_BIT,
    };
    if lane.chan_id & !strips != lane.channel() {
        return Err((
            chan_id,
            format!("the lane's other fields make {}", lane.channel()),
        ));
    }
    Ok(())
}

//! Mounting place and lanes of each sector, by sector id. [`SectorPlaces`] also finds the sector of
//! a channel.
//!
//! The way from a hit back to the hardware goes through here: LHCbID, `ChannelID`, sector id, and
//! then the board and lane that a person has to look at.

use super::{Boards, ChannelId, Geometry, LANES_PER_BOARD, Lane, N_SECTORS, sector_id};

/// Number of values of bits 9–20 of a `ChannelID`: a sector without its strips and the detector
/// type.
const N_CHANNELS: usize = 1 << 12;

const NONE: u16 = u16::MAX;

/// Lane of a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BoardAndLane {
    /// Index of the board, 0…239 (v5: 0…215).
    pub board: u8,
    /// Lane of the board, 0…5.
    pub lane: u8,
}

/// Mounting place of a sector, and the lanes that read it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectorPlace {
    /// `ChannelID` of strip 0.
    pub channel: ChannelId,
    /// True if strips are numbered against x (p0Z is negative). Hits of v4 banks ignore it.
    pub flipped: bool,
    /// Lanes that read strips 0–255 and 256–511. The two are equal if one lane reads all strips,
    /// and `None` if no lane reads them. If a table connects strips more than once, the first lane
    /// of a board in use counts, or the first lane of any board.
    pub lanes: [Option<BoardAndLane>; 2],
}

impl SectorPlace {
    /// Returns the lane that reads a strip.
    pub const fn lane_of(&self, strip: u16) -> Option<BoardAndLane> {
        self.lanes[(strip >> 8 & 1) as usize]
    }
}

/// Part of a sector that a lane reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Lane that reads the strips.
    pub lane: BoardAndLane,
    /// Sector id, 0…1047.
    pub sector: u16,
    /// First and last strip of the sector that the lane reads.
    pub strips: (u16, u16),
}

/// Returns a lane with the channel of each sector that exists, by sector id.
pub(crate) fn lanes_by_sector() -> Vec<Lane> {
    let mut lanes = vec![Lane::default(); N_SECTORS];
    for bits in 0..N_CHANNELS as u32 {
        let lane = lane_of(ChannelId(2 << 21 | bits << 9));
        if let Some(id) = sector_id(&lane) {
            lanes[usize::from(id)] = lane;
        }
    }
    lanes
}

fn lane_of(channel: ChannelId) -> Lane {
    Lane {
        sector: channel.sector().into(),
        module: channel.module().into(),
        face: channel.face().into(),
        stave: channel.stave().into(),
        layer: channel.layer().into(),
        side: channel.side().into(),
        kind: 2,
        chan_id: channel.0,
    }
}

/// Places of all sectors, and an index from channels to sectors.
#[derive(Clone, Debug, PartialEq)]
pub struct SectorPlaces {
    /// Places by sector id.
    pub places: Vec<SectorPlace>,
    /// Sector ids, or [`NONE`], by bits 9–20 of a `ChannelID`.
    of_channel: Vec<u16>,
}

impl SectorPlaces {
    /// Collects the places from tables that were checked.
    pub fn new(boards: &Boards, geometry: &Geometry) -> Self {
        let mut of_channel = vec![NONE; N_CHANNELS];
        let places =
            (0..)
                .zip(&geometry.sectors)
                .zip(lanes_by_sector())
                .map(|((id, sector), lane)| {
                    of_channel[(lane.chan_id >> 9) as usize % N_CHANNELS] = id;
                    SectorPlace {
                        channel: ChannelId(lane.chan_id),
                        flipped: sector.is_flipped(),
                        lanes: [None; 2],
                    }
                });
        let places = places.collect();
        let mut this = Self { places, of_channel };
        let connected = boards
            .lanes
            .iter()
            .enumerate()
            .filter(|(_, lane)| lane.is_connected());
        let (in_use, off): (Vec<_>, Vec<_>) =
            connected.partition(|(slot, _)| boards.strips_per_hybrid[slot / LANES_PER_BOARD] > 0);
        for (slot, lane) in in_use.into_iter().chain(off) {
            let here = BoardAndLane {
                board: (slot / LANES_PER_BOARD) as u8,
                lane: (slot % LANES_PER_BOARD) as u8,
            };
            if let Some(sector) = this.sector_of(ChannelId(lane.chan_id)) {
                let half = usize::from(ChannelId(lane.chan_id).strip() >> 8);
                this.places[usize::from(sector)].lanes[half].get_or_insert(here);
            }
        }
        for SectorPlace {
            lanes: [low, high], ..
        } in &mut this.places
        {
            (*low, *high) = (low.or(*high), high.or(*low));
        }
        this
    }

    /// Returns the sector id of a channel; `None` if the UT has no such sector.
    pub fn sector_of(&self, channel: ChannelId) -> Option<u16> {
        let sector = self.of_channel[(channel.0 >> 9) as usize % N_CHANNELS];
        (sector != NONE && channel.is_ut()).then_some(sector)
    }
}

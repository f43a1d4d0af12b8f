//! From a cluster to a hit (docs/format.md, "From a cluster to a hit").
//!
//! All f32, in docs/format.md's order of operations, nothing contracted: every backend gives the
//! same bits.

use crate::bank::v4;
use crate::detector::{BankVersion, SectorConstants, Slot};
use crate::switches::Switches;
use crate::tables::Tables;
use simt::{Block, GlobalMut, Launcher};

/// Cluster between the kernels of Allen's pipeline, eight bytes. Positions are divided by weights
/// after the compaction.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "bytemuck", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Cluster {
    /// v5: Σpos. v4: the cluster word.
    pub position: u32,
    /// v5: W, 1…7874. v4: 0.
    pub weight: u16,
    /// Lane slot, connected.
    pub slot: u16,
}

// SAFETY: `repr(C)`, 4 + 2 + 2 bytes, size and alignment 8: no padding; integers only, so every bit
// pattern is a value.
unsafe impl simt::Plain for Cluster {}

/// Strip of a hit, before its coordinates are worked out.
#[derive(Clone, Copy, Debug)]
pub struct Strip {
    /// Strip number that goes into the formulas.
    pub n: f32,
    /// `LHCbID`.
    pub id: u32,
    /// Constants of the sector.
    pub sector: SectorConstants,
}

/// The seven arrays of hits, each of the same length: the capacity.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HitArrays<'a> {
    /// y of the strip's lower end.
    pub y_begin: GlobalMut<'a, f32>,
    /// y of the strip's upper end.
    pub y_end: GlobalMut<'a, f32>,
    /// z at y = 0.
    pub z_at_y_eq0: GlobalMut<'a, f32>,
    /// x at y = 0.
    pub x_at_y_eq0: GlobalMut<'a, f32>,
    /// Slope of the strip.
    pub dx_dy: GlobalMut<'a, f32>,
    /// Inverse variance.
    pub weight: GlobalMut<'a, f32>,
    /// `LHCbID`.
    pub id: GlobalMut<'a, u32>,
}

// SAFETY: `repr(C)`, of views and numbers only.
unsafe impl simt::Argument for HitArrays<'_> {}

impl HitArrays<'_> {
    /// Cuts all arrays to the length of `id`; `None` if one is shorter.
    #[inline(always)]
    pub const fn of_one_length(&self) -> Option<Self> {
        let len = self.id.len();
        let (
            Some(y_begin),
            Some(y_end),
            Some(z_at_y_eq0),
            Some(x_at_y_eq0),
            Some(dx_dy),
            Some(weight),
        ) = (
            self.y_begin.first(len),
            self.y_end.first(len),
            self.z_at_y_eq0.first(len),
            self.x_at_y_eq0.first(len),
            self.dx_dy.first(len),
            self.weight.first(len),
        )
        else {
            return None;
        };
        Some(Self {
            y_begin,
            y_end,
            z_at_y_eq0,
            x_at_y_eq0,
            dx_dy,
            weight,
            id: self.id,
        })
    }
}

/// The buffers of [`HitArrays`].
#[expect(
    missing_debug_implementations,
    reason = "a launcher's buffers need not show themselves"
)]
pub struct HitBuffers<L: Launcher> {
    /// y of the strip's lower end.
    pub y_begin: L::Buffer<f32>,
    /// y of the strip's upper end.
    pub y_end: L::Buffer<f32>,
    /// z at y = 0.
    pub z_at_y_eq0: L::Buffer<f32>,
    /// x at y = 0.
    pub x_at_y_eq0: L::Buffer<f32>,
    /// Slope of the strip.
    pub dx_dy: L::Buffer<f32>,
    /// Inverse variance.
    pub weight: L::Buffer<f32>,
    /// `LHCbID`.
    pub id: L::Buffer<u32>,
}

impl<L: Launcher> HitBuffers<L> {
    /// The arrays, for the next launch.
    pub fn write(&mut self, launcher: &mut L) -> HitArrays<'_> {
        HitArrays {
            y_begin: launcher.write(&mut self.y_begin),
            y_end: launcher.write(&mut self.y_end),
            z_at_y_eq0: launcher.write(&mut self.z_at_y_eq0),
            x_at_y_eq0: launcher.write(&mut self.x_at_y_eq0),
            dx_dy: launcher.write(&mut self.dx_dy),
            weight: launcher.write(&mut self.weight),
            id: launcher.write(&mut self.id),
        }
    }
}

/// Results of a pipeline for a batch.
#[expect(
    missing_debug_implementations,
    reason = "a launcher's buffers need not show themselves"
)]
pub struct Output<L: Launcher> {
    /// The hits.
    pub hits: HitBuffers<L>,
    /// Beginning of the hits of each group of each event, and the end of the last:
    /// `events * n_groups + 1`.
    pub offsets: L::Buffer<u32>,
    /// `N_COUNTS` counters an event.
    pub report: L::Buffer<u32>,
    /// One word, see [`status`](crate::status).
    pub status: L::Buffer<u32>,
}

impl Cluster {
    /// Looks up the cluster's strip. The mean strip of a flipped sector is subtracted from
    /// `flip_origin`.
    #[inline(always)]
    pub fn strip<B: Block>(
        self,
        block: &B,
        switches: Switches,
        tables: &Tables<'_>,
        flip_origin: f32,
    ) -> Strip {
        let slot = u32::from(self.slot);
        let Slot {
            chan_id, sector, ..
        } = tables.slot(block, switches, slot);
        let sector = block.load(tables.sectors, u32::from(sector));
        match switches.version {
            BankVersion::V4 => {
                let board = slot / crate::bank::v5::LANES;
                let index = slot % crate::bank::v5::LANES;
                let first_channel = index * block.load(tables.strips_per_hybrid, board);
                Strip::of_v4(self.position as u16, chan_id, first_channel, sector)
            }
            BankVersion::V5 => Strip::of_v5(
                self.position,
                u32::from(self.weight),
                chan_id & !0x1FF,
                sector,
                flip_origin,
            ),
        }
    }
}

/// Bits of an `LHCbID` that say that a channel of the UT follows.
const UT_CHANNEL: u32 = 3 << 28;

impl Strip {
    /// Strip of a v4 cluster word, on a lane whose first strip has `chan_id` and channel
    /// `first_channel` of the board.
    #[inline(always)]
    pub const fn of_v4(
        word: u16,
        chan_id: u32,
        first_channel: u32,
        sector: SectorConstants,
    ) -> Self {
        let strip_id = v4::channel(word) - first_channel + 1;
        let n = 0.25 * v4::fraction(word) as f32 + strip_id as f32 - sector.first_strip as f32;
        Self {
            n,
            id: UT_CHANNEL | (chan_id + strip_id - 1),
            sector,
        }
    }

    /// Strip of a v5 cluster by Σpos and W. `first` is the `ChannelID` of strip 0 of the whole
    /// sector.
    #[expect(
        clippy::manual_midpoint,
        reason = "the formula of docs/format.md; the sum fits 24 bits"
    )]
    #[inline(always)]
    pub fn of_v5(
        position: u32,
        weight: u32,
        first: u32,
        sector: SectorConstants,
        flip_origin: f32,
    ) -> Self {
        // A weight of 0 is never stored; the guard keeps the division defined on the device all the
        // same.
        let weight = weight.max(1);
        let mean = position as f32 / weight as f32;
        let strip = (2 * position + weight) / 2 / weight;
        let n = if sector.flipped == 0 {
            mean
        } else {
            flip_origin - mean
        };
        Self {
            n,
            id: UT_CHANNEL | (first + strip),
            sector,
        }
    }

    /// x at y = 0.
    #[inline(always)]
    pub fn x_at_y_eq0(&self) -> f32 {
        self.sector.p0_x + self.n * self.sector.dp0di_x
    }

    /// The key that orders the hits of a group: x first, then `LHCbID`.
    #[inline(always)]
    pub fn key(&self) -> u64 {
        u64::from(ordered(self.x_at_y_eq0())) << 32 | u64::from(self.id)
    }

    /// Writes the hit to place `i` of the arrays.
    #[inline(always)]
    pub fn store<B: Block>(&self, block: &B, hits: &HitArrays<'_>, i: u32) {
        let (sector, n) = (&self.sector, self.n);
        let y_begin = sector.p0_y + n * sector.dp0di_y;
        block.store(hits.y_begin, i, y_begin);
        block.store(hits.y_end, i, sector.dy + y_begin);
        block.store(hits.z_at_y_eq0, i, sector.p0_z + n * sector.dp0di_z);
        block.store(hits.x_at_y_eq0, i, self.x_at_y_eq0());
        block.store(hits.dx_dy, i, sector.dx_dy);
        block.store(hits.weight, i, sector.weight);
        block.store(hits.id, i, self.id);
    }
}

/// Bits that order as the floats do: −0 before 0, negative numbers reversed.
#[inline(always)]
pub const fn ordered(x: f32) -> u32 {
    let bits = x.to_bits();
    bits ^ ((bits.cast_signed() >> 31).cast_unsigned() | 0x8000_0000)
}

#[cfg(test)]
mod tests {
    use super::ordered;

    #[test]
    fn ordered_bits_ascend_with_the_floats() {
        let floats = [
            f32::NEG_INFINITY,
            -2.5,
            -1.0,
            -f32::MIN_POSITIVE,
            -0.0,
            0.0,
            f32::MIN_POSITIVE,
            1.0,
            2.5,
        ];
        assert!(
            floats
                .windows(2)
                .all(|pair| ordered(pair[0]) < ordered(pair[1]))
        );
    }
}

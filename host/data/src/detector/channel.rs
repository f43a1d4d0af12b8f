//! Names of a strip: `ChannelID` inside the UT, `LHCbID` among all detectors (`docs/format.md`,
//! "Sector ids").
//!
//! Both are numbers made of bit fields, so a hit names its strip in one `u32`. The boards file has
//! ChannelIDs and hits have LHCbIDs. For a strip of the UT they differ only in the top four bits.
//! The hit 0x30400E0B of the worked example in `docs/format.md` is
//!
//! ```text
//! 0x3 << 28                                             UT, among all detectors
//! 0x400E0B   type 2, side 0, layer 0, stave 0, face 0,  the ChannelID
//!            module 3, sector 1, strip 11
//! ```
//!
//! The sector in a `ChannelID` is only 0 or 1, a place on the module. The sector id, 0…1047, takes
//! all fields together.

/// Detector type of the UT in the top four bits of an `LHCbID`.
const UT_IN_LHCB: u32 = 3;

/// Detector type of the UT in a `ChannelID`.
const UT: u32 = 2;

/// A `ChannelID`: one strip of the UT.
///
/// ```
/// use ut_data::ChannelId;
///
/// let channel = ChannelId(2 << 21 | 1 << 20 | 3 << 18 | 300);
/// assert!(channel.is_ut());
/// assert_eq!((channel.side(), channel.layer(), channel.strip()), (1, 3, 300));
/// ```
///
/// | bits | field | range |
/// |---|---|---|
/// | 0–8 | strip of the sector | 0…511 |
/// | 9 | sector of the module | 0, 1 |
/// | 10–12 | module of the stave | 0…7 |
/// | 13 | face of the stave | 0, 1 |
/// | 14–17 | stave of the half-layer, from the beam | 0…7, in layers 2 and 3 0…8 |
/// | 18–19 | layer | 0…3: UTaX, UTaU, UTbV, UTbX |
/// | 20 | side | 0 is C, 1 is A |
/// | 21–22 | detector type | 2 is the UT |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId(pub u32);

impl ChannelId {
    const fn bits(self, from: u32, n: u32) -> u8 {
        (self.0 >> from & ((1 << n) - 1)) as u8
    }

    /// Returns the strip of the sector, 0…511.
    pub const fn strip(self) -> u16 {
        (self.0 & 0x1FF) as u16
    }

    /// Returns the sector of the module, 0 or 1. For the sector id, see
    /// [`DetectorTables::sector_of`](super::DetectorTables::sector_of).
    pub const fn sector(self) -> u8 {
        self.bits(9, 1)
    }

    /// Returns the module of the stave, 0…7.
    pub const fn module(self) -> u8 {
        self.bits(10, 3)
    }

    /// Returns the face of the stave, 0 or 1.
    pub const fn face(self) -> u8 {
        self.bits(13, 1)
    }

    /// Returns the stave of the half-layer, counted from the beam: 0…8.
    pub const fn stave(self) -> u8 {
        self.bits(14, 4)
    }

    /// Returns the layer, 0…3: aX, aU, bV, bX.
    pub const fn layer(self) -> u8 {
        self.bits(18, 2)
    }

    /// Returns the side: 0 is C, 1 is A.
    pub const fn side(self) -> u8 {
        self.bits(20, 1)
    }

    /// Returns the detector type; 2 is the UT.
    pub const fn detector(self) -> u8 {
        self.bits(21, 2)
    }

    /// Returns true if it names the UT.
    ///
    /// Bits 23 to 31 must be 0, so an `LHCbID` that is passed by mistake does not name the UT.
    pub const fn is_ut(self) -> bool {
        self.0 >> 21 == UT
    }
}

/// An `LHCbID`: the detector in bits 28–31, where 3 is the UT, and its channel in bits 0–27.
///
/// ```
/// use ut_data::{ChannelId, LhcbId};
///
/// let channel = ChannelId(2 << 21 | 3 << 18 | 300);
/// let id = LhcbId::of(channel);
/// assert_eq!(id.0, 0x304C_012C);
/// assert!(id.is_ut() && id.channel() == channel);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LhcbId(pub u32);

impl LhcbId {
    /// Returns the id of a strip of the UT.
    pub const fn of(channel: ChannelId) -> Self {
        Self(UT_IN_LHCB << 28 | channel.0 & 0x0FFF_FFFF)
    }

    /// Returns true if it names the UT.
    pub const fn is_ut(self) -> bool {
        self.0 >> 28 == UT_IN_LHCB
    }

    /// Returns bits 0–27, which are the fields of a [`ChannelId`] only if the detector is the UT.
    pub const fn channel(self) -> ChannelId {
        ChannelId(self.0 & 0x0FFF_FFFF)
    }
}

#[cfg(test)]
mod tests {
    use super::{ChannelId, LhcbId};

    #[test]
    fn each_field_has_its_bits() {
        let fields = |id: u32| {
            let id = ChannelId(id);
            let fields = [
                id.sector(),
                id.module(),
                id.face(),
                id.stave(),
                id.layer(),
                id.side(),
                id.detector(),
            ];
            (id.strip(), fields)
        };
        assert_eq!(fields(0), (0, [0; 7]));
        assert_eq!(fields(u32::MAX), (511, [1, 7, 1, 15, 3, 1, 3]));
        for (bit, field, value) in [
            (9, 0, 1),
            (11, 1, 2),
            (13, 2, 1),
            (17, 3, 8),
            (19, 4, 2),
            (20, 5, 1),
            (22, 6, 2),
        ] {
            let mut expected = [0; 7];
            expected[field] = value;
            assert_eq!(fields(1 << bit), (0, expected), "bit {bit}");
        }
        assert_eq!(fields(1 << 8), (256, [0; 7]));
    }

    #[test]
    fn an_id_among_all_detectors_holds_the_channel() {
        let channel =
            ChannelId(2 << 21 | 1 << 20 | 3 << 18 | 7 << 14 | 1 << 13 | 5 << 10 | 1 << 9 | 0x12C);
        let id = LhcbId::of(channel);
        assert!(channel.is_ut() && id.is_ut() && id.channel() == channel);
        assert_eq!(id.0, 3 << 28 | channel.0);
    }
}

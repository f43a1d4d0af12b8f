//! The strips that a hit was made of, in one word.

use std::fmt;

use bytemuck::{Pod, Zeroable};

/// The cluster of a hit (`docs/columns.md`), of v5 banks only: ΣADC, number of strips and first
/// strip.
///
/// It describes the strips that the hit was made from. Of a cluster above the maximum size that was
/// kept (`save_above_max`), these are the first strips.
///
/// The first strip is in bits 21–29, the number of strips in bits 13–20, the charge in bits 0–12.
/// Compared as numbers, these words order hits that agree in x, id, strip coordinate and lane.
///
/// ```
/// use ut_data::Cluster;
///
/// let cluster = Cluster::new(40, 2, 7);
/// assert_eq!((cluster.charge(), cluster.n_strips(), cluster.first_strip()), (40, 2, 7));
/// assert!(cluster < Cluster::new(1, 1, 8), "the first strip counts most");
/// ```
#[repr(transparent)]
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Pod, Zeroable)]
pub struct Cluster(u32);

impl Cluster {
    /// First bit of the number of strips. Charge is 0…7874 and takes 13 bits, the number of strips
    /// 0…254 and takes 8.
    pub const N_STRIPS: u32 = 13;
    /// First bit of the first strip.
    pub const FIRST_STRIP: u32 = Self::N_STRIPS + 8;

    /// Packs a cluster. Bits beyond a field are dropped.
    pub const fn new(charge: u32, n_strips: u32, first_strip: u32) -> Self {
        Self(
            (first_strip & 0x1FF) << Self::FIRST_STRIP
                | (n_strips & 0xFF) << Self::N_STRIPS
                | charge & 0x1FFF,
        )
    }

    /// Returns the sum of the strips' ADC counts: 1…7874, and 0…31 without clustering.
    pub const fn charge(self) -> u16 {
        (self.0 & 0x1FFF) as u16
    }

    /// Returns the number of strips: 1…254.
    pub const fn n_strips(self) -> u8 {
        (self.0 >> Self::N_STRIPS & 0xFF) as u8
    }

    /// Returns the lowest strip number of the cluster in its sector, 0…511, flipped or not.
    pub const fn first_strip(self) -> u16 {
        (self.0 >> Self::FIRST_STRIP & 0x1FF) as u16
    }

    /// Returns the packed word.
    pub const fn word(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("charge", &self.charge())
            .field("n_strips", &self.n_strips())
            .field("first_strip", &self.first_strip())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::Cluster;

    #[test]
    fn fields_hold_their_extremes_and_do_not_overlap() {
        for (charge, n_strips, first_strip) in [
            (0, 0, 0),
            (31 * 254, 0, 0),
            (0, 254, 0),
            (0, 0, 511),
            (31 * 254, 254, 511),
        ] {
            let cluster = Cluster::new(charge, n_strips, first_strip);
            let fields = (
                cluster.charge().into(),
                cluster.n_strips().into(),
                cluster.first_strip().into(),
            );
            assert_eq!(fields, (charge, n_strips, first_strip));
        }
        assert_eq!(
            format!("{:?}", Cluster::new(40, 2, 7)),
            "Cluster { charge: 40, n_strips: 2, first_strip: 7 }"
        );
    }
}

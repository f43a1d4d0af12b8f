//! A synthetic UT and seeded minimum-bias-like events: what the tool works on when there is no
//! file.
//!
//! [`detector`] computes boards and geometry from the regular structure of the UT; [`Generator`]
//! makes events for it; [`encode`] turns strips and clusters into bank payloads. None of it is
//! simulation of physics: the distributions that cost a decoder time (occupancy by radius, hits in
//! a lane, cluster sizes, ADC spectra, spread between events) are the ones measured on simulated
//! minimum-bias events, and everything else is random.
//!
//! The parts build on each other: `geometry` places the sectors, `cabling` connects them to boards
//! by their distance from the beam, `spectra` and `profile` say how many clusters of which kind an
//! event has, `events` puts the strips into banks, and `plant` and `corrupt` spoil them. A plant is
//! a part that the user chooses and that fails in chosen events, as a detector's parts do.
//! `corrupt` breaks the format at random places and keeps a ledger, for tests of decoders.

mod cabling;
pub mod corrupt;
pub mod encode;
mod events;
mod geometry;
mod plant;
mod profile;
mod spectra;

pub use events::{Generator, SynthEvent};
pub use plant::{Ailment, Part, Plant};
pub use profile::Profile;

use crate::detector::{BankVersion, Boards, DetectorTables, Geometry, Grouping};

/// The synthetic UT: boards of a read-out format, and the geometry in file version 0, or else 1
/// (with dxDy).
///
/// The sectors are where the UT's are, to within 0.05 mm of the geometry that LHCb's simulation
/// uses since its version
/// 10. The cabling, which board reads which sectors, is our own.
pub fn detector(version: BankVersion, geometry_version: u16) -> (Boards, Geometry) {
    (
        cabling::boards(version),
        geometry::geometry(version, geometry_version.min(1)),
    )
}

/// Returns the tables of the [synthetic UT](detector), only for events that bear the mark of
/// generated ones.
pub fn tables(version: BankVersion, grouping: Grouping) -> DetectorTables {
    let (boards, geometry) = detector(version, 1);
    DetectorTables::trusting(boards, geometry, grouping)
        .expect("the synthetic detector is sound")
        .only_generated()
}

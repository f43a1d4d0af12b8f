//! Views of a run for detector people: troubles by bank and board, sums of the hits, and the page
//! about them.
//!
//! A [`RunFiller`] adds batches to a [`RunView`] of a fixed size; views of parts of a run are
//! merged. [`outliers`](outliers()) finds dead, hot and failing parts in a view, [`differences`]
//! compares two. [`Sums`] are a view with its detector and files, as a [`Gatherer`] makes them of
//! files; [`draw`] draws them. [`troubles`](troubles()) finds the troubles of an event.

mod about;
mod bins;
mod causes;
mod charge;
mod compare;
mod filler;
mod gather;
mod in_time;
mod kept;
mod mask;
mod outlier;
mod outliers;
mod page;
mod run;
mod shape;
mod stream;
mod stretch;
mod sums;
mod trend;
mod troubles;
mod when;

pub use about::{SYNTHETIC, draw, facts, hash};
pub use bins::{Bins, MOST as MOST_BINS, both};
pub use compare::{Difference, MARKED, Overall, differences, mean_charge, overall};
pub use filler::RunFiller;
pub use gather::Gatherer;
pub use mask::mask;
pub use outlier::{Outlier, OutlierKind, Part as OutlierPart};
pub use outliers::{Verdicts, outliers};
pub use page::ReportPage;
pub use page::names::{count, loss_json, repeated_json, whole};
pub use run::{
    ADCS, Against, BoardSum, CHARGES, CHIP, CHIPS_PER_SECTOR, LANE_HITS, N_CHIPS, OF_CROSSING,
    OdinState, RunView, SIZES, Span, Stretch, TroubleSum, chips_of_lanes,
};
pub use shape::{Neighbours, SectorShape, shapes};

pub use sums::{Detector, Gathered, Part, Sums, SumsError};
pub use troubles::{BankTrouble, meaning, troubles, troubles_without_table};
pub use when::{When, Window};

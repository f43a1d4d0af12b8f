//! Views of a run for detector people: troubles by bank and board, sums of the hits, and the page about them.
//!
//! A [`RunFiller`] adds batches to a [`RunView`] of a fixed size; views of parts of a run are merged.
//! [`outliers`](outliers()) finds dead, hot and failing parts in a view, [`differences`] compares two. [`Sums`] are a
//! view with its detector and files, as a [`Gatherer`] makes them of files; [`draw`] draws them. [`troubles`](troubles()) finds the troubles of an event.

mod about;
mod bins;
mod compare;
mod filler;
mod gather;
mod in_time;
mod kept;
mod mask;
mod outliers;
mod page;
mod run;
mod shape;
mod sums;
mod troubles;

pub use about::{SYNTHETIC, draw, facts, hash};
pub use bins::{Bins, MOST as MOST_BINS};
pub use compare::{Difference, MARKED, differences, mean_charge};
pub use filler::RunFiller;
pub use gather::Gatherer;
pub use mask::mask;
pub use outliers::{Outlier, OutlierKind, Verdicts, outliers};
pub use page::Drawn;
pub use page::names::{count, whole};
pub use run::{Against, CHARGES, LANE_HITS, RunView, SIZES, Span, TroubleSum};
pub use shape::{Neighbours, SectorShape, shapes};
pub use sums::{Detector, Gathered, Part, Sums, SumsError, both};
pub use troubles::{BankTrouble, meaning, troubles, troubles_without_table};

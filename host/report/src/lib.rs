//! What a detector person looks at: troubles by bank and board, what the hits of a run add up to, and the page about it.
//!
//! A [`RunFiller`] adds batches to a [`RunView`], which has a fixed size whatever the number of events; views of parts of a
//! run are merged. [`outliers`](outliers()) finds what stands out in a view, [`differences`] what differs between two.
//! [`Sums`] are a view with what a page says beside it, [`draw`] draws them. [`troubles`](troubles()) goes through the banks
//! of one event.

mod bins;
mod compare;
mod filler;
mod in_time;
mod kept;
mod mask;
mod outliers;
mod page;
mod run;
mod shape;
mod sums;
mod troubles;

pub use bins::{Bins, MOST as MOST_BINS};
pub use compare::{Difference, Distribution, MARKED, differences, distributions, mean_charge};
pub use filler::RunFiller;
pub use mask::mask;
pub use outliers::{Outlier, OutlierKind, Rules, Verdicts, outliers};
pub use page::{About, Drawn, draw};
pub use run::{Against, CHARGES, LANE_HITS, MergeError, RunView, SIZES, Span, TroubleSum};
pub use shape::{Neighbours, SectorShape, shapes};
pub use sums::{Detector, Gathered, Part, Sums, SumsError, both};
pub use troubles::{BankTrouble, meaning, troubles, troubles_without_table};

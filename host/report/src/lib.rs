//! What a detector person looks at: troubles by bank and board, and what the hits of a run add up to.
//!
//! Nothing is drawn here. A [`RunFiller`] adds batches to a [`RunView`], which has a fixed size whatever the number of
//! events; views of parts of a run are merged. [`outliers`](outliers()) finds what stands out in a view, [`differences`]
//! what differs between two. [`troubles`](troubles()) goes through the banks of one event.

mod bins;
mod compare;
mod filler;
mod kept;
mod outliers;
mod run;
mod shape;
mod troubles;

pub use bins::{Bins, MOST as MOST_BINS};
pub use compare::{Difference, Distribution, differences, distributions, mean_charge};
pub use filler::RunFiller;
pub use outliers::{Outlier, OutlierKind, Rules, Verdicts, outliers};
pub use run::{Against, CHARGES, LANE_HITS, MergeError, RunView, SIZES, Span, TroubleSum};
pub use shape::{Neighbours, SectorShape, shapes};
pub use troubles::{BankTrouble, troubles, troubles_without_table};

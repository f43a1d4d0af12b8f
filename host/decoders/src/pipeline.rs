//! Two sets of kernels that decode on a device.

use ut_data::named;

/// Division of the work among device kernels; the bits are the same.
///
/// Allen's is the measure: what the kernels of `docs/ranked.md` gain is what they gain on it. It
/// takes no list of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Pipeline {
    /// Five kernels: clusters as records, in the order of the hits; then, once their number is
    /// known, the hits.
    #[default]
    Ranked,
    /// Seven kernels in nine launches, as Allen has them.
    Allen,
}

named!("pipeline" Pipeline: Ranked "ranked", Allen "allen");

impl Pipeline {
    /// Name of the pipeline that [`Ranked`](Self::Ranked) has replaced. Options that name it
    /// are refused with the name of the successor.
    pub const REPLACED: &str = "fused";
}

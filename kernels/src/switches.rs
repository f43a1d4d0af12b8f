//! Optimisations of Allen merge request !1663, a switch each; [`Switches::ladder`] adds one after
//! the other.
//!
//! Entry points pass a constant: a switch costs nothing on the device. The executor passes them at
//! run time.

use crate::detector::BankVersion;
pub use ut_format::bank::Layout;

/// Features that a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::struct_excessive_bools)] // Independent switches: that is what they are.
pub struct Switches {
    /// Bank format.
    pub version: BankVersion,
    /// Batch layout; only `count_hits` looks at it.
    pub layout: Layout,
    /// Look lane slots up in the flat map, not in the board table with the sector-id formula.
    pub flat_map: bool,
    /// List the non-empty lanes for clustering, not all of them.
    pub zero_suppression: bool,
    /// Lanes of a warp that hit the same counter add together.
    pub warp_atomics: bool,
    /// Size classes of the lane list, 8 or 16, the large first; 1: in order. Needs zero suppression
    /// to matter.
    pub bins: u32,
    /// Cluster with 16-bit charge and size, packed into one register.
    pub narrow_sums: bool,
    /// Decode layer by layer.
    pub layer_loop: bool,
    /// Warps fetch their next 32 lanes when they are done, not by a fixed stride.
    pub opportunistic: bool,
}

impl Switches {
    /// Before the merge request's steps: board table, every lane, plain atomics, in order, 32 bits,
    /// layer loop, stride.
    pub const fn baseline(version: BankVersion, layout: Layout) -> Self {
        Self {
            version,
            layout,
            flat_map: false,
            zero_suppression: false,
            warp_atomics: false,
            bins: 1,
            narrow_sums: false,
            layer_loop: true,
            opportunistic: false,
        }
    }

    /// All of them: what production uses.
    pub const fn production(version: BankVersion, layout: Layout) -> Self {
        let ladder = Self::ladder(version, layout);
        ladder[ladder.len() - 1].1
    }

    /// The merge request's steps, each on top of the one before, by name.
    pub const fn ladder(version: BankVersion, layout: Layout) -> [(&'static str, Self); 7] {
        let board_table = Self::baseline(version, layout);
        let flat_map = Self {
            flat_map: true,
            ..board_table
        };
        let zero_suppression = Self {
            zero_suppression: true,
            ..flat_map
        };
        let warp_atomics = Self {
            warp_atomics: true,
            ..zero_suppression
        };
        let binned = Self {
            bins: 16,
            ..warp_atomics
        };
        let narrow_sums = Self {
            narrow_sums: true,
            layer_loop: false,
            ..binned
        };
        let opportunistic = Self {
            opportunistic: true,
            ..narrow_sums
        };
        [
            ("board-table", board_table),
            ("flat-map", flat_map),
            ("zero-suppression", zero_suppression),
            ("warp-atomics", warp_atomics),
            ("binned", binned),
            ("narrow-sums", narrow_sums),
            ("opportunistic", opportunistic),
        ]
    }
}

//! The clustering state machine of one v5 lane (docs/format.md, "Clustering").
//!
//! A lane's hits are fed one by one, and then the end. Each step emits at most one cluster, closed
//! by the hit that follows it or by the end: so the hit loop of a warp is uniform, with `n + 1`
//! steps, one vote and one append in each. State costs registers, so it is packed: the previous
//! strip shares a word with two flags, and with [`NarrowSums`] size and charge share another (254
//! hits of charge 31 fit 16 bits each; the position sum does not).

/// Size and charge of the cluster that grows.
pub trait Sums: Copy + Default {
    /// One strip more, with this charge.
    #[must_use]
    fn with(self, adc: u32) -> Self;
    /// Number of strips.
    fn size(self) -> u32;
    /// Sum of the charges.
    fn charge(self) -> u32;
}

/// 32 bits each.
#[derive(Clone, Copy, Debug, Default)]
pub struct WideSums {
    size: u32,
    charge: u32,
}

impl Sums for WideSums {
    #[inline(always)]
    fn with(self, adc: u32) -> Self {
        Self {
            size: self.size + 1,
            charge: self.charge + adc,
        }
    }
    #[inline(always)]
    fn size(self) -> u32 {
        self.size
    }
    #[inline(always)]
    fn charge(self) -> u32 {
        self.charge
    }
}

/// 16 bits each in one word: charge high, size low. Holds 2047 strips of charge 31; a lane has 254.
#[derive(Clone, Copy, Debug, Default)]
pub struct NarrowSums(u32);

impl Sums for NarrowSums {
    #[inline(always)]
    fn with(self, adc: u32) -> Self {
        Self(self.0 + ((adc << 16) | 1))
    }
    #[inline(always)]
    fn size(self) -> u32 {
        self.0 & 0xFFFF
    }
    #[inline(always)]
    fn charge(self) -> u32 {
        self.0 >> 16
    }
}

/// Options of clustering, as the device gets them.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterOptions {
    /// [`CLUSTERING`](Self::CLUSTERING) and the others, or-ed.
    pub flags: u32,
    /// Strips that a cluster may have, at least 1.
    pub max_size: u32,
}

// SAFETY: `repr(C)`, of views and numbers only.
unsafe impl simt::Argument for ClusterOptions {}

impl ClusterOptions {
    /// Join neighbouring strips; else every strip is a hit.
    pub const CLUSTERING: u32 = 1;
    /// The position is the plain mean of the strips, not the mean weighted by charge.
    pub const GEOMETRIC: u32 = 2;
    /// Keep the first `max_size` strips of a cluster that grows beyond them.
    pub const SAVE_ABOVE_MAX: u32 = 4;

    #[inline(always)]
    const fn has(self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

/// Result of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Σpos of the cluster to emit.
    pub position: u32,
    /// W of the cluster to emit, at most 7874; 0: none.
    pub weight: u32,
    /// A cluster was not emitted because it has no charge.
    pub zero_charge: bool,
    /// A cluster outgrew the maximum.
    pub oversized: bool,
}

/// Clustering state of a lane. The default is the state before the first hit.
#[derive(Clone, Copy, Debug, Default)]
pub struct LaneClustering<S> {
    /// Bits 0–8: previous strip; then the flags.
    state: u32,
    sums: S,
    position: u32,
}

const STRIP: u32 = 0x1FF;
const STARTED: u32 = 1 << 16;
const EXCEEDED: u32 = 1 << 17;
const UNSORTED: u32 = 1 << 18;

impl<S: Sums> LaneClustering<S> {
    /// Returns true if a strip was not above the one before.
    #[inline(always)]
    pub const fn is_unsorted(&self) -> bool {
        self.state & UNSORTED != 0
    }

    /// Takes the lane's next hit.
    #[inline(always)]
    pub fn hit(&mut self, strip: u32, adc: u32, options: ClusterOptions) -> Step {
        let started = self.state & STARTED != 0;
        let previous = self.state & STRIP;
        let unsorted = if started && strip <= previous {
            UNSORTED
        } else {
            0
        };
        let mut step = Step::default();
        let mut exceeded = self.state & EXCEEDED;
        if options.has(ClusterOptions::CLUSTERING) {
            if started && strip != previous + 1 {
                step = self.close(options);
                self.sums = S::default();
                self.position = 0;
                exceeded = 0;
            } else if self.sums.size() >= options.max_size && exceeded == 0 {
                if options.has(ClusterOptions::SAVE_ABOVE_MAX) {
                    step = self.emit(options);
                }
                step.oversized = true;
                exceeded = EXCEEDED;
            }
            self.sums = self.sums.with(adc);
            self.position += if options.has(ClusterOptions::GEOMETRIC) {
                strip
            } else {
                adc * strip
            };
        } else {
            step = Step {
                position: strip,
                weight: 1,
                ..Step::default()
            };
        }
        self.state = strip | STARTED | exceeded | (self.state & UNSORTED) | unsorted;
        step
    }

    /// Closes the lane after its last hit.
    #[inline(always)]
    pub fn end(&self, options: ClusterOptions) -> Step {
        if options.has(ClusterOptions::CLUSTERING) && self.state & STARTED != 0 {
            self.close(options)
        } else {
            Step::default()
        }
    }

    #[inline(always)]
    fn close(&self, options: ClusterOptions) -> Step {
        if self.state & EXCEEDED != 0 {
            Step::default()
        } else {
            self.emit(options)
        }
    }

    #[inline(always)]
    fn emit(&self, options: ClusterOptions) -> Step {
        let charge = self.sums.charge();
        if charge == 0 {
            return Step {
                zero_charge: true,
                ..Step::default()
            };
        }
        let weight = if options.has(ClusterOptions::GEOMETRIC) {
            self.sums.size()
        } else {
            charge
        };
        Step {
            position: self.position,
            weight,
            ..Step::default()
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    use super::{ClusterOptions, LaneClustering, NarrowSums, Step, Sums, WideSums};

    const PRODUCTION: ClusterOptions = ClusterOptions {
        flags: ClusterOptions::CLUSTERING,
        max_size: 128,
    };

    fn run<S: Sums>(hits: &[(u32, u32)], options: ClusterOptions) -> (Vec<(u32, u32)>, [u32; 3]) {
        let mut lane = LaneClustering::<S>::default();
        let mut steps: Vec<Step> = hits
            .iter()
            .map(|&(strip, adc)| lane.hit(strip, adc, options))
            .collect();
        steps.push(lane.end(options));
        let count = |what: fn(&Step) -> bool| steps.iter().filter(|step| what(step)).count() as u32;
        let counts = [
            count(|s| s.zero_charge),
            count(|s| s.oversized),
            u32::from(lane.is_unsorted()),
        ];
        (
            steps
                .iter()
                .filter(|s| s.weight > 0)
                .map(|s| (s.position, s.weight))
                .collect(),
            counts,
        )
    }

    fn both(hits: &[(u32, u32)], options: ClusterOptions) -> (Vec<(u32, u32)>, [u32; 3]) {
        let narrow = run::<NarrowSums>(hits, options);
        assert_eq!(narrow, run::<WideSums>(hits, options));
        narrow
    }

    #[test]
    fn neighbours_join_and_gaps_separate() {
        let (clusters, counts) = both(&[(3, 10), (4, 20), (6, 5)], PRODUCTION);
        assert_eq!(clusters, [(110, 30), (30, 5)]);
        assert_eq!(counts, [0, 0, 0]);
    }

    #[test]
    fn a_lane_without_hits_emits_nothing() {
        assert_eq!(both(&[], PRODUCTION), (Vec::new(), [0, 0, 0]));
    }

    #[test]
    fn repeated_and_descending_strips_begin_a_cluster_and_make_the_lane_unsorted_once() {
        let (clusters, counts) = both(&[(7, 1), (7, 2), (6, 3), (7, 4)], PRODUCTION);
        assert_eq!(clusters, [(7, 1), (14, 2), (46, 7)]);
        assert_eq!(counts, [0, 0, 1]);
    }

    #[test]
    fn strip_0_as_the_first_strip_continues_no_cluster() {
        assert_eq!(
            both(&[(0, 1), (1, 1)], PRODUCTION),
            (std::vec![(1, 2)], [0, 0, 0])
        );
        assert_eq!(
            both(&[(511, 1), (0, 1)], PRODUCTION),
            (std::vec![(511, 1), (0, 1)], [0, 0, 1])
        );
    }

    #[test]
    fn exactly_the_maximum_is_ordinary_and_one_more_is_dropped_or_cut() {
        let two = ClusterOptions {
            max_size: 2,
            ..PRODUCTION
        };
        assert_eq!(both(&[(1, 1), (2, 1)], two), (std::vec![(3, 2)], [0, 0, 0]));
        let long = [(1, 1), (2, 1), (3, 1), (4, 1), (9, 2)];
        assert_eq!(both(&long, two), (std::vec![(18, 2)], [0, 1, 0]));
        let save = ClusterOptions {
            flags: two.flags | ClusterOptions::SAVE_ABOVE_MAX,
            ..two
        };
        assert_eq!(both(&long, save), (std::vec![(3, 2), (18, 2)], [0, 1, 0]));
    }

    #[test]
    fn clusters_without_charge_are_counted_where_they_would_be_emitted() {
        let save = ClusterOptions {
            flags: PRODUCTION.flags | ClusterOptions::SAVE_ABOVE_MAX,
            max_size: 1,
        };
        assert_eq!(
            both(&[(1, 0), (5, 0), (6, 7)], save),
            (Vec::new(), [2, 1, 0])
        );
        let geometric = ClusterOptions {
            flags: PRODUCTION.flags | ClusterOptions::GEOMETRIC,
            ..PRODUCTION
        };
        assert_eq!(both(&[(1, 0), (2, 0)], geometric), (Vec::new(), [1, 0, 0]));
    }

    #[test]
    fn without_clustering_every_strip_is_a_hit_and_order_is_still_checked() {
        let off = ClusterOptions {
            flags: 0,
            max_size: 1,
        };
        assert_eq!(
            both(&[(1, 0), (2, 9), (2, 9)], off),
            (std::vec![(1, 1), (2, 1), (2, 1)], [0, 0, 1])
        );
    }

    #[test]
    fn a_full_lane_at_full_charge_fits_the_narrow_sums() {
        let hits: Vec<(u32, u32)> = (0..254).map(|i| (258 + i, 31)).collect();
        let all = ClusterOptions {
            max_size: 1000,
            ..PRODUCTION
        };
        let (clusters, _) = both(&hits, all);
        assert_eq!(clusters, [((258..512).map(|s| 31 * s).sum(), 7874)]);
    }
}

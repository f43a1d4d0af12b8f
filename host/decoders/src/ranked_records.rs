//! The tables of the ranked pipeline: the [lanes](super::lane_columns) in the records that its
//! kernels read, the strips beyond which neighbouring lanes may overlap, and the ranks of each
//! warp.
//!
//! # Why bounds save the sort
//!
//! In the order of ranks hits are sorted but where lanes overlap. Whether a hit lies in such a
//! place depends on its strip alone, since geometry is fixed. So for each lane the host computes,
//! once, the lowest and the highest strip between which no hit of another lane of the group can
//! lie. A kernel compares a strip with two numbers; only groups with a hit beyond them are sorted,
//! all others are finished.
//!
//! For example, lane A covers x from -100 to -2 mm and lane B from -3 to 95 mm, with strips of 0.19
//! mm. A's hits can only mix with B's on its last 6 strips, and B's with A's on its first 6. Only
//! an event with a hit there sends the group to the sort.

use ut_kernels::hit::ordered;
use ut_kernels::ranked::PARTS;
use ut_kernels::ranked::lane_tables::{CLASS_FLIPPED, CLASS_WORDS, REVERSED};
use ut_kernels::ranked::tables::{
    BoardRecord, Bounds, ClassRecord, LaneRecord, MAX_BOARDS, MAX_GROUPS, MAX_RANKS,
    MAX_RANKS_OF_THREAD, MAX_RANKS_OF_WARP, RankedTables, Share, Spread,
};

use super::lane_columns::LaneColumns;
use super::placer::Placer;
use ut_data::detector::{BankVersion, LANES_PER_BOARD};

/// Number of threads of a warp.
const WARP: usize = simt::WARP_SIZE as usize;

/// Number of strips of a sector.
const STRIPS: u32 = 512;

#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "as in `RankedTables`")]
pub struct RankedRecords {
    pub boards: Vec<BoardRecord>,
    pub bounds: Vec<u32>,
    pub shares: Vec<u32>,
    pub ranges: Vec<u32>,
    pub lanes: Vec<LaneRecord>,
    pub class_of: Vec<u16>,
    pub classes: Vec<ClassRecord>,
    pub spreads: Vec<Spread>,
    pub n_groups: u32,
    pub fits: bool,
}

/// Lane of a rank, apart from its constants.
#[derive(Clone, Copy, Debug)]
pub struct RankedLane {
    /// Slot, six per board.
    pub slot: usize,
    /// x falls with the strip number.
    pub is_reversed: bool,
    /// The lane reads the second of two halves of its sector.
    pub is_second_half: bool,
}

impl RankedRecords {
    /// Makes the records of `lanes`, with the ranks of `columns`. For tables that do not fit the
    /// kernel `cluster` it makes no records for that kernel, so that `cluster_unusual` takes every
    /// event.
    pub fn new(
        lanes: &[RankedLane],
        columns: &LaneColumns,
        version: BankVersion,
        flip_origin: f32,
    ) -> Self {
        let classes = columns.constants.chunks_exact(CLASS_WORDS as usize);
        let records = lanes.iter().enumerate().map(|(rank, _)| LaneRecord {
            chan_id: columns.chan_ids[rank],
            p0_x: columns.p0_x[rank],
            p0_y: columns.p0_y[rank],
            p0_z: columns.p0_z[rank],
        });
        let mut of_all = Self {
            lanes: records.collect(),
            class_of: columns.classes.clone(),
            classes: classes.map(|class| class_record(class, version)).collect(),
            n_groups: (columns.first_ranks.len() - 1) as u32,
            ..Self::default()
        };
        let x: Vec<Vec<u32>> = (0..lanes.len())
            .map(|rank| of_all.x_of(lanes, rank, version, flip_origin))
            .collect();
        of_all.spreads = spreads(&x, &columns.first_ranks);
        let fits = of_all.n_groups <= MAX_GROUPS
            && lanes.len() <= MAX_RANKS as usize
            && columns.strips_per_hybrid.len() <= MAX_BOARDS as usize
            && columns
                .strips_per_hybrid
                .iter()
                .all(|&strips| u16::try_from(strips).is_ok());
        if let Some((shares, ranges)) = share_out(&columns.first_ranks).filter(|_| fits) {
            let boards = columns
                .strips_per_hybrid
                .iter()
                .zip(columns.ranks.chunks_exact(LANES_PER_BOARD));
            of_all.boards = boards
                .map(|(&strips, ranks)| BoardRecord {
                    ranks: std::array::from_fn(|lane| ranks[lane]),
                    strips_per_hybrid: strips as u16,
                    spare: 0,
                })
                .collect();
            of_all.bounds = of_all.bounds(lanes, &x, &columns.first_ranks, version);
            (of_all.shares, of_all.ranges, of_all.fits) = (shares, ranges, true);
            of_all.sort_always(&columns.first_ranks);
        }
        of_all
    }

    pub(crate) fn placed<'t, 'v>(&'t self, by: &mut impl Placer<'t, 'v>) -> RankedTables<'v> {
        RankedTables {
            boards: by.place(&self.boards),
            bounds: by.place(&self.bounds),
            shares: by.place(&self.shares),
            ranges: by.place(&self.ranges),
            lanes: by.place(&self.lanes),
            class_of: by.place(&self.class_of),
            classes: by.place(&self.classes),
            spreads: by.place(&self.spreads),
            n_groups: self.n_groups,
            fits: u32::from(self.fits),
        }
    }

    /// Finds, for each rank, the strips beyond which its hits may lie among the hits of other
    /// lanes.
    fn bounds(
        &self,
        lanes: &[RankedLane],
        x: &[Vec<u32>],
        first_ranks: &[u32],
        version: BankVersion,
    ) -> Vec<u32> {
        let halves = halves(lanes, &self.lanes, version);
        let per_strip = x.first().map_or(1, |x| x.len() / STRIPS as usize);
        // Lowest and highest x of the strips that each lane should have.
        let ranges = x.iter().zip(&halves).map(|(x, half)| {
            let middle = x.len() / 2;
            let x = match half {
                0 => &x[..],
                1 => &x[..middle],
                _ => &x[middle..],
            };
            (
                x.iter().min().copied().unwrap_or(0),
                x.iter().max().copied().unwrap_or(0),
            )
        });
        let ranges: Vec<(u32, u32)> = ranges.collect();
        let mut bounds = Vec::with_capacity(lanes.len());
        for (group, ranks) in first_ranks.windows(2).enumerate() {
            let (first, end) = (ranks[0] as usize, ranks[1] as usize);
            for rank in first..end {
                let highest_before = ranges[first..rank]
                    .iter()
                    .map(|&(_, highest)| highest)
                    .max();
                let lowest_after = ranges[rank + 1..end]
                    .iter()
                    .map(|&(lowest, _)| lowest)
                    .min();
                let x = &x[rank];
                let (mut low, mut high) = (0, STRIPS as usize);
                if let Some(highest) = highest_before {
                    low = x.partition_point(|&x| x <= highest).div_ceil(per_strip);
                }
                if let Some(lowest) = lowest_after {
                    high = x.partition_point(|&x| x < lowest) / per_strip;
                }
                match halves[rank] {
                    0 => {}
                    1 => high = high.min(STRIPS as usize / 2),
                    _ => low = low.max(STRIPS as usize / 2),
                }
                if !x.is_sorted_by(|a, b| a < b) {
                    // (Bounds by bisection mean nothing: every strip is beyond both.)
                    (low, high) = (STRIPS as usize, 0);
                }
                let lane = (lanes[rank].slot % LANES_PER_BOARD) as u32;
                bounds
                    .push(Bounds::new(low as u32, high as u32, halves[rank], lane, group as u32).0);
            }
        }
        bounds
    }

    /// Has groups sorted whatever their hits if more than half of their strips are beyond the
    /// bounds: looking would cost more. The bounds of such groups are those of no strip.
    fn sort_always(&mut self, first_ranks: &[u32]) {
        for (group, ranks) in first_ranks.windows(2).enumerate() {
            let bounds = &mut self.bounds[ranks[0] as usize..ranks[1] as usize];
            // (A lane that reads half of a sector should have no other strips.)
            let strips = bounds.iter().flat_map(|&bounds| {
                let is_there = move |strip: &u32| {
                    Bounds(bounds).half() == 3 || !Bounds(bounds).is_misplaced(*strip)
                };
                let strips = (0..STRIPS).filter(is_there);
                strips.map(move |strip| Bounds(bounds).is_beyond(strip))
            });
            let [beyond, within] = strips.fold([0, 0], |[beyond, within], is_beyond| {
                [
                    beyond + u32::from(is_beyond),
                    within + u32::from(!is_beyond),
                ]
            });
            if beyond <= within {
                continue;
            }
            for bounds in bounds {
                *bounds = Bounds::new(0, STRIPS, 0, Bounds(*bounds).lane(), group as u32).0;
            }
            let of_group = |&&mut share: &&mut u32| Share(share).group() == Some(group as u32);
            if let Some(share) = self.shares.iter_mut().find(of_group) {
                *share = Share(*share).sorted().0;
            }
        }
    }

    /// Orders x of a lane's places in the order in which it should rise: strips in v5, quarters of
    /// strips in v4.
    fn x_of(
        &self,
        lanes: &[RankedLane],
        rank: usize,
        version: BankVersion,
        flip_origin: f32,
    ) -> Vec<u32> {
        let (lane, class) = (
            &self.lanes[rank],
            &self.classes[usize::from(self.class_of[rank])],
        );
        let x = |n: f32| ordered(lane.p0_x + n * class.dp0di_x);
        let mut x: Vec<u32> =
            match version {
                BankVersion::V4 => (0..4 * STRIPS)
                    .map(|place| {
                        x(0.25 * (place % 4) as f32 + (place / 4 + 1) as f32
                            - class.first_strip as f32)
                    })
                    .collect(),
                BankVersion::V5 if class.flipped == 0 => {
                    (0..STRIPS).map(|strip| x(strip as f32)).collect()
                }
                BankVersion::V5 => (0..STRIPS)
                    .map(|strip| x(flip_origin - strip as f32))
                    .collect(),
            };
        if lanes[rank].is_reversed {
            x.reverse();
        }
        x
    }
}

fn class_record(class: &[u32], version: BankVersion) -> ClassRecord {
    let float = |i: usize| f32::from_bits(class[i]);
    let (first_strip, flipped) = match version {
        BankVersion::V4 => (class[6], 0),
        BankVersion::V5 => (0, class[7] & CLASS_FLIPPED),
    };
    ClassRecord {
        dp0di_x: float(0),
        dp0di_y: float(1),
        dp0di_z: float(2),
        dy: float(3),
        dx_dy: float(4),
        weight: float(5),
        first_strip,
        flipped,
    }
}

/// Finds the range of x of each group, for all its ranks; `x` is ordered, of each rank. If the range
/// is no range of numbers, all hits of the group have one bucket.
fn spreads(x: &[Vec<u32>], first_ranks: &[u32]) -> Vec<Spread> {
    let mut spreads = Vec::with_capacity(x.len());
    for ranks in first_ranks.windows(2) {
        let of_group = &x[ranks[0] as usize..ranks[1] as usize];
        // (On a lane, x rises or falls.)
        let ends = || of_group.iter().flat_map(|x| [x[0], x[x.len() - 1]]);
        let (low, high) = (
            ends().min().map_or(0.0, float_of),
            ends().max().map_or(0.0, float_of),
        );
        let scale = Spread::PLACES / (high - low);
        let offset = -low * scale;
        let spread = if scale.is_finite() && offset.is_finite() {
            Spread { scale, offset }
        } else {
            Spread::default()
        };
        spreads.resize(ranks[1] as usize, spread);
    }
    spreads
}

/// Returns the float that [`ordered`] made these bits of.
const fn float_of(ordered: u32) -> f32 {
    f32::from_bits(if ordered >> 31 == 0 {
        !ordered
    } else {
        ordered & !(1 << 31)
    })
}

/// Finds [which half](Bounds::half) of its sector each lane reads.
fn halves(lanes: &[RankedLane], records: &[LaneRecord], version: BankVersion) -> Vec<u32> {
    let second = lanes
        .iter()
        .zip(records)
        .filter(|(lane, _)| lane.is_second_half && version == BankVersion::V5);
    let divided: std::collections::HashSet<u32> =
        second.map(|(_, record)| record.chan_id).collect();
    let half = |(lane, record): (&RankedLane, &LaneRecord)| {
        if divided.contains(&record.chan_id) {
            1 + u32::from(lane.is_second_half != lane.is_reversed)
        } else {
            0
        }
    };
    lanes.iter().zip(records).map(half).collect()
}

/// Shares the ranks out among the threads of a block, whole groups to each warp, so that the warp
/// with most ranks has as few as possible; also returns the first rank of each warp, and the number
/// of ranks. `None` if there are too many.
fn share_out(first_ranks: &[u32]) -> Option<(Vec<u32>, Vec<u32>)> {
    // The ends of the warps' groups if no warp has more than `most` ranks.
    let ends = |most: u32| {
        let mut ends = Vec::new();
        let (mut ranks, mut threads) = (0, 0);
        for (group, two) in first_ranks.windows(2).enumerate() {
            let (n, own) = (two[1] - two[0], threads_of(two[1] - two[0]));
            if n > most || own > WARP {
                return None;
            }
            if ranks + n > most || threads + own > WARP {
                ends.push(group);
                (ranks, threads) = (0, 0);
            }
            (ranks, threads) = (ranks + n, threads + own);
        }
        ends.resize(PARTS as usize, first_ranks.len() - 1);
        (ends.last() == Some(&(first_ranks.len() - 1))).then_some(ends)
    };
    // (If there are more than `PARTS` ends, `resize` cuts them off, and the last one does not
    // include all groups.)
    let ends = (0..=MAX_RANKS_OF_WARP).find_map(ends)?;
    let mut shares = Vec::new();
    let mut ranges = vec![0];
    let mut group = 0;
    for (warp, end) in ends.into_iter().enumerate() {
        while group < end {
            let mut first = first_ranks[group];
            let mut begins = Some(group as u32);
            for _ in 0..threads_of(first_ranks[group + 1] - first) {
                let n = (first_ranks[group + 1] - first).min(MAX_RANKS_OF_THREAD);
                let share = Share::new(first, n, begins.take());
                shares.push(
                    if group + 1 == end {
                        share.last()
                    } else {
                        share
                    }
                    .0,
                );
                first += n;
            }
            group += 1;
        }
        shares.resize((warp + 1) * WARP, Share::new(first_ranks[group], 0, None).0);
        ranges.push(first_ranks[group]);
    }
    Some((shares, ranges))
}

/// Returns the number of threads for a group of `n_ranks` ranks; an empty group has one, too.
fn threads_of(n_ranks: u32) -> usize {
    n_ranks.div_ceil(MAX_RANKS_OF_THREAD).max(1) as usize
}

/// Returns true if the lane of a rank is reversed.
pub(super) const fn is_reversed(rank: u16) -> bool {
    rank & REVERSED != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank_tables::RankTables;
    use ut_data::DecodeOptions;
    use ut_data::detector::Grouping;

    fn all() -> impl Iterator<Item = (BankVersion, RankTables)> {
        [BankVersion::V4, BankVersion::V5]
            .into_iter()
            .flat_map(|version| {
                [Grouping::YRows, Grouping::UniqueX].map(|grouping| {
                    let tables = ut_data::synth::tables(version, grouping);
                    (
                        version,
                        RankTables::new("emulated", &tables, DecodeOptions::default())
                            .expect("they fit"),
                    )
                })
            })
    }

    #[test]
    fn every_rank_has_a_thread_and_every_group_lies_in_one_warp() {
        for (_, RankTables { lanes, ranked, .. }) in all() {
            assert!(ranked.fits);
            assert_eq!(ranked.shares.len(), PARTS as usize * WARP);
            let shares: Vec<Share> = ranked.shares.iter().map(|&share| Share(share)).collect();
            let ranks: Vec<u32> = shares
                .iter()
                .flat_map(|share| share.first()..share.first() + share.n())
                .collect();
            assert!(ranks.into_iter().eq(0..ranked.lanes.len() as u32));
            let begun = shares
                .iter()
                .filter_map(|share| Some((share.group()?, share.first())));
            let first_ranks = lanes
                .first_ranks
                .iter()
                .enumerate()
                .map(|(group, &rank)| (group as u32, rank));
            assert!(begun.eq(first_ranks.take(ranked.n_groups as usize)));
            for (warp, shares) in shares.chunks_exact(WARP).enumerate() {
                let (first, end) = (ranked.ranges[warp], ranked.ranges[warp + 1]);
                assert!(lanes.first_ranks.contains(&first) && end - first <= MAX_RANKS_OF_WARP);
                assert!(
                    shares
                        .iter()
                        .all(|share| first <= share.first() && share.first() + share.n() <= end)
                );
            }
            // Equal shares: no warp has half as much again as the mean.
            let most = ranked
                .ranges
                .windows(2)
                .map(|range| range[1] - range[0])
                .max()
                .unwrap();
            assert!(
                2 * most < 3 * ranked.lanes.len() as u32 / PARTS + 2,
                "{most}"
            );
        }
    }

    #[test]
    fn too_many_or_too_large_groups_are_not_distributed_over_warps() {
        assert!(share_out(&[0]).is_some(), "none");
        assert!(share_out(&[0, 0, 0]).is_some(), "empty ones");
        assert!(share_out(&[0, 192]).is_some());
        assert!(share_out(&[0, 193]).is_none(), "33 threads");
        let groups: Vec<u32> = (0..=256).collect();
        assert!(share_out(&groups).is_some());
        assert!(share_out(&(0..=257).collect::<Vec<_>>()).is_none());
        let (shares, ranges) = share_out(&[0, 192, 384, 384]).unwrap();
        assert_eq!((&ranges[..4], shares.len()), (&[0, 192, 384, 384][..], 256));
    }

    /// Returns the ordered x of the places of a rank's lane, in the order in which it rises.
    fn x_of(version: BankVersion, tables: &RankTables, rank: usize) -> Vec<u32> {
        let lane = RankedLane {
            slot: 0,
            is_reversed: is_reversed_of(&tables.lanes, rank),
            is_second_half: false,
        };
        let origin = DecodeOptions::default().flip().origin();
        tables
            .ranked
            .x_of(&vec![lane; rank + 1], rank, version, origin)
    }

    fn is_always_sorted(tables: &RankTables, group: usize) -> bool {
        let mut shares = tables.ranked.shares.iter().map(|&share| Share(share));
        shares.any(|share| share.group() == Some(group as u32) && share.is_sorted())
    }

    #[test]
    fn columns_of_sectors_are_always_sorted_and_rows_are_not() {
        for (_, tables) in all() {
            let n_groups = tables.ranked.n_groups as usize;
            let n = (0..n_groups)
                .filter(|&group| is_always_sorted(&tables, group))
                .count();
            // (Rows of four layers.)
            let is_rows = n_groups == 72;
            assert!(
                if is_rows {
                    n == 0
                } else {
                    4 * n > 3 * n_groups
                },
                "{n} of {n_groups}"
            );
        }
    }

    #[test]
    fn buckets_rise_with_x_over_all_lanes_of_a_group() {
        for (version, tables) in all() {
            for ranks in tables.lanes.first_ranks.windows(2).step_by(7) {
                let ranks = ranks[0] as usize..ranks[1] as usize;
                for n in [1, 2, 128, 1024] {
                    let of_rank = |rank| {
                        let spread = tables.ranked.spreads[rank];
                        x_of(version, &tables, rank)
                            .into_iter()
                            .map(move |x| (x, spread.bucket(float_of(x), n)))
                    };
                    let mut buckets: Vec<(u32, u32)> = ranks.clone().flat_map(of_rank).collect();
                    buckets.sort_unstable();
                    assert!(buckets.is_sorted_by_key(|&(_, bucket)| bucket));
                    assert_eq!(buckets.first().map(|&(_, bucket)| bucket), Some(0));
                    assert_eq!(buckets.last().map(|&(_, bucket)| bucket), Some(n - 1));
                }
            }
        }
    }

    #[test]
    fn a_range_that_is_none_has_one_bucket() {
        for x in [
            [f32::NAN; 2],
            [-f32::INFINITY, 1.0],
            [1.0, 1.0],
            [f32::MIN, f32::MAX],
        ] {
            let spreads = spreads(&[x.map(ordered).to_vec()], &[0, 0, 1]);
            let buckets = x.map(|x| spreads[0].bucket(x, 128));
            assert_eq!((spreads.len(), buckets), (1, [0; 2]), "{x:?}");
        }
    }

    #[test]
    fn strips_within_the_bounds_lie_on_the_right_side_of_all_other_lanes() {
        for (version, tables) in all() {
            let RankTables { lanes, ranked, .. } = &tables;
            let x = |rank| x_of(version, &tables, rank);
            for group in [0, 7, ranked.n_groups as usize - 1] {
                if is_always_sorted(&tables, group) {
                    continue;
                }
                let ranks =
                    lanes.first_ranks[group] as usize..lanes.first_ranks[group + 1] as usize;
                let all: Vec<(usize, Vec<u32>)> = ranks.map(|rank| (rank, x(rank))).collect();
                let is_there = |rank: usize, strip: usize| {
                    !Bounds(ranked.bounds[rank]).is_misplaced(strip as u32)
                };
                for (a, x_a) in &all {
                    let per_strip = x_a.len() / STRIPS as usize;
                    for (b, x_b) in all.iter().filter(|(b, _)| a < b) {
                        let strips =
                            |rank: usize, x: &[u32], is: fn(Bounds, u32) -> bool| -> Vec<u32> {
                                let strips = 0..STRIPS as usize;
                                let inside = strips.filter(|&strip| {
                                    is_there(rank, strip)
                                        && !is(Bounds(ranked.bounds[rank]), strip as u32)
                                });
                                inside
                                    .flat_map(|strip| x[per_strip * strip..][..per_strip].to_vec())
                                    .collect()
                            };
                        // All strips of one lane, and the strips of the other lane that are within
                        // its bound.
                        let none = |_: Bounds, _: u32| false;
                        let below = strips(*a, x_a, |bounds, strip| strip >= bounds.high());
                        assert!(
                            below.iter().max() < strips(*b, x_b, none).iter().min()
                                || below.is_empty()
                        );
                        let above = strips(*b, x_b, |bounds, strip| strip < bounds.low());
                        assert!(
                            strips(*a, x_a, none).iter().max() < above.iter().min()
                                || above.is_empty()
                        );
                    }
                }
            }
        }
    }

    fn is_reversed_of(lanes: &LaneColumns, rank: usize) -> bool {
        lanes
            .ranks
            .iter()
            .any(|&of_slot| usize::from(of_slot & !REVERSED) == rank && is_reversed(of_slot))
    }
}

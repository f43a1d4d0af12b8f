//! Stage 3: finds the clusters in the stream.
//!
//! # One pass, in vectors
//!
//! A cluster ends at a strip whose successor in the stream does not follow it, that is, where the
//! next word shifted right by five is not this one plus one. Comparing a vector of words with the
//! vector one word farther on gives one bit per strip, set where a cluster ends. The prefix sums of
//! W and of W · strip are computed for all strips, and the sums at the set bits are kept, packed
//! behind each other. The sums of cluster k are the kept sums k less the kept sums k - 1, which
//! stage 4 subtracts.
//!
//! ```text
//! strip        100  101  300  301  302  500
//! ADC            2    6    1    5    2    7
//! ends           .    x    .    .    x    x
//! sum of ADC     2    8    9   14   16   23
//! kept                8             16   23     differences: 8, 8, 7
//! ```
//!
//! # The rare cases
//!
//! In most events every cluster becomes a hit. Where some lack charge or exceed the maximum size, a
//! second pass over the clusters keeps the others. It needs to know which are too large (a strip
//! with as many others before it in its cluster tells), and ΣADC also where hits are weighted by
//! strips alone. With `save_above_max`, strips beyond the maximum size add nothing to the sums.

use super::describe::{CHARGE_SHIFT, describe_clusters, describe_strips};
use super::lanes::{BACKWARDS, RANK_SHIFT};
use super::policy::NeedsFallback;
use super::scratch::{Bits, END, FIRST_CLUSTER, FRONT, MAX_STRIPS, Scratch};
use super::setup::{HitSource, Setup};
use super::simd::{Simd, compress_at, load_at, set_at, store_at};
use ut_data::{Count, EventReport, Position};

/// Bit that marks, in `Clusters::last`, a cluster above the maximum size, until [`filter`] has seen
/// it.
const OVERSIZED: u32 = 1 << 31;

/// Position of Σ W in packed sums, above Σ pos.
///
/// Of a cluster of at most [`MAX_PACKED_SIZE`] strips, W is at most 31·128 = 3968 and Σ pos at most
/// 511·W < 2^21, so that Σ pos carries at most 1 into the 12 bits of W. Where these are not above
/// [`MAX_WEIGHT`], nor is the true W; then Σ pos is at most 511·2051 < 2^20, nothing is carried,
/// and both are exact. Larger clusters are packed once W is known. Those that are still too heavy
/// need the fallback path: no event of particles has one.
pub const WEIGHT_SHIFT: u32 = 20;

/// The largest W of a cluster that packed sums are exact for.
pub const MAX_WEIGHT: u32 = 2051;

/// Maximum number of strips of a cluster whose packed sums show if they overflow.
const MAX_PACKED_SIZE: u32 = 128;

/// Finds an event's clusters, with every option; `ends` gets where the groups end. Counts clusters
/// without charge, those above the maximum size, and unsorted lanes.
///
/// # Panics
/// If the event has more than [`MAX_STRIPS`] strips.
#[inline(always)]
pub fn find_clusters<S: Simd>(
    s: S,
    setup: &Setup,
    scratch: &mut Scratch,
    n_strips: usize,
    ends: &mut [u32],
    report: &mut EventReport,
) -> Result<(), NeedsFallback> {
    assert!(n_strips <= MAX_STRIPS, "more strips than there is room for");
    debug_assert_eq!(scratch.stream[FRONT + n_strips..][..END.len()], END);
    if setup.source != HitSource::Clusters {
        let sorted = keep_strips(s, scratch, n_strips);
        // v4 clusters may come in any order.
        if !sorted && setup.source == HitSource::Strips {
            report.add(Count::UnsortedLanes, unsorted_lanes(s, scratch, n_strips));
        }
        if scratch.describe {
            describe_strips(s, scratch, n_strips);
        }
        for (end, &rank) in ends.iter_mut().zip(&setup.lanes.first_ranks[1..]) {
            *end = scratch.strips_before(rank);
        }
        return Ok(());
    }
    if setup.options.position() == Position::Geometric {
        find_clusters_at::<S, true>(s, setup, scratch, n_strips, ends, report)
    } else {
        find_clusters_at::<S, false>(s, setup, scratch, n_strips, ends, report)
    }
}

/// Finds clusters in the cheapest way that this event allows.
///
/// Sizes are examined only if a lane has enough hits for a cluster above the maximum size. The
/// first attempt supposes that every cluster becomes a hit. If it turns out otherwise, the pass is
/// repeated with the sums that [`filter`] needs; and as one such event is followed by others (it
/// depends on the options and on the kind of the data), later events begin with the full pass until
/// one does not need it.
#[inline(always)]
fn find_clusters_at<S: Simd, const GEOMETRIC: bool>(
    s: S,
    setup: &Setup,
    scratch: &mut Scratch,
    n_strips: usize,
    ends: &mut [u32],
    report: &mut EventReport,
) -> Result<(), NeedsFallback> {
    let groups = &setup.lanes.first_ranks[1..];
    let sizes =
        u32::from(scratch.longest) > setup.options.max_cluster_size().get().min(MAX_PACKED_SIZE);
    if !scratch.needs_cluster_filter {
        let found = if sizes {
            cluster::<S, GEOMETRIC, true, false>(s, setup, scratch, n_strips)
        } else {
            cluster::<S, GEOMETRIC, false, false>(s, setup, scratch, n_strips)
        };
        // In an unsorted lane, strips a cluster's size apart need not be one cluster, and a step
        // back can hide from the minimum a cluster that is too long.
        if sizes && !found.sorted {
            return Err(NeedsFallback);
        }
        if !found.special {
            if !found.sorted {
                report.add(Count::UnsortedLanes, unsorted_lanes(s, scratch, n_strips));
            }
            group_ends::<S>(groups, scratch, ends);
            if scratch.describe {
                describe_clusters(s, setup, scratch, n_strips, found.n);
            }
            scratch.clusters.n = found.n;
            return Ok(());
        }
    }
    let found = cluster::<S, GEOMETRIC, true, true>(s, setup, scratch, n_strips);
    // Decided by options and data: the next event will be alike.
    scratch.needs_cluster_filter = found.special;
    if !found.sorted {
        if sizes {
            return Err(NeedsFallback);
        }
        report.add(Count::UnsortedLanes, unsorted_lanes(s, scratch, n_strips));
    }
    group_ends::<S>(groups, scratch, ends);
    if scratch.describe {
        describe_clusters(s, setup, scratch, n_strips, found.n);
    }
    filter::<S, GEOMETRIC>(s, setup, scratch, found.n, report)?;
    for end in ends {
        *end = scratch.ends_before(*end, S::ELEMENTS);
    }
    Ok(())
}

struct Found {
    /// Number of clusters, not yet counted as such.
    n: usize,
    /// Is true if some clusters need `FILTERED` and [`filter`]: they contain strips without charge,
    /// or are larger than the maximum size or than packed sums can hold. Sizes are only examined
    /// with `SIZES`, which is not needed if every lane has fewer hits.
    special: bool,
    /// Is true if the strips of each lane ascend.
    sorted: bool,
}

/// Finds the clusters of the stream. With `FILTERED` it also writes the sums that [`filter`] needs.
#[inline(always)]
fn cluster<S: Simd, const GEOMETRIC: bool, const SIZES: bool, const FILTERED: bool>(
    s: S,
    setup: &Setup,
    scratch: &mut Scratch,
    n_strips: usize,
) -> Found {
    let max_size = setup.options.max_cluster_size().get();
    // A lane has 254 hits at most.
    let cut = FILTERED && max_size < 254 && setup.options.save_above_max();
    let max_size = max_size.min(if FILTERED { 254 } else { MAX_PACKED_SIZE });
    if cut {
        scratch.stream[FRONT + n_strips + END.len()..][..FRONT].fill(END[0]);
    }
    let Scratch {
        stream,
        clusters,
        weight: weights,
        position: positions,
        ends: ends_of,
        ..
    } = scratch;
    let at = FIRST_CLUSTER;
    // Bounds of the unchecked accesses below, with `i` below `n_strips` and `n` at most `i`.
    assert!(
        max_size as usize <= FRONT && FRONT + n_strips + FRONT + 2 * S::ELEMENTS <= stream.len()
    );
    assert!(at + n_strips + S::ELEMENTS < clusters.last.len().min(clusters.sum.len()));
    assert!(n_strips + S::ELEMENTS < weights.len().min(positions.len()));
    assert!(n_strips.div_ceil(S::ELEMENTS) < ends_of.len());
    let (zero, one, size) = (s.splat(0), s.splat(1), s.splat(max_size));
    let follows = s.splat(u32::MAX);
    // Sums up to the vector before, packed, or of weights and positions.
    let mut sum = zero;
    let mut sum_position = zero;
    // Minimum of each element over all vectors: the ADC count; the distance to the next strip,
    // minus 2³²; and the distance from the strip `max_size` words earlier, which is `max_size` only
    // inside a cluster.
    let mut least_adc = s.splat(31);
    let mut least_step = follows;
    let mut least_size = follows;
    let (mut n, mut ends) = (0, 0);
    for (vector, i) in (0..n_strips).step_by(S::ELEMENTS).enumerate() {
        // SAFETY: the stream has FRONT words and more behind the vector, as asserted above.
        let (v, next) = unsafe {
            (
                load_at(s, stream, FRONT + i),
                load_at(s, stream, FRONT + i + 1),
            )
        };
        let strip = s.shr::<5>(v);
        let step = s.sub(strip, s.shr::<5>(next));
        ends = s.eq(step, follows) ^ all_elements::<S>();
        least_step = s.min(least_step, step);
        let mut back = zero;
        if SIZES {
            // SAFETY: the stream has FRONT words before its first, and `max_size` is not more, as
            // asserted above.
            let before = unsafe { load_at(s, stream, FRONT + i - max_size as usize) };
            back = s.sub(strip, s.shr::<5>(before));
            least_size = s.min(least_size, back);
        }
        let mut adc = s.and(v, s.splat(31));
        least_adc = s.min(least_adc, adc);
        let mut place = s.and(strip, s.splat(0x1FF));
        if FILTERED {
            let (mut last, mut unit) = (v, one);
            if max_size < 254 {
                let above = s.eq(back, size);
                last = s.xor(last, s.keep(s.splat(OVERSIZED), above & ends));
                if cut {
                    // A lane that is read backwards begins with its surplus strips. SAFETY: FRONT
                    // words and more lie behind the vector; `max_size` is at most FRONT: asserted
                    // above.
                    let after = unsafe { load_at(s, stream, FRONT + i + max_size as usize) };
                    let below = s.eq(s.sub(s.shr::<5>(after), strip), size);
                    let backwards = s.eq(s.and(v, s.splat(BACKWARDS)), s.splat(BACKWARDS));
                    let inside = !(above & !backwards | below & backwards);
                    adc = s.keep(adc, inside);
                    (unit, place) = (s.keep(one, inside), s.keep(place, inside));
                }
            }
            let (weight, position) = if GEOMETRIC {
                (s.add(s.shl::<CHARGE_SHIFT>(adc), unit), place)
            } else {
                (adc, s.mul_small(adc, place))
            };
            let weight = s.add(s.prefix_sum(weight), sum);
            let position = s.add(s.prefix_sum(position), sum_position);
            (sum, sum_position) = (s.spread_last(weight), s.spread_last(position));
            // SAFETY: clusters are at most as many as strips, for which all three have room, as
            // asserted above.
            unsafe {
                compress_at(s, &mut clusters.last, at + n, last, ends);
                compress_at(s, weights, 1 + n, weight, ends);
                compress_at(s, positions, 1 + n, position, ends);
            }
        } else {
            let packed = if GEOMETRIC {
                s.add(place, s.splat(1 << WEIGHT_SHIFT))
            } else {
                s.add(s.mul_small(adc, place), s.shl::<WEIGHT_SHIFT>(adc))
            };
            // The next vector waits for one addition only, not for these sums.
            let sums = s.prefix_sum(packed);
            let packed = s.add(sums, sum);
            sum = s.add(sum, s.spread_last(sums));
            // SAFETY: clusters are at most as many as strips, for which both have room, as asserted
            // above.
            unsafe {
                compress_at(s, &mut clusters.last, at + n, v, ends);
                compress_at(s, &mut clusters.sum, at + 1 + n, packed, ends);
            }
        }
        // SAFETY: there is a place for each vector of `n_strips` strips, as asserted above.
        unsafe {
            set_at(
                ends_of,
                vector,
                Bits {
                    bits: ends,
                    before: n as u32,
                },
            );
        };
        n += ends.count_ones() as usize;
    }
    // Behind the last strip every word seems to be a cluster.
    let n_vectors = n_strips.div_ceil(S::ELEMENTS);
    if !n_strips.is_multiple_of(S::ELEMENTS) {
        let live = ends & ((1 << (n_strips % S::ELEMENTS)) - 1);
        n -= (ends ^ live).count_ones() as usize;
        ends_of[n_vectors - 1].bits = live;
    }
    ends_of[n_vectors] = Bits {
        bits: 0,
        before: n as u32,
    };
    Found {
        n,
        special: s.eq(least_adc, zero) | s.eq(least_size, size) != 0,
        sorted: s.eq(s.shr::<31>(least_step), zero) == 0,
    }
}

/// Drops the clusters (of `n_found`) that the options exclude, and counts them.
#[inline(always)]
fn filter<S: Simd, const GEOMETRIC: bool>(
    s: S,
    setup: &Setup,
    scratch: &mut Scratch,
    n_found: usize,
    report: &mut EventReport,
) -> Result<(), NeedsFallback> {
    let Scratch {
        clusters,
        weight: weights,
        position: positions,
        ends,
        describe,
        ..
    } = scratch;
    let save = if setup.options.save_above_max() {
        u32::MAX
    } else {
        0
    };
    let (mut n_zero_charge, mut n_oversized) = (0, 0);
    let at = FIRST_CLUSTER;
    // Bounds of the unchecked accesses below, with `i` below `n_found` and `n` at most `i`.
    assert!(
        at + n_found + S::ELEMENTS
            < clusters
                .last
                .len()
                .min(clusters.sum.len())
                .min(clusters.strips.len())
    );
    assert!(n_found + S::ELEMENTS < weights.len().min(positions.len()));
    let mut sum = s.splat(0);
    let mut weight_before = sum;
    let mut position_before = weight_before;
    let mark = s.splat(OVERSIZED);
    let (mut n, mut heavy) = (0, 0);
    for (vector, i) in (0..n_found).step_by(S::ELEMENTS).enumerate() {
        let live = all_elements::<S>() >> S::ELEMENTS.saturating_sub(n_found - i);
        // SAFETY: all three have `n_found` words, a vector and one more, as asserted above.
        let (last, weights, positions) = unsafe {
            (
                load_at(s, &clusters.last, at + i),
                load_at(s, weights, 1 + i),
                load_at(s, positions, 1 + i),
            )
        };
        let weight = s.sub(weights, s.shift_in(weight_before, weights));
        let position = s.sub(positions, s.shift_in(position_before, positions));
        (weight_before, position_before) = (weights, positions);
        let (charge, weight) = if GEOMETRIC {
            (
                s.shr::<CHARGE_SHIFT>(weight),
                s.and(weight, s.splat((1 << CHARGE_SHIFT) - 1)),
            )
        } else {
            (weight, weight)
        };
        let oversized = s.eq(s.and(last, mark), mark) & live;
        let dropped = oversized & !save;
        let zero_charge = s.eq(charge, s.splat(0)) & live & !dropped;
        n_oversized += oversized.count_ones();
        n_zero_charge += zero_charge.count_ones();
        let kept = live & !dropped & !zero_charge;
        heavy |= !s.le(weight, s.splat(MAX_WEIGHT)) & kept;
        let packed = s.keep(s.add(s.shl::<WEIGHT_SHIFT>(weight), position), kept);
        let packed = s.add(s.prefix_sum(packed), sum);
        sum = s.spread_last(packed);
        // SAFETY: no more are kept than were read; all three have room for `n_found`, a vector and
        // one more, as asserted above. Words still to be read, from `at + i` and a vector on, are
        // not overwritten.
        unsafe {
            compress_at(
                s,
                &mut clusters.last,
                at + n,
                s.and(last, s.splat(!OVERSIZED)),
                kept,
            );
            compress_at(s, &mut clusters.sum, at + 1 + n, packed, kept);
            if *describe {
                let strips = load_at(s, &clusters.strips, at + i);
                compress_at(s, &mut clusters.strips, at + n, strips, kept);
            }
        }
        ends[vector] = Bits {
            bits: kept,
            before: n as u32,
        };
        n += kept.count_ones() as usize;
    }
    let n_vectors = n_found.div_ceil(S::ELEMENTS);
    ends[n_vectors] = Bits {
        bits: 0,
        before: n as u32,
    };
    if heavy != 0 {
        return Err(NeedsFallback);
    }
    clusters.n = n;
    report.add(Count::ZeroChargeClusters, n_zero_charge);
    report.add(Count::OversizedClusters, n_oversized);
    Ok(())
}

#[inline(always)]
fn group_ends<S: Simd>(first_ranks: &[u16], scratch: &Scratch, ends: &mut [u32]) {
    for (end, &rank) in ends.iter_mut().zip(first_ranks) {
        *end = scratch.ends_before(scratch.strips_before(rank), S::ELEMENTS);
    }
}

/// Makes every strip a hit. Returns true if the strips of each lane ascend.
#[inline(always)]
fn keep_strips<S: Simd>(s: S, scratch: &mut Scratch, n_strips: usize) -> bool {
    let Scratch {
        stream, clusters, ..
    } = scratch;
    let at = FIRST_CLUSTER;
    // Bounds of the unchecked accesses below, with `i` below `n_strips`.
    assert!(FRONT + n_strips + 1 + S::ELEMENTS <= stream.len());
    assert!(at + n_strips + S::ELEMENTS <= clusters.last.len());
    let mut least_step = s.splat(u32::MAX);
    for i in (0..n_strips).step_by(S::ELEMENTS) {
        // SAFETY: both have a vector of words from the last strip on, and the stream one word more,
        // as asserted above.
        let (v, next) = unsafe {
            (
                load_at(s, stream, FRONT + i),
                load_at(s, stream, FRONT + i + 1),
            )
        };
        least_step = s.min(least_step, s.sub(s.shr::<5>(v), s.shr::<5>(next)));
        // SAFETY: `i < n_strips`, and `clusters.last` has room for those and a vector from `at` on,
        // as asserted above.
        unsafe { store_at(s, &mut clusters.last, at + i, v) };
    }
    clusters.n = n_strips;
    s.eq(s.shr::<31>(least_step), s.splat(0)) == 0
}

/// Returns the number of lanes whose strips do not ascend.
#[inline(always)]
fn unsorted_lanes<S: Simd>(s: S, scratch: &Scratch, n_strips: usize) -> u32 {
    let stream = &scratch.stream;
    assert!(FRONT + n_strips + 1 + S::ELEMENTS <= stream.len());
    let (mut n, mut counted) = (0, None);
    for i in (0..n_strips).step_by(S::ELEMENTS) {
        // SAFETY: the stream has a vector of words from the last strip on, and one word more, as
        // asserted above.
        let (v, next) = unsafe {
            (
                load_at(s, stream, FRONT + i),
                load_at(s, stream, FRONT + i + 1),
            )
        };
        // Ranks ascend, also to the word behind the last strip, so that this is inside a lane.
        let mut falls = s.le(s.shr::<5>(next), s.shr::<5>(v));
        while falls != 0 {
            let rank = stream[FRONT + i + falls.trailing_zeros() as usize] >> RANK_SHIFT;
            n += u32::from(counted != Some(rank));
            counted = Some(rank);
            falls &= falls - 1;
        }
    }
    n
}

#[inline(always)]
const fn all_elements<S: Simd>() -> u32 {
    u32::MAX >> (32 - S::ELEMENTS)
}

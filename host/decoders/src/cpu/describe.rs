//! Strips of each cluster, on request: a pass over the stream and one over its clusters, after
//! stage 3.
//!
//! A cluster's ΣADC and number of strips are differences of prefix sums, as in `find_clusters`;
//! both fit into one word. The number and the last strip in the stream give the first strip, which
//! in a lane that is read backwards is the last itself.
//!
//! For example, a cluster on strips 10 to 12 with ADC counts 3, 9 and 4 adds (16 << 9) + 3 to the
//! packed prefix sum. The stream says that strip 12 is the last. The difference gives ΣADC = 16 and
//! 3 strips, so that the first strip is 12 - (3 - 1) = 10. If x falls with the strip number, the
//! lane is read backwards, the stream ends the cluster with strip 10, and this is the first strip
//! itself.

use super::lanes::BACKWARDS;
use super::scratch::{Bits, FIRST_CLUSTER, FRONT, Scratch};
use super::setup::Setup;
use super::simd::{Simd, compress_at, load_at, store_at};
use ut_data::Cluster;

/// Position of ΣADC above the number of strips in packed sums. A cluster has fewer than 512 strips,
/// and its ΣADC is below 2^13: differences modulo 2³² are exact.
pub const CHARGE_SHIFT: u32 = 9;

const STRIP: u32 = 0x1FF;

/// Describes the event's `n` clusters, which end in the stream at the bits of `ends`, also those
/// that will be dropped.
#[inline(always)]
pub fn describe_clusters<S: Simd>(
    s: S,
    setup: &Setup,
    scratch: &mut Scratch,
    n_strips: usize,
    n: usize,
) {
    let Scratch {
        stream,
        clusters,
        ends,
        ..
    } = scratch;
    let at = FIRST_CLUSTER;
    // Bounds of the unchecked accesses below, with `i` below `n_strips` and `to` at most `i`.
    assert!(
        FRONT + n_strips + S::ELEMENTS <= stream.len()
            && at + n_strips + S::ELEMENTS <= clusters.strips.len()
    );
    let mut sum = s.splat(0);
    let mut to = at;
    for (&Bits { bits: ends, .. }, i) in ends.iter().zip((0..n_strips).step_by(S::ELEMENTS)) {
        // SAFETY: the stream has a vector of words from the last strip on, as asserted above.
        let v = unsafe { load_at(s, stream, FRONT + i) };
        let one = s.add(s.shl::<CHARGE_SHIFT>(s.and(v, s.splat(31))), s.splat(1));
        let sums = s.add(s.prefix_sum(one), sum);
        sum = s.spread_last(sums);
        // SAFETY: there are at most as many clusters as strips, with room for those and a vector,
        // as asserted above.
        unsafe { compress_at(s, &mut clusters.strips, to, sums, ends) };
        to += ends.count_ones() as usize;
    }
    debug_assert_eq!(to, at + n);
    assert!(n <= n_strips && at + n_strips + S::ELEMENTS <= clusters.last.len());
    let max_size = s.splat(setup.options.max_cluster_size().get());
    let mut before = s.splat(0);
    let mut all_whole = u32::MAX;
    for i in (at..at + n).step_by(S::ELEMENTS) {
        // SAFETY: both have room for all strips and a vector, as asserted above; clusters are no
        // more than strips.
        let (sums, last) = unsafe {
            (
                load_at(s, &clusters.strips, i),
                load_at(s, &clusters.last, i),
            )
        };
        let both = s.sub(sums, s.shift_in(before, sums));
        before = sums;
        let (charge, size) = (
            s.shr::<CHARGE_SHIFT>(both),
            s.and(both, s.splat((1 << CHARGE_SHIFT) - 1)),
        );
        let (strip, backwards) = strip_of(s, last);
        let to_first = s.and(s.xor(backwards, s.splat(u32::MAX)), s.sub(s.splat(1), size));
        all_whole &= s.le(size, max_size) | !(u32::MAX >> (32 - S::ELEMENTS.min(at + n - i)));
        let word = pack(s, charge, s.min(size, max_size), s.add(strip, to_first));
        // SAFETY: the words just read.
        unsafe { store_at(s, &mut clusters.strips, i, word) };
    }
    // `all_whole` has a zero bit if any cluster was above the maximum size. Hardly any event has
    // one, so that the exact treatment may be slow.
    let all = u32::MAX >> (32 - S::ELEMENTS);
    if setup.options.save_above_max() && all_whole & all != all {
        cut_charges::<S>(setup, scratch, n_strips);
    }
}

/// Cuts the charges of clusters above the maximum size to their first strips.
#[cold]
#[inline(never)]
fn cut_charges<S: Simd>(setup: &Setup, scratch: &mut Scratch, n_strips: usize) {
    let Scratch {
        stream,
        clusters,
        ends,
        ..
    } = scratch;
    let max_size = setup.options.max_cluster_size().get() as usize;
    let (mut begin, mut cluster) = (FRONT, FIRST_CLUSTER);
    for i in 0..n_strips {
        if ends[i / S::ELEMENTS].bits >> (i % S::ELEMENTS) & 1 == 0 {
            continue;
        }
        let strips = &stream[begin..=FRONT + i];
        if strips.len() > max_size {
            let backwards = strips[0] & BACKWARDS != 0;
            let kept = if backwards {
                &strips[strips.len() - max_size..]
            } else {
                &strips[..max_size]
            };
            let charge = kept.iter().map(|word| word & 31).sum();
            let first = (kept[if backwards { max_size - 1 } else { 0 }] >> 5 & STRIP)
                ^ if backwards { STRIP } else { 0 };
            clusters.strips[cluster] = Cluster::new(charge, max_size as u32, first).word();
        }
        begin = FRONT + i + 1;
        cluster += 1;
    }
}

/// Describes the event's `n_strips` clusters, each of which is a strip.
#[inline(always)]
pub fn describe_strips<S: Simd>(s: S, scratch: &mut Scratch, n_strips: usize) {
    let (clusters, at) = (&mut scratch.clusters, FIRST_CLUSTER);
    assert!(at + n_strips + S::ELEMENTS <= clusters.strips.len().min(clusters.last.len()));
    for i in (at..at + n_strips).step_by(S::ELEMENTS) {
        // SAFETY: both have a vector of words from the last strip on, as asserted above.
        let v = unsafe { load_at(s, &clusters.last, i) };
        let word = pack(s, s.and(v, s.splat(31)), s.splat(1), strip_of(s, v).0);
        // SAFETY: the words just read.
        unsafe { store_at(s, &mut clusters.strips, i, word) };
    }
}

/// Strip of a stream word, and all bits if the lane is read backwards.
#[inline(always)]
fn strip_of<S: Simd>(s: S, word: S::U) -> (S::U, S::U) {
    let backwards = s.spread_sign(s.shl::<{ 31 - BACKWARDS.trailing_zeros() }>(word));
    (
        s.and(s.xor(s.shr::<5>(word), backwards), s.splat(STRIP)),
        backwards,
    )
}

/// Packs the values of [`Cluster::new`], which are in range.
#[inline(always)]
fn pack<S: Simd>(s: S, charge: S::U, n_strips: S::U, first_strip: S::U) -> S::U {
    s.add(
        s.add(
            s.shl::<{ Cluster::FIRST_STRIP }>(first_strip),
            s.shl::<{ Cluster::N_STRIPS }>(n_strips),
        ),
        charge,
    )
}

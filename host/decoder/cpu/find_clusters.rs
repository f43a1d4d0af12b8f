//! Stage 3: finds the clusters in the stream.
//!
//! In events as most are, every cluster becomes a hit: none is without charge, and none above the maximum size. Where
//! that is not so, a second pass over the clusters keeps those that do. It needs to know which are above the maximum
//! size (a strip tells that has as many others before it in its cluster), and what their ΣADC is, also where hits are
//! weighted by strips alone. With `save_above_max`, the strips beyond the maximum size add nothing to the sums.

use super::fast::{Fast, Kind, Unusual};
use super::lanes::BACKWARDS;
use super::scratch::{END, FRONT, Scratch};
use super::simd::Simd;
use crate::decoder::Position;

/// The bit that marks, in `Clusters::last`, a cluster above the maximum size, until [`Fast::select`] has seen it.
const OVERSIZED: u32 = 1 << 31;

/// Where Σ W begins in packed sums, above Σ pos.
///
/// Of a cluster of at most [`MAX_PACKED_SIZE`] strips, W is at most 31·128 = 3968 and Σ pos at most 511·W < 2^21, so that
/// Σ pos carries 1 at most into the 12 bits of W. Where these are not above [`MAX_WEIGHT`], the true W is neither, then
/// Σ pos is at most 511·2051 < 2^20, nothing is carried, and both are exact. Larger clusters are packed where W is known
/// already. Those that are still too heavy take the ordinary path: no event of particles has one.
pub const WEIGHT_SHIFT: u32 = 20;

/// The largest W of a cluster that packed sums are exact for.
pub const MAX_WEIGHT: u32 = 2051;

/// Strips of the largest cluster whose packed sums tell whether it is too heavy for them.
const MAX_PACKED_SIZE: u32 = 128;

/// Where ΣADC begins beside the number of strips, in the sums that [`Fast::select`] tells both from. A cluster has less
/// than 512 strips, and its ΣADC is below 2^13: differences modulo 2³² are exact.
const CHARGE_SHIFT: u32 = 9;

impl Fast {
    /// The stage, with every option: the event's clusters join those of the chunk. Gives the clusters without charge
    /// and those above the maximum size, and writes where the groups end.
    ///
    /// # Safety
    /// - the stream holds `n_strips <= MAX_STRIPS` strips and the end mark, and the chunk has room;
    /// - CPU as for [`Simd`].
    #[inline(always)]
    pub unsafe fn find_clusters<S: Simd>(
        &self,
        scratch: &mut Scratch,
        n_strips: usize,
        ends: &mut [u32],
    ) -> Result<(u32, u32), Unusual> {
        if self.kind != Kind::Clusters {
            // SAFETY: the caller's.
            unsafe { self.keep_strips::<S>(scratch, n_strips)? };
            for (end, &rank) in ends.iter_mut().zip(&self.lanes.first_ranks[1..]) {
                // SAFETY: stage 2 has been through the event.
                *end = unsafe { scratch.strips_before(rank) };
            }
            return Ok((0, 0));
        }
        // SAFETY: the caller's.
        unsafe {
            if self.options.position == Position::Geometric {
                self.find_clusters_at::<S, true>(scratch, n_strips, ends)
            } else {
                self.find_clusters_at::<S, false>(scratch, n_strips, ends)
            }
        }
    }

    /// # Safety
    /// As [`find_clusters`](Self::find_clusters).
    #[inline(always)]
    unsafe fn find_clusters_at<S: Simd, const GEOMETRIC: bool>(
        &self,
        scratch: &mut Scratch,
        n_strips: usize,
        ends: &mut [u32],
    ) -> Result<(u32, u32), Unusual> {
        // SAFETY: the caller's.
        unsafe {
            if !scratch.careful {
                let (n, special) =
                    if u32::from(scratch.longest) <= self.options.max_cluster_size.get().min(MAX_PACKED_SIZE) {
                        self.cluster::<S, GEOMETRIC, false, false>(scratch, n_strips)?
                    } else {
                        self.cluster::<S, GEOMETRIC, true, false>(scratch, n_strips)?
                    };
                if !special {
                    Self::group_ends::<S>(&self.lanes.first_ranks[1..], scratch, ends);
                    scratch.clusters.len += n;
                    return Ok((0, 0));
                }
            }
            let (n, special) = self.cluster::<S, GEOMETRIC, true, true>(scratch, n_strips)?;
            // Options and data decide about this: the next event will be like this one.
            scratch.careful = special;
            Self::group_ends::<S>(&self.lanes.first_ranks[1..], scratch, ends);
            let lost = self.select::<S, GEOMETRIC>(scratch, n)?;
            for end in ends {
                *end = scratch.ends_before::<S>(*end);
            }
            Ok(lost)
        }
    }

    /// Clusters the stream: the clusters stand behind those of the chunk, but are not counted as such. Gives their
    /// number, and whether anything is there that only `CAREFUL` sees to, with [`select`](Self::select): strips without
    /// charge, clusters above the maximum size or that of packed sums. These sizes are looked at with `SIZES` only; where
    /// all lanes have fewer hits, they need not be.
    ///
    /// # Safety
    /// As [`find_clusters`](Self::find_clusters).
    #[inline(always)]
    unsafe fn cluster<S: Simd, const GEOMETRIC: bool, const SIZES: bool, const CAREFUL: bool>(
        &self,
        scratch: &mut Scratch,
        n_strips: usize,
    ) -> Result<(usize, bool), Unusual> {
        let max_size = self.options.max_cluster_size.get();
        // A lane has 254 hits at most.
        let cut = CAREFUL && max_size < 254 && self.options.save_above_max;
        let max_size = max_size.min(if CAREFUL { 254 } else { MAX_PACKED_SIZE });
        if cut {
            scratch.stream[FRONT + n_strips + END.len()..][..FRONT].fill(END[0]);
        }
        // SAFETY:
        // - the stream has FRONT words before it, as many as the largest size looked back to, and as much and slack
        //   behind it for the last vector, the word after it, and the largest size looked forward to;
        // - the chunk has room for as many clusters as an event can have strips, and slack for a vector; so have the
        //   sums of a careful event;
        // - there is a word of `ends` and `clusters_before` for each vector and one more;
        // - the CPU has the instructions: the caller's.
        unsafe {
            let stream = scratch.stream.as_ptr().add(FRONT);
            let clusters = &mut scratch.clusters;
            let lasts = clusters.last.as_mut_ptr().add(clusters.len);
            let sums = clusters.sum.as_mut_ptr().add(clusters.len);
            let (weights, positions) = (scratch.weight.as_mut_ptr(), scratch.position.as_mut_ptr());
            let ends_of = scratch.ends.as_mut_ptr();
            let clusters_before = scratch.clusters_before.as_mut_ptr();
            let (zero, one, size) = (S::splat(0), S::splat(1), S::splat(max_size));
            let follows = S::splat(u32::MAX);
            // Sums up to the vector before, packed, or of weights and positions.
            let mut sum = if CAREFUL { zero } else { S::splat(*sums) };
            let mut sum_position = zero;
            // The least of each lane: ADC; strips between a strip and the one after, minus 2³²; and the one `max_size`
            // before it, which is as many only if that is in the same cluster.
            let mut least_adc = S::splat(31);
            let mut least_step = follows;
            let mut least_size = follows;
            let (mut n, mut ends) = (0, 0);
            for (vector, i) in (0..n_strips).step_by(S::LANES).enumerate() {
                let v = S::load(stream.add(i));
                let strip = S::shr::<5>(v);
                let step = S::sub(strip, S::shr::<5>(S::load(stream.add(i + 1))));
                ends = S::eq(step, follows) ^ all_lanes::<S>();
                least_step = S::min(least_step, step);
                let mut back = zero;
                if SIZES {
                    back = S::sub(strip, S::shr::<5>(S::load(stream.add(i).sub(max_size as usize))));
                    least_size = S::min(least_size, back);
                }
                let mut adc = S::and(v, S::splat(31));
                least_adc = S::min(least_adc, adc);
                let mut place = S::and(strip, S::splat(0x1FF));
                if CAREFUL {
                    let (mut last, mut unit) = (v, one);
                    if max_size < 254 {
                        let above = S::eq(back, size);
                        last = S::xor(last, S::keep(S::splat(OVERSIZED), above & ends));
                        if cut {
                            // A lane that is read backwards begins with the strips that are too many.
                            let after = S::shr::<5>(S::load(stream.add(i + max_size as usize)));
                            let below = S::eq(S::sub(after, strip), size);
                            let backwards = S::eq(S::and(v, S::splat(BACKWARDS)), S::splat(BACKWARDS));
                            let inside = !(above & !backwards | below & backwards);
                            adc = S::keep(adc, inside);
                            (unit, place) = (S::keep(one, inside), S::keep(place, inside));
                        }
                    }
                    let (weight, position) = if GEOMETRIC {
                        (S::add(S::shl::<CHARGE_SHIFT>(adc), unit), place)
                    } else {
                        (adc, S::mul_small(adc, place))
                    };
                    let weight = S::add(S::prefix_sum(weight), sum);
                    let position = S::add(S::prefix_sum(position), sum_position);
                    (sum, sum_position) = (S::spread_last(weight), S::spread_last(position));
                    S::compress_store(lasts.add(n), last, ends);
                    S::compress_store(weights.add(1 + n), weight, ends);
                    S::compress_store(positions.add(1 + n), position, ends);
                } else {
                    let packed = if GEOMETRIC {
                        S::add(place, S::splat(1 << WEIGHT_SHIFT))
                    } else {
                        S::add(S::mul_small(adc, place), S::shl::<WEIGHT_SHIFT>(adc))
                    };
                    let packed = S::add(S::prefix_sum(packed), sum);
                    sum = S::spread_last(packed);
                    S::compress_store(lasts.add(n), v, ends);
                    S::compress_store(sums.add(1 + n), packed, ends);
                }
                ends_of.add(vector).write(ends);
                clusters_before.add(vector).write(n as u32);
                n += ends.count_ones() as usize;
            }
            // Behind the last strip every word seems to be a cluster.
            let n_vectors = n_strips.div_ceil(S::LANES);
            if !n_strips.is_multiple_of(S::LANES) {
                let live = ends & ((1 << (n_strips % S::LANES)) - 1);
                n -= (ends ^ live).count_ones() as usize;
                ends_of.add(n_vectors - 1).write(live);
            }
            ends_of.add(n_vectors).write(0);
            clusters_before.add(n_vectors).write(n as u32);
            let unsorted = S::eq(S::shr::<31>(least_step), zero) != 0;
            let special = S::eq(least_adc, zero) | S::eq(least_size, size) != 0;
            if unsorted { Err(Unusual) } else { Ok((n, special)) }
        }
    }

    /// Of the `n_found` clusters that stand behind those of the chunk, lets those join it that the options keep. Gives
    /// the clusters without charge and those above the maximum size.
    ///
    /// # Safety
    /// As [`find_clusters`](Self::find_clusters).
    #[inline(always)]
    unsafe fn select<S: Simd, const GEOMETRIC: bool>(
        &self,
        scratch: &mut Scratch,
        n_found: usize,
    ) -> Result<(u32, u32), Unusual> {
        let save = if self.options.save_above_max { u32::MAX } else { 0 };
        let (mut n_zero_charge, mut n_oversized) = (0, 0);
        // SAFETY:
        // - clusters are read where they were written, each vector before anything is written over it or the one
        //   after: there are never more kept than read;
        // - there is a word of `ends` and `clusters_before` for each vector of strips and one more, and clusters are not
        //   more than strips;
        // - the CPU has the instructions: the caller's.
        unsafe {
            let clusters = &mut scratch.clusters;
            let lasts = clusters.last.as_mut_ptr().add(clusters.len);
            let sums = clusters.sum.as_mut_ptr().add(clusters.len);
            let mut sum = S::splat(*sums);
            let mut weight_before = S::splat(0);
            let mut position_before = weight_before;
            let mark = S::splat(OVERSIZED);
            let (mut n, mut heavy) = (0, 0);
            for (vector, i) in (0..n_found).step_by(S::LANES).enumerate() {
                let live = all_lanes::<S>() >> S::LANES.saturating_sub(n_found - i);
                let last = S::load(lasts.add(i));
                let weights = S::load(scratch.weight.as_ptr().add(1 + i));
                let positions = S::load(scratch.position.as_ptr().add(1 + i));
                let weight = S::sub(weights, S::shift_in(weight_before, weights));
                let position = S::sub(positions, S::shift_in(position_before, positions));
                (weight_before, position_before) = (weights, positions);
                let (charge, weight) = if GEOMETRIC {
                    (S::shr::<CHARGE_SHIFT>(weight), S::and(weight, S::splat((1 << CHARGE_SHIFT) - 1)))
                } else {
                    (weight, weight)
                };
                let oversized = S::eq(S::and(last, mark), mark) & live;
                let dropped = oversized & !save;
                let zero_charge = S::eq(charge, S::splat(0)) & live & !dropped;
                n_oversized += oversized.count_ones();
                n_zero_charge += zero_charge.count_ones();
                let kept = live & !dropped & !zero_charge;
                heavy |= !S::le(weight, S::splat(MAX_WEIGHT)) & kept;
                let packed = S::keep(S::add(S::shl::<WEIGHT_SHIFT>(weight), position), kept);
                let packed = S::add(S::prefix_sum(packed), sum);
                sum = S::spread_last(packed);
                S::compress_store(lasts.add(n), S::and(last, S::splat(!OVERSIZED)), kept);
                S::compress_store(sums.add(1 + n), packed, kept);
                scratch.ends.as_mut_ptr().add(vector).write(kept);
                scratch.clusters_before.as_mut_ptr().add(vector).write(n as u32);
                n += kept.count_ones() as usize;
            }
            let n_vectors = n_found.div_ceil(S::LANES);
            scratch.ends.as_mut_ptr().add(n_vectors).write(0);
            scratch.clusters_before.as_mut_ptr().add(n_vectors).write(n as u32);
            if heavy != 0 {
                return Err(Unusual);
            }
            clusters.len += n;
        }
        Ok((n_zero_charge, n_oversized))
    }

    /// Where the groups end among the clusters.
    ///
    /// # Safety
    /// Stages 2 and 3 have been through the event.
    #[inline(always)]
    unsafe fn group_ends<S: Simd>(first_ranks: &[u16], scratch: &Scratch, ends: &mut [u32]) {
        for (end, &rank) in ends.iter_mut().zip(first_ranks) {
            // SAFETY: the caller's; strips before a rank are among those of the event.
            *end = unsafe { scratch.ends_before::<S>(scratch.strips_before(rank)) };
        }
    }

    /// Every strip is a hit.
    ///
    /// # Safety
    /// As [`find_clusters`](Self::find_clusters).
    #[inline(always)]
    unsafe fn keep_strips<S: Simd>(&self, scratch: &mut Scratch, n_strips: usize) -> Result<(), Unusual> {
        // SAFETY:
        // - the stream has a vector of END behind the last strip, and the chunk has room, and slack for a vector;
        // - the CPU has the instructions: the caller's.
        let unsorted = unsafe {
            let stream = scratch.stream.as_ptr().add(FRONT);
            let lasts = scratch.clusters.last.as_mut_ptr().add(scratch.clusters.len);
            let mut least_step = S::splat(u32::MAX);
            for i in (0..n_strips).step_by(S::LANES) {
                let v = S::load(stream.add(i));
                let next = S::load(stream.add(i + 1));
                least_step = S::min(least_step, S::sub(S::shr::<5>(v), S::shr::<5>(next)));
                S::store(lasts.add(i), v);
            }
            S::eq(S::shr::<31>(least_step), S::splat(0)) != 0
        };
        // v4 clusters may come in any order.
        if unsorted && self.kind == Kind::Strips {
            return Err(Unusual);
        }
        scratch.clusters.len += n_strips;
        Ok(())
    }
}

/// Bits for all lanes of a vector.
#[inline(always)]
const fn all_lanes<S: Simd>() -> u32 {
    u32::MAX >> (32 - S::LANES)
}

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
use crate::backend::Position;

/// The bit that marks, in `Clusters::last`, a cluster above the maximum size, until [`Fast::select`] has seen it.
const OVERSIZED: u32 = 1 << 31;

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
            self.keep_strips(scratch, n_strips)?;
            for (end, &rank) in ends.iter_mut().zip(&self.lanes.first_ranks[1..]) {
                *end = scratch.strips_before(rank);
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
                let (n, special) = self.cluster::<S, GEOMETRIC, false>(scratch, n_strips)?;
                if !special {
                    Self::group_ends::<S>(&self.lanes.first_ranks[1..], scratch, ends);
                    scratch.clusters.len += n;
                    return Ok((0, 0));
                }
            }
            let (n, special) = self.cluster::<S, GEOMETRIC, true>(scratch, n_strips)?;
            // Options and data decide about this: the next event will be like this one.
            scratch.careful = special;
            Self::group_ends::<S>(&self.lanes.first_ranks[1..], scratch, ends);
            let lost = self.select::<S, GEOMETRIC>(scratch, n);
            for end in ends {
                *end = scratch.ends_before::<S>(*end);
            }
            Ok(lost)
        }
    }

    /// Clusters the stream: the clusters stand behind those of the chunk, but are not counted as such. Gives their
    /// number, and whether anything is there that only `CAREFUL` sees to, with [`select`](Self::select): strips without
    /// charge, clusters above the maximum size.
    ///
    /// # Safety
    /// As [`find_clusters`](Self::find_clusters).
    #[inline(always)]
    unsafe fn cluster<S: Simd, const GEOMETRIC: bool, const CAREFUL: bool>(
        &self,
        scratch: &mut Scratch,
        n_strips: usize,
    ) -> Result<(usize, bool), Unusual> {
        let max_size = self.options.max_cluster_size.get();
        // A lane has 254 hits at most.
        let check_size = max_size < 254;
        let max_size = max_size.min(254);
        let cut = CAREFUL && check_size && self.options.save_above_max;
        if cut {
            scratch.stream[FRONT + n_strips..][..FRONT].fill(END);
        }
        let (mut unsorted, mut special) = (0, 0);
        // SAFETY:
        // - the stream has FRONT words before it, as many as the largest size looked back to, and as much and slack
        //   behind it for the last vector, the word after it, and the largest size looked forward to;
        // - the chunk has room for as many clusters as an event can have strips, and slack for a vector;
        // - there is a word of `ends` and `clusters_before` for each vector and one more;
        // - the CPU has the instructions: the caller's.
        unsafe {
            let stream = scratch.stream.as_ptr().add(FRONT);
            let clusters = &mut scratch.clusters;
            let mut n = clusters.len;
            let mut sum_weight = S::splat(clusters.weight[n]);
            let mut sum_position = S::splat(clusters.position[n]);
            let (zero, one) = (S::splat(0), S::splat(1));
            let size = S::splat(max_size);
            let mut i = 0;
            let mut vector = 0;
            while i < n_strips {
                let v = S::load(stream.add(i));
                let strip = S::shr::<5>(v);
                let next = S::shr::<5>(S::load(stream.add(i + 1)));
                let live = first_lanes::<S>(n_strips - i);
                let ends = !S::eq(next, S::add(strip, one)) & live;
                unsorted |= S::le(next, strip) & live;
                let mut adc = S::and(v, S::splat(31));
                special |= S::eq(adc, zero) & live;
                let mut last = v;
                let mut unit = one;
                let mut place = S::and(strip, S::splat(0x1FF));
                if check_size {
                    // Where as many strips as fit into a cluster stand before the strip in the same one.
                    let before = S::shr::<5>(S::load(stream.add(i).sub(max_size as usize)));
                    let above = S::eq(S::sub(strip, before), size) & live;
                    special |= above;
                    if CAREFUL {
                        last = S::xor(last, S::keep(S::splat(OVERSIZED), above & ends));
                    }
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
                let (weight, position) = match (GEOMETRIC, CAREFUL) {
                    (false, _) => (adc, S::mul_small(adc, place)),
                    (true, false) => (unit, place),
                    (true, true) => (S::add(S::shl::<CHARGE_SHIFT>(adc), unit), place),
                };
                let weight = S::add(S::prefix_sum(weight), sum_weight);
                let position = S::add(S::prefix_sum(position), sum_position);
                sum_weight = S::spread_last(weight);
                sum_position = S::spread_last(position);
                S::compress_store(clusters.last.as_mut_ptr().add(n), last, ends);
                S::compress_store(clusters.weight.as_mut_ptr().add(1 + n), weight, ends);
                S::compress_store(clusters.position.as_mut_ptr().add(1 + n), position, ends);
                scratch.ends.as_mut_ptr().add(vector).write(ends);
                scratch.clusters_before.as_mut_ptr().add(vector).write((n - clusters.len) as u32);
                n += ends.count_ones() as usize;
                i += S::LANES;
                vector += 1;
            }
            scratch.ends.as_mut_ptr().add(vector).write(0);
            scratch.clusters_before.as_mut_ptr().add(vector).write((n - clusters.len) as u32);
            if unsorted != 0 { Err(Unusual) } else { Ok((n - clusters.len, special != 0)) }
        }
    }

    /// Of the `n_found` clusters that stand behind those of the chunk, lets those join it that the options keep. Gives
    /// the clusters without charge and those above the maximum size.
    ///
    /// # Safety
    /// As [`find_clusters`](Self::find_clusters).
    #[inline(always)]
    unsafe fn select<S: Simd, const GEOMETRIC: bool>(&self, scratch: &mut Scratch, n_found: usize) -> (u32, u32) {
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
            let first = clusters.len;
            let mut n = first;
            let mut weight_before = S::splat(clusters.weight[n]);
            let mut position_before = S::splat(clusters.position[n]);
            let (mut sum_weight, mut sum_position) = (weight_before, position_before);
            let mark = S::splat(OVERSIZED);
            let mut i = 0;
            let mut vector = 0;
            while i < n_found {
                let live = first_lanes::<S>(n_found - i);
                let last = S::load(clusters.last.as_ptr().add(first + i));
                let weights = S::load(clusters.weight.as_ptr().add(1 + first + i));
                let positions = S::load(clusters.position.as_ptr().add(1 + first + i));
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
                let weight = S::add(S::prefix_sum(S::keep(weight, kept)), sum_weight);
                let position = S::add(S::prefix_sum(S::keep(position, kept)), sum_position);
                sum_weight = S::spread_last(weight);
                sum_position = S::spread_last(position);
                S::compress_store(clusters.last.as_mut_ptr().add(n), S::and(last, S::splat(!OVERSIZED)), kept);
                S::compress_store(clusters.weight.as_mut_ptr().add(1 + n), weight, kept);
                S::compress_store(clusters.position.as_mut_ptr().add(1 + n), position, kept);
                scratch.ends.as_mut_ptr().add(vector).write(kept);
                scratch.clusters_before.as_mut_ptr().add(vector).write((n - first) as u32);
                n += kept.count_ones() as usize;
                i += S::LANES;
                vector += 1;
            }
            scratch.ends.as_mut_ptr().add(vector).write(0);
            scratch.clusters_before.as_mut_ptr().add(vector).write((n - first) as u32);
            clusters.len = n;
        }
        (n_zero_charge, n_oversized)
    }

    /// Where the groups end among the clusters.
    #[inline(always)]
    fn group_ends<S: Simd>(first_ranks: &[u16], scratch: &Scratch, ends: &mut [u32]) {
        for (end, &rank) in ends.iter_mut().zip(first_ranks) {
            *end = scratch.ends_before::<S>(scratch.strips_before(rank));
        }
    }

    /// Every strip is a hit.
    #[inline(always)]
    fn keep_strips(&self, scratch: &mut Scratch, n_strips: usize) -> Result<(), Unusual> {
        let stream = &scratch.stream[FRONT..][..=n_strips];
        // v4 clusters may come in any order.
        if self.kind == Kind::Strips && stream.windows(2).any(|pair| pair[0] >> 5 >= pair[1] >> 5) {
            return Err(Unusual);
        }
        let clusters = &mut scratch.clusters;
        clusters.last[clusters.len..][..n_strips].copy_from_slice(&stream[..n_strips]);
        clusters.len += n_strips;
        Ok(())
    }
}

/// Bits for the first `n` lanes of a vector, of all where it has no more.
#[inline(always)]
fn first_lanes<S: Simd>(n: usize) -> u32 {
    let all = ((1u64 << S::LANES) - 1) as u32;
    if n >= S::LANES { all } else { (1 << n) - 1 }
}

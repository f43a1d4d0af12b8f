//! Stage 4: makes hits of the clusters, and sorts where the order of the lanes is not that of the hits.

use super::fast::{Fast, Kind, Unusual};
use super::hits::EventHits;
use super::lanes::{FLIPPED, RANK_SHIFT, REVERSED};
use super::scratch::{Clusters, Scratch};
use super::simd::Simd;

/// How far ahead of the hits the memory for them is asked for, in hits.
const AHEAD: usize = 512;

impl Fast {
    /// The stage: from the clusters `first` and following of the chunk to the hits of one event.
    ///
    /// # Errors
    /// When two hits have equal keys; some of the hits are written then.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`.
    #[inline(always)]
    pub unsafe fn make_hits<S: Simd>(
        &self,
        scratch: &mut Scratch,
        first: usize,
        ends: &[u32],
        hits: &mut EventHits<'_>,
    ) -> Result<(), Unusual> {
        // SAFETY: the caller's.
        unsafe {
            match self.kind {
                Kind::Clusters => self.make::<S, 0>(scratch, first, hits),
                Kind::Strips => self.make::<S, 1>(scratch, first, hits),
                Kind::Quarters => self.make::<S, 2>(scratch, first, hits),
            }
        }
        Self::repair::<S>(scratch, ends, hits)
    }

    #[inline(always)]
    unsafe fn make<S: Simd, const KIND: u8>(&self, scratch: &mut Scratch, first: usize, hits: &mut EventHits<'_>) {
        let n_hits = hits.id.len();
        // SAFETY:
        // - the clusters `first` and following are there, as many as the event has hits, and a vector more of slack;
        // - there is a word of inversions for each vector of the most strips that an event can have;
        // - all lanes of a full vector hold clusters, whose ranks ascend: with a span below WINDOW they fit into one;
        // - the CPU has the instructions: the caller's.
        unsafe {
            let mut x_before = S::splat_f(f32::NEG_INFINITY);
            let mut i = 0;
            while i < n_hits {
                let n = (n_hits - i).min(S::LANES);
                let last = scratch.clusters.last.as_ptr().add(first + i);
                let first_rank = *last >> RANK_SHIFT;
                let span = (*last.add(n - 1) >> RANK_SHIFT) - first_rank;
                let inverted;
                (x_before, inverted) = if n == S::LANES && span < S::WINDOW {
                    self.vector_of_hits::<S, KIND, true>(&scratch.clusters, first, i, n, x_before, hits)
                } else {
                    self.vector_of_hits::<S, KIND, false>(&scratch.clusters, first, i, n, x_before, hits)
                };
                scratch.inversions.as_mut_ptr().add(i / S::LANES).write(inverted);
                i += S::LANES;
            }
        }
    }

    /// Makes hits `i` to `i + n` of the event. Gives their x, and a bit for each that is not above the x before it.
    ///
    /// # Safety
    /// - cluster `first + i` and a vector from there on can be read, and `n` of them, at least one, are the event's;
    /// - the event has `i + n` hits or more; with `WINDOW`, `n` is a whole vector and its ranks fit into a window;
    /// - CPU as for [`Simd`].
    #[inline(always)]
    unsafe fn vector_of_hits<S: Simd, const KIND: u8, const WINDOW: bool>(
        &self,
        clusters: &Clusters,
        first: usize,
        i: usize,
        n: usize,
        x_before: S::F,
        hits: &mut EventHits<'_>,
    ) -> (S::F, u32) {
        // SAFETY:
        // - reads and writes: the caller's;
        // - lookups: ranks are those of connected lanes, or cut to the last of them;
        // - conversions: Σpos is at most 31·511·254 and ΣADC 31·254, both below 2^24.
        unsafe {
            let lanes = &self.lanes;
            let all = ((1u64 << n) - 1) as u32;
            let last_rank = S::splat(lanes.n_connected as u32 - 1);
            let last = S::load(clusters.last.as_ptr().add(first + i));
            let ranks = S::shr::<RANK_SHIFT>(last);
            let first_rank = (*clusters.last.as_ptr().add(first + i) >> RANK_SHIFT) as usize;
            let here = Lookup::<S, WINDOW> {
                first: first_rank,
                // Behind the last hit there may be anything.
                index: if WINDOW { S::sub(ranks, S::splat(first_rank as u32)) } else { S::min(ranks, last_rank) },
            };
            let id = here.words(&lanes.id);
            let reversed = S::spread_sign(id);
            let (coordinate, strip) = match KIND {
                0 => {
                    let weights = clusters.weight.as_ptr().add(first + i);
                    let positions = clusters.position.as_ptr().add(first + i);
                    let weight = S::sub(S::load(weights.add(1)), S::load(weights));
                    let position = S::sub(S::load(positions.add(1)), S::load(positions));
                    // Strips of a lane that is read backwards count from the other end: 511 W - Σpos.
                    let whole = S::and(S::sub(S::shl::<9>(weight), weight), reversed);
                    let position = S::add(S::sub(S::xor(position, reversed), reversed), whole);
                    let mean = S::div_f(S::to_float(position), S::to_float(weight));
                    // This is the integer (2 Σpos + W) / 2 / W, always. Let q = Σpos / W <= 511, W <= 7874. The mean is q
                    // with an error of 2^-16 at most (half an ulp below 512), and adding 1/2 makes another of 2^-16:
                    // together 3.1e-5. q + 1/2 is a multiple of 1 / 2W: either a whole number, then q is one and a
                    // half or the like and both steps are exact; or at least 1 / 15748 = 6.3e-5 from the next one, which
                    // the errors do not reach. A test goes through all W and all boundaries.
                    (mean, S::truncate(S::add_f(mean, S::splat_f(0.5))))
                }
                1 => {
                    let strip = S::and(S::shr::<5>(S::xor(last, reversed)), S::splat(0x1FF));
                    (S::to_float(strip), strip)
                }
                _ => {
                    let quarters = S::and(S::xor(last, reversed), S::splat(0x7FF));
                    let strips = S::mul_f(S::to_float(quarters), S::splat_f(0.25));
                    (S::add_f(strips, here.floats(&lanes.first)), S::shr::<2>(quarters))
                }
            };
            let n_strips = if KIND == 2 {
                coordinate
            } else {
                let origin = S::splat_f(self.options.flip.origin());
                S::select_by_sign(S::shl::<1>(id), S::sub_f(origin, coordinate), coordinate)
            };
            let id = S::add(S::and(id, S::splat(!(REVERSED | FLIPPED))), strip);
            let x = here.line(&lanes.p0_x, n_strips, &lanes.dp0di_x);
            let y_begin = here.line(&lanes.p0_y, n_strips, &lanes.dp0di_y);
            let y_end = S::add_f(here.floats(&lanes.dy), y_begin);
            let z = here.line(&lanes.p0_z, n_strips, &lanes.dp0di_z);
            Lookup::<S, WINDOW>::put(hits.y_begin, i, n, y_begin);
            Lookup::<S, WINDOW>::put(hits.y_end, i, n, y_end);
            Lookup::<S, WINDOW>::put(hits.z_at_y_eq0, i, n, z);
            Lookup::<S, WINDOW>::put(hits.x_at_y_eq0, i, n, x);
            Lookup::<S, WINDOW>::put(hits.dx_dy, i, n, here.floats(&lanes.dx_dy));
            Lookup::<S, WINDOW>::put(hits.weight, i, n, here.floats(&lanes.weight));
            Lookup::<S, WINDOW>::put_words(hits.id, i, n, id);
            let before = S::from_bits(S::shift_in(S::bits(x_before), S::bits(x)));
            (x, S::not_less(before, x) & all)
        }
    }

    /// Sorts the groups in which the static order of the lanes is not the order of the hits.
    #[inline(always)]
    fn repair<S: Simd>(scratch: &mut Scratch, ends: &[u32], hits: &mut EventHits<'_>) -> Result<(), Unusual> {
        let n_hits = hits.id.len();
        let inversions = &mut scratch.inversions[..n_hits.div_ceil(S::LANES)];
        // Between groups x may fall.
        if let Some(first) = inversions.first_mut() {
            *first &= !1;
        }
        for &end in ends {
            if let Some(bits) = inversions.get_mut(end as usize / S::LANES) {
                *bits &= !(1 << (end as usize % S::LANES));
            }
        }
        let mut sorted_to = 0;
        for (vector, &inverted) in inversions.iter().enumerate() {
            let mut bits = inverted;
            while bits != 0 {
                let place = vector * S::LANES + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if place < sorted_to {
                    continue;
                }
                let group = ends.partition_point(|&end| end as usize <= place);
                let begin = if group == 0 { 0 } else { ends[group - 1] as usize };
                sorted_to = ends[group] as usize;
                for place in place..sorted_to {
                    hits.move_down(begin, place)?;
                }
            }
        }
        Ok(())
    }
}

/// Looks up, for each hit of a vector, what belongs to its rank.
///
/// Methods and not closures: a closure that is not inlined has not the level's instructions.
#[derive(Clone, Copy)]
struct Lookup<S: Simd, const WINDOW: bool> {
    /// Rank of the first hit.
    first: usize,
    /// With `WINDOW`, the ranks counted from `first`; else the ranks.
    index: S::U,
}

#[expect(clippy::inline_always, reason = "see `Simd`")]
impl<S: Simd, const WINDOW: bool> Lookup<S, WINDOW> {
    /// # Safety
    /// The table is one of [`LaneOrder`](super::lanes::LaneOrder); CPU as for [`Simd`].
    #[inline(always)]
    unsafe fn words(&self, table: &[u32]) -> S::U {
        // SAFETY: tables have an entry for each rank, and a window of padding.
        unsafe {
            if WINDOW {
                S::lookup_window(table.as_ptr().add(self.first), self.index)
            } else {
                S::lookup(table.as_ptr(), self.index)
            }
        }
    }

    /// # Safety
    /// As [`words`](Self::words).
    #[inline(always)]
    unsafe fn floats(&self, table: &[f32]) -> S::F {
        // SAFETY: the caller's.
        unsafe { S::from_bits(self.words(bytemuck::cast_slice(table))) }
    }

    /// `p0 + n * step`
    ///
    /// # Safety
    /// As [`words`](Self::words).
    #[inline(always)]
    unsafe fn line(&self, p0: &[f32], n: S::F, step: &[f32]) -> S::F {
        // SAFETY: the caller's.
        unsafe { S::add_f(self.floats(p0), S::mul_f(n, self.floats(step))) }
    }

    /// Writes the first `n` lanes to `to` from `at` on.
    ///
    /// # Safety
    /// - `n` places are there; with `WINDOW`, `n` is all lanes;
    /// - CPU as for [`Simd`].
    #[inline(always)]
    unsafe fn put(to: &mut [f32], at: usize, n: usize, v: S::F) {
        // SAFETY: the caller's.
        unsafe { Self::put_words(bytemuck::cast_slice_mut(to), at, n, S::bits(v)) }
    }

    /// # Safety
    /// As [`put`](Self::put).
    #[inline(always)]
    unsafe fn put_words(to: &mut [u32], at: usize, n: usize, v: S::U) {
        // SAFETY: the caller's.
        unsafe {
            let to = to.as_mut_ptr().add(at);
            S::prefetch(to.wrapping_add(AHEAD).cast());
            if WINDOW { S::store(to, v) } else { S::store_first(to, v, n) }
        }
    }
}

#[cfg(test)]
mod tests {
    /// What the vectors do.
    fn rounded(sum: u32, weight: u32) -> u32 {
        (sum as f32 / weight as f32 + 0.5) as u32
    }

    #[test]
    fn the_mean_strip_rounds_as_integers_do_at_every_boundary() {
        for weight in 1..=31 * 254u32 {
            for strip in 1..=511 {
                // The first Σpos that rounds to `strip`, and those about it.
                let boundary = ((2 * strip - 1) * weight).div_ceil(2);
                for sum in boundary.saturating_sub(1)..=(boundary + 1).min(511 * weight) {
                    let exact = (sum + weight / 2) / weight;
                    assert_eq!(rounded(sum, weight), exact, "{sum} / {weight}");
                }
            }
            assert_eq!((rounded(0, weight), rounded(511 * weight, weight)), (0, 511));
        }
    }
}

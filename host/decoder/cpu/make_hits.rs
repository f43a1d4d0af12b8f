//! Stage 4: makes hits of the clusters, and sorts where the order of the lanes is not that of the hits.

use std::marker::PhantomData;
use std::ops::Range;

use super::fast::{Fast, Kind, Unusual};
use super::find_clusters::{MAX_WEIGHT, WEIGHT_SHIFT};
use super::hits::EventHits;
use super::lanes::{FLIPPED, KIND_MASK, RANK_SHIFT, REVERSED};
use super::scratch::{Clusters, Scratch};
use super::simd::Simd;

/// How far ahead of the hits the memory for them is asked for, in hits.
const AHEAD: usize = 512;

impl Fast {
    /// The stage: from the clusters `first` and following of the chunk to the hits of one event.
    ///
    /// # Errors
    /// When two hits have equal keys, or a cluster is too heavy for packed sums; some of the hits are written then.
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
        if hits.id.is_empty() {
            return Ok(());
        }
        // SAFETY: the caller's; there are hits.
        unsafe {
            match (self.kind, self.lanes.few_kinds) {
                (Kind::Clusters, true) => self.make::<S, 0, true>(scratch, first, hits),
                (Kind::Clusters, false) => self.make::<S, 0, false>(scratch, first, hits),
                (Kind::Strips, true) => self.make::<S, 1, true>(scratch, first, hits),
                (Kind::Strips, false) => self.make::<S, 1, false>(scratch, first, hits),
                (Kind::Quarters, true) => self.make::<S, 2, true>(scratch, first, hits),
                (Kind::Quarters, false) => self.make::<S, 2, false>(scratch, first, hits),
            }?;
        }
        Self::repair::<S>(scratch, ends, hits)
    }

    #[inline(always)]
    unsafe fn make<S: Simd, const KIND: u8, const FEW: bool>(
        &self,
        scratch: &mut Scratch,
        first: usize,
        hits: &mut EventHits<'_>,
    ) -> Result<(), Unusual> {
        let lead = lead::<S>(hits);
        let end = lead + hits.id.len();
        // SAFETY:
        // - the clusters `first` and following are there, as many as the event has hits, which has some, and a vector
        //   more before and behind;
        // - there is a word of inversions for each vector of the most strips that an event can have, and one more;
        // - ranks ascend: with a span below WINDOW all of them fit into one;
        // - the CPU has the instructions: the caller's.
        unsafe {
            let inversions = scratch.inversions.as_mut_ptr();
            let mut x_before = S::splat_f(f32::NEG_INFINITY);
            let mut heavy = 0;
            let mut i = 0;
            while i < end {
                // Only the first and the last vector are not full.
                let live = lead.saturating_sub(i)..(end - i).min(S::LANES);
                let place = Place { cluster: first + i - lead, hit: i.wrapping_sub(lead), live: live.clone() };
                let last = scratch.clusters.last.as_ptr().add(place.cluster);
                let span = (*last.add(live.end - 1) >> RANK_SHIFT) - (*last.add(live.start) >> RANK_SHIFT);
                let (inverted, too_heavy);
                (x_before, inverted, too_heavy) = if live.len() < S::LANES || span >= 2 * S::WINDOW {
                    self.vector_of_hits::<S, KIND, FEW, ANYWHERE>(&scratch.clusters, &place, x_before, hits)
                } else if span >= S::WINDOW {
                    self.vector_of_hits::<S, KIND, FEW, TWO_WINDOWS>(&scratch.clusters, &place, x_before, hits)
                } else {
                    self.vector_of_hits::<S, KIND, FEW, WINDOW>(&scratch.clusters, &place, x_before, hits)
                };
                inversions.add(i / S::LANES).write(inverted);
                heavy |= too_heavy;
                i += S::LANES;
            }
            if heavy == 0 { Ok(()) } else { Err(Unusual) }
        }
    }

    /// Makes a vector of hits. Gives their x, a bit for each that is not above the x before it, and one for each of a
    /// cluster that packed sums are not exact for.
    ///
    /// # Safety
    /// - a vector of clusters can be read at the place, and the hits of the live lanes, one at least, are the event's;
    /// - unless `REACH` is `ANYWHERE`, all lanes are live and their ranks fit into so many windows;
    /// - `FEW` says whether the sectors are of few kinds;
    /// - CPU as for [`Simd`].
    #[inline(always)]
    unsafe fn vector_of_hits<S: Simd, const KIND: u8, const FEW: bool, const REACH: u8>(
        &self,
        clusters: &Clusters,
        place: &Place,
        x_before: S::F,
        hits: &mut EventHits<'_>,
    ) -> (S::F, u32, u32) {
        // SAFETY:
        // - reads and writes: the caller's;
        // - lookups: ranks are those of connected lanes, or cut to the last of them;
        // - conversions: Σpos is at most 31·511·254 and ΣADC 31·254, both below 2^24.
        unsafe {
            let lanes = &self.lanes;
            let live = (((1u64 << place.live.end) - 1) as u32) >> place.live.start << place.live.start;
            let last_rank = S::splat(lanes.n_connected as u32 - 1);
            let last = S::load(clusters.last.as_ptr().add(place.cluster));
            let ranks = S::shr::<RANK_SHIFT>(last);
            let first_rank = *clusters.last.as_ptr().add(place.cluster) >> RANK_SHIFT;
            let mut here = Lookup::<S, FEW, REACH> {
                first: first_rank as usize,
                // Beside the event's hits there may be anything.
                index: if REACH == ANYWHERE { S::min(ranks, last_rank) } else { S::sub(ranks, S::splat(first_rank)) },
                kind: last_rank,
            };
            let id = here.words(&lanes.id);
            here.kind = id;
            let reversed = S::spread_sign(id);
            let mut heavy = 0;
            let (coordinate, strip) = match KIND {
                0 => {
                    let sums = clusters.sum.as_ptr().add(place.cluster);
                    let sum = S::sub(S::load(sums.add(1)), S::load(sums));
                    let weight = S::shr::<WEIGHT_SHIFT>(sum);
                    let position = S::and(sum, S::splat((1 << WEIGHT_SHIFT) - 1));
                    heavy = !S::le(weight, S::splat(MAX_WEIGHT)) & live;
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
            let id = S::add(S::and(id, S::splat(!(REVERSED | FLIPPED | if FEW { KIND_MASK } else { 0 }))), strip);
            let x = here.line(&lanes.p0_x, n_strips, &lanes.dp0di_x);
            let y_begin = here.line(&lanes.p0_y, n_strips, &lanes.dp0di_y);
            let y_end = S::add_f(here.of_kind(&lanes.dy), y_begin);
            let z = here.line(&lanes.p0_z, n_strips, &lanes.dp0di_z);
            let to = Output::<S, REACH> { hit: place.hit, live, lanes: PhantomData };
            to.floats(hits.y_begin, y_begin);
            to.floats(hits.y_end, y_end);
            to.floats(hits.z_at_y_eq0, z);
            to.floats(hits.x_at_y_eq0, x);
            to.floats(hits.dx_dy, here.of_kind(&lanes.dx_dy));
            to.floats(hits.weight, here.of_kind(&lanes.weight));
            to.words(hits.id, id);
            let before = S::from_bits(S::shift_in(S::bits(x_before), S::bits(x)));
            (x, S::not_less(before, x) & live, heavy)
        }
    }

    /// Sorts the groups in which the static order of the lanes is not the order of the hits.
    #[inline(always)]
    fn repair<S: Simd>(scratch: &mut Scratch, ends: &[u32], hits: &mut EventHits<'_>) -> Result<(), Unusual> {
        let lead = lead::<S>(hits);
        let inversions = &mut scratch.inversions[..(lead + hits.id.len()).div_ceil(S::LANES)];
        // Between groups x may fall.
        for end in std::iter::once(0).chain(ends.iter().map(|&end| end as usize)) {
            if let Some(bits) = inversions.get_mut((lead + end) / S::LANES) {
                *bits &= !(1 << ((lead + end) % S::LANES));
            }
        }
        let mut sorted_to = 0;
        for (vector, &inverted) in inversions.iter().enumerate() {
            let mut bits = inverted;
            while bits != 0 {
                let place = vector * S::LANES + bits.trailing_zeros() as usize - lead;
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

/// Lanes of the first vector before the event's first hit, so that no vector that is written lies across two cache
/// lines.
fn lead<S: Simd>(hits: &EventHits<'_>) -> usize {
    hits.id.as_ptr().addr() / size_of::<u32>() % S::LANES
}

/// A vector of hits.
struct Place {
    /// The cluster of its first lane.
    cluster: usize,
    /// The place of its first lane among the hits of the event; before the first, modulo 2⁶⁴.
    hit: usize,
    /// The lanes that are hits of the event.
    live: Range<usize>,
}

/// How far apart the ranks of a vector of hits may be: in a window, in two, or anywhere.
const WINDOW: u8 = 1;
const TWO_WINDOWS: u8 = 2;
const ANYWHERE: u8 = 0;

/// Looks up, for each hit of a vector, what belongs to its rank.
///
/// Methods and not closures: a closure that is not inlined has not the level's instructions.
#[derive(Clone, Copy)]
struct Lookup<S: Simd, const FEW: bool, const REACH: u8> {
    /// Rank of the first hit.
    first: usize,
    /// The ranks counted from `first`; those themselves if they are `ANYWHERE`.
    index: S::U,
    /// With `FEW` kinds, words whose lowest bits are those.
    kind: S::U,
}

#[expect(clippy::inline_always, reason = "see `Simd`")]
impl<S: Simd, const FEW: bool, const REACH: u8> Lookup<S, FEW, REACH> {
    /// # Safety
    /// The table is one of [`LaneOrder`](super::lanes::LaneOrder); CPU as for [`Simd`].
    #[inline(always)]
    unsafe fn words(&self, table: &[u32]) -> S::U {
        // SAFETY: tables have an entry for each rank, and two windows of padding.
        unsafe {
            let window = table.as_ptr().wrapping_add(self.first);
            match REACH {
                WINDOW => S::lookup_window(window, self.index),
                TWO_WINDOWS => {
                    let beyond = S::sub(self.index, S::splat(S::WINDOW));
                    let low = S::from_bits(S::lookup_window(window, self.index));
                    let high = S::from_bits(S::lookup_window(window.add(S::WINDOW as usize), beyond));
                    S::bits(S::select_by_sign(beyond, low, high))
                }
                _ => S::lookup(table.as_ptr(), self.index),
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

    /// # Safety
    /// The table is one by kind; otherwise as [`words`](Self::words).
    #[inline(always)]
    unsafe fn of_kind(&self, table: &[f32]) -> S::F {
        // SAFETY: few kinds fit into 16 entries, and the table has two windows; without that, it is one by rank.
        unsafe { if FEW { S::from_bits(S::lookup_16(table.as_ptr().cast(), self.kind)) } else { self.floats(table) } }
    }

    /// `p0 + n * step`, with a step by kind.
    ///
    /// # Safety
    /// As [`words`](Self::words).
    #[inline(always)]
    unsafe fn line(&self, p0: &[f32], n: S::F, step: &[f32]) -> S::F {
        // SAFETY: the caller's.
        unsafe { S::add_f(self.floats(p0), S::mul_f(n, self.of_kind(step))) }
    }
}

/// Where a vector of hits goes in each array.
#[derive(Clone, Copy)]
struct Output<S: Simd, const REACH: u8> {
    /// As in [`Place`].
    hit: usize,
    /// The lanes that are written; unless they are `ANYWHERE`, all of them.
    live: u32,
    lanes: PhantomData<S>,
}

#[expect(clippy::inline_always, reason = "see `Simd`")]
impl<S: Simd, const REACH: u8> Output<S, REACH> {
    /// # Safety
    /// - the places of the live lanes are in the array;
    /// - CPU as for [`Simd`].
    #[inline(always)]
    unsafe fn floats(self, to: &mut [f32], v: S::F) {
        // SAFETY: the caller's.
        unsafe { self.words(bytemuck::cast_slice_mut(to), S::bits(v)) }
    }

    /// # Safety
    /// As [`floats`](Self::floats).
    #[inline(always)]
    unsafe fn words(self, to: &mut [u32], v: S::U) {
        // SAFETY: the caller's.
        unsafe {
            let to = to.as_mut_ptr().wrapping_add(self.hit);
            S::prefetch(to.wrapping_add(AHEAD).cast());
            if REACH == ANYWHERE { S::store_some(to, v, self.live) } else { S::store(to, v) }
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

//! Stage 4: turns clusters into hits, and sorts the groups whose hits do not follow the order of
//! the lanes.
//!
//! For each vector of clusters: subtract neighbouring prefix sums to get W and Σ(W · strip), divide
//! once to get the mean strip n, look up the ten constants of the lanes, and compute the seven
//! arrays (`docs/format.md`). Every operation on floats is done in the order that the format
//! document prescribes, without fused multiply-add, so that the bits agree with every other
//! backend.
//!
//! # Vectors on the lines of the output
//!
//! Seven arrays are written, and a vector that crosses a cache line costs two stores. The arrays
//! begin anywhere. So the first vector is cut where the next line begins (`lead` elements of it lie
//! before the first hit and are not written), and all others are whole, but for the last one.
//! Clusters are read at any alignment, as loads across lines are cheaper.
//!
//! # Repairing the order
//!
//! Each x is compared with the x before it while both are in registers; the result, one bit per
//! hit, says where x falls. Between groups it may fall. Inside a group it means that neighbouring
//! lanes overlap, and only such groups are sorted by insertion, in which hits move by a place or
//! two.

use super::find_clusters::{MAX_WEIGHT, WEIGHT_SHIFT};
use super::hits::move_down;
use super::lanes::{
    FLIPPED, KIND_MASK, KIND_STRIDE, KindColumn, RANK_SHIFT, RANK_STRIDE, REVERSED, RankColumn,
};
use super::policy::NeedsFallback;
use super::scratch::{Clusters, FIRST_CLUSTER, Scratch};
use super::setup::{HitSource, Setup};
use super::simd::{Simd, load_at, word_at};
use ut_data::UtHitsMut;

/// Distance of prefetching, in hits.
///
/// The output of a batch is much larger than the caches, and the arrays are written once: a line
/// that is asked for early is there when its hits come.
const AHEAD: usize = 512;

/// Number of hits in a cache line.
const LINE: usize = 16;

/// Maximum number of places by which the hits of an event are moved in all: this sort takes n²
/// steps, the sort of the fallback path n log n.
const MAX_MOVES: usize = 1 << 16;

/// Makes the hits of one event, whose groups end at `ends`, of its clusters.
///
/// # Errors
/// If two hits have equal keys, a cluster is too heavy for packed sums, or too much is out of
/// order; some of the hits are written then.
///
/// # Panics
/// If there are not as many clusters, or the event has more hits than it can have strips.
///
/// # Safety
/// The ranks of the clusters ascend and are below `n_connected`: they are of one event, from stage
/// 3.
#[inline(always)]
pub unsafe fn make_hits<S: Simd>(
    s: S,
    setup: &Setup,
    scratch: &mut Scratch,
    ends: &[u32],
    hits: &mut UtHitsMut<'_>,
) -> Result<(), NeedsFallback> {
    if hits.id.is_empty() {
        return Ok(());
    }
    // SAFETY: the ranks are as required, by this function's precondition; there are hits, as
    // checked above.
    let good = unsafe {
        match (setup.source, setup.lanes.few_kinds) {
            (HitSource::Clusters, true) => make::<S, 0, true>(s, setup, scratch, hits),
            (HitSource::Clusters, false) => make::<S, 0, false>(s, setup, scratch, hits),
            (HitSource::Strips, true) => make::<S, 1, true>(s, setup, scratch, hits),
            (HitSource::Strips, false) => make::<S, 1, false>(s, setup, scratch, hits),
            (HitSource::Quarters, true) => make::<S, 2, true>(s, setup, scratch, hits),
            (HitSource::Quarters, false) => make::<S, 2, false>(s, setup, scratch, hits),
        }
    };
    if !good {
        return Err(NeedsFallback);
    }
    if let Some(clusters) = &mut hits.clusters {
        clusters.copy_from_slice(bytemuck::cast_slice(
            &scratch.clusters.strips[FIRST_CLUSTER..][..hits.id.len()],
        ));
    }
    repair::<S>(scratch, ends, hits)
}

/// Makes all hits, in the order of the clusters. Returns true if the sums of all clusters are
/// exact.
///
/// # Safety
/// As [`make_hits`]; and there are hits.
#[inline(always)]
unsafe fn make<S: Simd, const SOURCE: u8, const FEW: bool>(
    s: S,
    setup: &Setup,
    scratch: &mut Scratch,
    hits: &mut UtHitsMut<'_>,
) -> bool {
    let n_hits = hits.id.len();
    let lead = lead::<S>(hits);
    let clusters = &scratch.clusters;
    let inversions = &mut scratch.inversions[..(lead + n_hits).div_ceil(S::ELEMENTS)];
    // A vector may begin before the first cluster, and end behind the last.
    const { assert!(FIRST_CLUSTER >= S::ELEMENTS) };
    assert!(n_hits <= clusters.n);
    assert!(FIRST_CLUSTER + clusters.n + S::ELEMENTS < clusters.last.len().min(clusters.sum.len()));
    let mut maker = Maker::<S, SOURCE, FEW> {
        s,
        setup,
        clusters,
        to: HitDestination::new(hits),
        x_before: s.splat_f(f32::NEG_INFINITY),
        heaviest: s.splat(0),
    };
    // Only the first and the last vector are partial.
    let n_first = if lead == 0 && n_hits >= S::ELEMENTS {
        0
    } else {
        n_hits.min(S::ELEMENTS - lead)
    };
    if n_first != 0 {
        let live = (1 << (lead + n_first)) - (1 << lead);
        // SAFETY:
        // - clusters and sums reach that far: `lead < S::ELEMENTS <= FIRST_CLUSTER`,
        //   `n_hits <= clusters.n`, and a vector and one more lie behind, as asserted above;
        // - the ranks ascend and are below `n_connected`, by this function's precondition;
        // - vectors begin at cluster `FIRST_CLUSTER - lead` and at hit `-lead`; the `n_first` from
        //   `lead` on are hits.
        inversions[0] =
            unsafe { maker.some(FIRST_CLUSTER - lead, 0usize.wrapping_sub(lead), live) };
    }
    let n_whole = (n_hits - n_first) / S::ELEMENTS;
    let skip = usize::from(n_first != 0);
    for (vector, inverted) in inversions[skip..][..n_whole].iter_mut().enumerate() {
        let hit = n_first + S::ELEMENTS * vector;
        // SAFETY: all elements of `n_whole` vectors from `n_first` on are of the event. Ranks and
        // room: see above.
        *inverted = unsafe { maker.all(FIRST_CLUSTER + hit, hit) };
    }
    let hit = n_first + S::ELEMENTS * n_whole;
    if hit < n_hits {
        let live = (1 << (n_hits - hit)) - 1;
        // SAFETY: the elements from `hit` to `n_hits` are of the event. Ranks and room: see above.
        inversions[skip + n_whole] = unsafe { maker.some(FIRST_CLUSTER + hit, hit, live) };
    }
    s.le(maker.heaviest, s.splat(MAX_WEIGHT)) == u32::MAX >> (32 - S::ELEMENTS)
}

/// Sorts the groups whose hits do not follow the order of the lanes.
#[inline(always)]
fn repair<S: Simd>(
    scratch: &mut Scratch,
    ends: &[u32],
    hits: &mut UtHitsMut<'_>,
) -> Result<(), NeedsFallback> {
    let lead = lead::<S>(hits);
    let n_vectors = (lead + hits.id.len()).div_ceil(S::ELEMENTS);
    // One more, for the end of the last group.
    let inversions = &mut scratch.inversions[..=n_vectors];
    inversions[n_vectors] = 0;
    // Between groups x may fall.
    for end in std::iter::once(0).chain(ends.iter().copied()) {
        let place = lead + end as usize;
        inversions[place / S::ELEMENTS] &= !(1 << (place % S::ELEMENTS));
    }
    let mut sorted_to = 0;
    let mut moves = MAX_MOVES;
    let (by_eight, others) = inversions.as_chunks::<8>();
    for (vectors, i) in by_eight
        .iter()
        .map(<[_; 8]>::as_slice)
        .chain([others])
        .zip((0..).step_by(8))
    {
        if vectors.iter().fold(0, |any, bits| any | bits) == 0 {
            continue;
        }
        for (vector, &inverted) in (i..).zip(vectors) {
            let mut bits = inverted;
            while bits != 0 {
                let place = vector * S::ELEMENTS + bits.trailing_zeros() as usize - lead;
                bits &= bits - 1;
                if place < sorted_to {
                    continue;
                }
                let group = ends.partition_point(|&end| end as usize <= place);
                let begin = if group == 0 {
                    0
                } else {
                    ends[group - 1] as usize
                };
                sorted_to = ends[group] as usize;
                for place in place..sorted_to {
                    move_down(hits, begin, place, &mut moves)?;
                }
            }
        }
    }
    Ok(())
}

/// Elements of the first vector before the event's first hit, so that no write crosses two cache
/// lines.
fn lead<S: Simd>(hits: &UtHitsMut<'_>) -> usize {
    hits.id.as_ptr().addr() / size_of::<u32>() % S::ELEMENTS
}

/// Spread of the ranks in a vector of hits: within one window, two, or anything.
const WINDOW: u8 = 1;
const TWO_WINDOWS: u8 = 2;
const ANYWHERE: u8 = 0;

/// Makes hits vector by vector, in methods, since a closure that is not inlined has not the level's
/// instructions.
struct Maker<'a, S: Simd, const SOURCE: u8, const FEW: bool> {
    s: S,
    setup: &'a Setup,
    clusters: &'a Clusters,
    to: HitDestination,
    x_before: S::F,
    /// Largest W of each element.
    heaviest: S::U,
}

impl<S: Simd, const SOURCE: u8, const FEW: bool> Maker<'_, S, SOURCE, FEW> {
    /// Makes a whole vector of hits, all of this event. Returns one bit per hit: set if its x is
    /// not above the x of its predecessor.
    ///
    /// # Safety
    /// - clusters and sums have a vector of words from `cluster` on, and the sums one more;
    /// - the ranks of the clusters ascend, and are below `n_connected`;
    /// - the event has a vector of hits from `hit` on.
    #[inline(always)]
    unsafe fn all(&mut self, cluster: usize, hit: usize) -> u32 {
        let last = &self.clusters.last;
        // SAFETY: the first and last word of the vector at `cluster`, by this function's first
        // precondition.
        let (low, high) = unsafe {
            (
                word_at(last, cluster),
                word_at(last, cluster + S::ELEMENTS - 1),
            )
        };
        let first_rank = low >> RANK_SHIFT;
        let span = (high >> RANK_SHIFT) - first_rank;
        // SAFETY:
        // - words and hits are there, by this function's first and third precondition;
        // - the ranks ascend and are below `n_connected`, by its second: they lie from `first_rank`
        //   to `first_rank + span`, and `span` was compared with one window and with two;
        //   `ANYWHERE` gets 0.
        unsafe {
            if span < S::WINDOW {
                self.vector::<WINDOW, false>(first_rank, cluster, hit, u32::MAX)
            } else if span < 2 * S::WINDOW {
                self.vector::<TWO_WINDOWS, false>(first_rank, cluster, hit, u32::MAX)
            } else {
                self.vector::<ANYWHERE, false>(0, cluster, hit, u32::MAX)
            }
        }
    }

    /// Makes the hits of a vector whose bit is set in `live`; the other elements belong to another
    /// event. Returns one bit per hit: set if its x is not above the x of its predecessor.
    ///
    /// # Safety
    /// - clusters and sums have a vector of words from `cluster` on, and the sums one more;
    /// - the ranks of the live clusters ascend, and are below `n_connected`;
    /// - the live ones of a vector of hits from `hit` on, which counts modulo 2⁶⁴, are the event's.
    #[inline(always)]
    unsafe fn some(&mut self, cluster: usize, hit: usize, live: u32) -> u32 {
        debug_assert!(live != 0 && live >> 1 >> (S::ELEMENTS - 1) == 0);
        let (first, end) = (
            live.trailing_zeros() as usize,
            (u32::BITS - live.leading_zeros()) as usize,
        );
        let last = &self.clusters.last;
        // SAFETY:
        // - the words are there, by this function's first precondition, and so are the first and
        //   the last live one;
        // - the live ranks ascend and are below `n_connected`, by its second: within a window, or
        //   `ANYWHERE` gets 0;
        // - the live ones are hits of the event, by its third.
        unsafe {
            let (low, high) = (
                word_at(last, cluster + first),
                word_at(last, cluster + end - 1),
            );
            let first_rank = low >> RANK_SHIFT;
            if (high >> RANK_SHIFT) - first_rank < S::WINDOW {
                self.vector::<WINDOW, true>(first_rank, cluster, hit, live)
            } else {
                self.vector::<ANYWHERE, true>(0, cluster, hit, live)
            }
        }
    }

    /// # Safety
    /// - clusters and sums have a vector of words from `cluster` on, and the sums one more;
    /// - if `REACH` is `ANYWHERE`, `first_rank` is 0; otherwise it is the rank of the first live
    ///   cluster, and the ranks of all live clusters (every cluster without `MASKED`) are below
    ///   `n_connected`, not below the first, and fit into `REACH` windows;
    /// - the live clusters (without `MASKED`, all clusters) of a vector of hits from `hit` on
    ///   belong to the event.
    #[inline(always)]
    unsafe fn vector<const REACH: u8, const MASKED: bool>(
        &mut self,
        first_rank: u32,
        cluster: usize,
        hit: usize,
        live: u32,
    ) -> u32 {
        let (s, lanes) = (self.s, &self.setup.lanes);
        // SAFETY: the clusters have a vector of words from `cluster` on, by this function's first
        // precondition.
        let last = unsafe { load_at(s, &self.clusters.last, cluster) };
        let ranks = s.shr::<RANK_SHIFT>(last);
        let last_rank = lanes.n_connected as u32 - 1;
        let mut here = ConstantLookup::<S, FEW, REACH> {
            s,
            n_ranks: lanes.n_ranks(),
            by_rank: &lanes.by_rank,
            by_kind: &lanes.by_kind,
            first: first_rank as usize,
            index: if MASKED || REACH == ANYWHERE {
                // Around the event's hits lie clusters of other events, with any rank.
                s.min(
                    s.sub(ranks, s.splat(first_rank)),
                    s.splat(last_rank - first_rank),
                )
            } else {
                s.sub(ranks, s.splat(first_rank))
            },
            kind: last,
        };
        // SAFETY: of this and all lookups below, since `first` and `index` stay:
        // - `ANYWHERE`: `first` is 0, by this function's second precondition, and the index is cut
        //   to connected ranks;
        // - in windows: the live ranks are connected and within `REACH` windows from `first`, by
        //   the same; `MASKED` cuts the index of the others to connected ranks.
        let id = unsafe { here.of_rank(RankColumn::Id) };
        here.kind = id;
        let reversed = s.spread_sign(id);
        let (coordinate, strip) = match SOURCE {
            0 => {
                // SAFETY: the sums have a vector and one word more, by this function's first
                // precondition.
                let (before, to) = unsafe {
                    (
                        load_at(s, &self.clusters.sum, cluster),
                        load_at(s, &self.clusters.sum, cluster + 1),
                    )
                };
                let sum = s.sub(to, before);
                let weight = s.shr::<WEIGHT_SHIFT>(sum);
                let position = s.and(sum, s.splat((1 << WEIGHT_SHIFT) - 1));
                self.heaviest = s.max(
                    self.heaviest,
                    if MASKED { s.keep(weight, live) } else { weight },
                );
                // Strips of a lane that is read backwards count from the other end: 511 W - Σpos.
                let whole = s.sub(s.shl::<9>(weight), weight);
                let (forwards, backwards) =
                    (s.float_of(position), s.float_of(s.sub(whole, position)));
                let position = s.bits(s.select_by_sign(id, backwards, forwards));
                // Σpos is at most 31·511·254 and ΣADC 31·254, both below 2^24: exact.
                let mean = s.div_f(s.to_float(position), s.to_float(weight));
                // This is always the integer (2 Σpos + W) / 2 / W. Let q = Σpos / W <= 511, W <=
                // 7874. The mean is q with an error of at most 2^-16 (half an ulp below 512), and
                // adding 1/2 makes another: together 3.1e-5. q + 1/2 is a multiple of 1 / 2W:
                // either whole, and both steps are exact; or at least 1 / 15748 = 6.3e-5 from the
                // next whole number, which the errors do not reach. A test goes through all W and
                // all boundaries.
                (mean, s.truncate(s.add_f(mean, s.splat_f(0.5))))
            }
            1 => {
                let strip = s.and(s.shr::<5>(s.xor(last, reversed)), s.splat(0x1FF));
                (s.to_float(strip), strip)
            }
            _ => {
                let quarters = s.and(s.xor(last, reversed), s.splat(0x7FF));
                let strips = s.mul_f(s.to_float(quarters), s.splat_f(0.25));
                // SAFETY: this lookup uses the same index as the first one.
                let first = s.float_of(unsafe { here.of_rank(RankColumn::First) });
                (s.add_f(strips, first), s.shr::<2>(quarters))
            }
        };
        let n_strips = if SOURCE == 2 {
            coordinate
        } else {
            let origin = s.splat_f(self.setup.options.flip().origin());
            s.select_by_sign(s.shl::<1>(id), s.sub_f(origin, coordinate), coordinate)
        };
        let id = s.add(
            s.and(
                id,
                s.splat(!(REVERSED | FLIPPED | if FEW { KIND_MASK } else { 0 })),
            ),
            strip,
        );
        // SAFETY: this lookup uses the same index as the first one.
        let (x, y_begin, y_end, z, dx_dy, weight) = unsafe {
            let y_begin = here.line(RankColumn::P0Y, n_strips, KindColumn::Dp0diY);
            (
                here.line(RankColumn::P0X, n_strips, KindColumn::Dp0diX),
                y_begin,
                s.add_f(here.of_kind(KindColumn::Dy), y_begin),
                here.line(RankColumn::P0Z, n_strips, KindColumn::Dp0diZ),
                here.of_kind(KindColumn::DxDy),
                here.of_kind(KindColumn::Weight),
            )
        };
        // SAFETY: the live ones, or without `MASKED` all, are hits of the event, by this function's
        // third precondition; `make`, the only function that makes a `Maker`, holds the arrays
        // borrowed as long.
        unsafe {
            self.to
                .write::<S, MASKED>(s, hit, live, [y_begin, y_end, z, x, dx_dy, weight], id);
        }
        let before = s.float_of(s.shift_in(s.bits(self.x_before), s.bits(x)));
        self.x_before = x;
        let inverted = s.not_less(before, x);
        if MASKED { inverted & live } else { inverted }
    }
}

/// Looks up constants of a vector of hits by their ranks or their kinds of sector.
#[derive(Clone, Copy)]
struct ConstantLookup<'a, S: Simd, const FEW: bool, const REACH: u8> {
    s: S,
    /// See [`LaneOrder`](super::lanes::LaneOrder).
    by_rank: &'a [u32],
    by_kind: &'a [u32],
    n_ranks: usize,
    /// Rank of the first hit; 0 with `ANYWHERE`.
    first: usize,
    /// Ranks counted from `first`.
    index: S::U,
    /// With `FEW` kinds, words with the kind in the lowest bits.
    kind: S::U,
}

impl<S: Simd, const FEW: bool, const REACH: u8> ConstantLookup<'_, S, FEW, REACH> {
    /// Looks up in a column of [`RANK_STRIDE`] words that begins at `column`.
    ///
    /// # Safety
    /// - `table` has such a column;
    /// - `first` and `index` make ranks.
    #[inline(always)]
    unsafe fn in_column(&self, table: &[u32], column: usize) -> S::U {
        debug_assert!(column + RANK_STRIDE <= table.len() && self.first < self.n_ranks);
        let s = self.s;
        // SAFETY: `first` is a rank, and a column has room for two windows of any level behind the
        // last one.
        unsafe {
            let window = table.as_ptr().add(column + self.first);
            match REACH {
                WINDOW => s.lookup_window(window, self.index),
                TWO_WINDOWS => {
                    let beyond = s.sub(self.index, s.splat(S::WINDOW));
                    let low = s.float_of(s.lookup_window(window, self.index));
                    let high = s.float_of(s.lookup_window(window.add(S::WINDOW as usize), beyond));
                    s.bits(s.select_by_sign(beyond, low, high))
                }
                _ => s.lookup(window, self.index),
            }
        }
    }

    /// # Safety
    /// `first` and `index` make ranks.
    #[inline(always)]
    unsafe fn of_rank(&self, column: RankColumn) -> S::U {
        // SAFETY: `by_rank` has such columns; `first` and `index` make ranks, by this function's
        // precondition.
        unsafe { self.in_column(self.by_rank, column as usize * RANK_STRIDE) }
    }

    /// # Safety
    /// As [`of_rank`](Self::of_rank).
    #[inline(always)]
    unsafe fn of_kind(&self, column: KindColumn) -> S::F {
        let words = if FEW {
            debug_assert!((column as usize + 1) * KIND_STRIDE <= self.by_kind.len());
            let kinds = self
                .by_kind
                .as_ptr()
                .wrapping_add(column as usize * KIND_STRIDE);
            // SAFETY: each column of `by_kind` has the 16 words of few kinds.
            unsafe {
                match column {
                    KindColumn::Dp0diY | KindColumn::DxDy => self.s.lookup_16(kinds, self.kind),
                    // A kind and the one 8 after it agree.
                    _ => self.s.lookup_8(kinds, self.kind),
                }
            }
        } else {
            // SAFETY: `by_kind` has such columns; `first` and `index` make ranks, by this
            // function's precondition.
            unsafe { self.in_column(self.by_kind, column as usize * RANK_STRIDE) }
        };
        self.s.float_of(words)
    }

    /// `p0 + n * step`, with a step by kind.
    ///
    /// # Safety
    /// As [`of_rank`](Self::of_rank).
    #[inline(always)]
    unsafe fn line(&self, p0: RankColumn, n: S::F, step: KindColumn) -> S::F {
        // SAFETY: `first` and `index` make ranks, by this function's precondition.
        let (p0, step) = unsafe { (self.s.float_of(self.of_rank(p0)), self.of_kind(step)) };
        self.s.add_f(p0, self.s.mul_f(n, step))
    }
}

/// Destination of an event's hits.
struct HitDestination {
    floats: [*mut f32; 6],
    id: *mut u32,
    n_hits: usize,
}

impl HitDestination {
    /// Takes the arrays of an event, which must stay borrowed as long as this is used.
    fn new(hits: &mut UtHitsMut<'_>) -> Self {
        let n_hits = hits.id.len();
        let floats = hits.floats();
        assert!(
            floats.iter().all(|array| array.len() == n_hits),
            "arrays of one length"
        );
        Self {
            floats: floats.map(<[f32]>::as_mut_ptr),
            id: hits.id.as_mut_ptr(),
            n_hits,
        }
    }

    /// Writes a vector of hits, with `MASKED` those whose bit is set in `live`.
    ///
    /// # Safety
    /// - those that are written are hits of the event; `hit` counts modulo 2⁶⁴;
    /// - the arrays are still borrowed.
    #[inline(always)]
    unsafe fn write<S: Simd, const MASKED: bool>(
        &self,
        s: S,
        hit: usize,
        live: u32,
        floats: [S::F; 6],
        id: S::U,
    ) {
        debug_assert!(if MASKED {
            live != 0
        } else {
            hit + S::ELEMENTS <= self.n_hits
        });
        // Once a cache line.
        if S::ELEMENTS >= LINE || hit & S::ELEMENTS == 0 {
            for to in self.floats {
                s.prefetch(to.wrapping_add(hit.wrapping_add(AHEAD)).cast());
            }
            s.prefetch(self.id.wrapping_add(hit.wrapping_add(AHEAD)).cast());
        }
        for (to, v) in self.floats.into_iter().zip(floats) {
            // SAFETY: hits of the event, in arrays that are still borrowed, by this function's
            // preconditions; `new` compared the lengths; floats are as large as words.
            unsafe { write_to::<S, MASKED>(s, to.cast(), hit, live, s.bits(v)) };
        }
        // SAFETY: the same hits, in an array of as many words.
        unsafe { write_to::<S, MASKED>(s, self.id, hit, live, id) };
    }
}

/// Writes a vector, with `MASKED` the elements whose bit is set in `live`, to word `hit` of `to`.
///
/// # Safety
/// The words that are written belong to an array of the event; `hit` counts modulo 2⁶⁴.
#[inline(always)]
unsafe fn write_to<S: Simd, const MASKED: bool>(
    s: S,
    to: *mut u32,
    hit: usize,
    live: u32,
    v: S::U,
) {
    let to = to.wrapping_add(hit);
    // SAFETY: the words that are written are of an array of an event, by this function's
    // precondition.
    unsafe {
        if MASKED {
            s.store_some(to, v, live);
        } else {
            s.store(to, v);
        }
    }
}

#[cfg(test)]
mod tests {
    /// Returns the mean strip, rounded as the vectors round it.
    fn rounded(sum: u32, weight: u32) -> u32 {
        (sum as f32 / weight as f32 + 0.5) as u32
    }

    #[test]
    #[cfg_attr(miri, ignore = "twelve million sums of safe code: hours in Miri")]
    fn the_mean_strip_rounds_as_integers_do_at_every_boundary() {
        for weight in 1..=31 * 254u32 {
            for strip in 1..=511 {
                // The first Σpos that rounds to `strip`, and its neighbours.
                let boundary = ((2 * strip - 1) * weight).div_ceil(2);
                for sum in boundary.saturating_sub(1)..=(boundary + 1).min(511 * weight) {
                    let exact = (sum + weight / 2) / weight;
                    assert_eq!(rounded(sum, weight), exact, "{sum} / {weight}");
                }
            }
            assert_eq!(
                (rounded(0, weight), rounded(511 * weight, weight)),
                (0, 511)
            );
        }
    }
}

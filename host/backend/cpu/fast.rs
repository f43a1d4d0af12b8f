//! The fast path (essay to come).

use super::banks::{Bank, EventBanks};
use super::hits::EventHits;
use super::lanes::{FLIPPED, LaneOrder, RANK_SHIFT, REVERSED};
use super::ordinary::board_of;
use super::simd::{HEAD_SHUFFLES, Simd};
use crate::backend::{Count, DecodeOptions, EventReport, Position};
use crate::detector::{BankVersion, STRIPS_PER_SECTOR};
use crate::input::BatchView;

/// Strips that an event on the fast path may have; the mean is 1700.
pub const MAX_STRIPS: usize = 1 << 16;

/// Lane slots, rounded up to whole vectors of counts.
const MAX_RANKS: usize = ut_kernels::detector::MAX_SLOTS.next_multiple_of(64);

/// Words before the stream, so that a vector may begin before it: as many as the largest cluster has strips.
const FRONT: usize = 256;

/// Words after the last one that vectors may read and write.
const SLACK: usize = 64;

/// Bytes that the copying of lanes may read from the start of a payload, whatever its size.
const READ_AHEAD: usize = 64;

/// Room for the banks that end so close to the end of the batch that reading ahead would leave it.
const TAIL: usize = 1 << 17;

/// What sends an event to the ordinary path: trouble, or a size that the work space is not made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unusual;

/// How hits come out of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Clusters,
    Strips,
    Quarters,
}

/// The fast path of one detector and one set of options.
#[derive(Clone, Debug)]
pub struct Fast {
    pub lanes: LaneOrder,
    options: DecodeOptions,
    kind: Kind,
    /// Whether everything that the vectors count on holds for these tables.
    usable: bool,
}

/// Work space of a thread.
pub struct Scratch {
    /// By rank: hits of the lane.
    counts: Box<[u8]>,
    /// By board: its payload (v5), or by rank: its first cluster word (v4). Null: no such bank in the event.
    payloads: Box<[*const u8]>,
    /// Ranks of the lanes with hits.
    listed: Box<[u16]>,
    /// Ranks of the lanes with more than four.
    long: Box<[u16]>,
    /// By rank: where the lane begins in the stream. Only listed lanes.
    starts: Box<[u32]>,
    /// A bit a rank: the lane has hits.
    some: Box<[u64]>,
    /// By word of `some`: lanes with hits before it.
    listed_before: Box<[u32]>,
    /// The strips of an event, behind `FRONT` words.
    stream: Box<[u32]>,
    /// A word a vector of the stream: the lanes that end a cluster.
    ends: Box<[u32]>,
    /// A word a vector of the stream: clusters before it.
    clusters_before: Box<[u32]>,
    /// A word a vector of hits: hits whose x is not above that of the one before.
    inversions: Box<[u32]>,
    /// Copies of payloads too close to the end of the batch.
    tail: Box<[u8]>,
    tail_used: usize,
    /// Events of the chunk, one after the other; one word in front.
    pub clusters: Clusters,
}

// SAFETY: the pointers in `payloads` are used only while the batch that they point into is borrowed, by the thread that
// has the scratch.
unsafe impl Send for Scratch {}

/// The clusters (or strips) of the events of a chunk.
pub struct Clusters {
    /// Stream word of each cluster's last strip.
    last: Box<[u32]>,
    /// Σ W up to and with each cluster, modulo 2³².
    weight: Box<[u32]>,
    /// Σ pos likewise.
    position: Box<[u32]>,
    /// How many.
    pub len: usize,
    sum_weight: u32,
    sum_position: u32,
}

/// Room for clusters of one chunk.
const MAX_CLUSTERS: usize = 2 * MAX_STRIPS;

fn zeros<T: Clone + Default>(len: usize) -> Box<[T]> {
    vec![T::default(); len].into_boxed_slice()
}

impl Scratch {
    pub fn new() -> Self {
        let mut stream = zeros(FRONT + MAX_STRIPS + SLACK);
        // No strip is a cluster's length behind these.
        stream[..FRONT].fill(u32::MAX);
        Self {
            counts: zeros(MAX_RANKS),
            payloads: vec![std::ptr::null(); MAX_RANKS].into_boxed_slice(),
            listed: zeros(MAX_RANKS + SLACK),
            long: zeros(MAX_RANKS + SLACK),
            starts: zeros(MAX_RANKS + 1),
            some: zeros(MAX_RANKS / 64 + 1),
            listed_before: zeros(MAX_RANKS / 64 + 1),
            stream,
            ends: zeros(MAX_STRIPS / 8 + 1),
            clusters_before: zeros(MAX_STRIPS / 8 + 1),
            inversions: zeros(MAX_STRIPS / 8 + 1),
            tail: zeros(TAIL + READ_AHEAD),
            tail_used: 0,
            clusters: Clusters {
                last: zeros(MAX_CLUSTERS + SLACK),
                weight: zeros(1 + MAX_CLUSTERS + SLACK),
                position: zeros(1 + MAX_CLUSTERS + SLACK),
                len: 0,
                sum_weight: 0,
                sum_position: 0,
            },
        }
    }

    /// Begins a chunk of events.
    pub fn begin_chunk(&mut self) {
        let clusters = &mut self.clusters;
        (clusters.len, clusters.sum_weight, clusters.sum_position) = (0, 0, 0);
        (clusters.weight[0], clusters.position[0]) = (0, 0);
    }

    /// Whether the chunk has room for any event.
    pub fn has_room(&self) -> bool {
        self.clusters.len <= MAX_CLUSTERS - MAX_STRIPS
    }
}

impl Fast {
    pub fn new(lanes: LaneOrder, options: DecodeOptions) -> Self {
        let kind = match lanes.version {
            BankVersion::V4 => Kind::Quarters,
            BankVersion::V5 if options.clustering => Kind::Clusters,
            BankVersion::V5 => Kind::Strips,
        };
        // Whole and quarter strips minus a number this small are exact in f32 in any order of operations.
        let usable = lanes.n_ranks() <= MAX_RANKS && lanes.first.iter().all(|first| first.abs() < (1 << 20) as f32);
        Self { lanes, options, kind, usable }
    }

    /// Front half: from the raw banks of an event to its clusters, which join those of the chunk. Gives the number of
    /// hits, and their ends by group, counted from the event's first.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`.
    #[inline(always)]
    pub unsafe fn front<S: Simd>(
        &self,
        scratch: &mut Scratch,
        batch: BatchView<'_>,
        event: usize,
        ends: &mut [u32],
        report: &mut EventReport,
    ) -> Result<usize, Unusual> {
        let meta = batch.meta_of(event);
        if !self.usable || meta.broken || !scratch.has_room() {
            return Err(Unusual);
        }
        if self.lanes.version == BankVersion::V4 {
            return Err(Unusual);
        }
        let n_banks = self.find_lanes(scratch, batch, event)?;
        // SAFETY: the caller's.
        let n_strips = unsafe {
            match self.lanes.version {
                BankVersion::V4 => self.copy_lanes::<S, 4>(scratch),
                BankVersion::V5 => self.copy_lanes::<S, 32>(scratch),
            }
        }?;
        let (zero_charge, oversized) = if self.kind == Kind::Clusters {
            // SAFETY: the caller's.
            let whole = unsafe {
                if self.options.position == Position::Geometric {
                    self.cluster::<S, true>(scratch, n_strips)
                } else {
                    self.cluster::<S, false>(scratch, n_strips)
                }
            }?;
            if whole {
                self.group_ends::<S>(scratch, ends);
                (0, 0)
            } else {
                self.cluster_carefully(scratch, n_strips, ends)
            }
        } else {
            self.keep_strips(scratch, n_strips)?;
            for (end, &rank) in ends.iter_mut().zip(&self.lanes.first_ranks[1..]) {
                *end = scratch.strips_before(rank);
            }
            (0, 0)
        };
        *report = EventReport::default();
        report.add(Count::Banks, n_banks as u32);
        report.add(Count::Strips, n_strips as u32);
        report.add(Count::OtherTypes, meta.other_banks);
        report.add(Count::ZeroChargeClusters, zero_charge);
        report.add(Count::OversizedClusters, oversized);
        Ok(ends.last().map_or(0, |&end| end as usize))
    }

    /// Reads the headers of the banks: how many hits each lane has and where they are.
    #[inline(always)]
    fn find_lanes(&self, scratch: &mut Scratch, batch: BatchView<'_>, event: usize) -> Result<usize, Unusual> {
        let banks = EventBanks::new(batch, event).ok_or(Unusual)?;
        let n_banks = banks.n_banks();
        let n_boards = self.lanes.n_boards();
        if n_banks > n_boards {
            return Err(Unusual);
        }
        let n_ranks = self.lanes.n_ranks();
        scratch.counts[..n_ranks].fill(0);
        scratch.payloads[..n_boards].fill(std::ptr::null());
        scratch.tail_used = 0;
        let version = self.lanes.version.byte();
        let raw_end = batch.raw.as_ptr_range().end;
        for bank in 0..n_banks {
            let Bank { source_id, kind, version: bank_version, payload } = banks.bank(bank).ok_or(Unusual)?;
            if kind != 66 && kind != 68 || bank_version.is_some_and(|byte| byte != version) {
                return Err(Unusual);
            }
            let board = board_of(source_id).ok_or(Unusual)? as usize;
            let Some(Some(ranks)) = self.lanes.boards.get(board) else { return Err(Unusual) };
            if !scratch.payloads[board].is_null() {
                return Err(Unusual);
            }
            let readable = if raw_end as usize - payload.as_ptr() as usize >= READ_AHEAD {
                payload.as_ptr()
            } else {
                scratch.copy_tail(payload)?
            };
            scratch.payloads[board] = readable;
            let header = payload.first_chunk::<8>().ok_or(Unusual)?;
            let longest = header[4].max(header[5]).max(header[6]).max(header[7]).max(header[0]).max(header[1]);
            if longest == 255 || payload.len() < 16 * (usize::from(longest) + 1 & !1) {
                return Err(Unusual);
            }
            for (lane, byte) in [4, 5, 6, 7, 0, 1].into_iter().enumerate() {
                // SAFETY: ranks are below n_ranks, and there are MAX_RANKS counts.
                unsafe { *scratch.counts.get_unchecked_mut(usize::from(ranks[lane])) = header[byte] };
            }
        }
        if scratch.counts[self.lanes.n_connected..n_ranks].iter().any(|&count| count != 0) {
            return Err(Unusual);
        }
        Ok(n_banks)
    }

    /// Lays the strips of all lanes out in the stream, in the order of the ranks, each lane in the direction in which x
    /// rises.
    #[inline(always)]
    unsafe fn copy_lanes<S: Simd, const STRIDE: usize>(&self, scratch: &mut Scratch) -> Result<usize, Unusual> {
        let mask = if self.lanes.version == BankVersion::V4 { 0x7FF } else { 0x3FFF };
        let len = self.lanes.n_connected.next_multiple_of(64);
        let n_strips: usize = scratch.counts[..len].iter().map(|&count| usize::from(count)).sum();
        if n_strips > MAX_STRIPS {
            return Err(Unusual);
        }
        // SAFETY: TODO
        unsafe {
            let counts = scratch.counts.as_ptr();
            let (n_listed, n_long) = S::list_counts(
                counts,
                len,
                scratch.listed.as_mut_ptr(),
                scratch.long.as_mut_ptr(),
                scratch.some.as_mut_ptr(),
            );
            let sources = self.lanes.sources.as_ptr();
            let payloads = scratch.payloads.as_ptr();
            let stream = scratch.stream.as_mut_ptr().add(FRONT);
            let starts = scratch.starts.as_mut_ptr();
            let mut end = 0u32;
            for &rank in scratch.listed.get_unchecked(..n_listed) {
                let rank = usize::from(rank);
                let n = *counts.add(rank);
                let source = &*sources.add(rank);
                let from = (*payloads.add(usize::from(source.board))).add(usize::from(source.place));
                let shuffle = &HEAD_SHUFFLES[usize::from(n.min(4) + source.reversed)];
                S::copy_head::<STRIDE>(from, shuffle, mask, source.xor, stream.add(end as usize));
                starts.add(rank).write(end);
                end += u32::from(n);
            }
            for &rank in scratch.long.get_unchecked(..n_long) {
                let rank = usize::from(rank);
                let n = usize::from(*counts.add(rank));
                let source = &*sources.add(rank);
                let from = (*payloads.add(usize::from(source.board))).add(usize::from(source.place));
                let to = stream.add(*starts.add(rank) as usize);
                S::copy_lane::<STRIDE>(from, n, source.reversed != 0, mask, source.xor, to);
            }
            stream.add(n_strips).write(u32::MAX >> 1);
            // Behind the last lane with hits, as if there were another.
            scratch.listed[n_listed] = self.lanes.n_connected as u16;
            starts.add(self.lanes.n_connected).write(end);
        }
        let mut listed = 0;
        scratch.some[len / 64] = 0;
        for (before, bits) in scratch.listed_before.iter_mut().zip(&scratch.some[..=len / 64]) {
            *before = listed;
            listed += bits.count_ones();
        }
        Ok(n_strips)
    }

    /// Clusters the stream. False: something is there that vectors do not do (strips without charge, clusters above
    /// the maximum size), and no cluster was made.
    #[inline(always)]
    unsafe fn cluster<S: Simd, const GEOMETRIC: bool>(
        &self,
        scratch: &mut Scratch,
        n_strips: usize,
    ) -> Result<bool, Unusual> {
        let max_size = self.options.max_cluster_size.get();
        // A lane has 254 hits at most.
        let check_size = max_size < 254;
        let max_size = max_size.min(254);
        let (mut unsorted, mut special) = (0, 0);
        // SAFETY: TODO
        unsafe {
            let stream = scratch.stream.as_ptr().add(FRONT);
            let clusters = &mut scratch.clusters;
            let mut n = clusters.len;
            let mut sum_weight = S::splat(clusters.sum_weight);
            let mut sum_position = S::splat(clusters.sum_position);
            let (zero, one) = (S::splat(0), S::splat(1));
            let size = S::splat(max_size);
            let mut i = 0;
            let mut vector = 0;
            while i < n_strips {
                let v = S::load(stream.add(i));
                let strip = S::shr::<5>(v);
                let next = S::shr::<5>(S::load(stream.add(i + 1)));
                let live = if n_strips - i >= S::LANES { u32::MAX } else { (1 << (n_strips - i)) - 1 };
                let live = live & (((1u64 << S::LANES) - 1) as u32);
                let ends = !S::eq(next, S::add(strip, one)) & live;
                unsorted |= S::le(next, strip) & live;
                let adc = S::and(v, S::splat(31));
                special |= S::eq(adc, zero) & live;
                if check_size {
                    let before = S::shr::<5>(S::load(stream.add(i).sub(max_size as usize)));
                    special |= S::eq(S::sub(strip, before), size) & live;
                }
                let strip = S::and(strip, S::splat(0x1FF));
                let (weight, position) = if GEOMETRIC { (one, strip) } else { (adc, S::mul_small(adc, strip)) };
                let weight = S::add(S::prefix_sum(weight), sum_weight);
                let position = S::add(S::prefix_sum(position), sum_position);
                sum_weight = S::spread_last(weight);
                sum_position = S::spread_last(position);
                S::compress_store(clusters.last.as_mut_ptr().add(n), v, ends);
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
            if unsorted != 0 {
                return Err(Unusual);
            }
            if special != 0 {
                return Ok(false);
            }
            // The sums of the last cluster, not of the last vector, which may reach beyond the stream.
            clusters.sum_weight = clusters.weight[n];
            clusters.sum_position = clusters.position[n];
            clusters.len = n;
        }
        Ok(true)
    }

    /// Where the groups end among the clusters.
    #[inline(always)]
    fn group_ends<S: Simd>(&self, scratch: &Scratch, ends: &mut [u32]) {
        for (end, &rank) in ends.iter_mut().zip(&self.lanes.first_ranks[1..]) {
            let strips = scratch.strips_before(rank) as usize;
            let (vector, lane) = (strips / S::LANES, strips % S::LANES);
            *end = scratch.clusters_before[vector] + (scratch.ends[vector] & ((1 << lane) - 1)).count_ones();
        }
    }

    /// Clusters the stream strip by strip, with every option.
    fn cluster_carefully(&self, scratch: &mut Scratch, n_strips: usize, ends: &mut [u32]) -> (u32, u32) {
        let max_size = self.options.max_cluster_size.get() as usize;
        let geometric = self.options.position == Position::Geometric;
        let (mut zero_charge, mut oversized) = (0, 0);
        let stream = &scratch.stream[FRONT..][..n_strips];
        let clusters = &mut scratch.clusters;
        let first = clusters.len;
        ends.fill(0);
        let mut rest = stream;
        while let Some(&head) = rest.first() {
            let run = (1..rest.len()).find(|&i| rest[i] >> 5 != (head >> 5) + i as u32).unwrap_or(rest.len());
            let (mut kept, after) = rest.split_at(run);
            rest = after;
            let rank = (head >> RANK_SHIFT) as usize;
            if run > max_size {
                oversized += 1;
                if !self.options.save_above_max {
                    continue;
                }
                // The first strips by number, which are the last of a lane that is read backwards.
                let cut = if self.lanes.sources[rank].reversed == 0 { 0 } else { run - max_size };
                kept = &kept[cut..][..max_size];
            }
            let strip = |word: u32| word >> 5 & (STRIPS_PER_SECTOR - 1);
            let charge: u32 = kept.iter().map(|word| word & 31).sum();
            if charge == 0 {
                zero_charge += 1;
                continue;
            }
            let (weight, position) = if geometric {
                (kept.len() as u32, kept.iter().map(|&word| strip(word)).sum())
            } else {
                (charge, kept.iter().map(|&word| (word & 31) * strip(word)).sum::<u32>())
            };
            clusters.sum_weight = clusters.sum_weight.wrapping_add(weight);
            clusters.sum_position = clusters.sum_position.wrapping_add(position);
            clusters.last[clusters.len] = head;
            clusters.len += 1;
            clusters.weight[clusters.len] = clusters.sum_weight;
            clusters.position[clusters.len] = clusters.sum_position;
            ends[usize::from(self.lanes.groups[rank])] = (clusters.len - first) as u32;
        }
        // Groups without clusters end where the one before does.
        let mut end = 0;
        for group in ends {
            end = end.max(*group);
            *group = end;
        }
        (zero_charge, oversized)
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

    /// Back half: from the clusters `first` and following of the chunk to the hits of one event.
    ///
    /// # Errors
    /// When two hits have equal keys; some of the hits are written then.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`.
    #[inline(always)]
    pub unsafe fn back<S: Simd>(
        &self,
        scratch: &mut Scratch,
        first: usize,
        ends: &[u32],
        hits: &mut EventHits<'_>,
    ) -> Result<(), Unusual> {
        // SAFETY: the caller's.
        unsafe {
            match self.kind {
                Kind::Clusters => self.make_hits::<S, 0>(scratch, first, hits),
                Kind::Strips => self.make_hits::<S, 1>(scratch, first, hits),
                Kind::Quarters => self.make_hits::<S, 2>(scratch, first, hits),
            }
        }
        self.repair::<S>(scratch, ends, hits)
    }

    #[inline(always)]
    unsafe fn make_hits<S: Simd, const KIND: u8>(&self, scratch: &mut Scratch, first: usize, hits: &mut EventHits<'_>) {
        let n_hits = hits.id.len();
        // SAFETY: TODO
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
        // SAFETY: TODO
        unsafe {
            let lanes = &self.lanes;
            let all = ((1u64 << n) - 1) as u32;
            let last_rank = S::splat(lanes.n_connected as u32 - 1);
            let last = S::load(clusters.last.as_ptr().add(first + i));
            let ranks = S::shr::<RANK_SHIFT>(last);
            let first_rank = (*clusters.last.as_ptr().add(first + i) >> RANK_SHIFT) as usize;
            let index = S::sub(ranks, S::splat(first_rank as u32));
            let lookup = |table: *const u32| {
                if WINDOW {
                    S::lookup_window(table.add(first_rank), index)
                } else {
                    // Behind the last hit there may be anything.
                    S::lookup(table, S::min(ranks, last_rank))
                }
            };
            let lookup_f = |table: &[f32]| S::from_bits(lookup(table.as_ptr().cast()));
            let id = lookup(lanes.id.as_ptr());
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
                    (mean, S::truncate(S::add_f(mean, S::splat_f(0.5))))
                }
                1 => {
                    let strip = S::and(S::shr::<5>(S::xor(last, reversed)), S::splat(0x1FF));
                    (S::to_float(strip), strip)
                }
                _ => {
                    let quarters = S::and(S::xor(last, reversed), S::splat(0x7FF));
                    let strips = S::mul_f(S::to_float(quarters), S::splat_f(0.25));
                    (S::add_f(strips, lookup_f(&lanes.first)), S::shr::<2>(quarters))
                }
            };
            let n_strips = if KIND == 2 {
                coordinate
            } else {
                let origin = S::splat_f(self.options.flip.origin());
                S::select_by_sign(S::shl::<1>(id), S::sub_f(origin, coordinate), coordinate)
            };
            let id = S::add(S::and(id, S::splat(!(REVERSED | FLIPPED))), strip);
            let line = |p0: &[f32], step: &[f32]| S::add_f(lookup_f(p0), S::mul_f(n_strips, lookup_f(step)));
            let x = line(&lanes.p0_x, &lanes.dp0di_x);
            let y_begin = line(&lanes.p0_y, &lanes.dp0di_y);
            let y_end = S::add_f(lookup_f(&lanes.dy), y_begin);
            let z = line(&lanes.p0_z, &lanes.dp0di_z);
            let store =
                |to: *mut u32, v: S::U| if WINDOW { S::store(to.add(i), v) } else { S::store_first(to.add(i), v, n) };
            let put = |to: *mut f32, v: S::F| store(to.cast(), S::bits(v));
            put(hits.y_begin.as_mut_ptr(), y_begin);
            put(hits.y_end.as_mut_ptr(), y_end);
            put(hits.z_at_y_eq0.as_mut_ptr(), z);
            put(hits.x_at_y_eq0.as_mut_ptr(), x);
            put(hits.dx_dy.as_mut_ptr(), lookup_f(&lanes.dx_dy));
            put(hits.weight.as_mut_ptr(), lookup_f(&lanes.weight));
            store(hits.id.as_mut_ptr(), id);
            (x, S::not_less(S::shift_in(x_before, x), x) & all)
        }
    }

    /// Sorts the groups in which the static order of the lanes is not the order of the hits.
    #[inline(always)]
    fn repair<S: Simd>(&self, scratch: &mut Scratch, ends: &[u32], hits: &mut EventHits<'_>) -> Result<(), Unusual> {
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
        for vector in 0..inversions.len() {
            let mut bits = inversions[vector];
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

impl Scratch {
    /// Strips of the lanes before `rank`.
    #[inline(always)]
    fn strips_before(&self, rank: u16) -> u32 {
        let (word, bit) = (usize::from(rank) / 64, rank % 64);
        let listed = self.listed_before[word] + (self.some[word] & ((1 << bit) - 1)).count_ones();
        self.starts[usize::from(self.listed[listed as usize])]
    }

    fn copy_tail(&mut self, payload: &[u8]) -> Result<*const u8, Unusual> {
        let used = self.tail_used;
        let place = self.tail.get_mut(used..used + payload.len()).ok_or(Unusual)?;
        if used + payload.len() > TAIL {
            return Err(Unusual);
        }
        place.copy_from_slice(payload);
        self.tail_used = used + payload.len();
        Ok(self.tail[used..].as_ptr())
    }
}

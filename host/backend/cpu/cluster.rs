//! Stage 3: finds the clusters in the stream.

use super::fast::{Fast, Kind, Unusual};
use super::lanes::RANK_SHIFT;
use super::scratch::{FRONT, Scratch};
use super::simd::Simd;
use crate::backend::Position;
use crate::detector::STRIPS_PER_SECTOR;

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
        let done = unsafe {
            if self.options.position == Position::Geometric {
                self.cluster::<S, true>(scratch, n_strips)
            } else {
                self.cluster::<S, false>(scratch, n_strips)
            }
        }?;
        if !done {
            return Ok(self.cluster_carefully(scratch, n_strips, ends));
        }
        self.group_ends::<S>(scratch, ends);
        Ok((0, 0))
    }

    /// Clusters the stream. False: something is there that vectors do not do (strips without charge, clusters above
    /// the maximum size), and no cluster was made.
    ///
    /// # Safety
    /// As [`find_clusters`](Self::find_clusters).
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
        // SAFETY:
        // - the stream has FRONT words before it, as many as the largest size looked back to, and slack behind it for
        //   the last vector and the word after it;
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
            let n = clusters.len;
            clusters.last[n] = head;
            clusters.weight[n + 1] = clusters.weight[n].wrapping_add(weight);
            clusters.position[n + 1] = clusters.position[n].wrapping_add(position);
            clusters.len = n + 1;
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
}

//! Stage 2: lays the strips of an event out in one stream, in the order of the lanes' ranks.

use super::fast::{Fast, Unusual};
use super::scratch::{FRONT, MAX_STRIPS, Scratch};
use super::simd::{HEAD_SHUFFLES, Simd};
use crate::detector::BankVersion;

impl Fast {
    /// Lays the strips of all lanes out in the stream, in the order of the ranks, each lane in the direction in which x
    /// rises.
    #[inline(always)]
    pub unsafe fn copy_lanes<S: Simd, const STRIDE: usize>(
        &self,
        scratch: &mut Scratch,
        mut ahead: *const u8,
    ) -> Result<usize, Unusual> {
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
            let pointers = scratch.pointers.as_ptr();
            let stream = scratch.stream.as_mut_ptr().add(FRONT);
            let starts = scratch.starts.as_mut_ptr();
            let mut end = 0u32;
            for &rank in scratch.listed.get_unchecked(..n_listed) {
                let rank = usize::from(rank);
                let n = *counts.add(rank);
                let source = &*sources.add(rank);
                let from = (*pointers.add(usize::from(source.pointer))).add(usize::from(source.place));
                let shuffle = &HEAD_SHUFFLES[usize::from(n.min(4) + source.reversed)];
                S::copy_head::<STRIDE>(from, shuffle, mask, source.xor, stream.add(end as usize));
                starts.add(rank).write(end);
                S::prefetch(ahead);
                ahead = ahead.wrapping_add(64);
                end += u32::from(n);
            }
            for &rank in scratch.long.get_unchecked(..n_long) {
                let rank = usize::from(rank);
                let n = usize::from(*counts.add(rank));
                let source = &*sources.add(rank);
                let from = (*pointers.add(usize::from(source.pointer))).add(usize::from(source.place));
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
}

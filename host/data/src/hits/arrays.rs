//! Decoded hits as a structure of arrays.

use std::fmt;
use std::ops::{Deref, DerefMut, Range};

use memmap2::MmapMut;

use super::{Cluster, DecodeError};
use crate::detector::BankVersion;

const N_ARRAYS: usize = 7;

/// Hits of a batch (`docs/format.md`): seven arrays with a common stride in one block of words, 28
/// bytes per hit.
///
/// The hits of sector group `g` of event `e` have the indices
/// `offsets[e * n_groups + g]..offsets[e * n_groups + g + 1]`. The capacity is declared once, and
/// decoding into a `UtHits` allocates nothing.
///
/// [`iter`](Self::iter), [`of_event`](Self::of_event), [`of_layer`](Self::of_layer) and
/// [`of_group`](Self::of_group) give one [`Hit`](super::Hit) after the other, with clusters if
/// [`with_clusters`](Self::with_clusters) asked for them.
///
/// ```
/// use ut_data::UtHits;
///
/// // What a decoder does: two events with two groups each, and one hit in the last group.
/// let mut hits = UtHits::with_capacity(2, 2, 100);
/// let arrays = hits.begin(2, 2)?;
/// arrays.x_at_y_eq0[0] = -12.5;
/// arrays.offsets[4] = 1;
///
/// assert_eq!((hits.len(), hits.n_events()), (1, 2));
/// assert_eq!(hits.offsets(), [0, 0, 0, 0, 1]);
/// let x: Vec<f32> = hits.of_event(1).map(|hit| hit.x_at_y_eq0).collect();
/// assert_eq!(x, [-12.5]);
/// # Ok::<(), ut_data::DecodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct UtHits {
    block: ZeroedWords,
    stride: usize,
    offsets: Vec<u32>,
    n_groups: usize,
    max_events: usize,
    /// One word per hit, if clusters were asked for.
    clusters: Option<ZeroedWords>,
    /// True if the last batch has set `clusters`.
    has_clusters: bool,
}

/// Error for a capacity that a [`UtHits`] cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("no room for {max_hits} hits of {max_events} events: {}", reason(*bytes))]
pub struct CapacityError {
    /// Number of events requested.
    pub max_events: usize,
    /// Number of hits requested.
    pub max_hits: usize,
    /// Number of bytes that the system refused; `None` if 32-bit offsets are too small.
    pub bytes: Option<u64>,
}

fn reason(bytes: Option<u64>) -> String {
    let numbers = || "hits and groups are numbered with 32 bits".to_owned();
    bytes.map_or_else(numbers, |bytes| {
        format!("the system does not give {bytes} bytes")
    })
}

/// Words that are zero until they are written, and occupy no memory until then.
///
/// They lie on huge pages where the system has them: with pages of 4 kB, each of the seven arrays
/// touches a new page every 1024 hits.
struct ZeroedWords(MmapMut);

impl ZeroedWords {
    /// Reserves `len` words. Returns `None` if the system refuses.
    fn try_zeroed(len: usize) -> Option<Self> {
        let pages = MmapMut::map_anon(len.checked_mul(size_of::<u32>())?).ok()?;
        // Advice only: without it everything works, a little slower.
        #[cfg(all(target_os = "linux", not(miri)))]
        let _ = pages.advise(memmap2::Advice::HugePage);
        Some(Self(pages))
    }
}

impl Deref for ZeroedWords {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        bytemuck::cast_slice(&self.0)
    }
}

impl DerefMut for ZeroedWords {
    fn deref_mut(&mut self) -> &mut [u32] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}

impl Clone for ZeroedWords {
    fn clone(&self) -> Self {
        let mut clone = Self::try_zeroed(self.len()).expect("there is memory for a copy");
        clone.copy_from_slice(self);
        clone
    }
}

impl fmt::Debug for ZeroedWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} words", self.len())
    }
}

/// Arrays of a [`UtHits`] for a decoder to write; each is as long as the capacity.
#[derive(Debug)]
#[expect(missing_docs, reason = "as in `Hit`")]
pub struct UtHitsMut<'a> {
    pub y_begin: &'a mut [f32],
    pub y_end: &'a mut [f32],
    pub z_at_y_eq0: &'a mut [f32],
    pub x_at_y_eq0: &'a mut [f32],
    pub dx_dy: &'a mut [f32],
    pub weight: &'a mut [f32],
    pub id: &'a mut [u32],
    /// `events * n_groups + 1` ends of groups.
    pub offsets: &'a mut [u32],
    /// Clusters of the hits; `None` if they were not asked for, and for v4 banks, which have none.
    pub clusters: Option<&'a mut [Cluster]>,
}

impl UtHitsMut<'_> {
    /// Returns the arrays of floats, in the order of the fields.
    #[inline]
    pub fn floats(&mut self) -> [&mut [f32]; 6] {
        [
            self.y_begin,
            self.y_end,
            self.z_at_y_eq0,
            self.x_at_y_eq0,
            self.dx_dy,
            self.weight,
        ]
    }

    /// Returns the number of hits that fit into every array.
    pub fn room(&mut self) -> usize {
        let clusters = self.clusters.as_ref().map_or(usize::MAX, |all| all.len());
        let room = self.id.len().min(clusters);
        self.floats()
            .into_iter()
            .fold(room, |room, array| room.min(array.len()))
    }

    /// Takes a part of each array of hits, and all offsets.
    #[inline]
    pub fn part(&mut self, places: Range<usize>) -> UtHitsMut<'_> {
        UtHitsMut {
            y_begin: &mut self.y_begin[places.clone()],
            y_end: &mut self.y_end[places.clone()],
            z_at_y_eq0: &mut self.z_at_y_eq0[places.clone()],
            x_at_y_eq0: &mut self.x_at_y_eq0[places.clone()],
            dx_dy: &mut self.dx_dy[places.clone()],
            weight: &mut self.weight[places.clone()],
            id: &mut self.id[places.clone()],
            offsets: self.offsets,
            clusters: self.clusters.as_mut().map(|clusters| &mut clusters[places]),
        }
    }
}

impl UtHits {
    /// Makes room for `max_hits` hits of `max_events` events with `n_groups` sector groups each.
    ///
    /// # Panics
    /// If [`try_with_capacity`](Self::try_with_capacity) fails.
    pub fn with_capacity(max_events: usize, n_groups: usize, max_hits: usize) -> Self {
        Self::try_with_capacity(max_events, n_groups, max_hits)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Asks for charge, number of strips and first strip of each hit, which take four more bytes
    /// per hit. The backends `reference` and `cpu` give them; the others refuse to decode into
    /// these hits.
    #[must_use]
    pub fn with_clusters(self) -> Self {
        self.try_with_clusters()
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Reserves [clusters](Self::with_clusters) for a capacity that comes from outside.
    pub fn try_with_clusters(mut self) -> Result<Self, CapacityError> {
        let (max_events, max_hits, bytes) =
            (self.max_events, self.stride, Some(4 * self.stride as u64));
        let clusters = ZeroedWords::try_zeroed(self.stride).ok_or(CapacityError {
            max_events,
            max_hits,
            bytes,
        })?;
        self.clusters = Some(clusters);
        Ok(self)
    }

    /// Makes room as [`with_capacity`](Self::with_capacity) does, for a capacity that comes from
    /// outside the program.
    ///
    /// # Errors
    /// If 32-bit offsets cannot number the hits or the groups, or the system refuses the memory.
    pub fn try_with_capacity(
        max_events: usize,
        n_groups: usize,
        max_hits: usize,
    ) -> Result<Self, CapacityError> {
        let most = u32::MAX as usize;
        let refuse = |bytes| CapacityError {
            max_events,
            max_hits,
            bytes,
        };
        let ends = max_events
            .checked_mul(n_groups)
            .and_then(|ends| ends.checked_add(1))
            .filter(|&ends| ends <= most);
        let (Some(ends), true) = (ends, max_hits <= most) else {
            return Err(refuse(None));
        };
        // With a stride of whole cache lines (16 words), each array begins on a new one.
        let stride = max_hits.next_multiple_of(16);
        let bytes = 4 * (N_ARRAYS as u64 * stride as u64 + ends as u64);
        let mut offsets = Vec::new();
        offsets
            .try_reserve_exact(ends)
            .map_err(|_| refuse(Some(bytes)))?;
        let block = ZeroedWords::try_zeroed(N_ARRAYS * stride).ok_or(refuse(Some(bytes)))?;
        Ok(Self {
            block,
            stride,
            offsets,
            n_groups,
            max_events,
            clusters: None,
            has_clusters: false,
        })
    }

    /// Grows the capacity to `max_events` events and at least `max_hits` hits. If it grows, the
    /// present hits are lost.
    pub fn reserve(&mut self, max_events: usize, max_hits: usize) {
        if max_events > self.max_events || max_hits > self.stride {
            // Of a series of batches, the largest so far keeps growing by a little. Memory that is
            // new to the process costs time, so that a quarter more is taken at once.
            let max_hits = if max_hits > self.stride {
                max_hits + max_hits / 4
            } else {
                self.stride
            };
            self.try_reserve(max_events, max_hits)
                .unwrap_or_else(|error| panic!("{error}"));
        }
    }

    /// Grows the capacity as [`reserve`](Self::reserve) does, but with nothing to spare, for a
    /// capacity that comes from outside the program.
    ///
    /// # Errors
    /// Same errors as [`Self::try_with_capacity`]; the capacity is then 0.
    pub fn try_reserve(&mut self, max_events: usize, max_hits: usize) -> Result<(), CapacityError> {
        if max_events > self.max_events || max_hits > self.stride {
            let (events, hits) = (max_events.max(self.max_events), max_hits.max(self.stride));
            let clusters = self.clusters.is_some();
            let and_clusters = |hits: Self| {
                if clusters {
                    hits.try_with_clusters()
                } else {
                    Ok(hits)
                }
            };
            // The old arrays are freed first. If allocating the new ones fails, the empty ones
            // still ask for clusters.
            *self = and_clusters(Self::try_with_capacity(0, self.n_groups, 0)?)?;
            *self = and_clusters(Self::try_with_capacity(events, self.n_groups, hits)?)?;
        }
        Ok(())
    }

    /// Begins a batch for a decoder that does not give clusters: sets all offsets to 0, and returns
    /// the arrays.
    ///
    /// # Errors
    /// If `n_events` is beyond the capacity, the arrays were made for another number of groups, or
    /// clusters were asked for.
    pub fn begin(
        &mut self,
        n_events: usize,
        n_groups: usize,
    ) -> Result<UtHitsMut<'_>, DecodeError> {
        if self.clusters.is_some() {
            return Err(DecodeError::NoClusters);
        }
        self.begin_with_clusters(n_events, n_groups, BankVersion::V4)
    }

    /// Begins a batch of banks of `version` for a decoder that gives clusters. v4 banks have none.
    ///
    /// # Errors
    /// If `n_events` is beyond the capacity, or the arrays were made for another number of groups.
    pub fn begin_with_clusters(
        &mut self,
        n_events: usize,
        n_groups: usize,
        version: BankVersion,
    ) -> Result<UtHitsMut<'_>, DecodeError> {
        if n_events > self.max_events {
            return Err(DecodeError::TooManyEvents {
                events: n_events,
                capacity: self.max_events,
            });
        }
        if n_groups != self.n_groups {
            return Err(DecodeError::WrongGroups {
                buffers: self.n_groups,
                grouping: n_groups,
            });
        }
        self.offsets.clear();
        self.offsets.resize(n_events * n_groups + 1, 0);
        let (floats, id) = self.block.split_at_mut((N_ARRAYS - 1) * self.stride);
        let floats: &mut [f32] = bytemuck::cast_slice_mut(floats);
        let (y_begin, floats) = floats.split_at_mut(self.stride);
        let (y_end, floats) = floats.split_at_mut(self.stride);
        let (z_at_y_eq0, floats) = floats.split_at_mut(self.stride);
        let (x_at_y_eq0, floats) = floats.split_at_mut(self.stride);
        let (dx_dy, weight) = floats.split_at_mut(self.stride);
        let clusters = match (&mut self.clusters, version) {
            (Some(words), BankVersion::V5) => Some(bytemuck::cast_slice_mut(&mut words[..])),
            _ => None,
        };
        self.has_clusters = clusters.is_some();
        let offsets = &mut self.offsets;
        Ok(UtHitsMut {
            y_begin,
            y_end,
            z_at_y_eq0,
            x_at_y_eq0,
            dx_dy,
            weight,
            id,
            offsets,
            clusters,
        })
    }

    /// Returns the result of a decoder. If it is an error, removes all hits, because the offsets
    /// may count hits beyond the capacity.
    pub fn forget_on<T, E>(&mut self, result: Result<T, E>) -> Result<T, E> {
        if result.is_err() {
            self.offsets.clear();
        }
        result
    }

    /// Keeps only the hits for whose LHCbID `keep` returns true, in their order. Returns the number
    /// of hits that were removed.
    pub fn retain(&mut self, keep: impl Fn(u32) -> bool) -> usize {
        let before = self.len();
        let ids = (N_ARRAYS - 1) * self.stride;
        // Hits are moved in runs without a gap. `run` are the hits kept since the last gap, still
        // in their old place; `to` is the end of the hits that have been moved.
        let (mut run, mut to, mut from) = (0..0, 0, 0);
        for k in 1..self.offsets.len() {
            let end = self.offsets[k] as usize;
            for i in from..end {
                if keep(self.block[ids + i]) {
                    if run.end != i {
                        self.move_hits(run, &mut to);
                        run = i..i;
                    }
                    run.end = i + 1;
                }
            }
            from = end;
            self.offsets[k] = (to + run.len()) as u32;
        }
        self.move_hits(run, &mut to);
        before - to
    }

    fn move_hits(&mut self, hits: Range<usize>, to: &mut usize) {
        if hits.start != *to {
            for array in 0..N_ARRAYS {
                let at = array * self.stride;
                self.block
                    .copy_within(at + hits.start..at + hits.end, at + *to);
            }
            if let Some(clusters) = &mut self.clusters {
                clusters.copy_within(hits.clone(), *to);
            }
        }
        *to += hits.len();
    }

    /// Returns the number of hits in the batch.
    pub fn len(&self) -> usize {
        self.offsets.last().map_or(0, |&end| end as usize)
    }

    /// Returns true if the batch has no hit.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of events in the batch.
    pub fn n_events(&self) -> usize {
        self.offsets.len().saturating_sub(1) / self.n_groups.max(1)
    }

    /// Returns the number of sector groups of an event.
    pub const fn n_groups(&self) -> usize {
        self.n_groups
    }

    /// Returns the number of events for which there is room.
    pub const fn max_events(&self) -> usize {
        self.max_events
    }

    /// Returns the distance between arrays in the block, in hits, which is also the capacity.
    pub const fn stride(&self) -> usize {
        self.stride
    }

    /// Returns `n_events * n_groups + 1` offsets; none before the first batch.
    pub fn offsets(&self) -> &[u32] {
        &self.offsets
    }

    /// Returns the hits of one group of one event, as a range of indices.
    pub fn range(&self, event: usize, group: usize) -> Range<usize> {
        let i = event * self.n_groups + group;
        self.offsets[i] as usize..self.offsets[i + 1] as usize
    }

    fn float(&self, array: usize) -> &[f32] {
        bytemuck::cast_slice(&self.block[array * self.stride..array * self.stride + self.len()])
    }

    /// Returns the arrays of floats, in the order of [`Hit`](super::Hit)'s fields.
    pub fn floats(&self) -> [&[f32]; N_ARRAYS - 1] {
        std::array::from_fn(|array| self.float(array))
    }

    /// Returns y of the lower end of each strip in mm.
    pub fn y_begin(&self) -> &[f32] {
        self.float(0)
    }

    /// Returns y of the upper end of each strip in mm.
    pub fn y_end(&self) -> &[f32] {
        self.float(1)
    }

    /// Returns z of each strip at y = 0 in mm.
    pub fn z_at_y_eq0(&self) -> &[f32] {
        self.float(2)
    }

    /// Returns x of each strip at y = 0 in mm.
    pub fn x_at_y_eq0(&self) -> &[f32] {
        self.float(3)
    }

    /// Returns the slope dx/dy of each strip.
    pub fn dx_dy(&self) -> &[f32] {
        self.float(4)
    }

    /// Returns the inverse variance of each hit, 12/pitch², in 1/mm².
    pub fn weight(&self) -> &[f32] {
        self.float(5)
    }

    /// Returns the `LHCbID` of each hit.
    pub fn id(&self) -> &[u32] {
        &self.block[6 * self.stride..6 * self.stride + self.len()]
    }

    /// Returns the cluster that each hit was made from; `None` if clusters were not asked for, and
    /// for v4 banks.
    pub fn clusters(&self) -> Option<&[Cluster]> {
        let words = self.clusters.as_ref().filter(|_| self.has_clusters)?;
        Some(bytemuck::cast_slice(&words[..self.len()]))
    }
}

/// Equal when offsets and every bit of every hit are equal, clusters included; capacities do not
/// matter.
impl PartialEq for UtHits {
    fn eq(&self, other: &Self) -> bool {
        self.n_groups == other.n_groups
            && self.offsets == other.offsets
            && self.clusters() == other.clusters()
            && (0..N_ARRAYS).all(|array| {
                self.block[array * self.stride..][..self.len()]
                    == other.block[array * other.stride..][..other.len()]
            })
    }
}

impl Eq for UtHits {}

#[cfg(test)]
mod tests {
    use super::{BankVersion, UtHits};

    /// Makes two events of three groups with these numbers of hits. Each array holds the index of
    /// the hit.
    fn hits(sizes: [u32; 6]) -> UtHits {
        let n: u32 = sizes.iter().sum();
        let mut hits = UtHits::with_capacity(2, 3, n as usize + 5).with_clusters();
        let mut arrays = hits.begin_with_clusters(2, 3, BankVersion::V5).unwrap();
        let clusters = arrays.clusters.take().unwrap();
        for (k, size) in sizes.into_iter().enumerate() {
            arrays.offsets[k + 1] = arrays.offsets[k] + size;
        }
        for i in 0..n as usize {
            arrays.id[i] = i as u32;
            clusters[i] = bytemuck::cast(i as u32);
            for array in arrays.floats() {
                array[i] = i as f32;
            }
        }
        hits
    }

    #[test]
    fn retained_hits_stay_in_their_groups_and_in_order() {
        for sizes in [[0; 6], [3, 0, 2, 1, 4, 0], [0, 0, 0, 0, 0, 9]] {
            for keep in [
                |_| true,
                |_| false,
                |i| i % 2 == 0,
                |i| i % 3 != 1,
                |i| i > 2,
                |i| i < 3,
                |i| i == 9,
            ] {
                let before = hits(sizes);
                let mut after = before.clone();
                let taken = after.retain(keep);
                assert_eq!(taken, before.len() - after.len());
                for (event, group) in (0..2).flat_map(|e| (0..3).map(move |g| (e, g))) {
                    let expected: Vec<u32> = before.id()[before.range(event, group)]
                        .iter()
                        .copied()
                        .filter(|&i| keep(i))
                        .collect();
                    let range = after.range(event, group);
                    assert_eq!(after.id()[range.clone()], expected);
                    let clusters: &[u32] = bytemuck::cast_slice(after.clusters().unwrap());
                    assert_eq!(clusters[range.clone()], expected);
                    let floats: Vec<f32> = expected.iter().map(|&i| i as f32).collect();
                    for array in after.floats() {
                        assert_eq!(array[range.clone()], floats);
                    }
                }
            }
        }
        assert_eq!(UtHits::with_capacity(1, 3, 4).retain(|_| false), 0);
    }
}

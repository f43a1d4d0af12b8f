//! The fallback path decodes every event, whatever is wrong with it, and assumes nothing about its
//! banks.
//!
//! First it applies the policy to each bank and counts the hits of each sector group, so that the
//! groups' places are known. Then it writes the hits group by group, in the order of the banks, and
//! sorts each group in the output: an unsorted group's arrays hold the sort's words (order of x,
//! `LHCbID`, order of the strip coordinate n in `weight`, slot in `dx_dy`), from which the rest is
//! computed at the end. So a hostile event takes no more memory. Both steps find the hits, which
//! nothing keeps between them.
//!
//! Speed does not matter here, since few events come this way; what matters is that it is plain,
//! that it needs no memory in proportion to what a hostile event claims, and that its hits have the
//! same bits as the hits of the fast path.
//!
//! # How the output serves as work space
//!
//! A hit needs seven floats and words in the output. While a group is unsorted, four of these
//! arrays hold the four words that decide the order:
//!
//! ```text
//! array         while unsorted                     in the end
//! x_at_y_eq0    x, as a word in the order of x     x in mm
//! id            LHCbID                             LHCbID
//! weight        n, as a word in the order of n     weight of the sector
//! dx_dy         number of the lane's slot          slope of the sector
//! ```
//!
//! Everything else about a hit follows from its sector and n. So after the sort one pass over the
//! hits computes the other arrays, and overwrites the words.

use std::sync::Arc;

use super::banks::{Bank, BankList};
use super::policy::{Policy, UT_ID, v4_words, v5_counts};
use ut_data::detector::{BankVersion, DetectorTables, LANES_PER_BOARD, SectorConstants, Slot};
use ut_data::input::BatchView;
use ut_data::{Cluster, Count, DecodeOptions, EventReport, Position, UtHitsMut};

#[derive(Debug)]
pub struct Fallback {
    version: BankVersion,
    policy: Policy,
    slots: Vec<Slot>,
    sectors: Arc<[SectorConstants]>,
    options: DecodeOptions,
    /// Index of each group's next hit.
    next: Vec<u32>,
}

impl Fallback {
    pub fn new(tables: &DetectorTables, options: DecodeOptions) -> Self {
        Self {
            version: tables.boards().version,
            policy: Policy::new(tables),
            slots: tables.slots().to_vec(),
            sectors: tables.sectors().into(),
            options,
            next: Vec::with_capacity(tables.n_groups() + 1),
        }
    }

    /// Does the first step: writes the event's report and the ends of its groups, counted from the
    /// event's first hit, and returns the number of hits.
    ///
    /// # Errors
    /// The number of hits, if `u32` does not hold it.
    pub fn count(
        &mut self,
        batch: BatchView<'_>,
        event: usize,
        ends: &mut [u32],
        report: &mut EventReport,
    ) -> Result<usize, u64> {
        let meta = batch.meta_of(event);
        *report = EventReport::default();
        report.add(Count::OtherTypes, meta.other_banks);
        ends.fill(0);
        let whole = self.each_hit(batch, event, report, |(_, slot), _| {
            let end = &mut ends[usize::from(slot.group)];
            *end = end.saturating_add(1);
        });
        if !whole || meta.broken {
            report.add(Count::BrokenEvent, 1);
        }
        let n_hits = ends.iter().map(|&hits| u64::from(hits)).sum();
        if n_hits > u64::from(u32::MAX) {
            return Err(n_hits);
        }
        let mut end = 0;
        for group in ends {
            end += *group;
            *group = end;
        }
        Ok(n_hits as usize)
    }

    /// Does the second step: writes the hits of the event that was counted, whose groups end at
    /// `ends`.
    pub fn write(
        &mut self,
        batch: BatchView<'_>,
        event: usize,
        ends: &[u32],
        hits: &mut UtHitsMut<'_>,
    ) {
        let mut next = std::mem::take(&mut self.next);
        next.clear();
        next.push(0);
        next.extend(&ends[..ends.len().saturating_sub(1)]);
        let mut unsorted = Unsorted {
            x: bytemuck::cast_slice_mut(hits.x_at_y_eq0),
            id: hits.id,
            n: bytemuck::cast_slice_mut(hits.weight),
            slot: bytemuck::cast_slice_mut(hits.dx_dy),
            clusters: hits.clusters.as_deref_mut().unwrap_or_default(),
        };
        let sectors = Arc::clone(&self.sectors);
        self.each_hit(
            batch,
            event,
            &mut EventReport::default(),
            |(number, slot), hit| {
                let next = &mut next[usize::from(slot.group)];
                unsorted.put(next, number as u32, &sectors[usize::from(slot.sector)], hit);
            },
        );
        self.next = next;
        let mut begin = 0;
        for &end in ends {
            let end = end as usize;
            unsorted.sort(begin, end);
            begin = end;
        }
        for i in 0..hits.id.len() {
            let slot = self.slots[hits.dx_dy[i].to_bits() as usize];
            let sector = &self.sectors[usize::from(slot.sector)];
            let n = from_order(hits.weight[i].to_bits());
            let y_begin = sector.p0_y + n * sector.dp0di_y;
            hits.y_begin[i] = y_begin;
            hits.y_end[i] = sector.dy + y_begin;
            hits.z_at_y_eq0[i] = sector.p0_z + n * sector.dp0di_z;
            hits.x_at_y_eq0[i] = from_order(hits.x_at_y_eq0[i].to_bits());
            hits.dx_dy[i] = sector.dx_dy;
            hits.weight[i] = sector.weight;
        }
    }

    /// Calls `use_hit` with slot (number and itself), and n, `LHCbID` and cluster of each hit of an
    /// event, and counts for the policy. Returns false if the batch contradicts itself: the rest of
    /// the event is given up.
    fn each_hit(
        &mut self,
        batch: BatchView<'_>,
        event: usize,
        report: &mut EventReport,
        mut use_hit: impl FnMut((usize, &Slot), (f32, u32, Cluster)),
    ) -> bool {
        // Both `None`s below mean that the batch contradicts itself about this event. What was
        // found before stays: an event loses as little as possible.
        let Some(banks) = BankList::new(batch, event) else {
            return false;
        };
        self.policy.begin_event();
        for bank in 0..banks.n_banks() {
            let Some(bank) = banks.bank(bank) else {
                return false;
            };
            let Some(board) = self.policy.board(&bank, report) else {
                continue;
            };
            let Bank { payload, .. } = bank;
            match self.version {
                BankVersion::V4 => self.each_v4_hit(board, payload, report, &mut use_hit),
                BankVersion::V5 => self.each_v5_hit(board, payload, report, &mut use_hit),
            }
        }
        true
    }

    fn each_v4_hit(
        &self,
        board: usize,
        payload: &[u8],
        report: &mut EventReport,
        use_hit: &mut impl FnMut((usize, &Slot), (f32, u32, Cluster)),
    ) {
        let Some(words) = v4_words(payload, report) else {
            return;
        };
        let slots = &self.slots[board * LANES_PER_BOARD..][..LANES_PER_BOARD];
        let mut unconnected = 0;
        for word in words {
            let word = u32::from(u16::from_le_bytes(*word));
            let channel = word >> 2 & 0xFFF;
            // A board has 512 strips per hybrid in the tables, or does not exist.
            let (index, strip) = ((channel >> 9) as usize, channel & 511);
            match slots.get(index) {
                Some(slot) if slot.is_connected() => {
                    let first_strip = self.sectors[usize::from(slot.sector)].first_strip;
                    let n = 0.25 * (word & 3) as f32 + (strip + 1) as f32 - first_strip as f32;
                    let hit = (n, UT_ID | (slot.chan_id + strip), Cluster::default());
                    use_hit((board * LANES_PER_BOARD + index, slot), hit);
                }
                _ => unconnected += 1,
            }
        }
        report.add(Count::UnconnectedHits, unconnected);
        report.add(Count::Strips, words.len() as u32 - unconnected);
    }

    fn each_v5_hit(
        &self,
        board: usize,
        payload: &[u8],
        report: &mut EventReport,
        use_hit: &mut impl FnMut((usize, &Slot), (f32, u32, Cluster)),
    ) {
        let Some(counts) = v5_counts(payload, report) else {
            return;
        };
        let rows = &payload[8..];
        for (lane, &count) in counts.iter().enumerate() {
            if count == 0 {
                continue;
            }
            let number = board * LANES_PER_BOARD + lane;
            let slot = &self.slots[number];
            if !slot.is_connected() {
                report.add(Count::UnconnectedHits, u32::from(count));
                continue;
            }
            report.add(Count::Strips, u32::from(count));
            let base = UT_ID | (slot.chan_id & !0x1FF);
            let flipped = self.sectors[usize::from(slot.sector)].flipped != 0;
            let hits = LaneHits {
                rows: &rows[2 * 2 * (5 - lane)..],
                count: usize::from(count),
            };
            cluster(hits, self.options, report, |sum, weight, cluster| {
                // Both are below 2^24: exact as f32.
                let mean = sum as f32 / weight as f32;
                let n = if flipped {
                    self.options.flip().origin() - mean
                } else {
                    mean
                };
                // The mean strip rounded, halves up. At most 511: it fits into the nine zero bits
                // of base.
                use_hit(
                    (number, slot),
                    (n, base + (sum + weight / 2) / weight, cluster),
                );
            });
        }
    }
}

/// Hit words of a v5 lane, two in every 32 bytes of `rows`.
#[derive(Clone, Copy)]
struct LaneHits<'a> {
    rows: &'a [u8],
    count: usize,
}

impl LaneHits<'_> {
    fn get(self, i: usize) -> (u32, u32) {
        let at = 32 * (i / 2) + 2 * (i % 2);
        let word = u32::from(u16::from_le_bytes([self.rows[at], self.rows[at + 1]]));
        (word >> 5 & 0x1FF, word & 0x1F)
    }
}

/// Finds the clusters of a lane (`docs/format.md`), one run of hits on consecutive strips after
/// another. Calls `emit` with Σpos, W and the cluster.
fn cluster(
    hits: LaneHits<'_>,
    options: DecodeOptions,
    report: &mut EventReport,
    mut emit: impl FnMut(u32, u32, Cluster),
) {
    let max_size = options.max_cluster_size().get();
    let geometric = options.position() == Position::Geometric;
    // One pass over the lane. A run is a stretch of hits on consecutive strips; it is followed to
    // its end before anything is emitted, because the decision about its size needs the end.
    let mut unsorted = false;
    let mut i = 0;
    let mut next = hits.get(0);
    while i < hits.count {
        let (mut strip, mut adc) = next;
        let first = strip;
        let (mut size, mut charge, mut sum) = (0, 0, 0);
        // Takes the run to its end; hits beyond the maximum size are passed over.
        loop {
            if size < max_size {
                charge += adc;
                sum += if geometric { strip } else { adc * strip };
            }
            size += 1;
            i += 1;
            if i == hits.count {
                break;
            }
            next = hits.get(i);
            unsorted |= next.0 <= strip;
            if !options.clustering() || next.0 != strip + 1 {
                break;
            }
            (strip, adc) = next;
        }
        if !options.clustering() {
            emit(strip, 1, Cluster::new(charge, 1, first));
            continue;
        }
        if size > max_size {
            report.add(Count::OversizedClusters, 1);
            if !options.save_above_max() {
                continue;
            }
        }
        if charge == 0 {
            report.add(Count::ZeroChargeClusters, 1);
        } else {
            let size = size.min(max_size);
            emit(
                sum,
                if geometric { size } else { charge },
                Cluster::new(charge, size, first),
            );
        }
    }
    if unsorted {
        report.add(Count::UnsortedLanes, 1);
    }
}

/// Output arrays while they hold the words to sort by.
struct Unsorted<'a> {
    x: &'a mut [u32],
    id: &'a mut [u32],
    n: &'a mut [u32],
    slot: &'a mut [u32],
    clusters: &'a mut [Cluster],
}

impl Unsorted<'_> {
    fn put(
        &mut self,
        next: &mut u32,
        slot: u32,
        sector: &SectorConstants,
        (n, id, cluster): (f32, u32, Cluster),
    ) {
        let place = *next as usize;
        *next += 1;
        self.x[place] = order(sector.p0_x + n * sector.dp0di_x);
        self.id[place] = id;
        self.n[place] = order(n);
        self.slot[place] = slot;
        if let Some(to) = self.clusters.get_mut(place) {
            *to = cluster;
        }
    }

    /// Sorts a group by x, LHCbID, n, slot and cluster. A shell sort is an insertion sort for the
    /// dozen hits of a usual group, and needs no memory for the millions of a hostile one.
    fn sort(&mut self, begin: usize, end: usize) {
        let (x, id) = (&mut self.x[begin..end], &mut self.id[begin..end]);
        let (n, slot) = (&mut self.n[begin..end], &mut self.slot[begin..end]);
        let clusters = self.clusters.get_mut(begin..end).unwrap_or_default();
        let cluster_of =
            |clusters: &[Cluster], i: usize| clusters.get(i).copied().unwrap_or_default();
        let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        let mut gap = 1;
        while gap < x.len() / 9 {
            gap = 3 * gap + 1;
        }
        while gap > 0 {
            for i in gap..x.len() {
                let this = (x[i], id[i], n[i], slot[i], cluster_of(clusters, i));
                let (key, tie) = (pair(this.0, this.1), (pair(this.2, this.3), this.4));
                let mut place = i;
                while place >= gap {
                    let other = place - gap;
                    let other_key = pair(x[other], id[other]);
                    let other_tie = || (pair(n[other], slot[other]), cluster_of(clusters, other));
                    if other_key < key || other_key == key && other_tie() <= tie {
                        break;
                    }
                    (x[place], id[place], n[place], slot[place]) =
                        (x[other], id[other], n[other], slot[other]);
                    if !clusters.is_empty() {
                        clusters[place] = clusters[other];
                    }
                    place = other;
                }
                (x[place], id[place], n[place], slot[place]) = (this.0, this.1, this.2, this.3);
                if let Some(to) = clusters.get_mut(place) {
                    *to = this.4;
                }
            }
            gap /= 3;
        }
    }
}

/// `ord` of `docs/format.md`: a word that is ordered as the float is.
///
/// Positive floats are already in order as words; setting the highest bit puts them above the
/// negative ones, whose order is turned by inverting all bits. For example -1.0 becomes 0x407FFFFF,
/// -0.0 0x7FFFFFFF, 0.0 0x80000000 and 1.0 0xBF800000. Words are compared as integers, so that even
/// NaN, which tables made by hand could produce, has a place, and the sort ends.
const fn order(value: f32) -> u32 {
    let bits = value.to_bits();
    if bits >> 31 == 0 {
        bits | 1 << 31
    } else {
        !bits
    }
}

/// Inverse of [`order`].
const fn from_order(order: u32) -> f32 {
    f32::from_bits(if order >> 31 == 0 {
        !order
    } else {
        order & !(1 << 31)
    })
}

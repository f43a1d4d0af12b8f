//! Hits one by one, for people; the arrays of [`UtHits`] are for machines.

use std::ops::Range;

use super::{Cluster, UtHits};
use crate::detector::{DetectorTables, LhcbId};

/// Hit of one cluster, or of one strip without clustering. Lengths in mm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// x of the strip at y = 0.
    pub x_at_y_eq0: f32,
    /// z of the strip at y = 0.
    pub z_at_y_eq0: f32,
    /// y of the strip's lower end.
    pub y_begin: f32,
    /// y of the strip's upper end.
    pub y_end: f32,
    /// Slope dx/dy of the strip.
    pub dx_dy: f32,
    /// Inverse variance of x, 12/pitch², 1/mm².
    pub weight: f32,
    /// Strip that names the hit.
    pub id: LhcbId,
    /// Cluster that the hit was made from; `None` unless [`UtHits::with_clusters`] asked for it,
    /// and for v4 banks.
    pub cluster: Option<Cluster>,
}

impl UtHits {
    /// Returns hit `i` of the batch.
    ///
    /// # Panics
    /// If the batch has no such hit.
    pub fn hit(&self, i: usize) -> Hit {
        Hit {
            x_at_y_eq0: self.x_at_y_eq0()[i],
            z_at_y_eq0: self.z_at_y_eq0()[i],
            y_begin: self.y_begin()[i],
            y_end: self.y_end()[i],
            dx_dy: self.dx_dy()[i],
            weight: self.weight()[i],
            id: LhcbId(self.id()[i]),
            cluster: self.clusters().map(|clusters| clusters[i]),
        }
    }

    /// Iterates over all hits of the batch, ordered by event, group, x and id.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Hit> + ExactSizeIterator + Clone {
        (0..self.len()).map(|i| self.hit(i))
    }

    /// Iterates over the hits of an event, ordered by group, x and id.
    ///
    /// # Panics
    /// If the batch has no such event.
    pub fn of_event(
        &self,
        event: usize,
    ) -> impl DoubleEndedIterator<Item = Hit> + ExactSizeIterator + Clone {
        self.of_groups(event, 0..self.n_groups())
    }

    /// Iterates over the hits of one group of an event, ordered by x and id.
    ///
    /// # Panics
    /// If the batch has no such event, or the event no such group.
    pub fn of_group(
        &self,
        event: usize,
        group: usize,
    ) -> impl DoubleEndedIterator<Item = Hit> + ExactSizeIterator + Clone {
        assert!(
            group < self.n_groups(),
            "group {group} of {}",
            self.n_groups()
        );
        self.of_groups(event, group..group + 1)
    }

    /// Iterates over the hits of one layer, 0…3, of an event, ordered by group, x and id. `tables`
    /// must be the tables of the decoder.
    ///
    /// # Panics
    /// If the batch has no such event, or `tables` have another number of groups.
    pub fn of_layer<'a>(
        &'a self,
        event: usize,
        layer: usize,
        tables: &DetectorTables,
    ) -> impl DoubleEndedIterator<Item = Hit> + ExactSizeIterator + Clone + use<'a> {
        assert_eq!(
            tables.n_groups(),
            self.n_groups(),
            "the tables of the decoder"
        );
        self.of_groups(event, tables.groups_of_layer(layer))
    }

    fn of_groups(
        &self,
        event: usize,
        groups: Range<usize>,
    ) -> impl DoubleEndedIterator<Item = Hit> + ExactSizeIterator + Clone {
        let (n, offsets) = (self.n_groups(), self.offsets());
        assert!(
            event < self.n_events() && groups.end <= n,
            "groups to {} of {n} in event {event}",
            groups.end
        );
        let [begin, end] =
            [groups.start, groups.end].map(|group| offsets[event * n + group] as usize);
        (begin..end).map(|i| self.hit(i))
    }
}

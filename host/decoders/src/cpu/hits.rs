//! Part of the output for one event's hits.

use std::ops::Range;

use super::policy::NeedsFallback;
use ut_data::{Cluster, UtHitsMut};

/// Arrays for the hits of one event, or of a batch, each as long as there are hits.
#[derive(Debug)]
pub struct EventHits<'a> {
    pub y_begin: &'a mut [f32],
    pub y_end: &'a mut [f32],
    pub z_at_y_eq0: &'a mut [f32],
    pub x_at_y_eq0: &'a mut [f32],
    pub dx_dy: &'a mut [f32],
    pub weight: &'a mut [f32],
    pub id: &'a mut [u32],
    pub clusters: Option<&'a mut [Cluster]>,
}

impl<'a> EventHits<'a> {
    pub fn of_batch(hits: &'a mut UtHitsMut<'_>) -> (Self, &'a mut [u32]) {
        let UtHitsMut {
            y_begin,
            y_end,
            z_at_y_eq0,
            x_at_y_eq0,
            dx_dy,
            weight,
            id,
            offsets,
            clusters,
        } = hits;
        let clusters = clusters.as_deref_mut();
        (
            Self {
                y_begin,
                y_end,
                z_at_y_eq0,
                x_at_y_eq0,
                dx_dy,
                weight,
                id,
                clusters,
            },
            offsets,
        )
    }
}

impl EventHits<'_> {
    /// Returns the number of hits that fit into every array.
    pub fn room(&self) -> usize {
        let floats = [
            &self.y_begin,
            &self.y_end,
            &self.z_at_y_eq0,
            &self.x_at_y_eq0,
            &self.dx_dy,
            &self.weight,
        ];
        let clusters = self
            .clusters
            .as_ref()
            .map_or(usize::MAX, |clusters| clusters.len());
        floats
            .into_iter()
            .map(|array| array.len())
            .fold(self.id.len().min(clusters), usize::min)
    }

    /// Takes a part of each array.
    #[inline]
    pub fn part(&mut self, places: Range<usize>) -> EventHits<'_> {
        EventHits {
            y_begin: &mut self.y_begin[places.clone()],
            y_end: &mut self.y_end[places.clone()],
            z_at_y_eq0: &mut self.z_at_y_eq0[places.clone()],
            x_at_y_eq0: &mut self.x_at_y_eq0[places.clone()],
            dx_dy: &mut self.dx_dy[places.clone()],
            weight: &mut self.weight[places.clone()],
            id: &mut self.id[places.clone()],
            clusters: self.clusters.as_mut().map(|clusters| &mut clusters[places]),
        }
    }

    /// Moves hit `place` down to its position among the sorted hits from `begin` on; `moves` limits
    /// how far, and is reduced by the distance.
    ///
    /// # Errors
    /// If the limit does not suffice, or a hit has the same key.
    pub fn move_down(
        &mut self,
        begin: usize,
        place: usize,
        moves: &mut usize,
    ) -> Result<(), NeedsFallback> {
        let key = |hits: &Self, i: usize| {
            let bits = hits.x_at_y_eq0[i].to_bits();
            let order = if bits >> 31 == 0 {
                bits | 1 << 31
            } else {
                !bits
            };
            u64::from(order) << 32 | u64::from(hits.id[i])
        };
        let this = key(self, place);
        let mut to = place;
        while to > begin && key(self, to - 1) > this {
            to -= 1;
        }
        if to > begin && key(self, to - 1) == this {
            return Err(NeedsFallback);
        }
        if to == place {
            return Ok(());
        }
        *moves = moves.checked_sub(place - to).ok_or(NeedsFallback)?;
        for array in [
            &mut *self.y_begin,
            &mut *self.y_end,
            &mut *self.z_at_y_eq0,
            &mut *self.x_at_y_eq0,
            &mut *self.dx_dy,
            &mut *self.weight,
        ] {
            array[to..=place].rotate_right(1);
        }
        self.id[to..=place].rotate_right(1);
        if let Some(clusters) = &mut self.clusters {
            clusters[to..=place].rotate_right(1);
        }
        Ok(())
    }
}

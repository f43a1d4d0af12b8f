//! The part of the output that one event's hits go to.

use super::fast::Unusual;
use crate::backend::UtHitsMut;

/// The output arrays of a batch, for several threads to write events to.
#[derive(Clone, Copy, Debug)]
pub struct SharedHits {
    floats: [*mut f32; 6],
    id: *mut u32,
    capacity: usize,
}

// SAFETY: the arrays are reached only through `event`, whose caller keeps the events apart.
unsafe impl Send for SharedHits {}
// SAFETY: likewise.
unsafe impl Sync for SharedHits {}

impl SharedHits {
    /// The arrays of `out`, which must outlive the result.
    pub fn new(out: &mut UtHitsMut<'_>) -> Self {
        Self {
            capacity: out.id.len(),
            floats: [
                out.y_begin.as_mut_ptr(),
                out.y_end.as_mut_ptr(),
                out.z_at_y_eq0.as_mut_ptr(),
                out.x_at_y_eq0.as_mut_ptr(),
                out.dx_dy.as_mut_ptr(),
                out.weight.as_mut_ptr(),
            ],
            id: out.id.as_mut_ptr(),
        }
    }

    /// Hits that the arrays can take.
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Room for `n` hits from hit `at` on.
    ///
    /// # Safety
    /// - the arrays are still borrowed by whoever made this;
    /// - no two living results overlap.
    ///
    /// # Panics
    /// When that is beyond the arrays.
    pub unsafe fn event<'a>(&self, at: usize, n: usize) -> EventHits<'a> {
        assert!(at <= self.capacity && n <= self.capacity - at, "hits beyond the arrays");
        // SAFETY:
        // - within the arrays: just checked;
        // - borrowed and unshared: the caller's.
        unsafe {
            let floats = |array: usize| std::slice::from_raw_parts_mut(self.floats[array].add(at), n);
            EventHits {
                y_begin: floats(0),
                y_end: floats(1),
                z_at_y_eq0: floats(2),
                x_at_y_eq0: floats(3),
                dx_dy: floats(4),
                weight: floats(5),
                id: std::slice::from_raw_parts_mut(self.id.add(at), n),
            }
        }
    }
}

/// Where the hits of one event go: arrays with as many places as the event has hits.
#[derive(Debug)]
pub struct EventHits<'a> {
    /// As in [`UtHitsMut`].
    pub y_begin: &'a mut [f32],
    /// As in [`UtHitsMut`].
    pub y_end: &'a mut [f32],
    /// As in [`UtHitsMut`].
    pub z_at_y_eq0: &'a mut [f32],
    /// As in [`UtHitsMut`].
    pub x_at_y_eq0: &'a mut [f32],
    /// As in [`UtHitsMut`].
    pub dx_dy: &'a mut [f32],
    /// As in [`UtHitsMut`].
    pub weight: &'a mut [f32],
    /// As in [`UtHitsMut`].
    pub id: &'a mut [u32],
}

impl EventHits<'_> {
    /// Moves hit `place` down to where it belongs among the sorted hits from `begin` on.
    pub fn move_down(&mut self, begin: usize, place: usize) -> Result<(), Unusual> {
        let key = |hits: &Self, i: usize| {
            let bits = hits.x_at_y_eq0[i].to_bits();
            let order = if bits >> 31 == 0 { bits | 1 << 31 } else { !bits };
            u64::from(order) << 32 | u64::from(hits.id[i])
        };
        let this = key(self, place);
        let mut to = place;
        while to > begin && key(self, to - 1) > this {
            to -= 1;
        }
        if to > begin && key(self, to - 1) == this {
            return Err(Unusual);
        }
        if to == place {
            return Ok(());
        }
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
        Ok(())
    }
}

//! Programs that hold device memory with `cust`: its pointers into [`DeviceBatch`], and
//! [`DeviceHits`] as its pointers.
//!
//! Both libraries use the device's primary context, so that addresses are common. They do not know
//! each other's streams: synchronise the stream that wrote the batch before you submit the batch. A
//! hit array is complete once the batch has been collected.

use ::cust::memory::{DevicePointer, DeviceSlice};

use super::batch::DeviceBatch;
use super::output::DeviceHits;
use ut_data::input::Layout;

impl DeviceBatch {
    /// Makes a batch from memory of `cust`. The slices correspond to the fields of
    /// [`BatchView`](ut_data::BatchView), and must outlive the decoding, which is unsafe for that
    /// reason.
    pub fn of_cust(
        layout: Layout,
        n_events: usize,
        raw: &DeviceSlice<u8>,
        [offsets, sizes, types]: [&DeviceSlice<u32>; 3],
        versions: Option<&DeviceSlice<u32>>,
    ) -> Self {
        let words = |slice: &DeviceSlice<u32>| (slice.as_device_ptr().as_raw(), slice.len());
        Self {
            layout,
            n_events,
            raw: (raw.as_device_ptr().as_raw(), raw.len()),
            offsets: words(offsets),
            sizes: words(sizes),
            types: words(types),
            versions: versions.map(words),
            ..Self::default()
        }
    }
}

impl DeviceHits {
    /// Returns the arrays `y_begin`, `y_end`, `z_at_y_eq0`, `x_at_y_eq0` (all in mm), `dx_dy` and
    /// `weight`, and the array of ids, with `len` elements each.
    pub fn to_cust(&self) -> ([DevicePointer<f32>; 6], DevicePointer<u32>) {
        let array = |i: usize| self.address + (i * self.stride * size_of::<u32>()) as u64;
        let floats = std::array::from_fn(|i| DevicePointer::from_raw(array(i)));
        (floats, DevicePointer::from_raw(array(6)))
    }
}

//! Values that calls of a device take and give: arguments of kernels, rows of copies, bytes moved.

use std::ffi::c_void;
use std::marker::PhantomData;

/// Maximum number of arguments of a kernel.
pub(super) const MAX_ARGUMENTS: usize = 8;

/// An argument of a kernel: a value that is copied when the kernel is launched.
#[derive(Clone, Copy, Debug)]
pub struct Argument<'a> {
    pointer: *const c_void,
    size: usize,
    value: PhantomData<&'a ()>,
}

impl<'a> Argument<'a> {
    /// Refers to a value, which is copied at the launch.
    pub const fn of<T: Copy>(value: &'a T) -> Self {
        Self {
            pointer: std::ptr::from_ref(value).cast(),
            size: size_of::<T>(),
            value: PhantomData,
        }
    }

    /// Returns the address of the value.
    pub const fn pointer(&self) -> *const c_void {
        self.pointer
    }

    /// Returns the size in bytes, including padding.
    pub const fn size(&self) -> usize {
        self.size
    }
}

/// Rows of a copy: `n` of `width` bytes each, `host` bytes apart in the host's memory and `device`
/// bytes in the device's.
#[derive(Clone, Copy, Debug)]
pub struct CopyRows {
    /// Number of rows.
    pub n: usize,
    /// Number of bytes of a row.
    pub width: usize,
    /// Distance in bytes between rows in the host's memory; at least `width`.
    pub host: usize,
    /// Distance in bytes between rows in the device's memory; at least `width`.
    pub device: usize,
}

impl CopyRows {
    /// Returns the shape of one row with `bytes` bytes.
    pub const fn one(bytes: usize) -> Self {
        Self {
            n: 1,
            width: bytes,
            host: bytes,
            device: bytes,
        }
    }

    /// Returns the size of all rows in bytes.
    pub const fn bytes(self) -> usize {
        self.n * self.width
    }
}

/// Bytes over the link between host and device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferBytes {
    /// Number of bytes of tables and batches that the host wrote.
    pub to_device: u64,
    /// Number of bytes of results that the host read: hits, counts and status.
    pub from_device: u64,
}

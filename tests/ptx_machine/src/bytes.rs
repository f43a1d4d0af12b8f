//! Arguments of launches as bytes.

use std::mem::MaybeUninit;

/// Returns the bytes of an argument as they cross to the device: a number, or a `repr(C)` struct by value. Padding
/// bytes have any value.
pub fn bytes_of<T: Copy>(value: &T) -> Vec<u8> {
    // SAFETY: a value of this size.
    unsafe { copied(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// Copies the bytes of an argument.
///
/// # Safety
/// - `size` bytes can be read from `from`, though not all need be initialised.
pub unsafe fn copied(from: *const MaybeUninit<u8>, size: usize) -> Vec<u8> {
    let mut bytes = vec![0u8; size];
    // SAFETY:
    // - Both are `size` bytes, the one by the caller's word, and do not overlap.
    // - Copied as bytes that may be uninitialised; the kernels read fields only, never padding.
    unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr().cast(), size) };
    bytes
}

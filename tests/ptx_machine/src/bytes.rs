//! Arguments of launches as bytes.

use std::mem::MaybeUninit;

/// Returns the bytes of an argument as they cross to the device: a number, or a `repr(C)` struct by
/// value. Padding bytes have any value.
pub fn bytes_of<T: Copy>(value: &T) -> Vec<u8> {
    // SAFETY: `value` is a reference, so that the bytes of a `T` can be read there.
    unsafe { copied(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// Copies the bytes of an argument.
///
/// # Safety
/// - `size` bytes can be read from `from`, though not all need be initialised.
pub unsafe fn copied(from: *const MaybeUninit<u8>, size: usize) -> Vec<u8> {
    let mut bytes = vec![0u8; size];
    // SAFETY:
    // - `size` bytes can be read from `from` (precondition), and the vector has as many.
    // - The vector is new, so that they do not overlap.
    // - The bytes may be uninitialised where a struct has padding, which no kernel reads.
    unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr().cast(), size) };
    bytes
}

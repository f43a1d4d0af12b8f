//! Vectors from and to slices, with the bounds checked in debug builds.
#![allow(clippy::inline_always, reason = "as the trait's methods")]

use super::Simd;

/// Loads the words from `at` on.
///
/// # Safety
/// `words` has a vector of words from `at` on.
#[inline(always)]
pub unsafe fn load_at<S: Simd>(s: S, words: &[u32], at: usize) -> S::U {
    debug_assert!(
        at + S::ELEMENTS <= words.len(),
        "{at} + {} of {}",
        S::ELEMENTS,
        words.len()
    );
    // SAFETY: the slice has a vector of words from `at` on, by this function's precondition: they
    // can be read.
    unsafe { s.load(words.as_ptr().add(at)) }
}

/// Stores the words from `at` on.
///
/// # Safety
/// `words` has a vector of words from `at` on.
#[inline(always)]
pub unsafe fn store_at<S: Simd>(s: S, words: &mut [u32], at: usize, v: S::U) {
    debug_assert!(
        at + S::ELEMENTS <= words.len(),
        "{at} + {} of {}",
        S::ELEMENTS,
        words.len()
    );
    // SAFETY: the slice has a vector of words from `at` on, by this function's precondition: they
    // can be written.
    unsafe { s.store(words.as_mut_ptr().add(at), v) }
}

/// Stores the elements whose bit is set, back to back, from `at` on, and anything behind them.
///
/// # Safety
/// `words` has a vector of words from `at` on.
#[inline(always)]
pub unsafe fn compress_at<S: Simd>(s: S, words: &mut [u32], at: usize, v: S::U, bits: u32) {
    debug_assert!(
        at + S::ELEMENTS <= words.len(),
        "{at} + {} of {}",
        S::ELEMENTS,
        words.len()
    );
    // SAFETY: the slice has a vector of words from `at` on, by this function's precondition, and no
    // more is written.
    unsafe { s.compress_store(words.as_mut_ptr().add(at), v, bits) }
}

/// Reads word `at`.
///
/// # Safety
/// There is such a word.
#[inline(always)]
pub unsafe fn word_at(words: &[u32], at: usize) -> u32 {
    debug_assert!(at < words.len(), "{at} of {}", words.len());
    // SAFETY: `at` is below the length of the slice, by this function's precondition.
    unsafe { *words.get_unchecked(at) }
}

/// Writes place `at`.
///
/// # Safety
/// There is such a place.
#[inline(always)]
pub unsafe fn set_at<T>(places: &mut [T], at: usize, value: T) {
    debug_assert!(at < places.len(), "{at} of {}", places.len());
    // SAFETY: `at` is below the length of the slice, by this function's precondition.
    unsafe { *places.get_unchecked_mut(at) = value }
}

//! Views of memory that kernels read and write, and the layout of a block's shared memory.
//!
//! A view is a pointer and a length in elements. Views are `repr(C)`: an entry point takes them by
//! value, and the host passes the same struct, so that the two cannot disagree.
//!
//! # Out of bounds
//! An access beyond its view is a bug of the kernel. The executor reports it. On hardware it does
//! no harm: a load gives zero, or the last element of an array in shared memory and of a
//! [`NonEmpty`] view; a store or an atomic does nothing, and the atomic gives 0.

use core::marker::PhantomData;

/// Plain old data: what memory may hold.
///
/// # Safety
/// - Every bit pattern is a value (so that unchecked bytes may be read as one).
/// - No padding, no pointers, no drop glue. The alignment is at most 16, or views of the type do
///   not compile.
pub unsafe trait Plain: Copy + Default + 'static {
    /// True for a number: eight bytes of it are one register, those of a struct are two of four
    /// bytes.
    #[doc(hidden)]
    const IS_NUMBER: bool = false;

    /// Returns the value whose bytes are all 0.
    #[must_use]
    #[inline(always)]
    fn zeroed() -> Self {
        // SAFETY: every bit pattern is a value, as the trait requires.
        unsafe { core::mem::zeroed() }
    }
}

macro_rules! plain_numbers {
    ($($t:ty)*) => {$(
        // SAFETY: a primitive number: every bit pattern is a value; no padding, no pointer, no drop
        // glue.
        unsafe impl Plain for $t {
            const IS_NUMBER: bool = true;
        }
    )*};
}
plain_numbers!(u8 u16 u32 u64 i8 i16 i32 i64 f32 f64);

/// Number that one instruction loads or stores: of 1, 2, 4 or 8 bytes, aligned to its size. Unsafe
/// code relies on it.
pub trait Scalar: Plain + sealed::Sealed {
    /// Returns the value's bits, zero-extended.
    fn to_bits(self) -> u64;
    /// Returns the low 32 bits of the value.
    fn to_word(self) -> u32;
    /// Returns the value that has these low bits.
    fn from_bits(bits: u64) -> Self;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! integer_scalars {
    ($($t:ty, $unsigned:ty;)*) => {$(
        impl sealed::Sealed for $t {}

        impl Scalar for $t {
            #[inline(always)]
            fn to_bits(self) -> u64 {
                u64::from(self as $unsigned)
            }
            #[inline(always)]
            fn to_word(self) -> u32 {
                self as $unsigned as u32
            }
            #[inline(always)]
            fn from_bits(bits: u64) -> Self {
                bits as $t
            }
        }
    )*};
}
integer_scalars! { u8, u8; u16, u16; u32, u32; u64, u64; i8, u8; i16, u16; i32, u32; i64, u64; }

impl sealed::Sealed for f32 {}

impl Scalar for f32 {
    #[inline(always)]
    fn to_bits(self) -> u64 {
        u64::from(f32::to_bits(self))
    }
    #[inline(always)]
    fn to_word(self) -> u32 {
        f32::to_bits(self)
    }
    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        f32::from_bits(bits as u32)
    }
}

impl sealed::Sealed for f64 {}

impl Scalar for f64 {
    #[inline(always)]
    fn to_bits(self) -> u64 {
        f64::to_bits(self)
    }
    #[inline(always)]
    fn to_word(self) -> u32 {
        f64::to_bits(self) as u32
    }
    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        f64::from_bits(bits)
    }
}

/// Read-only global memory: elements of `T` that nothing writes during the launch.
#[repr(C)]
#[derive(Debug)]
pub struct Global<'a, T> {
    pointer: *const T,
    len: u32,
    lifetime: PhantomData<&'a [T]>,
}

impl<T> Clone for Global<'_, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Global<'_, T> {}

impl<'a, T: Plain> Global<'a, T> {
    /// Makes a view of `len` elements from `pointer`.
    ///
    /// # Safety
    /// - `pointer` is aligned for `T` and readable for `len` elements for `'a`, by the code that
    ///   will read it: a view of device memory is for kernels on that device only. Or `len` is 0.
    /// - Nothing writes these elements during `'a`.
    #[inline(always)]
    pub const unsafe fn new(pointer: *const T, len: u32) -> Self {
        const { assert!(align_of::<T>() <= 16) };
        Self {
            pointer,
            len,
            lifetime: PhantomData,
        }
    }

    /// Makes a view of a slice, or of its first 2³² − 1 elements.
    #[inline]
    pub fn from_slice(slice: &'a [T]) -> Self {
        const { assert!(align_of::<T>() <= 16) };
        let len = u32::try_from(slice.len()).unwrap_or(u32::MAX);
        Self {
            pointer: slice.as_ptr(),
            len,
            lifetime: PhantomData,
        }
    }

    /// Returns the number of elements.
    #[inline(always)]
    pub const fn len(self) -> u32 {
        self.len
    }

    /// Returns true if the view has no element.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Returns the view if it has an element.
    #[must_use]
    #[inline(always)]
    pub const fn non_empty(self) -> Option<NonEmpty<'a, T>> {
        if self.len > 0 {
            Some(NonEmpty(self))
        } else {
            None
        }
    }

    /// Returns the pointer to the first element, for implementations of [`Block`](crate::Block).
    #[inline(always)]
    pub const fn as_ptr(self) -> *const T {
        self.pointer
    }
}

/// Read-only global memory with at least one element: hardware reads the last one where a kernel
/// reads beyond, so that no branch stands before a load, and several are issued together.
#[derive(Debug)]
pub struct NonEmpty<'a, T>(Global<'a, T>);

impl<T> Clone for NonEmpty<'_, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for NonEmpty<'_, T> {}

impl<'a, T> NonEmpty<'a, T> {
    /// Returns the same memory as a view that may be empty.
    #[inline(always)]
    pub const fn view(self) -> Global<'a, T> {
        self.0
    }

    /// Returns the `len` elements from `first` on; `None` if `len` is 0 or not all are there.
    ///
    /// ```
    /// let words = [1u32, 2, 3];
    /// let view = simt::Global::from_slice(&words).non_empty().expect("three words");
    /// assert_eq!(view.part(1, 2).map(|part| part.view().len()), Some(2));
    /// assert!(view.part(1, 3).is_none() && view.part(3, 0).is_none());
    /// ```
    #[must_use]
    #[inline(always)]
    pub const fn part(self, first: u32, len: u32) -> Option<Self> {
        let Global {
            pointer,
            len: all,
            lifetime,
        } = self.0;
        if len == 0 || first > all || len > all - first {
            return None;
        }
        // SAFETY: `first` is at most the number of elements of the view, all of which are in one
        // allocation.
        let pointer = unsafe { pointer.add(first as usize) };
        Some(Self(Global {
            pointer,
            len,
            lifetime,
        }))
    }
}

impl<'a> NonEmpty<'a, u32> {
    /// Returns the same memory as little-endian u16: see [`Global::as_u16`].
    #[inline(always)]
    pub const fn as_u16(self) -> NonEmpty<'a, u16> {
        NonEmpty(self.0.as_u16())
    }
}

impl<'a> Global<'a, u32> {
    /// Returns the same memory as little-endian u16, two per word; of at most the first 2³¹ words.
    #[inline(always)]
    pub const fn as_u16(self) -> Global<'a, u16> {
        Global {
            pointer: self.pointer.cast(),
            len: self.len.saturating_mul(2),
            lifetime: PhantomData,
        }
    }

    /// Returns the same memory as bytes, four per word; of at most the first 2³⁰ words.
    #[inline(always)]
    pub const fn as_u8(self) -> Global<'a, u8> {
        Global {
            pointer: self.pointer.cast(),
            len: self.len.saturating_mul(4),
            lifetime: PhantomData,
        }
    }
}

impl<'a> Global<'a, u8> {
    /// Returns the same memory as little-endian words, without a rest that fills none; `None` if
    /// the first is not aligned.
    #[inline(always)]
    pub fn as_words(self) -> Option<Global<'a, u32>> {
        let is_aligned = self.pointer.addr().is_multiple_of(align_of::<u32>());
        is_aligned.then_some(Global {
            pointer: self.pointer.cast(),
            len: self.len / 4,
            lifetime: PhantomData,
        })
    }
}

/// Global memory that the launch writes: elements of `T`, shared by all threads.
#[repr(C)]
#[derive(Debug)]
pub struct GlobalMut<'a, T> {
    pointer: *mut T,
    len: u32,
    tag: u32,
    lifetime: PhantomData<&'a core::cell::Cell<T>>,
}

impl<T> Clone for GlobalMut<'_, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for GlobalMut<'_, T> {}

#[cfg(feature = "executor")]
impl<'a, T: Plain> GlobalMut<'a, T> {
    /// Makes a view of a slice, or of its first 2³² − 1 elements, with a mark by which the executor
    /// finds it again.
    pub(crate) fn tagged(slice: &'a mut [T], tag: u32) -> Self {
        const { assert!(align_of::<T>() <= 16) };
        let len = u32::try_from(slice.len()).unwrap_or(u32::MAX);
        Self {
            pointer: slice.as_mut_ptr(),
            len,
            tag,
            lifetime: PhantomData,
        }
    }
}

impl<T: Plain> GlobalMut<'_, T> {
    /// Makes a view of `len` elements from `pointer`.
    ///
    /// # Safety
    /// - `pointer` is aligned for `T` and good for reads and writes of `len` elements for the
    ///   view's lifetime, by the code that will use it: a view of device memory is for kernels on
    ///   that device only. Or `len` is 0.
    /// - During that lifetime all accesses to these elements go through this view and its copies.
    #[inline(always)]
    pub const unsafe fn new(pointer: *mut T, len: u32) -> Self {
        const { assert!(align_of::<T>() <= 16) };
        Self {
            pointer,
            len,
            tag: 0,
            lifetime: PhantomData,
        }
    }

    /// Returns the number of elements.
    #[inline(always)]
    pub const fn len(self) -> u32 {
        self.len
    }

    /// Returns true if the view has no element.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Returns the first `len` elements; `None` if there are fewer. In views of one length, the
    /// compiler tests an index once.
    #[must_use]
    #[inline(always)]
    pub const fn first(self, len: u32) -> Option<Self> {
        if len <= self.len {
            Some(Self { len, ..self })
        } else {
            None
        }
    }

    /// Returns the pointer to the first element, for implementations of [`Block`](crate::Block).
    #[inline(always)]
    pub const fn as_ptr(self) -> *mut T {
        self.pointer
    }

    /// Mark of the executor; 0 in views of device memory. Memory safety does not depend on it.
    #[cfg(feature = "executor")]
    pub(crate) const fn tag(self) -> u32 {
        self.tag
    }
}

/// An array in the block's shared memory: of numbers, or of structs that are [`Plain`].
///
/// An element moves in pieces as wide as its alignment: a struct of 16 bytes takes four accesses
/// with the alignment of its `u32` fields, two with `repr(C, align(8))`, and one with
/// `repr(C, align(16))`.
///
/// ```
/// use simt::{Plain, SharedLayout};
///
/// #[derive(Clone, Copy, Default)]
/// #[repr(C, align(8))]
/// struct Lane {
///     payload: u32,
///     first_strip: u16,
///     n_strips: u16,
/// }
/// // SAFETY: three numbers without padding, eight bytes in all.
/// unsafe impl Plain for Lane {}
///
/// let mut layout = SharedLayout::new();
/// let lanes = layout.array::<Lane>(100);
/// assert_eq!((lanes.len(), layout.bytes()), (100, 800));
/// ```
#[derive(Debug)]
pub struct Shared<T> {
    /// Byte offset in the block's shared memory; a multiple of the element's alignment.
    offset: u32,
    len: u32,
    /// Place in the source that laid the array out, for the executor's messages.
    #[cfg(feature = "executor")]
    location: &'static core::panic::Location<'static>,
    element: PhantomData<T>,
}

impl<T> Clone for Shared<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

impl<T: Plain> Shared<T> {
    /// Returns the number of elements.
    #[inline(always)]
    pub const fn len(self) -> u32 {
        self.len
    }

    /// Returns true if the array has no element.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Returns the array's byte offset in the block's shared memory, for implementations of
    /// [`Block`](crate::Block).
    #[inline(always)]
    pub const fn offset(self) -> u32 {
        self.offset
    }

    #[cfg(feature = "executor")]
    pub(crate) fn describe(self, i: u32) -> String {
        format!(
            "element {i} of the array of {} {} laid out at {}",
            self.len,
            core::any::type_name::<T>(),
            self.location
        )
    }
}

/// Cuts the block's shared memory into arrays, front to back.
#[derive(Clone, Copy, Debug, Default)]
pub struct SharedLayout {
    bytes: u32,
}

impl SharedLayout {
    /// Begins a layout at byte 0.
    #[inline(always)]
    pub const fn new() -> Self {
        Self { bytes: 0 }
    }

    /// Takes the next `len` elements. Every array begins on a multiple of eight bytes, or of its
    /// elements' alignment if that is larger. Once an array would end beyond 4 GiB, the layout
    /// stays at `u32::MAX` bytes, which no launch accepts.
    #[inline(always)]
    #[cfg_attr(feature = "executor", track_caller)]
    pub const fn array<T: Plain>(&mut self, len: u32) -> Shared<T> {
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= 16) };
        let align = if align_of::<T>() > 8 {
            align_of::<T>() as u32
        } else {
            8
        };
        let offset = self.bytes.saturating_add(align - 1) & !(align - 1);
        let end = offset.saturating_add(len.saturating_mul(size_of::<T>() as u32));
        self.bytes = if end > self.bytes { end } else { self.bytes };
        Shared {
            offset,
            len,
            #[cfg(feature = "executor")]
            location: core::panic::Location::caller(),
            element: PhantomData,
        }
    }

    /// Joins layouts of arrays that are not used at the same time, one a continued copy of the
    /// other.
    #[must_use]
    #[inline(always)]
    pub const fn or(self, other: Self) -> Self {
        if self.bytes < other.bytes {
            other
        } else {
            self
        }
    }

    /// Returns the bytes of shared memory that the arrays so far need.
    #[inline(always)]
    pub const fn bytes(self) -> u32 {
        self.bytes
    }
}

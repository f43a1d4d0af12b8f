//! Memory of the caller: structs whose first field is their size, and arrays given by a pointer and
//! a length. Pointers are checked as far as possible: they must be aligned and not null, and arrays
//! must not overlap.

use std::ops::Range;

use crate::status::Failure;

/// Struct whose first field is its size, as the caller's compiler knew it.
///
/// # Safety
/// - `repr(C)`, and its first field is a `usize`.
pub unsafe trait SizedStruct: Copy {
    /// Name in the header.
    const NAME: &'static str;
}

/// Reads the struct at `from`.
///
/// # Safety
/// - `from` is null, or its first field, and as many bytes as that says, can be read during the
///   call.
pub unsafe fn read_struct<T: SizedStruct>(from: *const T) -> Result<T, Failure> {
    let (name, expected) = (T::NAME, size_of::<T>());
    if from.is_null() {
        return Err(Failure::argument(format!("the pointer to {name} is NULL")));
    }
    if !from.is_aligned() {
        return Err(Failure::argument(format!(
            "{name} is not aligned to {} bytes",
            align_of::<T>()
        )));
    }
    // SAFETY: not null, aligned, and readable, as the caller says.
    let size = unsafe { from.cast::<usize>().read() };
    if size != expected {
        return Err(Failure::argument(format!(
            "{name}.size is {size}: set it to sizeof({name}), {expected}"
        )));
    }
    // SAFETY: `size` bytes can be read, as the caller says, and are all of it.
    Ok(unsafe { from.read() })
}

/// Array of the caller.
#[derive(Clone, Copy)]
pub struct CallerArray<T> {
    name: &'static str,
    at: *mut T,
    len: usize,
}

impl<T> CallerArray<T> {
    /// Checks the array of `len` elements at `at`, which the header calls `name`.
    pub fn new(name: &'static str, at: *const T, len: usize) -> Result<Self, Failure> {
        if len > 0 && at.is_null() {
            return Err(Failure::argument(format!(
                "{name} is NULL, but must have {len} elements"
            )));
        }
        if !at.is_aligned() {
            return Err(Failure::argument(format!(
                "{name} is not aligned to {} bytes",
                align_of::<T>()
            )));
        }
        let bytes = len
            .checked_mul(size_of::<T>())
            .filter(|&bytes| isize::try_from(bytes).is_ok());
        if bytes
            .and_then(|bytes| at.addr().checked_add(bytes))
            .is_none()
        {
            return Err(Failure::argument(format!(
                "{name} cannot have {len} elements"
            )));
        }
        Ok(Self {
            name,
            at: at.cast_mut(),
            len,
        })
    }

    pub const fn len(self) -> usize {
        self.len
    }

    pub const fn at(self) -> *mut T {
        self.at
    }

    pub const fn is_null(&self) -> bool {
        self.at.is_null()
    }

    pub fn place(self) -> Place {
        let begin = self.at.addr();
        Place {
            name: self.name,
            bytes: begin..begin + self.len * size_of::<T>(),
        }
    }

    /// Returns the array; empty if it is null.
    ///
    /// # Safety
    /// - An array that is not null can be read for its length, and nothing writes there as long as
    ///   this is used.
    pub const unsafe fn slice<'a>(self) -> &'a [T] {
        if self.at.is_null() {
            return &[];
        }
        // SAFETY: not null; aligned and of a possible length, as `new` checked; readable
        // (precondition).
        unsafe { std::slice::from_raw_parts(self.at, self.len) }
    }

    /// Returns the array, for writing; empty if it is null.
    ///
    /// # Safety
    /// - An array that is not null can be read and written for its length, and nothing else reads
    ///   or writes there as long as this is used.
    pub const unsafe fn slice_mut<'a>(self) -> &'a mut [T] {
        if self.at.is_null() {
            return &mut [];
        }
        // SAFETY: not null; aligned and of a possible length, as `new` checked; used by nothing
        // else (precondition).
        unsafe { std::slice::from_raw_parts_mut(self.at, self.len) }
    }
}

/// Addresses of an array.
pub struct Place {
    name: &'static str,
    bytes: Range<usize>,
}

impl Place {
    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// Checks that no array to write overlaps another array to write, or one to read.
pub fn check_apart(written: &[Place], read: &[Place]) -> Result<(), Failure> {
    for (i, this) in written.iter().enumerate() {
        for other in written[i + 1..].iter().chain(read) {
            let (a, b) = (&this.bytes, &other.bytes);
            if a.start < b.end && b.start < a.end && !a.is_empty() && !b.is_empty() {
                return Err(Failure::argument(format!(
                    "{} and {} overlap",
                    this.name, other.name
                )));
            }
        }
    }
    Ok(())
}

/// Makes a reference from a handle or an out pointer.
///
/// # Safety
/// - `pointer` is null, or points to a `T` that nothing changes or frees while the reference is
///   used.
pub unsafe fn reference<'a, T>(name: &str, pointer: *const T) -> Result<&'a T, Failure> {
    // SAFETY: as the caller says.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::argument(format!("{name} is NULL")))
}

/// Checks the place of a result.
pub fn check_place<T>(name: &str, pointer: *mut T) -> Result<(), Failure> {
    if pointer.is_null() || !pointer.is_aligned() {
        return Err(Failure::argument(format!("{name} is NULL or not aligned")));
    }
    Ok(())
}

/// Reads a field that is 0 or 1.
pub fn flag(name: &str, value: u32) -> Result<bool, Failure> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Failure::argument(format!(
            "{name} is {value}: it must be 0 or 1"
        ))),
    }
}

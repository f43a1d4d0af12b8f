//! Global memory: allocations with gaps between, so that a step beyond one is noticed.

use bytemuck::Pod;
use ut_kernels::block::{Global, GlobalMut, Plain};

/// Where the first allocation begins: above 32 bits, so that a lost upper half is noticed.
const BASE: u64 = 0x7_1000_0000;

/// Allocations begin on multiples of this, as the driver's do, with as much between.
const ALIGNMENT: usize = 256;

/// An allocation of `len` elements.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    address: u64,
    len: usize,
}

#[derive(Default)]
pub struct Memory {
    bytes: Vec<u8>,
    /// What may be done with each byte.
    writable: Vec<Option<bool>>,
}

impl Memory {
    /// Puts a copy of `data` into memory that a kernel may only read, or may write too.
    pub fn put<T: Pod>(&mut self, data: &[T], writable: bool) -> Address {
        let start = (self.bytes.len() + ALIGNMENT).next_multiple_of(ALIGNMENT);
        let data_bytes: &[u8] = bytemuck::cast_slice(data);
        self.bytes.resize(start + data_bytes.len(), 0xA5);
        self.writable.resize(start, None);
        self.bytes[start..].copy_from_slice(data_bytes);
        self.writable.resize(start + data_bytes.len(), Some(writable));
        Address { address: BASE + start as u64, len: data.len() }
    }

    /// What an allocation of this type holds now.
    pub fn get<T: Pod>(&self, of: Address) -> Vec<T> {
        let start = (of.address - BASE) as usize;
        let bytes = &self.bytes[start..start + of.len * size_of::<T>()];
        bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
    }

    /// `size` bytes that a kernel may read, or write; `None` where it may not.
    pub fn bytes(&mut self, address: u64, size: usize, write: bool) -> Option<&mut [u8]> {
        let start = usize::try_from(address.checked_sub(BASE)?).ok()?;
        let range = start..start.checked_add(size)?;
        let allowed = |writable: &Option<bool>| writable.is_some_and(|writable| writable || !write);
        self.writable.get(range.clone())?.iter().all(allowed).then(|| &mut self.bytes[range])
    }
}

impl Address {
    /// Views of it, as arguments of a launch. The host never follows them.
    pub fn global<T: Plain>(self) -> Global<'static, T> {
        // SAFETY:
        // - The address is one of this machine's memory, aligned to 256; only `Program` follows it, with checks.
        // - Stages that read through this view do not write there.
        unsafe { Global::new(self.address as usize as *const T, self.len as u32) }
    }

    pub fn global_mut<T: Plain>(self) -> GlobalMut<'static, T> {
        // SAFETY: as for `global`; all accesses of a launch go through the machine.
        unsafe { GlobalMut::new(self.address as usize as *mut T, self.len as u32, 0) }
    }

    /// The same, with another number of elements.
    pub const fn with_len(self, len: usize) -> Self {
        Self { address: self.address, len }
    }
}

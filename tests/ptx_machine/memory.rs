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

/// How a kernel touches memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    Read,
    /// Through the read-only cache: nobody may write there during the launch.
    ReadOnly,
    Write,
}

#[derive(Default)]
pub struct Memory {
    bytes: Vec<u8>,
    /// What may be done with each byte.
    writable: Vec<Option<bool>>,
    /// How each byte was touched in this launch: read through the read-only cache, or written.
    touched: Vec<Option<Touch>>,
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

    /// Memory that a kernel may write; says where it is.
    pub fn allocate(&mut self, bytes: usize) -> u64 {
        self.put(&vec![0xA5u8; bytes], true).address
    }

    /// What the host copies there.
    pub fn store(&mut self, address: u64, bytes: &[u8]) {
        let start = (address - BASE) as usize;
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// What the host copies from there.
    pub fn fetch(&self, address: u64, bytes: &mut [u8]) {
        let start = (address - BASE) as usize;
        bytes.copy_from_slice(&self.bytes[start..start + bytes.len()]);
    }

    /// What an allocation of this type holds now.
    pub fn get<T: Pod>(&self, of: Address) -> Vec<T> {
        let start = (of.address - BASE) as usize;
        let bytes = &self.bytes[start..start + of.len * size_of::<T>()];
        bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
    }

    /// Forgets how memory was touched.
    pub fn begin_launch(&mut self) {
        self.touched.clear();
        self.touched.resize(self.bytes.len(), None);
    }

    /// `size` bytes for a kernel to touch.
    ///
    /// # Errors
    /// What is wrong with that.
    pub fn bytes(&mut self, address: u64, size: usize, touch: Touch) -> Result<&mut [u8], &'static str> {
        const OUTSIDE: &str = "outside of global memory";
        let start = usize::try_from(address.checked_sub(BASE).ok_or(OUTSIDE)?).map_err(|_| OUTSIDE)?;
        let range = start..start.checked_add(size).ok_or(OUTSIDE)?;
        let allowed = |writable: &Option<bool>| writable.is_some_and(|writable| writable || touch != Touch::Write);
        if !self.writable.get(range.clone()).ok_or(OUTSIDE)?.iter().all(allowed) {
            return Err(OUTSIDE);
        }
        if touch != Touch::Read {
            for before in &mut self.touched[range.clone()] {
                if before.is_some_and(|before| before != touch) {
                    return Err("written, and read through the read-only cache, in one launch");
                }
                *before = Some(touch);
            }
        }
        Ok(&mut self.bytes[range])
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

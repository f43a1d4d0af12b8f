//! Global memory. There are gaps between allocations, so that an access beyond the end of one is
//! noticed; and no address is used twice, so that an access to freed memory is noticed.

use std::collections::BTreeMap;

use bytemuck::Pod;
use simt::{Global, GlobalMut, Plain};

/// Address of the first allocation: above 32 bits, so that a lost upper half is noticed.
const BASE: u64 = 0x7_1000_0000;

/// Alignment of allocations, as the driver has it, and size of the gaps between them, in bytes.
const ALIGNMENT: u64 = 256;

const OUTSIDE: &str = "outside of global memory";

/// An allocation of `len` elements.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    address: u64,
    len: usize,
}

/// Kind of access to memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touch {
    Read,
    /// Through the read-only cache: no thread may write there during the launch.
    ReadOnly,
    Write,
}

struct Allocation {
    /// `None` after the allocation was freed.
    bytes: Option<Vec<u8>>,
    len: u64,
    writable: bool,
    /// Last access to each byte, in the last launch that touched any: read through the read-only
    /// cache, or written.
    touched: Vec<Option<Touch>>,
    launch: u64,
}

/// The global memory of the machine.
#[expect(missing_debug_implementations, reason = "megabytes of bytes")]
pub struct Memory {
    /// Allocations by their first address. Freed ones stay, so that an access there has a message.
    allocations: BTreeMap<u64, Allocation>,
    next: u64,
    launch: u64,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            allocations: BTreeMap::new(),
            next: BASE,
            launch: 0,
        }
    }
}

impl Memory {
    /// Copies `data` into new memory, which a kernel may read, and write if it is `writable`.
    pub fn put<T: Pod>(&mut self, data: &[T], writable: bool) -> Address {
        let bytes: &[u8] = bytemuck::cast_slice(data);
        Address {
            address: self.place(bytes.to_vec(), writable),
            len: data.len(),
        }
    }

    /// Allocates memory that a kernel may write, filled with `0xA5`, and returns its address.
    pub fn allocate(&mut self, bytes: usize) -> u64 {
        self.place(vec![0xA5u8; bytes], true)
    }

    fn place(&mut self, bytes: Vec<u8>, writable: bool) -> u64 {
        let (address, len) = (self.next, bytes.len() as u64);
        self.next = (address + len + ALIGNMENT).next_multiple_of(ALIGNMENT);
        let allocation = Allocation {
            bytes: Some(bytes),
            len,
            writable,
            touched: Vec::new(),
            launch: 0,
        };
        self.allocations.insert(address, allocation);
        address
    }

    /// Frees an allocation, and returns its size in bytes.
    ///
    /// # Errors
    /// If no allocation begins at the address, or it was freed before.
    pub fn free(&mut self, address: u64) -> Result<usize, &'static str> {
        let allocation = self
            .allocations
            .get_mut(&address)
            .ok_or("no allocation begins there")?;
        let bytes = allocation.bytes.take().ok_or("given back already")?;
        allocation.touched = Vec::new();
        Ok(bytes.len())
    }

    /// Returns the allocation that holds the `size` bytes from `address` on, and their offset in
    /// it.
    fn find(
        &mut self,
        address: u64,
        size: usize,
    ) -> Result<(&mut Allocation, usize), &'static str> {
        let (&start, allocation) = self
            .allocations
            .range_mut(..=address)
            .next_back()
            .ok_or(OUTSIDE)?;
        let offset = address - start;
        if offset
            .checked_add(size as u64)
            .is_none_or(|end| end > allocation.len)
        {
            return Err(OUTSIDE);
        }
        if allocation.bytes.is_none() {
            return Err("in global memory that was given back");
        }
        Ok((allocation, offset as usize))
    }

    /// Copies bytes from the host to `address`.
    ///
    /// # Errors
    /// If the range is not inside one allocation.
    pub fn store(&mut self, address: u64, bytes: &[u8]) -> Result<(), &'static str> {
        let (allocation, start) = self.find(address, bytes.len())?;
        let memory = allocation.bytes.as_mut().ok_or(OUTSIDE)?;
        memory[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    /// Returns `size` bytes from `address` on.
    ///
    /// # Errors
    /// If the range is not inside one allocation.
    pub fn fetch(&mut self, address: u64, size: usize) -> Result<&[u8], &'static str> {
        let (allocation, start) = self.find(address, size)?;
        Ok(&allocation.bytes.as_ref().ok_or(OUTSIDE)?[start..start + size])
    }

    /// Returns the contents of an allocation of this type.
    pub fn get<T: Pod>(&mut self, of: Address) -> Vec<T> {
        let bytes = self
            .fetch(of.address, of.len * size_of::<T>())
            .expect("an allocation");
        bytes
            .chunks_exact(size_of::<T>())
            .map(bytemuck::pod_read_unaligned)
            .collect()
    }

    /// Forgets the accesses of earlier launches.
    pub(crate) const fn begin_launch(&mut self) {
        self.launch += 1;
    }

    /// Returns `size` bytes for an access by a kernel.
    ///
    /// # Errors
    /// If the range is not inside one allocation, or the kind of access is forbidden there.
    pub(crate) fn bytes(
        &mut self,
        address: u64,
        size: usize,
        touch: Touch,
    ) -> Result<&mut [u8], &'static str> {
        let launch = self.launch;
        let (
            Allocation {
                bytes,
                writable,
                touched,
                launch: last,
                len,
            },
            start,
        ) = self.find(address, size)?;
        let range = start..start + size;
        if touch == Touch::Write && !*writable {
            return Err("a write into memory that is only read");
        }
        if touch != Touch::Read {
            if *last != launch {
                *last = launch;
                touched.clear();
                touched.resize(*len as usize, None);
            }
            for before in &mut touched[range.clone()] {
                if before.is_some_and(|before| before != touch) {
                    return Err("written, and read through the read-only cache, in one launch");
                }
                *before = Some(touch);
            }
        }
        Ok(&mut bytes.as_mut().ok_or(OUTSIDE)?[range])
    }
}

impl Address {
    /// Returns the address on the machine, as the argument of a kernel that takes a pointer.
    pub const fn address(self) -> u64 {
        self.address
    }

    /// Returns a view, as the argument of a kernel that takes one. The host never follows it.
    pub fn global<T: Plain>(self) -> Global<'static, T> {
        // SAFETY:
        // - The address belongs to this machine's memory and is aligned to 256. Only `Program`
        //   follows it, with checks.
        // - A launch that writes memory which it also reads through the read-only cache panics.
        unsafe { Global::new(self.address as usize as *const T, self.len as u32) }
    }

    /// Returns a view to write through.
    pub fn global_mut<T: Plain>(self) -> GlobalMut<'static, T> {
        // SAFETY:
        // - The address belongs to this machine's memory and is aligned to 256. Only `Program`
        //   follows it, with checks.
        // - All accesses of a launch go through `Program`, one at a time.
        unsafe { GlobalMut::new(self.address as usize as *mut T, self.len as u32) }
    }
}

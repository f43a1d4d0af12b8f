//! NVIDIA's instructions, one function each.
//!
//! Barriers and collectives are LLVM intrinsics and never `asm!`: the compiler knows that
//! intrinsics are convergent and neither duplicates them nor moves them into a branch. Memory
//! instructions are `asm!`, since Rust has no type for shared memory and no read-only loads; they
//! are not convergent. `atom` is relaxed on the device without a suffix.

use core::arch::asm;

use crate::atomics::{BitOp, BitUpdate};

// (Where the compiler takes an operand as `i32`, masks and values keep their bits.)
unsafe extern "C" {
    #[link_name = "llvm.nvvm.read.ptx.sreg.tid.x"]
    pub(super) safe fn tid_x() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.tid.y"]
    pub(super) safe fn tid_y() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ntid.x"]
    pub(super) safe fn ntid_x() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ntid.y"]
    pub(super) safe fn ntid_y() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ctaid.x"]
    pub(super) safe fn ctaid_x() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.ctaid.y"]
    pub(super) safe fn ctaid_y() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.nctaid.x"]
    pub(super) safe fn nctaid_x() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.nctaid.y"]
    pub(super) safe fn nctaid_y() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.laneid"]
    pub(super) safe fn laneid() -> u32;
    #[link_name = "llvm.nvvm.read.ptx.sreg.lanemask.lt"]
    pub(super) safe fn lanemask_lt() -> u32;
    #[link_name = "llvm.nvvm.barrier0"]
    pub(super) safe fn barrier0();
    #[link_name = "llvm.nvvm.bar.warp.sync"]
    pub(super) safe fn bar_warp_sync(mask: u32);
    #[link_name = "llvm.nvvm.vote.ballot.sync"]
    pub(super) safe fn vote_ballot_sync(mask: u32, predicate: bool) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.up.i32"]
    pub(super) safe fn shfl_sync_up(mask: u32, value: u32, delta: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.down.i32"]
    pub(super) safe fn shfl_sync_down(mask: u32, value: u32, delta: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.idx.i32"]
    pub(super) safe fn shfl_sync_idx(mask: u32, value: u32, lane: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.bfly.i32"]
    pub(super) safe fn shfl_sync_bfly(mask: u32, value: u32, lane_mask: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.match.any.sync.i32"]
    pub(super) safe fn match_any_sync(mask: u32, value: u32) -> u32;
    #[link_name = "llvm.nvvm.activemask"]
    pub(super) safe fn activemask() -> u32;
}

#[inline(always)]
fn shared_base() -> u32 {
    let address: u32;
    // SAFETY: takes the address of the symbol that `declare_shared_memory!` declares; no memory is
    // touched.
    unsafe { asm!("mov.u32 {}, block_shared;", out(reg32) address, options(pure, nomem, nostack)) };
    address
}

// (Generic addresses of global memory are its own: no conversion. Other memory lies in windows.)
macro_rules! global_accesses {
    ($($load_nc:ident $load:ident $store:ident $type:ty, $class:ident, $loaded:ty, $to:ident, $bits:literal;)*) => {$(
        /// Loads through the read-only cache.
        ///
        /// # Safety
        /// - `pointer` is aligned and readable.
        /// - Nothing writes there during the launch.
        #[inline(always)]
        pub(super) unsafe fn $load_nc(pointer: *const u8) -> $type {
            let value: $loaded;
            // SAFETY: reads one aligned, readable element that nothing writes, required of
            // `pointer`.
            unsafe {
                asm!(concat!("ld.global.nc.", $bits, " {}, [{}];"), out($to) value, in(reg64) pointer,
                     options(pure, readonly, nostack));
            }
            value as $type
        }

        /// # Safety
        /// - `pointer` is aligned and readable.
        /// - No other thread writes there between the two barriers around.
        #[inline(always)]
        pub(super) unsafe fn $load(pointer: *const u8) -> $type {
            let value: $loaded;
            // SAFETY: reads one aligned, readable element that no other thread writes now, required
            // of `pointer`.
            unsafe {
                asm!(concat!("ld.global.", $bits, " {}, [{}];"), out($to) value, in(reg64) pointer,
                     options(pure, readonly, nostack));
            }
            value as $type
        }

        /// # Safety
        /// - `pointer` is aligned and writable.
        /// - No other thread touches what is there between the two barriers around.
        #[inline(always)]
        pub(super) unsafe fn $store(pointer: *mut u8, value: $type) {
            // SAFETY: writes one aligned, writable element that no other thread touches now,
            // required of `pointer`.
            unsafe {
                asm!(concat!("st.global.", $bits, " [{}], {};"), in(reg64) pointer, in($class) value,
                     options(nostack));
            }
        }
    )*};
}
// A byte travels in a 16-bit register: there is no smaller one. What is loaded comes in a register
// of 32 bits, with zeros above: most of it is used as such.
global_accesses! {
    load_nc_u8 load_u8 store_u8 u16, reg16, u32, reg32, "u8";
    load_nc_u16 load_u16 store_u16 u16, reg16, u32, reg32, "u16";
    load_nc_u32 load_u32 store_u32 u32, reg32, u32, reg32, "u32";
    load_nc_u64 load_u64 store_u64 u64, reg64, u64, reg64, "u64";
}

macro_rules! vector_accesses {
    ($n:literal $load_nc:ident $load:ident $store:ident $load_shared:ident $store_shared:ident $v:literal,
     $($register:ident)*, $operands:literal) => {
        /// Loads a vector of words through the read-only cache.
        ///
        /// # Safety
        /// - `pointer` is a multiple of the vector's size and readable.
        /// - Nothing writes there during the launch.
        #[inline(always)]
        pub(super) unsafe fn $load_nc(pointer: *const u8) -> [u32; $n] {
            $(let $register: u32;)*
            // SAFETY: reads aligned, readable bytes that nothing writes, required of `pointer`.
            unsafe {
                asm!(concat!("ld.global.nc.", $v, ".u32 ", $operands, ", [{}];"), $(out(reg32) $register,)*
                     in(reg64) pointer, options(pure, readonly, nostack));
            }
            [$($register),*]
        }

        /// Loads a vector of words of global memory.
        ///
        /// # Safety
        /// - `pointer` is a multiple of the vector's size and readable.
        /// - No other thread writes there between the two barriers around.
        #[inline(always)]
        pub(super) unsafe fn $load(pointer: *const u8) -> [u32; $n] {
            $(let $register: u32;)*
            // SAFETY: reads aligned, readable bytes that no other thread writes now, required of
            // `pointer`.
            unsafe {
                asm!(concat!("ld.global.", $v, ".u32 ", $operands, ", [{}];"), $(out(reg32) $register,)*
                     in(reg64) pointer, options(pure, readonly, nostack));
            }
            [$($register),*]
        }

        /// Stores a vector of words to global memory.
        ///
        /// # Safety
        /// - `pointer` is a multiple of the vector's size and writable.
        /// - No other thread touches what is there between the two barriers around.
        #[inline(always)]
        pub(super) unsafe fn $store(pointer: *mut u8, [$($register),*]: [u32; $n]) {
            // SAFETY: writes aligned, writable bytes that no other thread touches now, required of
            // `pointer`.
            unsafe {
                asm!(concat!("st.global.", $v, ".u32 [{}], ", $operands, ";"), in(reg64) pointer,
                     $(in(reg32) $register,)* options(nostack));
            }
        }

        /// Loads a vector of words from `offset` bytes into the block's shared memory.
        ///
        /// # Safety
        /// `offset` is a multiple of the vector's size, and the bytes are inside what the launch
        /// gave.
        #[inline(always)]
        pub(super) unsafe fn $load_shared(offset: u32) -> [u32; $n] {
            $(let $register: u32;)*
            // SAFETY: reads aligned bytes of the block's shared memory, required of `offset`; the
            // memory itself begins on a multiple of 16.
            unsafe {
                asm!(concat!("ld.shared.", $v, ".u32 ", $operands, ", [{}];"), $(out(reg32) $register,)*
                     in(reg32) shared_base() + offset, options(pure, readonly, nostack));
            }
            [$($register),*]
        }

        /// Stores a vector of words to `offset` bytes into the block's shared memory.
        ///
        /// # Safety
        /// `offset` is a multiple of the vector's size, and the bytes are inside what the launch
        /// gave.
        #[inline(always)]
        pub(super) unsafe fn $store_shared(offset: u32, [$($register),*]: [u32; $n]) {
            // SAFETY: writes aligned bytes of the block's shared memory, required of `offset`; the
            // memory itself begins on a multiple of 16.
            unsafe {
                asm!(concat!("st.shared.", $v, ".u32 [{}], ", $operands, ";"), in(reg32) shared_base() + offset,
                     $(in(reg32) $register,)* options(nostack));
            }
        }
    };
}
vector_accesses! {
    2 load_nc_u32_two load_u32_two store_u32_two load_shared_u32_two store_shared_u32_two "v2", a b, "{{{}, {}}}"
}
vector_accesses! {
    4 load_nc_u32_four load_u32_four store_u32_four load_shared_u32_four store_shared_u32_four "v4", a b c d,
    "{{{}, {}, {}, {}}}"
}

macro_rules! update {
    ($space:literal, $class:ident, $address:expr, $from:ident, $update:ident, $type:ty, $u:literal, $s:literal, $f:literal, $b:literal) => {{
        let old: $type;
        macro_rules! one {
            ($name:literal, $ty:literal) => {
                asm!(concat!("atom.", $space, ".", $name, ".", $ty, " {}, [{}], {};"), out($class) old,
                     in($from) $address, in($class) $update.value, options(nostack))
            };
        }
        match $update.op {
            BitOp::Add => one!("add", $u),
            BitOp::AddFloat => one!("add", $f),
            BitOp::MinUnsigned => one!("min", $u),
            BitOp::MinSigned => one!("min", $s),
            BitOp::MaxUnsigned => one!("max", $u),
            BitOp::MaxSigned => one!("max", $s),
            BitOp::And => one!("and", $b),
            BitOp::Or => one!("or", $b),
            BitOp::Xor => one!("xor", $b),
            BitOp::Exchange => one!("exch", $b),
            BitOp::CompareExchange => {
                asm!(concat!("atom.", $space, ".cas.", $b, " {}, [{}], {}, {};"), out($class) old, in($from) $address,
                     in($class) $update.expected, in($class) $update.value, options(nostack));
            }
        }
        old
    }};
}

macro_rules! atomics {
    ($global:ident $shared:ident $relaxed:ident $acquire:ident $store:ident $release:ident $type:ty, $class:ident,
     $u:literal, $s:literal, $f:literal, $b:literal) => {
        /// Changes an element of global memory, relaxed, and returns the value before.
        ///
        /// # Safety
        /// - `pointer` is aligned and good for reads and writes.
        /// - Nothing but atomics changes the element at the same time.
        #[inline(always)]
        pub(super) unsafe fn $global(pointer: *mut $type, update: BitUpdate<$type>) -> $type {
            // SAFETY: changes one aligned element, good for reads and writes, required of
            // `pointer`.
            unsafe { update!("global", $class, pointer, reg64, update, $type, $u, $s, $f, $b) }
        }

        /// Changes an element at `offset` bytes into the block's shared memory, relaxed, and
        /// returns the value before.
        ///
        /// # Safety
        /// `offset` is aligned and inside what the launch gave.
        #[inline(always)]
        pub(super) unsafe fn $shared(offset: u32, update: BitUpdate<$type>) -> $type {
            // SAFETY: touches one aligned element of the block's shared memory, required of
            // `offset`.
            unsafe { update!("shared", $class, shared_base() + offset, reg32, update, $type, $u, $s, $f, $b) }
        }

        atomics!(load $relaxed $type, $class, concat!("ld.relaxed.gpu.global.", $u));
        atomics!(load $acquire $type, $class, concat!("ld.acquire.gpu.global.", $u));
        atomics!(store $store $type, $class, concat!("st.relaxed.gpu.global.", $u));
        atomics!(store $release $type, $class, concat!("st.release.gpu.global.", $u));
    };
    (load $name:ident $type:ty, $class:ident, $instruction:expr) => {
        /// Loads an element that other blocks may change at the same time.
        ///
        /// # Safety
        /// - `pointer` is aligned and readable.
        /// - Nothing but atomics changes the element at the same time.
        #[inline(always)]
        pub(super) unsafe fn $name(pointer: *const $type) -> $type {
            let value: $type;
            // SAFETY: reads one aligned, readable element, required of `pointer`. Not `pure`: the
            // value may change.
            unsafe { asm!(concat!($instruction, " {}, [{}];"), out($class) value, in(reg64) pointer, options(nostack)) };
            value
        }
    };
    (store $name:ident $type:ty, $class:ident, $instruction:expr) => {
        /// Stores an element that other blocks may read at the same time.
        ///
        /// # Safety
        /// - `pointer` is aligned and writable.
        /// - Nothing but atomics changes the element at the same time.
        #[inline(always)]
        pub(super) unsafe fn $name(pointer: *mut $type, value: $type) {
            // SAFETY: writes one aligned, writable element, required of `pointer`.
            unsafe { asm!(concat!($instruction, " [{}], {};"), in(reg64) pointer, in($class) value, options(nostack)) };
        }
    };
}
atomics! {
    atomic_u32 shared_atomic_u32 load_relaxed_u32 load_acquire_u32 store_relaxed_u32 store_release_u32 u32, reg32,
    "u32", "s32", "f32", "b32"
}
atomics! {
    atomic_u64 shared_atomic_u64 load_relaxed_u64 load_acquire_u64 store_relaxed_u64 store_release_u64 u64, reg64,
    "u64", "s64", "f64", "b64"
}

/// Orders the thread's accesses before the fence ahead of those after it, where relaxed atomics
/// meet, on the device.
#[inline(always)]
pub(super) fn fence() {
    // SAFETY: orders accesses and makes none.
    unsafe { asm!("fence.acq_rel.gpu;", options(nostack)) };
}

/// Yields to other warps for some tens of nanoseconds.
#[inline(always)]
pub(super) fn pause() {
    // SAFETY: touches no memory.
    unsafe { asm!("nanosleep.u32 64;", options(nostack, nomem)) };
}

macro_rules! shared_accesses {
    ($($load:ident $store:ident $type:ty, $class:ident, $bits:literal;)*) => {$(
        /// Loads from `offset` bytes into the block's shared memory.
        ///
        /// # Safety
        /// `offset` is aligned and inside what the launch gave.
        #[inline(always)]
        pub(super) unsafe fn $load(offset: u32) -> $type {
            let value: $type;
            // SAFETY: touches one aligned element of the block's shared memory, required of
            // `offset`.
            unsafe {
                asm!(concat!("ld.shared.", $bits, " {}, [{}];"), out($class) value, in(reg32) shared_base() + offset,
                     options(pure, readonly, nostack));
            }
            value
        }

        /// Stores to `offset` bytes into the block's shared memory.
        ///
        /// # Safety
        /// `offset` is aligned and inside what the launch gave.
        #[inline(always)]
        pub(super) unsafe fn $store(offset: u32, value: $type) {
            // SAFETY: touches one aligned element of the block's shared memory, required of
            // `offset`.
            unsafe {
                asm!(concat!("st.shared.", $bits, " [{}], {};"), in(reg32) shared_base() + offset, in($class) value,
                     options(nostack));
            }
        }
    )*};
}
shared_accesses! {
    load_shared_u8 store_shared_u8 u16, reg16, "u8";
    load_shared_u16 store_shared_u16 u16, reg16, "u16";
    load_shared_u32 store_shared_u32 u32, reg32, "u32";
    load_shared_u64 store_shared_u64 u64, reg64, "u64";
}

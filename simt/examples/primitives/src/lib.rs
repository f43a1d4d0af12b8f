//! Kernels that use one primitive each, a chain of values from block to block, and a grid of two
//! dimensions.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![allow(clippy::inline_always)] // On the device nothing may stay a call.

use simt::primitives::block_compaction::block_compaction;
use simt::primitives::block_radix_sort::{SortBuffers, block_radix_sort};
use simt::primitives::block_reduce::block_reduce;
use simt::primitives::block_scan::block_exclusive;
use simt::primitives::block_segmented_scan::block_segmented_inclusive;
use simt::primitives::grid_scan::GridScan;
use simt::{Block, Global, GlobalMut, Plain, SharedLayout, math};

#[inline(always)]
fn index<B: Block>(block: &B) -> u32 {
    block.block_idx_x() * block.threads() + block.thread()
}

/// Raises `result[0]` to the largest value and lowers `result[1]` to the smallest one, with two
/// atomics per block.
#[inline(always)]
pub fn extremes<B: Block>(block: &B, values: Global<'_, f32>, result: GlobalMut<'_, f32>) {
    let mut layout = SharedLayout::new();
    let (largest, smallest) = (layout.array(32), layout.array(32));
    let inside = index(block) < values.len();
    let own = if inside {
        block.load(values, index(block))
    } else {
        0.0
    };
    let low = f32::NEG_INFINITY;
    let max = block_reduce(
        block,
        largest,
        if inside { own } else { low },
        low,
        math::max,
    );
    let min = block_reduce(
        block,
        smallest,
        if inside { own } else { -low },
        -low,
        math::min,
    );
    if block.thread() == 0 {
        block.atomic_max(result, 0, max);
        block.atomic_min(result, 1, min);
    }
}

/// Writes the place of each value, from 1, in its run of equal values. Each block begins a new run.
#[inline(always)]
pub fn runs<B: Block>(block: &B, values: Global<'_, u32>, places: GlobalMut<'_, u32>) {
    let (warps, i) = (SharedLayout::new().array(32), index(block));
    let begins = block.thread() == 0
        || i >= values.len()
        || block.load(values, i) != block.load(values, i - 1);
    let place = block_segmented_inclusive(block, warps, 1, begins);
    if i < values.len() {
        block.store(places, i, place);
    }
}

/// Appends the odd values to `list`, blocks in any order. `length` must be 0 before the launch.
#[inline(always)]
pub fn odd<B: Block>(
    block: &B,
    values: Global<'_, u32>,
    list: GlobalMut<'_, u32>,
    length: GlobalMut<'_, u32>,
) {
    let mut layout = SharedLayout::new();
    let (warps, first) = (layout.array(32), layout.array(1));
    let value = if index(block) < values.len() {
        block.load(values, index(block))
    } else {
        0
    };
    let (place, total) = block_compaction(block, warps, value % 2 == 1);
    if block.thread() == 0 {
        block.shared_store(first, 0, block.atomic_add(length, 0, total));
    }
    // No thread may read the block's first place before it is written.
    block.sync_threads();
    if value % 2 == 1 {
        block.store(list, block.shared_load(first, 0) + place, value);
    }
}

/// Maximum number of keys that [`order`] sorts per block.
pub const MOST_KEYS: u32 = 500;

/// Sorts [`MOST_KEYS`] keys per block by their low 12 bits, stably.
#[inline(always)]
pub fn order<B: Block>(block: &B, keys: Global<'_, u32>, order: GlobalMut<'_, u32>) {
    let mut layout = SharedLayout::new();
    let buffers = SortBuffers::new(&mut layout, MOST_KEYS, block.warps());
    let first = block.block_idx_x() * MOST_KEYS;
    let len = keys.len().saturating_sub(first).min(MOST_KEYS);
    let mut i = block.thread();
    while i < len {
        block.shared_store(buffers.keys, i, block.load(keys, first + i));
        block.shared_store(buffers.values, i, first + i);
        i += block.threads();
    }
    let (_, sorted) = block_radix_sort(block, &buffers, len, 0..12);
    let mut i = block.thread();
    while i < len {
        block.store(order, first + i, block.shared_load(sorted, i));
        i += block.threads();
    }
}

/// Key with its index, which one access to shared memory moves.
#[derive(Clone, Copy, Default)]
#[repr(C, align(16))]
struct Keyed {
    key: u64,
    index: u32,
    unused: u32,
}

// SAFETY: three integers without padding, sixteen bytes in all.
unsafe impl Plain for Keyed {}

/// Sorts by counting: writes to `order` the stable order of [`MOST_KEYS`] keys per block. A key's
/// place is the number of keys before it.
#[inline(always)]
pub fn count<B: Block>(block: &B, keys: Global<'_, u64>, order: GlobalMut<'_, u32>) {
    let items = SharedLayout::new().array::<Keyed>(MOST_KEYS);
    let first = block.block_idx_x() * MOST_KEYS;
    let len = keys.len().saturating_sub(first).min(MOST_KEYS);
    let mut i = block.thread();
    while i < len {
        let (key, index) = (block.load(keys, first + i), first + i);
        let item = Keyed {
            key,
            index,
            unused: 0,
        };
        block.shared_store(items, i, item);
        i += block.threads();
    }
    // No thread may read a key before all keys are written.
    block.sync_threads();
    let mut i = block.thread();
    while i < len {
        let own = block.shared_load(items, i);
        let (mut place, mut other) = (0, 0);
        while other < len {
            let other_item = block.shared_load(items, other);
            place += u32::from((other_item.key, other) < (own.key, i));
            other += 1;
        }
        block.store(order, first + place, own.index);
        i += block.threads();
    }
}

/// Writes the exclusive prefix sums of all values. `descriptors` has one element per block and one
/// more, all 0.
#[inline(always)]
pub fn scan<B: Block>(
    block: &B,
    values: Global<'_, u32>,
    sums: GlobalMut<'_, u32>,
    descriptors: GlobalMut<'_, u64>,
) {
    let mut layout = SharedLayout::new();
    let (warps, word) = (layout.array(32), layout.array(2));
    let scan = GridScan::begin(block, descriptors, word);
    let i = scan.tile() * block.threads() + block.thread();
    let (own, total) = block_exclusive(
        block,
        warps,
        if i < values.len() {
            block.load(values, i)
        } else {
            0
        },
    );
    let before = scan.exclusive(block, total);
    if i < values.len() {
        block.store(sums, i, before.saturating_add(own));
    }
}

/// Writes the product of the values of all blocks up to each, in a chain from block to block.
///
/// A product is stored plainly, and then released by a flag, which the next block acquires. `flags`
/// has one element per block and one more, all 0.
#[inline(always)]
pub fn products<B: Block>(
    block: &B,
    values: Global<'_, f64>,
    products: GlobalMut<'_, f64>,
    flags: GlobalMut<'_, u32>,
) {
    if block.thread() == 0 {
        let ticket = block.atomic_add(flags, 0, 1);
        let mut product = block.load(values, ticket);
        if ticket > 0 {
            // The acquire orders the earlier block's store before the load below.
            while block.atomic_load_acquire(flags, ticket) == 0 {
                block.pause();
            }
            product *= block.load_mut(products, ticket - 1);
        }
        block.store(products, ticket, product);
        block.atomic_store_release(flags, 1 + ticket, 1);
    }
}

/// Writes the length of the gradient of a picture with `width` columns: one thread per pixel, in
/// blocks and a grid of two dimensions. Beyond an edge, the picture repeats the pixels of the edge.
#[inline(always)]
pub fn gradient<B: Block>(
    block: &B,
    picture: Global<'_, f32>,
    result: GlobalMut<'_, f32>,
    width: u32,
) {
    let x = block.block_idx_x() * block.block_dim_x() + block.thread_idx_x();
    let y = block.block_idx_y() * block.block_dim_y() + block.thread_idx_y();
    // `max` lets the compiler leave out the trap for a division by 0.
    let height = picture.len() / width.max(1);
    if x < width && y < height {
        let at = |x: u32, y: u32| block.load(picture, y.min(height - 1) * width + x.min(width - 1));
        let dx = at(x + 1, y) - at(x.saturating_sub(1), y);
        let dy = at(x, y + 1) - at(x, y.saturating_sub(1));
        block.store(
            result,
            y * width + x,
            math::sqrt(math::fma(dx, dx, dy * dy)),
        );
    }
}

/// Number of functions and conversions that must give the same bits as on the CPU.
pub const FUNCTIONS: u32 = 16;

/// Writes the bits of function `i % FUNCTIONS` of value `i`.
#[inline(always)]
pub fn functions<B: Block>(block: &B, values: Global<'_, f32>, result: GlobalMut<'_, u32>) {
    let i = index(block);
    if i < values.len() {
        let (x, y) = (
            block.load(values, i),
            block.load(values, (i + 7) % values.len().max(1)),
        );
        let (a, b) = (f64::from(x), f64::from(y));
        let float = match i % FUNCTIONS {
            0 => math::sqrt(x),
            1 => math::fma(x, y, 0.1),
            2 => math::floor(x),
            3 => math::ceil(x),
            4 => math::trunc(x),
            5 => math::round(x),
            6 => math::abs(x),
            7 => math::min(x, y),
            8 => math::max(x, y),
            9 => (x as i32) as f32,
            10 => (x as u32) as f32,
            11 => (a as i64) as f32,
            12 => math::sqrt(math::abs(a)) as f32,
            13 => math::min(math::round(a), math::fma(a, b, 1.5)) as f32,
            14 => {
                if x < y {
                    x / y
                } else {
                    1.0 / x
                }
            }
            _ => f32::from(u8::from(x.is_nan() || x == y)) - y,
        };
        block.store(result, i, float.to_bits());
    }
}

/// Number of elements that [`updates`] changes.
pub const UPDATES: u32 = 8;

/// Changes four elements of each kind by atomics whose order does not matter.
#[inline(always)]
pub fn updates<B: Block>(
    block: &B,
    words: GlobalMut<'_, u32>,
    longs: GlobalMut<'_, i64>,
    floats: GlobalMut<'_, f32>,
) {
    let shared = SharedLayout::new().array::<f32>(2);
    let value = (index(block) as i32 % 37) - 18;
    if block.thread() < 2 {
        block.shared_store(shared, block.thread(), 0.0);
    }
    // No thread may add before the sums are 0.
    block.sync_threads();
    block.shared_atomic_add(shared, 0, value as f32);
    block.shared_atomic_max(shared, 1, value as f32 / 2.0);
    block.atomic_or(words, 0, value as u32);
    block.atomic_and(words, 1, value as u32);
    block.atomic_max(words, 2, value as u32);
    block.atomic_add(words, 3, value as u32);
    block.atomic_min(longs, 0, value.into());
    block.atomic_max(longs, 1, value.into());
    block.atomic_add(longs, 2, value.into());
    // Adds by compare and exchange.
    let mut before = block.atomic_load(longs, 3);
    loop {
        let found = block.atomic_cas(longs, 3, before, before + i64::from(value));
        if found == before {
            break;
        }
        before = found;
    }
    block.atomic_min(floats, 0, value as f32);
    block.atomic_max(floats, 1, value as f32);
    block.atomic_add(floats, 2, value as f32);
    // No thread may read a sum before all threads have added.
    block.sync_threads();
    if block.thread() == 0 {
        block.atomic_add(floats, 3, block.shared_load(shared, 0));
        block.atomic_max(floats, 4, block.shared_load(shared, 1));
        block.atomic_exch(floats, 5, 3.5);
    }
}

#[cfg(target_arch = "nvptx64")]
mod entry {
    use simt::nvptx::Hardware;
    use simt::{Global, GlobalMut};

    simt::declare_shared_memory!();

    macro_rules! entries {
        ($($name:ident($($argument:ident: $t:ty),*);)*) => {$(
            #[unsafe(no_mangle)]
            unsafe extern "ptx-kernel" fn $name($($argument: $t),*) {
                // SAFETY: the host launches full warps with the shared memory of the kernel, and
                // views of device memory; the tests find the kernels free of races and divergent
                // collectives.
                super::$name(&unsafe { Hardware::new() }, $($argument),*);
            }
        )*};
    }
    entries! {
        extremes(values: Global<'_, f32>, result: GlobalMut<'_, f32>);
        runs(values: Global<'_, u32>, places: GlobalMut<'_, u32>);
        odd(values: Global<'_, u32>, list: GlobalMut<'_, u32>, length: GlobalMut<'_, u32>);
        order(keys: Global<'_, u32>, order: GlobalMut<'_, u32>);
        count(keys: Global<'_, u64>, order: GlobalMut<'_, u32>);
        scan(values: Global<'_, u32>, sums: GlobalMut<'_, u32>, descriptors: GlobalMut<'_, u64>);
        products(values: Global<'_, f64>, products: GlobalMut<'_, f64>, flags: GlobalMut<'_, u32>);
        gradient(picture: Global<'_, f32>, result: GlobalMut<'_, f32>, width: u32);
        functions(values: Global<'_, f32>, result: GlobalMut<'_, u32>);
        updates(words: GlobalMut<'_, u32>, longs: GlobalMut<'_, i64>, floats: GlobalMut<'_, f32>);
    }
}

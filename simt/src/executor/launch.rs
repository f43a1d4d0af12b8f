//! The executor: launches kernels on the CPU and checks what hardware does not.
//!
//! A few blocks at a time have begun and are not done, as on a device that holds no more; they take turns at barriers,
//! and whenever one waits for another. When all of them wait, and nothing that they could wait for happens any more, that
//! is a deadlock, and named.
//!
//! # Example
//! ```
//! use ut_decoding::decoder::emulated::Executor;
//! use ut_kernels::block::Block;
//!
//! let mut numbers = vec![0u32; 64];
//! let mut executor = Executor::new(7);
//! let view = executor.writable(&mut numbers);
//! executor.launch("count", 2, (32, 1), 0, |block| {
//!     let i = block.block_idx_x() * 32 + block.thread();
//!     block.store(view, i, i);
//! })?;
//! assert!((0..64).eq(numbers));
//! # Ok::<(), ut_decoding::decoder::emulated::Violation>(())
//! ```

use std::cell::RefCell;

use ut_kernels::block::{GlobalMut, Plain};

use super::lane::{BlockBooks, BlockState, Books, EmulatedBlock};
use super::schedule::{Order, RunningBlock, Stacks, Turn};
use super::shadow::Shadow;
use super::stats::LaunchStats;
use super::violation::{Fault, Violation};

/// Runs kernels on the CPU; see the [module](super).
#[derive(Debug)]
pub struct Executor {
    order: Order,
    stacks: Stacks,
    /// Books that no block has at the moment.
    spare: Vec<BlockBooks>,
    books: RefCell<Books>,
    /// Serial of the next block, from 1.
    next_serial: u32,
    /// Accesses and collectives that a block may do.
    max_steps: u64,
    /// Most blocks that have begun and are not done.
    max_resident: u32,
}

/// Blocks that have begun and are not done, at the most, unless a test says otherwise.
const MAX_RESIDENT: u32 = 4;

/// Accesses and collectives of a block: minutes of work, and far more than any event needs.
const MAX_STEPS: u64 = 1 << 33;

impl Executor {
    /// An executor whose schedules come from `seed`: the same seed and the same launches give the same schedules.
    pub fn new(seed: u64) -> Self {
        Self {
            order: Order::new(seed),
            stacks: Stacks::default(),
            spare: Vec::new(),
            books: RefCell::default(),
            next_serial: 1,
            max_steps: MAX_STEPS,
            max_resident: MAX_RESIDENT,
        }
    }

    /// Gives blocks up after this many accesses and collectives of their lanes: so a loop without end comes to one.
    pub const fn limit_steps(&mut self, steps: u64) {
        self.max_steps = steps;
    }

    /// Holds at most so many blocks at a time (at least 1), as a device with little room does.
    pub const fn limit_resident(&mut self, blocks: u32) {
        self.max_resident = if blocks == 0 { 1 } else { blocks };
    }

    /// Notes tables that all events share, by the views that kernels read them through: the next launches count their
    /// sectors apart (`table_sectors`), since a GPU has them in its caches. Replaces those noted before.
    pub fn constant(&mut self, addresses: impl IntoIterator<Item = usize>) {
        let tables = &mut self.books.get_mut().tables;
        tables.clear();
        tables.extend(addresses);
    }

    /// A view that the next launch may write through. After that launch it is of no use any more.
    pub fn writable<'a, T: Plain>(&mut self, slice: &'a mut [T]) -> GlobalMut<'a, T> {
        let len = u32::try_from(slice.len()).unwrap_or(u32::MAX);
        let books = self.books.get_mut();
        let place = books.n_views as usize;
        if place == books.views.len() {
            books.views.push(Vec::new());
        }
        books.n_views += 1;
        let tag = books.first_tag.wrapping_add(place as u32);
        // SAFETY:
        // - The slice is aligned and good for reads and writes of `len` elements for `'a`.
        // - It is borrowed mutably for `'a`: all accesses go through the view, and views are only used by doors.
        unsafe { GlobalMut::new(slice.as_mut_ptr(), len, tag) }
    }

    /// Runs `kernel` on `grid` blocks of `block` = (x, y) threads, each with `shared_bytes` bytes of shared memory.
    ///
    /// Blocks begin in an order from the seed and take turns, the lanes of a block interleaved at their collectives.
    ///
    /// # Errors
    /// The first rule that the kernel breaks, or a block shape that no device takes.
    pub fn launch(
        &mut self,
        name: &str,
        grid: u32,
        block: (u32, u32),
        shared_bytes: u32,
        kernel: impl Fn(&EmulatedBlock<'_>),
    ) -> Result<LaunchStats, Violation> {
        let result = self.run(name, grid, block, shared_bytes, &kernel);
        // Views of this launch end here: their tags are never valid again.
        let books = self.books.get_mut();
        books.first_tag = books.first_tag.wrapping_add(books.n_views);
        books.n_views = 0;
        result
    }

    fn run(
        &mut self,
        name: &str,
        grid: u32,
        block: (u32, u32),
        shared_bytes: u32,
        kernel: &impl Fn(&EmulatedBlock<'_>),
    ) -> Result<LaunchStats, Violation> {
        let threads =
            block.0.checked_mul(block.1).filter(|&threads| threads > 0 && threads <= 1024 && threads % 32 == 0);
        let Some(threads) = threads else {
            let fault =
                Fault::BadLaunch(format!("a block of {}x{} threads is not one of full warps", block.0, block.1));
            return Err(Violation { kernel: name.to_owned(), block: 0, thread: 0, location: None, fault });
        };
        let books = self.books.get_mut();
        if self.next_serial.checked_add(grid).is_none() {
            // Out of serials, after four billion blocks: all books from the start.
            books.views.iter_mut().for_each(|view| view.fill(Shadow::default()));
            self.spare.iter_mut().for_each(BlockBooks::forget);
            self.next_serial = 1;
        }
        books.shared_bytes = shared_bytes;
        books.oldest = self.next_serial;
        books.stats = LaunchStats { blocks: u64::from(grid), ..LaunchStats::default() };
        books.touched.clear();
        books.violation = None;

        // Blocks in the order start, start + stride, …, for a stride that meets all of them.
        let start = if grid == 0 { 0 } else { self.order.below(grid) };
        let stride = stride_through(grid, &mut self.order);
        let mut number = u64::from(start);
        let resident = 1 + self.order.below(self.max_resident);
        let mut begun = 0;
        // Those that have begun, each with the number of writes at which it was found to wait in vain.
        let mut blocks: Vec<(RunningBlock<'_>, Option<u64>)> = Vec::new();
        loop {
            let writes = self.books.borrow().writes;
            let able: Vec<usize> = (0..blocks.len()).filter(|&i| blocks[i].1 != Some(writes)).collect();
            let can_begin = begun < grid && blocks.len() < resident as usize;
            let place = if can_begin && (able.is_empty() || self.order.below(2) == 0) {
                let mut books = self.spare.pop().unwrap_or_default();
                books.begin(self.next_serial, threads, shared_bytes, self.max_steps);
                let state =
                    BlockState { kernel: name, block: number as u32, grid, block_dim: block, books: &self.books };
                self.next_serial += 1;
                begun += 1;
                number = (number + u64::from(stride)) % u64::from(grid);
                blocks.push((RunningBlock::begin(state, kernel, books, &mut self.stacks), None));
                blocks.len() - 1
            } else if !able.is_empty() {
                able[self.order.below(able.len() as u32) as usize]
            } else if let Some((first, _)) = blocks.first() {
                let (thread, location) = first.waits_at().unzip();
                let waiting = blocks.len() as u32;
                let fault = Fault::Deadlock { waiting, finished: begun - waiting, resident, grid };
                let (block, thread) = (first.number(), thread.unwrap_or(0));
                return Err(Violation { kernel: name.to_owned(), block, thread, location, fault });
            } else {
                break;
            };
            let (running, in_vain) = &mut blocks[place];
            match running.run(resident > 1, &mut self.order) {
                Turn::Over => {
                    let (over, _) = blocks.swap_remove(place);
                    self.spare.push(over.end(&mut self.stacks));
                    if let Some(violation) = self.books.borrow_mut().violation.take() {
                        return Err(violation);
                    }
                }
                Turn::Able => *in_vain = None,
                // It waited in vain if nothing was written since it looked; what it wrote itself may be what it wants.
                Turn::Waits => *in_vain = (self.books.borrow().writes == writes).then_some(writes),
            }
        }
        let Books { stats, touched, .. } = self.books.get_mut();
        stats.distinct_sectors = touched.count();
        Ok(*stats)
    }
}

/// A stride that has no common divisor with `n`.
fn stride_through(n: u32, order: &mut Order) -> u32 {
    if n < 3 {
        return 1;
    }
    let mut stride = 1 + order.below(n - 1);
    while gcd(stride, n) != 1 {
        stride = 1 + stride % (n - 1);
    }
    stride
}

const fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

//! The executor: launches kernels on the CPU, block by block, and checks what hardware does not.
//!
//! # Example
//! ```
//! use ut_decoding::backend::emulated::Executor;
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
//! # Ok::<(), ut_decoding::backend::emulated::Violation>(())
//! ```

use std::cell::RefCell;

use ut_kernels::block::{GlobalMut, Plain};

use super::lane::{BlockState, Books, EmulatedBlock, Lane};
use super::schedule::{Order, Stacks, run_block};
use super::shadow::Shadow;
use super::stats::LaunchStats;
use super::violation::{Fault, Violation};

/// Runs kernels on the CPU; see the [module](super).
#[derive(Debug)]
pub struct Executor {
    order: Order,
    stacks: Stacks,
    books: RefCell<Books>,
    /// Serial of the next block, from 1.
    next_serial: u32,
    /// Accesses and collectives that a block may do.
    max_steps: u64,
}

/// Accesses and collectives of a block: minutes of work, and far more than any event needs.
const MAX_STEPS: u64 = 1 << 33;

impl Executor {
    /// An executor whose schedules come from `seed`: the same seed and the same launches give the same schedules.
    pub fn new(seed: u64) -> Self {
        Self {
            order: Order::new(seed),
            stacks: Stacks::default(),
            books: RefCell::default(),
            next_serial: 1,
            max_steps: MAX_STEPS,
        }
    }

    /// Gives blocks up after this many accesses and collectives of their lanes: so a loop without end comes to one.
    pub const fn limit_steps(&mut self, steps: u64) {
        self.max_steps = steps;
    }

    /// A view that the next launch may write through. After that launch it is of no use any more.
    pub fn writable<'a, T: Plain>(&mut self, slice: &'a mut [T]) -> GlobalMut<'a, T> {
        let len = u32::try_from(slice.len()).unwrap_or(u32::MAX);
        let books = self.books.get_mut();
        let place = books.n_views as usize;
        if place == books.views.len() {
            books.views.push(Vec::new());
        }
        let shadows = &mut books.views[place];
        if shadows.len() < len as usize {
            shadows.resize(len as usize, Shadow::default());
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
    /// Blocks run one after the other in an order from the seed, the lanes of a block interleaved at their collectives.
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
            books.shared_shadow.clear();
            books.granules.clear();
            self.next_serial = 1;
        }
        let granules = shared_bytes.div_ceil(8) as usize;
        books.shared_bytes = shared_bytes;
        if books.granules.len() < granules {
            books.shared.resize(granules, 0);
            books.granules.resize_with(granules, Default::default);
            books.shared_shadow.resize(8 * granules, Shadow::default());
        }
        books.coalescers.resize_with(books.coalescers.len().max((threads / 32) as usize), Default::default);
        books.oldest = self.next_serial;
        books.stats = LaunchStats { blocks: u64::from(grid), ..LaunchStats::default() };
        books.violation = None;

        // Blocks in the order start, start + stride, …, for a stride that meets all of them.
        let start = if grid == 0 { 0 } else { self.order.below(grid) };
        let stride = stride_through(grid, &mut self.order);
        let mut number = u64::from(start);
        for _ in 0..grid {
            let books = self.books.get_mut();
            books.lanes.clear();
            books.lanes.resize(threads as usize, Lane::NEW);
            books.serial = self.next_serial;
            books.steps_left = self.max_steps;
            books.epoch = 0;
            self.next_serial += 1;
            let block_number = number as u32;
            let state = BlockState { kernel: name, block: block_number, grid, block_dim: block, books: &self.books };
            run_block(&state, kernel, &mut self.stacks, &mut self.order);
            if let Some(violation) = self.books.get_mut().violation.take() {
                return Err(violation);
            }
            number = (number + u64::from(stride)) % u64::from(grid);
        }
        Ok(self.books.get_mut().stats)
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

//! The executor: launches kernels on the CPU and checks what hardware does not.
//!
//! A few blocks are resident at a time, as on a small device; they take turns at barriers and when
//! one waits for another. If all resident blocks wait, and none can change what the others wait
//! for, the deadlock is reported.
//!
//! # Example
//! ```
//! use simt::Block;
//! use simt::executor::Executor;
//!
//! let mut numbers = vec![0u32; 64];
//! let mut executor = Executor::new(7);
//! let view = executor.writable(&mut numbers);
//! executor.launch("count", 2, (32, 1), 0, |block| {
//!     let i = block.block_idx_x() * 32 + block.thread();
//!     block.store(view, i, i);
//! })?;
//! assert!((0..64).eq(numbers));
//! # Ok::<(), simt::executor::Violation>(())
//! ```

use std::cell::RefCell;
use std::panic::Location;

use crate::{GlobalMut, Plain};

use super::block::{BlockContext, BlockState, EmulatedBlock, LaunchState, View};
use super::order::{DrawnChoices, Order};
use super::schedule::{RunningBlock, Stacks, Turn, note_panics};
use super::shadow::Shadow;
use super::stats::LaunchStats;
use super::violation::{Fault, Violation};

/// Runs kernels on the CPU and checks them; see the [module](super).
///
/// A violation says which rule was broken, by which thread, and where:
/// ```
/// use simt::Block;
/// use simt::executor::{Executor, Fault};
///
/// let mut sum = [0u32];
/// let mut executor = Executor::new(1);
/// let view = executor.writable(&mut sum);
/// let launched = executor.launch("sum", 1, (64, 1), 0, |block| {
///     // Two threads may load the same value: this needs `atomic_add`.
///     let before = block.load_mut(view, 0);
///     block.store(view, 0, before + block.thread());
/// });
/// assert!(matches!(launched.unwrap_err().fault, Fault::Race { .. }));
/// ```
#[derive(Debug)]
pub struct Executor {
    order: Order,
    stacks: Stacks,
    /// States of blocks that have ended, for their memory.
    spare: Vec<BlockState>,
    state: RefCell<LaunchState>,
    next_serial: u32,
    max_steps: u64,
    max_resident: u32,
}

/// Number of blocks of a launch in x and in y. A number alone is a grid in x.
///
/// ```
/// use simt::executor::Grid;
///
/// assert_eq!(Grid::from(7), Grid(7, 1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid(pub u32, pub u32);

impl From<u32> for Grid {
    fn from(x: u32) -> Self {
        Self(x, 1)
    }
}

impl From<(u32, u32)> for Grid {
    fn from((x, y): (u32, u32)) -> Self {
        Self(x, y)
    }
}

/// Default of [`limit_resident`](Executor::limit_resident).
const MAX_RESIDENT: u32 = 4;

/// Largest grid of any device.
const MAX_GRID: u32 = i32::MAX as u32;

/// Largest grid in y.
const MAX_GRID_Y: u32 = 65_535;

/// Largest shared memory of a block on any device: 227 KiB.
const MAX_SHARED: u32 = 227 << 10;

/// Default number of accesses and collectives that a block may do: less than a minute of work.
const MAX_STEPS: u64 = 1 << 28;

/// Number of steps of a block per read that one of its threads may do in a row: by default seconds
/// of work.
const STEPS_PER_READ: u64 = 16;

impl Executor {
    /// Makes an executor whose schedules come from `seed`: equal seeds and equal launches give
    /// equal schedules.
    pub fn new(seed: u64) -> Self {
        Self::drawing(seed, [DrawnChoices::All, DrawnChoices::All])
    }

    /// Makes an executor that draws only some choices of the schedule, and of the values of loads;
    /// all others are the plain ones.
    pub(super) fn drawing(seed: u64, [of_schedule, of_loads]: [DrawnChoices; 2]) -> Self {
        Self {
            order: Order::new(seed, of_schedule),
            stacks: Stacks::default(),
            spare: Vec::new(),
            state: RefCell::new(LaunchState {
                luck: Order::new(!seed, of_loads),
                ..LaunchState::default()
            }),
            next_serial: 1,
            max_steps: MAX_STEPS,
            max_resident: MAX_RESIDENT,
        }
    }

    /// Returns the choices so far: of the schedule, and of the values of loads.
    pub(super) fn orders(&mut self) -> [&Order; 2] {
        [&self.order, &self.state.get_mut().luck]
    }

    /// Limits the steps of a block, which are the accesses and collectives of its threads, so that
    /// every launch ends. The default is 2²⁸, less than a minute of work.
    ///
    /// A block with more steps is reported as [`Fault::Endless`]. A thread that reads for a
    /// sixteenth of that number without a write, collective, barrier or
    /// [`pause`](crate::Block::pause) is reported as [`Fault::Spinning`]: it waits for a thread
    /// that never gets its turn.
    ///
    /// ```
    /// use simt::Block;
    /// use simt::executor::{Executor, Fault};
    ///
    /// let mut flag = [0u32];
    /// let mut executor = Executor::new(1);
    /// executor.limit_steps(1000);
    /// let view = executor.writable(&mut flag);
    /// let launched = executor.launch("wait", 1, (32, 1), 0, |block| {
    ///     // The loop lacks `block.pause()`.
    ///     while block.atomic_load(view, 0) == 0 {}
    /// });
    /// assert!(matches!(launched.unwrap_err().fault, Fault::Spinning { .. }));
    /// ```
    pub const fn limit_steps(&mut self, steps: u64) {
        self.max_steps = steps;
    }

    /// Limits the number of resident blocks (at least 1; the default is 4), as a small device does.
    ///
    /// A kernel whose blocks wait for each other must not rely on every block being resident:
    /// ```
    /// use simt::Block;
    /// use simt::executor::{Executor, Fault};
    ///
    /// let mut arrived = [0u32];
    /// let mut executor = Executor::new(1);
    /// executor.limit_resident(2);
    /// let view = executor.writable(&mut arrived);
    /// let launched = executor.launch("barrier of the grid", 3, (32, 1), 0, |block| {
    ///     if block.thread() == 0 {
    ///         block.atomic_add(view, 0, 1);
    ///         while block.atomic_load(view, 0) < block.grid_dim_x() {
    ///             block.pause();
    ///         }
    ///     }
    /// });
    /// assert!(matches!(launched.unwrap_err().fault, Fault::Deadlock { waiting: 2, .. }));
    /// ```
    ///
    /// A device with few multiprocessors keeps few blocks resident, and starts the others only when
    /// these have ended. A kernel in which early blocks wait for later ones works on a large GPU
    /// and hangs on a small one; with a limit, the executor reports it.
    pub const fn limit_resident(&mut self, blocks: u32) {
        self.max_resident = if blocks == 0 { 1 } else { blocks };
    }

    /// Sets the addresses of the tables that all events share, in place of earlier ones: launches
    /// count sectors there as [`table_sectors`](LaunchStats::table_sectors).
    pub fn constant(&mut self, addresses: impl IntoIterator<Item = usize>) {
        let tables = &mut self.state.get_mut().tables;
        tables.clear();
        tables.extend(addresses);
    }

    /// Makes a view that the next launch may write through, of the first 2³² − 1 elements at most.
    /// Later launches refuse the view ([`Fault::BadLaunch`]).
    #[track_caller]
    pub fn writable<'a, T: Plain>(&mut self, slice: &'a mut [T]) -> GlobalMut<'a, T> {
        let state = self.state.get_mut();
        let place = state.n_views as usize;
        let location = Location::caller();
        match state.views.get_mut(place) {
            Some(view) => view.location = location,
            None => state.views.push(View {
                shadows: Vec::new(),
                location,
            }),
        }
        state.n_views += 1;
        let tag = state.first_tag.wrapping_add(place as u32);
        GlobalMut::tagged(slice, tag)
    }

    /// Runs `kernel` on `grid` blocks, in x or (x, y), of `block` = (x, y) threads, each with
    /// `shared_bytes` bytes of shared memory. Blocks begin in an order drawn from the seed and take
    /// turns; threads of a block interleave at their collectives.
    ///
    /// # Errors
    /// If the kernel breaks a rule: the first violation. If no device takes the grid, the shape of
    /// the block, or the amount of shared memory: [`Fault::BadLaunch`].
    pub fn launch(
        &mut self,
        name: &str,
        grid: impl Into<Grid>,
        block: (u32, u32),
        shared_bytes: u32,
        kernel: impl Fn(&EmulatedBlock<'_>),
    ) -> Result<LaunchStats, Violation> {
        let result = self.run(name, grid.into(), block, shared_bytes, &kernel);
        // Later launches refuse this launch's views, since their tags start after these.
        let state = self.state.get_mut();
        state.first_tag = state.first_tag.wrapping_add(state.n_views);
        state.n_views = 0;
        result
    }

    fn run(
        &mut self,
        name: &str,
        Grid(grid_x, grid_y): Grid,
        block: (u32, u32),
        shared_bytes: u32,
        kernel: &impl Fn(&EmulatedBlock<'_>),
    ) -> Result<LaunchStats, Violation> {
        let (threads, grid) =
            checked_shape((grid_x, grid_y), block, shared_bytes).map_err(|what| Violation {
                kernel: name.to_owned(),
                block: 0,
                thread: 0,
                location: None,
                fault: Fault::BadLaunch(what),
            })?;
        self.prepare(grid, shared_bytes);
        note_panics();
        let Begin {
            start,
            stride,
            resident,
            held,
        } = Begin::draw(grid, self.max_resident, &mut self.order);
        let nth_block = |nth| nth_block(start, stride, grid, nth);
        let mut begun = 0;
        // Resident blocks, each with the number of writes at the beginning of its last turn if it
        // waits. As long as that number stands, another turn would find what it has found before.
        let mut blocks: Vec<(RunningBlock<'_>, Option<u64>)> = Vec::new();
        // Each round gives a turn to one block: a new one, if there is room, or a resident one that
        // is not known to wait in vain. No such block means a deadlock, or, with none resident, the
        // end.
        loop {
            let writes = self.state.borrow().writes;
            let able: Vec<usize> = (0..blocks.len())
                .filter(|&i| blocks[i].1 != Some(writes))
                .collect();
            let can_begin = begun < grid && blocks.len() < resident as usize;
            let first_able = able
                .iter()
                .position(|&i| Some(blocks[i].0.number()) != held);
            let number = nth_block(begun);
            let first = |_| format!("block {number} begins later, when another has gone on");
            let place = if can_begin && (first_able.is_none() || self.order.below(2, first) == 0) {
                let mut block_state = self.spare.pop().unwrap_or_default();
                block_state.begin(
                    self.next_serial,
                    threads,
                    shared_bytes,
                    self.max_steps,
                    self.max_steps / STEPS_PER_READ,
                );
                let context = BlockContext {
                    kernel: name,
                    block: number,
                    grid: (grid_x, grid_y),
                    block_dim: block,
                    launch: &self.state,
                };
                self.state.borrow_mut().numbers.push(number);
                self.next_serial += 1;
                begun += 1;
                blocks.push((
                    RunningBlock::begin(context, kernel, block_state, &mut self.stacks),
                    None,
                ));
                blocks.len() - 1
            } else if !able.is_empty() {
                let named = |i: usize| format!("block {}", blocks[able[i]].0.number());
                let before = |pick| format!("{} goes on before {}", named(pick as usize), named(0));
                let pick = self.order.below(able.len() as u32, before) as usize;
                let waits = Some(blocks[able[pick]].0.number()) == held;
                able[first_able.filter(|_| waits).unwrap_or(pick)]
            } else if let Some((first, _)) = blocks.first() {
                let (thread, location) = first.waits_at().unzip();
                let waiting = blocks.len() as u32;
                let fault = Fault::Deadlock {
                    waiting,
                    finished: begun - waiting,
                    resident,
                    grid,
                };
                let (block, thread) = (first.number(), thread.unwrap_or(0));
                return Err(Violation {
                    kernel: name.to_owned(),
                    block,
                    thread,
                    location,
                    fault,
                });
            } else {
                break;
            };
            let (running, in_vain) = &mut blocks[place];
            match running.run(resident > 1, &mut self.order) {
                Turn::Over => {
                    let (over, _) = blocks.swap_remove(place);
                    self.spare.push(over.end(&mut self.stacks));
                    if let Some(violation) = self.state.borrow_mut().violation.take() {
                        return Err(violation);
                    }
                }
                Turn::Able => *in_vain = None,
                // Its next turn is in vain until something is written after the beginning of this
                // turn, be it by the block itself.
                Turn::Waits => *in_vain = Some(writes),
            }
        }
        let LaunchState { stats, touched, .. } = self.state.get_mut();
        stats.distinct_sectors = touched.count();
        Ok(*stats)
    }

    /// Resets the state of a launch, for a grid of this many blocks.
    fn prepare(&mut self, grid: u32, shared_bytes: u32) {
        let state = self.state.get_mut();
        if self.next_serial.checked_add(grid).is_none() {
            // Serials run out after four billion blocks. They begin again at 1, so that no shadow
            // may keep an old one.
            state
                .views
                .iter_mut()
                .for_each(|view| view.shadows.fill(Shadow::default()));
            self.spare.iter_mut().for_each(BlockState::forget);
            self.next_serial = 1;
        }
        state.shared_bytes = shared_bytes;
        state.oldest = self.next_serial;
        state.stats = LaunchStats {
            blocks: u64::from(grid),
            ..LaunchStats::default()
        };
        state.touched.clear();
        state.numbers.clear();
        state.atomics.clear();
        state.violation = None;
    }
}

/// Returns the number of threads in a block and of blocks in the grid.
///
/// # Errors
/// If no device, or not this executor, takes a launch of this shape.
fn checked_shape(
    (grid_x, grid_y): (u32, u32),
    block: (u32, u32),
    shared_bytes: u32,
) -> Result<(u32, u32), String> {
    let threads = block
        .0
        .checked_mul(block.1)
        .filter(|&threads| threads > 0 && threads <= 1024 && threads % 32 == 0);
    let Some(threads) = threads else {
        return Err(format!(
            "a block of {}x{} threads: the number of threads must be a multiple of 32, from 32 to 1024",
            block.0, block.1
        ));
    };
    let grid = grid_x
        .checked_mul(grid_y)
        .filter(|&grid| grid <= MAX_GRID && grid_y <= MAX_GRID_Y);
    let Some(grid) = grid else {
        return Err(format!(
            "a grid of {grid_x}x{grid_y} blocks: a device takes at most {MAX_GRID} in x and {MAX_GRID_Y} in y, and the \
             executor {MAX_GRID} in all"
        ));
    };
    if shared_bytes > MAX_SHARED {
        return Err(format!(
            "{shared_bytes} bytes of shared memory: a block has at most {MAX_SHARED}"
        ));
    }
    Ok((threads, grid))
}

/// The order in which the blocks of a launch begin.
///
/// Hardware promises nothing about it, so the seed draws it: start, start + stride, …, modulo the
/// grid, where the stride is coprime to the grid and so visits every block.
struct Begin {
    start: u32,
    stride: u32,
    /// Number of blocks that are resident at a time.
    resident: u32,
    /// A block that gets a turn only when no other can go on. It finds kernels that take for
    /// granted that a block which has begun makes progress before later ones.
    held: Option<u32>,
}

impl Begin {
    fn draw(grid: u32, max_resident: u32, order: &mut Order) -> Self {
        let start = if grid == 0 {
            0
        } else {
            order.below(grid, |block| format!("block {block} begins first"))
        };
        let stride = stride_through(grid, order);
        let at_once = |more| format!("up to {} blocks run at a time", more + 1);
        let resident = 1 + order.below(max_resident, at_once);
        let nth_block = |nth| nth_block(start, stride, grid, nth);
        let held = |nth| format!("block {} waits until no other can go on", nth_block(nth));
        let held = order.rarely(grid.clamp(1, resident), held).map(nth_block);
        Self {
            start,
            stride,
            resident,
            held,
        }
    }
}

/// Returns the block that begins after `nth` others.
fn nth_block(start: u32, stride: u32, grid: u32, nth: u32) -> u32 {
    ((u64::from(start) + u64::from(nth) * u64::from(stride)) % u64::from(grid.max(1))) as u32
}

/// Draws a stride that has no common divisor with `n`.
fn stride_through(n: u32, order: &mut Order) -> u32 {
    if n < 3 {
        return 1;
    }
    let mut stride = 1 + order.below(n - 1, |more| {
        format!("blocks begin in steps of about {}", more + 1)
    });
    while gcd(stride, n) != 1 {
        stride = 1 + stride % (n - 1);
    }
    stride
}

const fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

//! One thread of a block in the executor: the [`Block`] that a kernel sees there.
//!
//! Two jobs are done here. The first is checking: every access to memory is counted, compared with
//! the bounds of its array and with the earlier accesses of the same element, and only then done.
//! The second is parking: a thread is a coroutine, and where hardware would wait for other lanes,
//! threads or blocks, the thread writes into its [`Status`] what it waits for and yields. It is
//! the scheduler (`schedule.rs`) that finds out when all participants have arrived, writes the
//! answers, and resumes them.
//!
//! All threads of a launch share one [`LaunchState`] in a `RefCell`. Coroutines run on one CPU
//! thread and yield only where no borrow is held, so that a borrow never fails.
//!
//! # What happens to one load
//!
//! A kernel calls `block.load_mut(view, i)`. The executor
//!
//! 1. compares `i` with the length of the view.
//! 2. takes one step from the block's allowance, so that an endless loop ends in a report.
//! 3. hands address, size and place in the source to the warp's coalescer, which later counts the
//!    sectors that the warp touched together.
//! 4. looks up the shadow of element `i`, and compares this access with the last write, the last
//!    atomics and the last reads there. If one of them conflicts and nothing orders the two, it is
//!    a race.
//! 5. reads the value. It is a plain read through a raw pointer: all checks are over by then.
//!
//! Only the first violation of a launch is kept.
//!
//! A thread that breaks a rule leaves a [`Violation`] in the launch and is never resumed: the
//! kernel's code after the fault does not run, so that a later fault cannot hide the first.

use std::cell::RefCell;
use std::collections::HashMap;
use std::mem::discriminant;
use std::ops::Range;
use std::panic::Location;

use crate::{
    AtomicScalar, Block, Global, GlobalMut, NonEmpty, Plain, Scalar, Shared, Shuffle, Update,
};
use corosensei::Yielder;

use super::known::{Known, LatestWrite};
use super::order::Order;
use super::shadow::{AccessRecord, Shadow, Touch, Toucher};
use super::stats::{Access, Coalescer, LaunchStats, SharedAccess, TouchedSectors};
use super::violation::{Fault, Violation, describe};

/// Kind of a warp collective; a shuffle comes with the operand that each lane chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    SyncWarp,
    Ballot,
    Shuffle(Shuffle),
    MatchAny,
    ReduxAdd,
    ActiveMask,
}

impl Collective {
    /// Returns the name of the method of [`Block`], for messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SyncWarp => "sync_warp",
            Self::Ballot => "ballot_sync",
            Self::Shuffle(Shuffle::Up(_)) => "shuffle_up_sync",
            Self::Shuffle(Shuffle::Down(_)) => "shuffle_down_sync",
            Self::Shuffle(Shuffle::Index(_)) => "shuffle_idx_sync",
            Self::Shuffle(Shuffle::Xor(_)) => "shuffle_xor_sync",
            Self::MatchAny => "match_any_sync",
            Self::ReduxAdd => "redux_add_sync",
            Self::ActiveMask => "active_mask",
        }
    }

    /// Returns true if both are the same collective; their operands may differ.
    pub fn is_same(self, other: Self) -> bool {
        match (self, other) {
            (Self::Shuffle(a), Self::Shuffle(b)) => discriminant(&a) == discriminant(&b),
            (a, b) => discriminant(&a) == discriminant(&b),
        }
    }
}

/// Call of a collective by one lane. Lanes meet if operation, mask and location agree; `value` is
/// the operand that each lane brings.
///
/// The place in the source is part of the agreement because all lanes of a mask must execute the
/// same instruction. Two lanes that call `ballot_sync` in different branches of an `if` execute
/// different ones, although mask and operation agree. On a device this may work by luck; the
/// executor reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveCall {
    pub operation: Collective,
    pub mask: u32,
    pub value: u32,
    pub location: &'static Location<'static>,
}

/// State of a thread, which tells the scheduler whether it can be resumed, and what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Runnable,
    AtCollective(CollectiveCall),
    AtBarrier(&'static Location<'static>),
    /// Waits for another block.
    Paused(&'static Location<'static>),
    Finished,
}

/// State of a thread: what it waits for, and the accesses that it is ordered after.
///
/// `clock` and `seen` are a vector clock within the warp, and `known` is one across blocks; within
/// a block, barriers are counted by [`BlockState::epoch`]. See `shadow.rs` for how they find races.
#[derive(Clone, Debug)]
pub struct ThreadState {
    pub status: Status,
    /// Answer to the last collective.
    pub answer: u32,
    /// Time stamp of the thread's accesses, which grows with each `sync_warp` and each release.
    pub clock: u32,
    /// Clock of each lane of the warp up to which this thread is ordered after its accesses.
    pub seen: [u32; 32],
    /// Accesses of other blocks that the thread has acquired.
    pub known: Known,
    /// Accesses that a fence would let the thread acquire.
    pub pending: Known,
    /// Accesses that the thread's relaxed atomics release since its last fence.
    pub fenced: Known,
}

impl ThreadState {
    pub const NEW: Self = Self {
        status: Status::Runnable,
        answer: 0,
        clock: 1,
        seen: [0; 32],
        known: None,
        pending: None,
        fenced: None,
    };

    /// Describes what the thread does, for messages: "lane 3 …".
    pub fn doing(&self) -> String {
        match self.status {
            Status::Runnable => "still runs".to_owned(),
            Status::AtCollective(request) => format!(
                "waits at {} with mask {:#010x} at {}",
                request.operation.name(),
                request.mask,
                request.location
            ),
            Status::AtBarrier(location) => format!("waits at sync_threads at {location}"),
            Status::Paused(location) => format!("waits for another block at {location}"),
            Status::Finished => "has left the kernel".to_owned(),
        }
    }
}

/// Element of shared memory that a byte belongs to.
///
/// Kernels reuse shared memory: two arrays may occupy the same bytes at different times, with
/// elements of different sizes. Only the element written last exists, so a write removes every
/// element that it overlaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// Serial of the block that wrote the element.
    serial: u32,
    first_byte: u32,
    size: u32,
}

impl Element {
    const fn bytes(self) -> Range<usize> {
        self.first_byte as usize..(self.first_byte + self.size) as usize
    }
}

/// State that the threads of a block change, shared memory included.
#[derive(Debug, Default)]
pub struct BlockState {
    pub threads: Vec<ThreadState>,
    /// Accesses since each warp last converged, by warp.
    pub coalescers: Vec<Coalescer>,
    /// Number of accesses and collectives that the block may do in all.
    max_steps: u64,
    steps_left: u64,
    /// Number of reads that a thread may do without doing anything else.
    max_reads: u64,
    /// Number of further reads that the running thread may do without doing anything else.
    pub reads_left: u64,
    /// Number of the block through all launches of the executor.
    pub serial: u32,
    /// Number of barriers that the block has passed.
    pub epoch: u32,
    /// Bytes of shared memory; may be longer than this block needs, if an earlier block needed
    /// more.
    pub shared: Vec<u8>,
    /// Shadow of the element that begins at each byte of shared memory.
    pub shared_shadow: Vec<Shadow>,
    /// Element that each byte of shared memory belongs to.
    pub elements: Vec<Element>,
}

impl BlockState {
    /// Prepares the state of an earlier block, or a new state, for a block that begins.
    ///
    /// Shared memory and its shadows are not cleared, which would cost more than many blocks do:
    /// they carry the serial of the block that wrote them, and another block's are taken for
    /// absent.
    pub fn begin(
        &mut self,
        serial: u32,
        threads: u32,
        shared_bytes: u32,
        max_steps: u64,
        max_reads: u64,
    ) {
        self.threads.clear();
        self.threads.resize(threads as usize, ThreadState::NEW);
        self.coalescers.resize_with(
            self.coalescers.len().max((threads / 32) as usize),
            Default::default,
        );
        // A block that broke a rule has left its steps uncounted.
        self.coalescers.iter_mut().for_each(Coalescer::forget);
        self.serial = serial;
        (self.max_steps, self.steps_left) = (max_steps, max_steps);
        (self.max_reads, self.reads_left) = (max_reads, max_reads);
        self.epoch = 0;
        let bytes = shared_bytes as usize;
        if self.shared.len() < bytes {
            self.shared.resize(bytes, 0);
            self.elements.resize(bytes, Element::default());
            self.shared_shadow.resize(bytes, Shadow::default());
        }
    }

    /// Restarts the count of successive reads: the thread did something else, or another one runs.
    pub const fn not_only_reads(&mut self) {
        self.reads_left = self.max_reads;
    }

    /// Forgets earlier blocks, so that serials can be used again.
    pub fn forget(&mut self) {
        self.shared.clear();
        self.elements.clear();
        self.shared_shadow.clear();
    }
}

/// Writable view of global memory, as the executor knows it.
#[derive(Debug)]
pub struct View {
    /// Shadows by element, up to the last element that was touched.
    pub shadows: Vec<Shadow>,
    /// Call of `Executor::writable` that made the view.
    pub location: &'static Location<'static>,
}

/// State of a launch, and of the block whose turn it is.
#[derive(Debug, Default)]
pub struct LaunchState {
    /// State of the block whose turn it is; the others keep theirs in `RunningBlock`.
    pub block: BlockState,
    pub stats: LaunchStats,
    pub touched: TouchedSectors,
    pub violation: Option<Violation>,
    /// Serial of the launch's first block.
    pub oldest: u32,
    pub shared_bytes: u32,
    /// Number of stores and atomics on global memory. A block that waits in a loop may be waiting
    /// for any of these.
    pub writes: u64,
    /// Index in the grid of each block that has begun, by serial from `oldest` on.
    pub numbers: Vec<u32>,
    pub views: Vec<View>,
    /// Tag of this launch's first view.
    pub first_tag: u32,
    /// Number of this launch's views; `views` may keep more, for their memory.
    pub n_views: u32,
    /// Latest atomic write of an element, by tag of its view and index.
    pub atomics: HashMap<(u32, u32), LatestWrite>,
    /// Source of the choices which loads give an older value.
    pub luck: Order,
    /// Addresses of tables that all events share; see `Executor::constant`.
    pub tables: Vec<usize>,
}

impl LaunchState {
    fn describe(&self, record: &AccessRecord) -> String {
        describe(
            record,
            self.numbers[(record.serial() - self.oldest) as usize],
        )
    }

    fn toucher<'a>(
        own: &'a ThreadState,
        thread: u32,
        oldest: u32,
        serial: u32,
        epoch: u32,
        location: &'static Location<'static>,
    ) -> Toucher<'a> {
        let (thread, known) = (thread as u16, own.known.as_deref());
        Toucher {
            oldest,
            serial,
            epoch,
            clock: own.clock,
            thread,
            seen: &own.seen,
            known,
            location,
        }
    }
}

/// Facts about a block that its threads do not change.
///
/// Threads share it by reference, together with the launch's state in a `RefCell`, which they do
/// change.
#[derive(Debug)]
pub struct BlockContext<'a> {
    pub kernel: &'a str,
    /// Index of the block in the grid, x fastest.
    pub block: u32,
    pub grid: (u32, u32),
    pub block_dim: (u32, u32),
    pub launch: &'a RefCell<LaunchState>,
}

/// Thread of a block that runs in the executor: the argument of a kernel that is launched there.
///
/// A kernel is a function that is generic over [`Block`]; only the executor makes values of this
/// type.
///
/// ```
/// use simt::{Block, GlobalMut};
/// use simt::executor::Executor;
///
/// /// Writes the sum of the warp's lane numbers for each lane.
/// fn kernel<B: Block>(block: &B, sums: GlobalMut<'_, u32>) {
///     let sum = block.redux_add_sync(u32::MAX, block.lane_id());
///     block.store(sums, block.thread(), sum);
/// }
///
/// let mut sums = [0; 32];
/// let mut executor = Executor::new(0);
/// let view = executor.writable(&mut sums);
/// executor.launch("sums", 1, (32, 1), 0, |block| kernel(block, view))?;
/// assert_eq!(sums, [496; 32]);
/// # Ok::<(), simt::executor::Violation>(())
/// ```
#[expect(
    missing_debug_implementations,
    reason = "a coroutine's yielder cannot be shown"
)]
pub struct EmulatedBlock<'a> {
    pub(super) context: &'a BlockContext<'a>,
    pub(super) yielder: &'a Yielder<(), ()>,
    pub(super) thread: u32,
}

impl EmulatedBlock<'_> {
    /// Records a violation, if it is the launch's first, and parks the thread for good.
    ///
    /// The loop is never left: the scheduler sees the violation and ends the launch, and the thread
    /// is unwound when its block is dropped.
    #[cold]
    fn fail(&self, location: &'static Location<'static>, fault: Fault) -> ! {
        {
            let mut launch = self.context.launch.borrow_mut();
            launch.violation.get_or_insert_with(|| Violation {
                kernel: self.context.kernel.to_owned(),
                block: self.context.block,
                thread: self.thread,
                location: Some(location),
                fault,
            });
        }
        loop {
            self.yielder.suspend(());
        }
    }

    /// Takes one step from what the block may do, so that an endless loop is reported.
    ///
    /// Two limits are needed. A loop that only reads lets no other thread run, so that the flag it
    /// waits for can never change: `max_reads` reports this after seconds. Any other loop without
    /// an end is found by `max_steps`, after less than a minute.
    fn step(&self, location: &'static Location<'static>) {
        let fault = {
            let BlockState {
                max_steps,
                steps_left,
                max_reads,
                reads_left,
                ..
            } = &mut self.context.launch.borrow_mut().block;
            *steps_left = steps_left.saturating_sub(1);
            *reads_left = reads_left.saturating_sub(1);
            if *steps_left == 0 {
                Some(Fault::Endless { steps: *max_steps })
            } else if *reads_left == 0 {
                Some(Fault::Spinning { steps: *max_reads })
            } else {
                None
            }
        };
        if let Some(fault) = fault {
            self.fail(location, fault);
        }
    }

    /// Parks the thread at a collective until all lanes of `mask` are there; returns its answer.
    ///
    /// A lane outside its mask is a fault of this thread alone, so it is found here. Any
    /// other disagreement, such as a lane that never comes, is visible to the scheduler only.
    fn collective(
        &self,
        operation: Collective,
        mask: u32,
        value: u32,
        location: &'static Location<'static>,
    ) -> u32 {
        self.step(location);
        if mask & (1 << self.lane_id()) == 0 {
            self.fail(
                location,
                Fault::NotInMask {
                    operation: operation.name(),
                    mask,
                },
            );
        }
        self.context.launch.borrow_mut().block.threads[self.thread as usize].status =
            Status::AtCollective(CollectiveCall {
                operation,
                mask,
                value,
                location,
            });
        self.yielder.suspend(());
        self.context.launch.borrow().block.threads[self.thread as usize].answer
    }

    /// Reports an access out of bounds unless `index < len`.
    fn check_bounds(
        &self,
        access: &'static str,
        memory: &'static str,
        index: u32,
        len: u32,
        location: &'static Location<'static>,
    ) {
        if index >= len {
            self.fail(
                location,
                Fault::OutOfBounds {
                    access,
                    memory,
                    index,
                    len,
                },
            );
        }
    }

    /// Counts an access to global memory: `size` bytes at byte `offset` of the array at `base`.
    ///
    /// The coalescer gathers the accesses of a warp's lanes from the same place in the source, as
    /// hardware does for one instruction: only then is it known how many sectors they touch.
    fn count_global(
        &self,
        touch: Touch,
        location: &'static Location<'static>,
        base: usize,
        offset: u64,
        size: u64,
    ) {
        self.step(location);
        let mut launch = self.context.launch.borrow_mut();
        let LaunchState {
            stats,
            touched,
            block: BlockState { coalescers, .. },
            tables,
            ..
        } = &mut *launch;
        stats.global_loads += u64::from(touch == Touch::Read);
        stats.global_stores += u64::from(touch == Touch::Write);
        stats.global_atomics += u64::from(touch == Touch::Atomic);
        let in_table = tables.contains(&base);
        let access = Access {
            touch,
            location,
            base,
            offset,
            size,
            in_table,
        };
        let coalescer = &mut coalescers[(self.thread / 32) as usize];
        coalescer.access(stats, touched, self.thread % 32, access);
        if touch == Touch::Write {
            launch.block.not_only_reads();
        }
    }

    /// Checks an access to element `i` of a writable view: bounds, origin of the view, and races.
    ///
    /// A view carries a tag that only the launch it was made for accepts: after that launch, its
    /// shadows belong to another view.
    fn touch_global<T: Plain>(
        &self,
        view: GlobalMut<'_, T>,
        i: u32,
        touch: Touch,
        location: &'static Location<'static>,
    ) {
        self.check_bounds(touch.name(), "global", i, view.len(), location);
        let size = size_of::<T>() as u64;
        self.count_global(
            touch,
            location,
            view.as_ptr().addr(),
            u64::from(i) * size,
            size,
        );
        let fault = {
            let mut launch = self.context.launch.borrow_mut();
            let LaunchState {
                block:
                    BlockState {
                        threads,
                        serial,
                        epoch,
                        ..
                    },
                oldest,
                views,
                first_tag,
                n_views,
                ..
            } = &mut *launch;
            match Some(view.tag().wrapping_sub(*first_tag)).filter(|place| place < n_views) {
                None => Some(Fault::BadLaunch(
                    "a view is used that was not made for this launch".to_owned(),
                )),
                Some(place) => {
                    let own = &threads[self.thread as usize];
                    let toucher =
                        LaunchState::toucher(own, self.thread, *oldest, *serial, *epoch, location);
                    let View {
                        shadows,
                        location: made,
                    } = &mut views[place as usize];
                    let made = *made;
                    if shadows.len() <= i as usize {
                        shadows.resize((i as usize + 1).next_power_of_two(), Shadow::default());
                    }
                    let race = shadows[i as usize].touch(&toucher, touch);
                    race.map(|other| Fault::Race {
                        access: touch.name(),
                        memory: "global element",
                        place: i,
                        array: format!(
                            "of the view of {} {} made at {made}",
                            view.len(),
                            std::any::type_name::<T>()
                        )
                        .into(),
                        other: launch.describe(&other),
                    })
                }
            }
        };
        if let Some(fault) = fault {
            self.fail(location, fault);
        }
    }

    /// Checks an access to shared memory; returns the first byte of element `i`.
    ///
    /// Shared memory has no initial value: a read of an element that no thread of this block has
    /// written, as an element of this size, is a fault. A write makes the element. If its bytes
    /// held other elements before, these end here, and their accesses must be ordered before the
    /// write just as if they were accesses of the new element.
    fn touch_shared<T: Plain>(
        &self,
        array: Shared<T>,
        i: u32,
        touch: Touch,
        location: &'static Location<'static>,
    ) -> usize {
        self.step(location);
        self.check_bounds(touch.name(), "shared", i, array.len(), location);
        let size = size_of::<T>() as u32;
        let byte = array.offset().saturating_add(i.saturating_mul(size));
        let fault = {
            let mut launch = self.context.launch.borrow_mut();
            let LaunchState {
                block,
                stats,
                oldest,
                shared_bytes,
                ..
            } = &mut *launch;
            let BlockState {
                threads,
                serial,
                epoch,
                shared_shadow,
                elements,
                ..
            } = block;
            match touch {
                Touch::Read => stats.shared_loads += 1,
                Touch::Write => stats.shared_stores += 1,
                Touch::Atomic => stats.shared_atomics += 1,
            }
            block.coalescers[(self.thread / 32) as usize].shared(
                self.thread % 32,
                SharedAccess {
                    touch,
                    location,
                    byte,
                    size,
                    piece: align_of::<T>() as u32,
                },
            );
            let end = byte.saturating_add(size);
            if end > *shared_bytes {
                Some(Fault::BadLaunch(format!(
                    "shared memory ends at byte {shared_bytes}, the kernel wants bytes {byte} to {end}"
                )))
            } else {
                let own = &threads[self.thread as usize];
                let toucher =
                    LaunchState::toucher(own, self.thread, *oldest, *serial, *epoch, location);
                let element = Element {
                    serial: *serial,
                    first_byte: byte,
                    size,
                };
                let is_new = elements[byte as usize] != element;
                let mut race = None;
                if is_new && touch == Touch::Write {
                    // The write ends the elements that were here: their accesses must be over.
                    for at in element.bytes() {
                        let before = elements[at];
                        if before.serial == *serial {
                            let shadow = &mut shared_shadow[before.first_byte as usize];
                            race = race.or_else(|| shadow.touch(&toucher, touch));
                            elements[before.bytes()].fill(Element::default());
                        }
                    }
                    elements[element.bytes()].fill(element);
                    shared_shadow[byte as usize] = Shadow::default();
                }
                if is_new && touch != Touch::Write {
                    Some(Fault::UnwrittenShared {
                        byte,
                        size,
                        array: array.describe(i),
                    })
                } else {
                    let shadow = &mut shared_shadow[byte as usize];
                    race.or_else(|| shadow.touch(&toucher, touch))
                        .map(|other| Fault::Race {
                            access: touch.name(),
                            memory: "shared byte",
                            place: byte,
                            array: array.describe(i).into(),
                            other: launch.describe(&other),
                        })
                }
            }
        };
        if let Some(fault) = fault {
            self.fail(location, fault);
        }
        byte as usize
    }

    /// Reads shared memory after [`touch_shared`](Self::touch_shared) has checked the access.
    fn read_shared<T: Plain>(&self, byte: usize) -> T {
        let shared = &self.context.launch.borrow().block.shared[byte..][..size_of::<T>()];
        // SAFETY:
        // - The slice has `size_of::<T>()` bytes, and every bit pattern is a `T` (`Plain`).
        // - `read_unaligned` needs no alignment.
        unsafe { shared.as_ptr().cast::<T>().read_unaligned() }
    }

    /// Writes shared memory after [`touch_shared`](Self::touch_shared) has checked the access.
    fn write_shared<T: Plain>(&self, byte: usize, value: T) {
        let block = &mut self.context.launch.borrow_mut().block;
        block.not_only_reads();
        let shared = &mut block.shared[byte..][..size_of::<T>()];
        // SAFETY:
        // - The slice has `size_of::<T>()` bytes, and a `T` has no padding (`Plain`), so that every
        //   byte stays initialized.
        // - `write_unaligned` needs no alignment.
        unsafe { shared.as_mut_ptr().cast::<T>().write_unaligned(value) };
    }

    /// Reads element `i` atomically and, with `change`, replaces it. Returns the value before.
    ///
    /// `reads`: the kernel sees the value before, so that the thread receives what was released
    /// with it. `ordered`: the read acquires, or the write releases; a relaxed access orders
    /// nothing until the next fence.
    ///
    /// A read without `change` may give an older value than memory holds, as hardware may (see
    /// `known.rs`). A read-modify-write always works on the latest value.
    fn exchange<T: AtomicScalar>(
        &self,
        view: GlobalMut<'_, T>,
        i: u32,
        location: &'static Location<'static>,
        (reads, ordered): (bool, bool),
        change: Option<&dyn Fn(T) -> T>,
    ) -> T {
        self.touch_global(view, i, Touch::Atomic, location);
        let element = view.as_ptr().wrapping_add(i as usize);
        // SAFETY:
        // - Aligned, good for reads and writes: `touch_global` checked `i`, for a view of
        //   `GlobalMut::new` or `Executor::writable`.
        // - No data race: views are neither `Send` nor `Sync`, and threads of a block are
        //   coroutines of one CPU thread.
        let before = unsafe { element.read() };
        let mut launch = self.context.launch.borrow_mut();
        let key = (view.tag(), i);
        let Some(change) = change else {
            return T::from_bits(launch.read(self.thread, key, before.to_bits(), ordered));
        };
        launch.write(
            self.thread,
            key,
            before.to_bits(),
            (reads, ordered),
            location,
        );
        let after = change(before);
        if after.to_bits() != before.to_bits() {
            launch.block.not_only_reads();
        }
        // SAFETY: the element is aligned, inside its view and written by this CPU thread alone, as
        // for the read before.
        unsafe { element.write(after) };
        before
    }
}

impl Block for EmulatedBlock<'_> {
    fn thread_idx_x(&self) -> u32 {
        self.thread % self.context.block_dim.0
    }
    fn thread_idx_y(&self) -> u32 {
        self.thread / self.context.block_dim.0
    }
    fn block_dim_x(&self) -> u32 {
        self.context.block_dim.0
    }
    fn block_dim_y(&self) -> u32 {
        self.context.block_dim.1
    }
    fn block_idx_x(&self) -> u32 {
        self.context.block % self.context.grid.0
    }
    fn block_idx_y(&self) -> u32 {
        self.context.block / self.context.grid.0
    }
    fn grid_dim_x(&self) -> u32 {
        self.context.grid.0
    }
    fn grid_dim_y(&self) -> u32 {
        self.context.grid.1
    }
    fn lane_id(&self) -> u32 {
        self.thread % 32
    }
    fn lanemask_lt(&self) -> u32 {
        (1 << (self.thread % 32)) - 1
    }
    fn thread(&self) -> u32 {
        self.thread
    }

    #[track_caller]
    fn sync_threads(&self) {
        let location = Location::caller();
        self.step(location);
        self.context.launch.borrow_mut().block.threads[self.thread as usize].status =
            Status::AtBarrier(location);
        self.yielder.suspend(());
    }
    #[track_caller]
    fn sync_warp(&self, mask: u32) {
        self.collective(Collective::SyncWarp, mask, 0, Location::caller());
    }
    #[track_caller]
    fn ballot_sync(&self, mask: u32, predicate: bool) -> u32 {
        self.collective(
            Collective::Ballot,
            mask,
            u32::from(predicate),
            Location::caller(),
        )
    }
    #[track_caller]
    fn shuffle_bits(&self, mask: u32, value: u32, shuffle: Shuffle) -> u32 {
        self.collective(
            Collective::Shuffle(shuffle),
            mask,
            value,
            Location::caller(),
        )
    }
    #[track_caller]
    fn match_any_sync(&self, mask: u32, value: u32) -> u32 {
        self.collective(Collective::MatchAny, mask, value, Location::caller())
    }
    #[track_caller]
    fn redux_add_sync(&self, mask: u32, value: u32) -> u32 {
        self.collective(Collective::ReduxAdd, mask, value, Location::caller())
    }
    #[track_caller]
    fn active_mask(&self) -> u32 {
        self.collective(Collective::ActiveMask, u32::MAX, 0, Location::caller())
    }

    #[track_caller]
    fn load<T: Plain>(&self, view: Global<'_, T>, i: u32) -> T {
        let location = Location::caller();
        self.check_bounds("read", "read-only global", i, view.len(), location);
        let size = size_of::<T>() as u64;
        self.count_global(
            Touch::Read,
            location,
            view.as_ptr().addr(),
            u64::from(i) * size,
            size,
        );
        // SAFETY: aligned and readable: `i` is below the view's length, and `Global::new`, or the
        // slice in `from_slice`, gives `len` such elements, which nothing writes while the view
        // exists.
        unsafe { view.as_ptr().add(i as usize).read() }
    }
    #[track_caller]
    fn load_within<T: Plain>(&self, view: NonEmpty<'_, T>, i: u32) -> T {
        self.load(view.view(), i)
    }
    #[track_caller]
    fn load_bytes<T: Scalar>(&self, view: Global<'_, u8>, at: u32) -> T {
        let location = Location::caller();
        let size = size_of::<T>() as u64;
        if u64::from(at) + size > u64::from(view.len()) {
            let (access, memory) = ("read beyond the end", "read-only global");
            self.fail(
                location,
                Fault::OutOfBounds {
                    access,
                    memory,
                    index: at,
                    len: view.len(),
                },
            );
        }
        self.count_global(
            Touch::Read,
            location,
            view.as_ptr().addr(),
            u64::from(at),
            size,
        );
        // SAFETY:
        // - `at + size` is within the view, whose bytes are readable (`Global::new`, `from_slice`).
        // - The read needs no alignment; every bit pattern is a `T` (`Plain`).
        unsafe { view.as_ptr().add(at as usize).cast::<T>().read_unaligned() }
    }
    #[track_caller]
    fn load_mut<T: Plain>(&self, view: GlobalMut<'_, T>, i: u32) -> T {
        self.touch_global(view, i, Touch::Read, Location::caller());
        // SAFETY:
        // - Aligned and readable: `touch_global` checked `i`, for a view of `GlobalMut::new` or
        //   `Executor::writable`.
        // - No data race: views are neither `Send` nor `Sync`, and threads of a block are
        //   coroutines of one CPU thread.
        unsafe { view.as_ptr().add(i as usize).read() }
    }
    #[track_caller]
    fn store<T: Plain>(&self, view: GlobalMut<'_, T>, i: u32, value: T) {
        self.touch_global(view, i, Touch::Write, Location::caller());
        self.context.launch.borrow_mut().writes += 1;
        // SAFETY:
        // - Aligned and writable: `touch_global` checked `i`, for a view of `GlobalMut::new` or
        //   `Executor::writable`.
        // - No data race: views are neither `Send` nor `Sync`, and threads of a block are
        //   coroutines of one CPU thread.
        unsafe { view.as_ptr().add(i as usize).write(value) };
    }
    #[track_caller]
    fn atomic_update<T: AtomicScalar>(
        &self,
        view: GlobalMut<'_, T>,
        i: u32,
        update: Update<T>,
    ) -> T {
        let update = T::lower(update);
        self.exchange(
            view,
            i,
            Location::caller(),
            (true, false),
            Some(&|before| update.apply(before)),
        )
    }
    #[track_caller]
    fn atomic_read<T: AtomicScalar>(&self, view: GlobalMut<'_, T>, i: u32, acquire: bool) -> T {
        self.exchange(view, i, Location::caller(), (true, acquire), None)
    }
    #[track_caller]
    fn atomic_write<T: AtomicScalar>(
        &self,
        view: GlobalMut<'_, T>,
        i: u32,
        value: T,
        release: bool,
    ) {
        self.exchange(
            view,
            i,
            Location::caller(),
            (false, release),
            Some(&|_| value),
        );
    }
    #[track_caller]
    fn fence(&self) {
        self.step(Location::caller());
        self.context.launch.borrow_mut().fence(self.thread);
    }
    #[track_caller]
    fn pause(&self) {
        let location = Location::caller();
        self.step(location);
        self.context.launch.borrow_mut().block.threads[self.thread as usize].status =
            Status::Paused(location);
        self.yielder.suspend(());
    }

    #[track_caller]
    fn shared_load<T: Plain>(&self, array: Shared<T>, i: u32) -> T {
        let byte = self.touch_shared(array, i, Touch::Read, Location::caller());
        self.read_shared(byte)
    }
    #[track_caller]
    fn shared_store<T: Plain>(&self, array: Shared<T>, i: u32, value: T) {
        let byte = self.touch_shared(array, i, Touch::Write, Location::caller());
        self.write_shared(byte, value);
    }
    #[track_caller]
    fn shared_atomic_update<T: AtomicScalar>(
        &self,
        array: Shared<T>,
        i: u32,
        update: Update<T>,
    ) -> T {
        let byte = self.touch_shared(array, i, Touch::Atomic, Location::caller());
        let before: T = self.read_shared(byte);
        let after = T::lower(update).apply(before);
        if after.to_bits() != before.to_bits() {
            self.write_shared(byte, after);
        }
        before
    }
}

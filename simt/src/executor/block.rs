//! A thread of a block in the executor: the [`Block`] that kernels see there. Every access is checked before it is
//! done. A collective parks the thread's coroutine with a request; the scheduler (`schedule.rs`) answers when all warp
//! lanes of the mask are there. A thread that broke a rule never runs again.

use std::cell::RefCell;
use std::collections::HashMap;
use std::mem::discriminant;
use std::ops::Range;
use std::panic::Location;

use crate::{AtomicScalar, Block, Global, GlobalMut, NonEmpty, Plain, Scalar, Shared, Shuffle, Update};
use corosensei::Yielder;

use super::known::{Known, LatestWrite};
use super::order::Order;
use super::shadow::{Record, Shadow, Touch, Toucher};
use super::stats::{Access, Coalescer, LaunchStats, SharedAccess, Touched};
use super::violation::{Fault, Violation, describe};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    SyncWarp,
    Ballot,
    Shuffle(Shuffle),
    MatchAny,
    ReduxAdd,
    ActiveMask,
}

impl Operation {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub operation: Operation,
    pub mask: u32,
    pub value: u32,
    pub location: &'static Location<'static>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Runnable,
    AtCollective(Request),
    AtBarrier(&'static Location<'static>),
    /// Waits for another block.
    Paused(&'static Location<'static>),
    Finished,
}

/// A thread, with the accesses that it is ordered after.
#[derive(Clone, Debug)]
pub struct ThreadState {
    pub status: Status,
    /// Answer to the last collective.
    pub answer: u32,
    pub clock: u32,
    pub seen: [u32; 32],
    /// Accesses of other blocks that the thread has acquired.
    pub known: Known,
    /// Accesses that a fence would let the thread acquire.
    pub pending: Known,
    /// Accesses that the thread's relaxed atomics release since its last fence.
    pub fenced: Known,
}

impl ThreadState {
    pub const NEW: Self =
        Self { status: Status::Runnable, answer: 0, clock: 1, seen: [0; 32], known: None, pending: None, fenced: None };

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

/// Element of shared memory that a byte belongs to. Arrays may lie at the same place one after the other, with elements
/// of other sizes: those that are written last are there, and none overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// Serial of the block that wrote it.
    serial: u32,
    first_byte: u32,
    size: u32,
}

impl Element {
    const fn bytes(self) -> Range<usize> {
        self.first_byte as usize..(self.first_byte + self.size) as usize
    }
}

/// State that the block's threads change, shared memory included.
#[derive(Debug, Default)]
pub struct BlockState {
    pub threads: Vec<ThreadState>,
    pub coalescers: Vec<Coalescer>,
    /// Accesses and collectives that the block's threads may do, and those that are left.
    max_steps: u64,
    steps_left: u64,
    /// Reads that a thread may do in a row, and those that the running one has left.
    max_reads: u64,
    pub reads_left: u64,
    pub serial: u32,
    /// Barriers that the block has passed.
    pub epoch: u32,
    pub shared: Vec<u8>,
    /// Shadow of each byte of shared memory, for the element that begins there.
    pub shared_shadow: Vec<Shadow>,
    /// By byte of shared memory.
    pub elements: Vec<Element>,
}

impl BlockState {
    /// Begins a block in this state.
    pub fn begin(&mut self, serial: u32, threads: u32, shared_bytes: u32, max_steps: u64, max_reads: u64) {
        self.threads.clear();
        self.threads.resize(threads as usize, ThreadState::NEW);
        self.coalescers.resize_with(self.coalescers.len().max((threads / 32) as usize), Default::default);
        // (A block that broke a rule left its steps uncounted.)
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

    /// Begins a new row of reads: the thread has done something else, or another one runs.
    pub const fn not_only_reads(&mut self) {
        self.reads_left = self.max_reads;
    }

    /// Forgets earlier blocks, so that serials can begin again.
    pub fn forget(&mut self) {
        self.shared.clear();
        self.elements.clear();
        self.shared_shadow.clear();
    }
}

#[derive(Debug)]
pub struct View {
    /// A shadow per element, up to the last that was touched.
    pub shadows: Vec<Shadow>,
    pub location: &'static Location<'static>,
}

/// State of a launch, and of the block that runs.
#[derive(Debug, Default)]
pub struct LaunchState {
    pub block: BlockState,
    pub stats: LaunchStats,
    pub touched: Touched,
    pub violation: Option<Violation>,
    /// Serial of the launch's first block.
    pub oldest: u32,
    pub shared_bytes: u32,
    /// Stores and atomics on global memory: changes that a waiting block can be waiting for.
    pub writes: u64,
    /// Numbers of the begun blocks, by serial from `oldest` on.
    pub numbers: Vec<u32>,
    pub views: Vec<View>,
    /// Tag of this launch's first view.
    pub first_tag: u32,
    pub n_views: u32,
    /// Latest atomic writes of elements of writable views, by view and place.
    pub atomics: HashMap<(u32, u32), LatestWrite>,
    /// Draws the loads that give an older value.
    pub luck: Order,
    pub tables: Vec<usize>,
}

impl LaunchState {
    fn describe(&self, record: &Record) -> String {
        describe(record, self.numbers[(record.serial() - self.oldest) as usize])
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
        Toucher { oldest, serial, epoch, clock: own.clock, thread, seen: &own.seen, known, location }
    }
}

#[derive(Debug)]
pub struct BlockContext<'a> {
    pub kernel: &'a str,
    /// Number of the block, x fastest.
    pub block: u32,
    pub grid: (u32, u32),
    pub block_dim: (u32, u32),
    pub launch: &'a RefCell<LaunchState>,
}

/// Thread of a block that runs in the executor.
#[expect(missing_debug_implementations, reason = "a coroutine's yielder cannot be shown")]
pub struct EmulatedBlock<'a> {
    pub(super) context: &'a BlockContext<'a>,
    pub(super) yielder: &'a Yielder<(), ()>,
    pub(super) thread: u32,
}

impl EmulatedBlock<'_> {
    /// Notes the violation; the thread never runs again.
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

    /// Counts a step of the block, so that an endless loop is reported.
    fn step(&self, location: &'static Location<'static>) {
        let fault = {
            let BlockState { max_steps, steps_left, max_reads, reads_left, .. } =
                &mut self.context.launch.borrow_mut().block;
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

    fn collective(&self, operation: Operation, mask: u32, value: u32, location: &'static Location<'static>) -> u32 {
        self.step(location);
        if mask & (1 << self.lane_id()) == 0 {
            self.fail(location, Fault::NotInMask { operation: operation.name(), mask });
        }
        self.context.launch.borrow_mut().block.threads[self.thread as usize].status =
            Status::AtCollective(Request { operation, mask, value, location });
        self.yielder.suspend(());
        self.context.launch.borrow().block.threads[self.thread as usize].answer
    }

    fn check_bounds(
        &self,
        access: &'static str,
        memory: &'static str,
        index: u32,
        len: u32,
        location: &'static Location<'static>,
    ) {
        if index >= len {
            self.fail(location, Fault::OutOfBounds { access, memory, index, len });
        }
    }

    fn count_global(&self, touch: Touch, location: &'static Location<'static>, base: usize, offset: u64, size: u64) {
        self.step(location);
        let mut launch = self.context.launch.borrow_mut();
        let LaunchState { stats, touched, block: BlockState { coalescers, .. }, tables, .. } = &mut *launch;
        stats.global_loads += u64::from(touch == Touch::Read);
        stats.global_stores += u64::from(touch == Touch::Write);
        stats.global_atomics += u64::from(touch == Touch::Atomic);
        let in_table = tables.contains(&base);
        let access = Access { touch, location, base, offset, size, in_table };
        let coalescer = &mut coalescers[(self.thread / 32) as usize];
        coalescer.access(stats, touched, self.thread % 32, access);
        if touch == Touch::Write {
            launch.block.not_only_reads();
        }
    }

    fn touch_global<T: Plain>(
        &self,
        view: GlobalMut<'_, T>,
        i: u32,
        touch: Touch,
        location: &'static Location<'static>,
    ) {
        self.check_bounds(touch.name(), "global", i, view.len(), location);
        let size = size_of::<T>() as u64;
        self.count_global(touch, location, view.as_ptr().addr(), u64::from(i) * size, size);
        let fault = {
            let mut launch = self.context.launch.borrow_mut();
            let LaunchState {
                block: BlockState { threads, serial, epoch, .. }, oldest, views, first_tag, n_views, ..
            } = &mut *launch;
            match Some(view.tag().wrapping_sub(*first_tag)).filter(|place| place < n_views) {
                None => Some(Fault::BadLaunch("a view is used that was not made for this launch".to_owned())),
                Some(place) => {
                    let own = &threads[self.thread as usize];
                    let toucher = LaunchState::toucher(own, self.thread, *oldest, *serial, *epoch, location);
                    let View { shadows, location: made } = &mut views[place as usize];
                    let made = *made;
                    if shadows.len() <= i as usize {
                        shadows.resize((i as usize + 1).next_power_of_two(), Shadow::default());
                    }
                    let race = shadows[i as usize].touch(&toucher, touch);
                    race.map(|other| Fault::Race {
                        access: touch.name(),
                        memory: "global element",
                        place: i,
                        array: format!("of the view of {} {} made at {made}", view.len(), std::any::type_name::<T>())
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

    /// Checks an access to shared memory; returns its byte.
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
            let LaunchState { block, stats, oldest, shared_bytes, .. } = &mut *launch;
            let BlockState { threads, serial, epoch, shared_shadow, elements, .. } = block;
            match touch {
                Touch::Read => stats.shared_loads += 1,
                Touch::Write => stats.shared_stores += 1,
                Touch::Atomic => stats.shared_atomics += 1,
            }
            block.coalescers[(self.thread / 32) as usize]
                .shared(self.thread % 32, SharedAccess { touch, location, byte, size, piece: align_of::<T>() as u32 });
            let end = byte.saturating_add(size);
            if end > *shared_bytes {
                Some(Fault::BadLaunch(format!(
                    "shared memory ends at byte {shared_bytes}, the kernel wants bytes {byte} to {end}"
                )))
            } else {
                let own = &threads[self.thread as usize];
                let toucher = LaunchState::toucher(own, self.thread, *oldest, *serial, *epoch, location);
                let element = Element { serial: *serial, first_byte: byte, size };
                let is_new = elements[byte as usize] != element;
                let mut race = None;
                if is_new && touch == Touch::Write {
                    // What was there is overwritten: its accesses must be over.
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
                    Some(Fault::UnwrittenShared { byte, size, array: array.describe(i) })
                } else {
                    let shadow = &mut shared_shadow[byte as usize];
                    race.or_else(|| shadow.touch(&toucher, touch)).map(|other| Fault::Race {
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

    fn read_shared<T: Plain>(&self, byte: usize) -> T {
        let shared = &self.context.launch.borrow().block.shared[byte..][..size_of::<T>()];
        // SAFETY: as many bytes as a `T` has, which any bytes are (`Plain`); the read needs no alignment.
        unsafe { shared.as_ptr().cast::<T>().read_unaligned() }
    }

    fn write_shared<T: Plain>(&self, byte: usize, value: T) {
        let block = &mut self.context.launch.borrow_mut().block;
        block.not_only_reads();
        let shared = &mut block.shared[byte..][..size_of::<T>()];
        // SAFETY: as many bytes as a `T` has, all of them initialized (`Plain`: no padding); the write needs no alignment.
        unsafe { shared.as_mut_ptr().cast::<T>().write_unaligned(value) };
    }

    /// Reads element `i` by an atomic, and may change it; `ordered`: with acquire or release.
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
        // - Aligned, good for reads and writes: `touch_global` checked `i`, for a view of `GlobalMut::new` or
        //   `Executor::writable`.
        // - No data race: views are neither `Send` nor `Sync`, and threads of a block are coroutines of one CPU thread.
        let before = unsafe { element.read() };
        let mut launch = self.context.launch.borrow_mut();
        let key = (view.tag(), i);
        let Some(change) = change else {
            return T::from_bits(launch.read(self.thread, key, before.to_bits(), ordered));
        };
        launch.write(self.thread, key, before.to_bits(), (reads, ordered), location);
        let after = change(before);
        if after.to_bits() != before.to_bits() {
            launch.block.not_only_reads();
        }
        // SAFETY: the element is aligned, inside its view and written by this CPU thread alone, as for the read before.
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
        self.context.launch.borrow_mut().block.threads[self.thread as usize].status = Status::AtBarrier(location);
        self.yielder.suspend(());
    }
    #[track_caller]
    fn sync_warp(&self, mask: u32) {
        self.collective(Operation::SyncWarp, mask, 0, Location::caller());
    }
    #[track_caller]
    fn ballot_sync(&self, mask: u32, predicate: bool) -> u32 {
        self.collective(Operation::Ballot, mask, u32::from(predicate), Location::caller())
    }
    #[track_caller]
    fn shuffle_bits(&self, mask: u32, value: u32, shuffle: Shuffle) -> u32 {
        self.collective(Operation::Shuffle(shuffle), mask, value, Location::caller())
    }
    #[track_caller]
    fn match_any_sync(&self, mask: u32, value: u32) -> u32 {
        self.collective(Operation::MatchAny, mask, value, Location::caller())
    }
    #[track_caller]
    fn redux_add_sync(&self, mask: u32, value: u32) -> u32 {
        self.collective(Operation::ReduxAdd, mask, value, Location::caller())
    }
    #[track_caller]
    fn active_mask(&self) -> u32 {
        self.collective(Operation::ActiveMask, u32::MAX, 0, Location::caller())
    }

    #[track_caller]
    fn load<T: Plain>(&self, view: Global<'_, T>, i: u32) -> T {
        let location = Location::caller();
        self.check_bounds("read", "read-only global", i, view.len(), location);
        let size = size_of::<T>() as u64;
        self.count_global(Touch::Read, location, view.as_ptr().addr(), u64::from(i) * size, size);
        // SAFETY: aligned and readable: `i` is below the view's length, and `Global::new`, or the slice in `from_slice`,
        // gives `len` such elements, which nothing writes while the view exists.
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
            self.fail(location, Fault::OutOfBounds { access, memory, index: at, len: view.len() });
        }
        self.count_global(Touch::Read, location, view.as_ptr().addr(), u64::from(at), size);
        // SAFETY:
        // - `at + size` is within the view, whose bytes are readable (`Global::new`, `from_slice`).
        // - The read needs no alignment; every bit pattern is a `T` (`Plain`).
        unsafe { view.as_ptr().add(at as usize).cast::<T>().read_unaligned() }
    }
    #[track_caller]
    fn load_mut<T: Plain>(&self, view: GlobalMut<'_, T>, i: u32) -> T {
        self.touch_global(view, i, Touch::Read, Location::caller());
        // SAFETY:
        // - Aligned and readable: `touch_global` checked `i`, for a view of `GlobalMut::new` or `Executor::writable`.
        // - No data race: views are neither `Send` nor `Sync`, and threads of a block are coroutines of one CPU thread.
        unsafe { view.as_ptr().add(i as usize).read() }
    }
    #[track_caller]
    fn store<T: Plain>(&self, view: GlobalMut<'_, T>, i: u32, value: T) {
        self.touch_global(view, i, Touch::Write, Location::caller());
        self.context.launch.borrow_mut().writes += 1;
        // SAFETY:
        // - Aligned and writable: `touch_global` checked `i`, for a view of `GlobalMut::new` or `Executor::writable`.
        // - No data race: views are neither `Send` nor `Sync`, and threads of a block are coroutines of one CPU thread.
        unsafe { view.as_ptr().add(i as usize).write(value) };
    }
    #[track_caller]
    fn atomic_update<T: AtomicScalar>(&self, view: GlobalMut<'_, T>, i: u32, update: Update<T>) -> T {
        let update = T::lower(update);
        self.exchange(view, i, Location::caller(), (true, false), Some(&|before| update.apply(before)))
    }
    #[track_caller]
    fn atomic_read<T: AtomicScalar>(&self, view: GlobalMut<'_, T>, i: u32, acquire: bool) -> T {
        self.exchange(view, i, Location::caller(), (true, acquire), None)
    }
    #[track_caller]
    fn atomic_write<T: AtomicScalar>(&self, view: GlobalMut<'_, T>, i: u32, value: T, release: bool) {
        self.exchange(view, i, Location::caller(), (false, release), Some(&|_| value));
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
        self.context.launch.borrow_mut().block.threads[self.thread as usize].status = Status::Paused(location);
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
    fn shared_atomic_update<T: AtomicScalar>(&self, array: Shared<T>, i: u32, update: Update<T>) -> T {
        let byte = self.touch_shared(array, i, Touch::Atomic, Location::caller());
        let before: T = self.read_shared(byte);
        let after = T::lower(update).apply(before);
        if after.to_bits() != before.to_bits() {
            self.write_shared(byte, after);
        }
        before
    }
}

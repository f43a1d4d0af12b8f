//! A block of the executor with one fault, which the executor must find.

use std::cell::Cell;
use std::panic::Location;

use simt::executor::{Fault, Violation};
use simt::{
    AtomicScalar, Block, FULL_MASK, Global, GlobalMut, NonEmpty, Plain, Scalar, Shared, Shuffle,
    Update,
};

/// Fault of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    None,
    /// The n-th block barrier that a thread reaches, from 0, is missing.
    NoBarrier(u32),
    /// The n-th warp barrier of the source file whose path ends so is missing.
    NoWarpBarrier(&'static str, u32),
    /// Atomics on shared memory are a load, an add and a store.
    PlainAdd,
    /// The mask of a shuffle is the whole warp, whichever lanes are present.
    FullShuffleMask,
    /// The mask of a shuffle is `active_mask`: the lanes that happen to be together.
    ActiveShuffleMask,
    /// A block uses its index where it should take a ticket.
    NumberForTicket,
}

/// Returns true if nothing orders two accesses to memory, or a read and the write before it.
pub fn is_race(violation: &Violation) -> bool {
    matches!(
        violation.fault,
        Fault::Race { .. } | Fault::UnwrittenShared { .. }
    )
}

pub struct Faulty<'a, B> {
    inner: &'a B,
    bug: Bug,
    barriers: Cell<u32>,
    warp_barriers: Cell<u32>,
}

impl<'a, B: Block> Faulty<'a, B> {
    pub fn new(inner: &'a B, bug: Bug) -> Self {
        Self {
            inner,
            bug,
            barriers: Cell::new(0),
            warp_barriers: Cell::new(0),
        }
    }

    #[track_caller]
    fn shuffle_mask(&self, mask: u32) -> u32 {
        match self.bug {
            Bug::FullShuffleMask => FULL_MASK,
            Bug::ActiveShuffleMask => self.inner.active_mask(),
            _ => mask,
        }
    }
}

impl<B: Block> Block for Faulty<'_, B> {
    fn thread_idx_x(&self) -> u32 {
        self.inner.thread_idx_x()
    }
    fn thread_idx_y(&self) -> u32 {
        self.inner.thread_idx_y()
    }
    fn block_dim_x(&self) -> u32 {
        self.inner.block_dim_x()
    }
    fn block_dim_y(&self) -> u32 {
        self.inner.block_dim_y()
    }
    fn block_idx_x(&self) -> u32 {
        self.inner.block_idx_x()
    }
    fn block_idx_y(&self) -> u32 {
        self.inner.block_idx_y()
    }
    fn grid_dim_x(&self) -> u32 {
        self.inner.grid_dim_x()
    }
    fn grid_dim_y(&self) -> u32 {
        self.inner.grid_dim_y()
    }
    fn lane_id(&self) -> u32 {
        self.inner.lane_id()
    }
    fn lanemask_lt(&self) -> u32 {
        self.inner.lanemask_lt()
    }
    #[track_caller]
    fn sync_threads(&self) {
        let n = self.barriers.replace(self.barriers.get() + 1);
        if self.bug != Bug::NoBarrier(n) {
            self.inner.sync_threads();
        }
    }
    #[track_caller]
    fn sync_warp(&self, mask: u32) {
        if let Bug::NoWarpBarrier(file, bad) = self.bug
            && Location::caller().file().ends_with(file)
            && self.warp_barriers.replace(self.warp_barriers.get() + 1) == bad
        {
            return;
        }
        self.inner.sync_warp(mask);
    }
    #[track_caller]
    fn ballot_sync(&self, mask: u32, predicate: bool) -> u32 {
        self.inner.ballot_sync(mask, predicate)
    }
    #[track_caller]
    fn shuffle_bits(&self, mask: u32, value: u32, shuffle: Shuffle) -> u32 {
        self.inner
            .shuffle_bits(self.shuffle_mask(mask), value, shuffle)
    }
    #[track_caller]
    fn match_any_sync(&self, mask: u32, value: u32) -> u32 {
        self.inner.match_any_sync(mask, value)
    }
    #[track_caller]
    fn redux_add_sync(&self, mask: u32, value: u32) -> u32 {
        self.inner.redux_add_sync(mask, value)
    }
    #[track_caller]
    fn active_mask(&self) -> u32 {
        self.inner.active_mask()
    }
    #[track_caller]
    fn load<T: Plain>(&self, view: Global<'_, T>, i: u32) -> T {
        self.inner.load(view, i)
    }
    #[track_caller]
    fn load_within<T: Plain>(&self, view: NonEmpty<'_, T>, i: u32) -> T {
        self.inner.load_within(view, i)
    }
    #[track_caller]
    fn load_bytes<T: Scalar>(&self, view: Global<'_, u8>, at: u32) -> T {
        self.inner.load_bytes(view, at)
    }
    #[track_caller]
    fn load_mut<T: Plain>(&self, view: GlobalMut<'_, T>, i: u32) -> T {
        self.inner.load_mut(view, i)
    }
    #[track_caller]
    fn store<T: Plain>(&self, view: GlobalMut<'_, T>, i: u32, value: T) {
        self.inner.store(view, i, value);
    }
    #[track_caller]
    fn atomic_update<T: AtomicScalar>(
        &self,
        view: GlobalMut<'_, T>,
        i: u32,
        update: Update<T>,
    ) -> T {
        if self.bug == Bug::NumberForTicket && i == 0 && matches!(update, Update::Add(_)) {
            return T::from_bits(self.inner.block_idx_x().into());
        }
        self.inner.atomic_update(view, i, update)
    }
    #[track_caller]
    fn atomic_read<T: AtomicScalar>(&self, view: GlobalMut<'_, T>, i: u32, acquire: bool) -> T {
        self.inner.atomic_read(view, i, acquire)
    }
    #[track_caller]
    fn atomic_write<T: AtomicScalar>(
        &self,
        view: GlobalMut<'_, T>,
        i: u32,
        value: T,
        release: bool,
    ) {
        self.inner.atomic_write(view, i, value, release);
    }
    #[track_caller]
    fn fence(&self) {
        self.inner.fence();
    }
    #[track_caller]
    fn pause(&self) {
        self.inner.pause();
    }
    #[track_caller]
    fn shared_load<T: Plain>(&self, array: Shared<T>, i: u32) -> T {
        self.inner.shared_load(array, i)
    }
    #[track_caller]
    fn shared_store<T: Plain>(&self, array: Shared<T>, i: u32, value: T) {
        self.inner.shared_store(array, i, value);
    }
    #[track_caller]
    fn shared_atomic_update<T: AtomicScalar>(
        &self,
        array: Shared<T>,
        i: u32,
        update: Update<T>,
    ) -> T {
        if let (Bug::PlainAdd, Update::Add(value)) = (self.bug, update) {
            let before = self.inner.shared_load(array, i);
            self.inner.shared_store(array, i, before.sum(value));
            return before;
        }
        self.inner.shared_atomic_update(array, i, update)
    }
}

//! Who runs when in a block: its lanes, warp by warp and lane by lane, in an order drawn from a seed; answers their
//! collectives.
//!
//! A lane runs until it parks. When all lanes of a warp are parked, those collectives are answered of whose mask every
//! lane waits at the same one, at the same place in the source. When no warp can go on, all threads must be at the same
//! barrier; else the block waits for another one, or is stuck, and the first lane that waits in vain is named. At a barrier
//! another block may get its turn.

use std::panic::{AssertUnwindSafe, catch_unwind};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};

use super::lane::{BlockBooks, BlockState, Books, EmulatedBlock, Lane, LaneState, Operation, Request};
use super::violation::{Fault, Violation};

/// Bytes of a lane's stack. Touched pages only cost memory; a panic's message needs some.
const STACK: usize = 256 * 1024;

/// Rounds that a warp runs at a time, at the most.
const MOST_ROUNDS: u32 = 4;

/// Barriers that a block passes before another gets its turn, in the mean.
const BARRIERS_A_TURN: u32 = 4;

/// The order in which things happen: SplitMix64, small and fast; nothing but schedules comes of it.
#[derive(Clone, Debug)]
pub struct Order(u64);

impl Order {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0.
    pub const fn below(&mut self, n: u32) -> u32 {
        (((self.next() >> 32) * n as u64) >> 32) as u32
    }
}

type LaneRoutine = Coroutine<(), (), (), DefaultStack>;

/// Stacks for the lanes, kept between blocks.
#[derive(Default)]
pub struct Stacks(Vec<DefaultStack>);

impl std::fmt::Debug for Stacks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Stacks").field(&self.0.len()).finish()
    }
}

/// Where a block stands when it gives the turn back. What went wrong is in the launch's books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// All lanes have left the kernel, or a rule was broken.
    Over,
    /// It can go on.
    Able,
    /// It waits for another block.
    Waits,
}

/// A block that has begun.
pub struct RunningBlock<'a> {
    /// First, since what is dropped first is what borrows from the others.
    routines: Vec<LaneRoutine>,
    state: Box<BlockState<'a>>,
    /// Its books, while another block runs.
    books: BlockBooks,
}

impl<'a> RunningBlock<'a> {
    /// Begins a block, whose books are `books`.
    pub fn begin(
        state: BlockState<'a>,
        kernel: &'a impl Fn(&EmulatedBlock<'_>),
        books: BlockBooks,
        stacks: &mut Stacks,
    ) -> Self {
        let threads = state.block_dim.0 * state.block_dim.1;
        let state = Box::new(state);
        let of_lanes = std::ptr::from_ref(&*state);
        let routine = |thread| {
            let stack = stacks.0.pop().unwrap_or_else(|| DefaultStack::new(STACK).expect("memory for a lane's stack"));
            let body = move |yielder: &corosensei::Yielder<(), ()>, ()| {
                // SAFETY: the box stays where it is until after the coroutine is gone, and is never borrowed mutably.
                let state = unsafe { &*of_lanes };
                kernel(&EmulatedBlock { state, yielder, thread });
            };
            // SAFETY:
            // - The closure borrows `kernel`, for `'a`, and points to `state`.
            // - The coroutine is driven to completion or dropped (which unwinds it) before either is gone: it never
            //   leaves `routines`, except when it is done; and `routines` are dropped before `state`.
            unsafe { LaneRoutine::with_stack_unchecked(stack, body) }
        };
        let routines = (0..threads).map(routine).collect();
        Self { routines, state, books }
    }

    /// Lets it run for a while. `others`: whether another block could have the turn.
    pub fn run(&mut self, others: bool, order: &mut Order) -> Turn {
        std::mem::swap(&mut self.books, &mut self.state.books.borrow_mut().block);
        let turn = self.go_on(others, order);
        std::mem::swap(&mut self.books, &mut self.state.books.borrow_mut().block);
        turn
    }

    fn go_on(&mut self, others: bool, order: &mut Order) -> Turn {
        let Self { routines, state, .. } = self;
        for lane in &mut state.books.borrow_mut().block.lanes {
            if matches!(lane.state, LaneState::Paused(_)) {
                lane.state = LaneState::Runnable;
            }
        }
        let n_warps = routines.len() as u32 / 32;
        let mut able: Vec<u32> = (0..n_warps).collect();
        loop {
            while !able.is_empty() {
                let pick = order.below(able.len() as u32) as usize;
                let warp = able[pick];
                let rounds = 1 + order.below(MOST_ROUNDS);
                let mut goes_on = true;
                for _ in 0..rounds {
                    if !run_warp(state, routines, warp, order) {
                        return Turn::Over;
                    }
                    goes_on = answer(state, warp, order);
                    if state.books.borrow().violation.is_some() {
                        return Turn::Over;
                    }
                    if !goes_on {
                        break;
                    }
                }
                if !goes_on {
                    able.swap_remove(pick);
                }
            }
            match pass_barrier(state) {
                Turn::Able if others && order.below(BARRIERS_A_TURN) == 0 => return Turn::Able,
                Turn::Able => able.extend(0..n_warps),
                turn => return turn,
            }
        }
    }

    /// Where the block waits for another one: the first thread that does.
    pub fn waits_at(&self) -> Option<(u32, &'static std::panic::Location<'static>)> {
        self.books.lanes.iter().zip(0..).find_map(|(lane, thread)| match lane.state {
            LaneState::Paused(location) => Some((thread, location)),
            _ => None,
        })
    }

    /// Number of the block.
    pub const fn number(&self) -> u32 {
        self.state.block
    }

    /// Gives back what the next block can use. Lanes that are not done are unwound.
    pub fn end(self, stacks: &mut Stacks) -> BlockBooks {
        stacks.0.extend(self.routines.into_iter().filter(LaneRoutine::done).map(LaneRoutine::into_stack));
        self.books
    }
}

/// Resumes every lane of the warp that can run, once. False when a rule was broken.
fn run_warp(state: &BlockState<'_>, routines: &mut [LaneRoutine], warp: u32, order: &mut Order) -> bool {
    let draw = order.next() as u32;
    let (start, stride) = (draw % 32, (draw >> 8) | 1);
    for i in 0..32 {
        let lane = start.wrapping_add(stride.wrapping_mul(i)) % 32;
        let thread = warp * 32 + lane;
        if state.books.borrow().block.lanes[thread as usize].state != LaneState::Runnable {
            continue;
        }
        let routine = &mut routines[thread as usize];
        match catch_unwind(AssertUnwindSafe(|| routine.resume(()))) {
            Ok(CoroutineResult::Yield(())) => {}
            Ok(CoroutineResult::Return(())) => {
                state.books.borrow_mut().block.lanes[thread as usize].state = LaneState::Finished;
            }
            Err(payload) => {
                let message = payload
                    .downcast_ref::<String>()
                    .cloned()
                    .or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                    .unwrap_or_else(|| "with something that is no text".to_owned());
                fail(state, thread, None, Fault::Panicked(message));
            }
        }
        if state.books.borrow().violation.is_some() {
            return false;
        }
    }
    true
}

/// Notes a violation, unless there is one already.
fn fail(state: &BlockState<'_>, thread: u32, location: Option<&'static std::panic::Location<'static>>, fault: Fault) {
    let kernel = state.kernel.to_owned();
    state.books.borrow_mut().violation.get_or_insert(Violation { kernel, block: state.block, thread, location, fault });
}

/// Answers the collectives of a warp whose lanes are all parked. Gives whether any lane can run now.
fn answer(state: &BlockState<'_>, warp: u32, order: &mut Order) -> bool {
    let mut guard = state.books.borrow_mut();
    let books: &mut Books = &mut guard;
    let lanes = &mut books.block.lanes[(warp * 32) as usize..][..32];
    let mut waiting = 0u32;
    for (i, lane) in lanes.iter().enumerate() {
        if matches!(lane.state, LaneState::AtCollective(_)) {
            waiting |= 1 << i;
        }
    }
    let mut answered = false;
    let mut fault = None;
    let mut left: u32 = waiting;
    while left != 0 && fault.is_none() {
        let first = left.trailing_zeros();
        let LaneState::AtCollective(request) = lanes[first as usize].state else { break };
        let same = lanes_at(lanes, left, &request);
        left &= !same;
        if request.operation == Operation::ActiveMask {
            // Any part of those who wait, but not nobody.
            let some = same & order.next() as u32;
            let some = if some == 0 { 1 << first } else { some };
            for lane in bits(some) {
                lanes[lane].state = LaneState::Runnable;
                lanes[lane].answer = some;
            }
            answered = true;
            continue;
        }
        if same != request.mask {
            // Not all there yet, or never.
            continue;
        }
        fault = complete(lanes, &request);
        books.stats.collectives += 1;
        books.stats.collective_lanes += u64::from(same.count_ones());
        answered = true;
    }
    if answered || waiting == 0 {
        books.block.coalescers[warp as usize].flush(&mut books.stats, &mut books.touched);
    }
    drop(guard);
    if let Some((lane, location, fault)) = fault {
        fail(state, warp * 32 + lane, Some(location), fault);
    }
    answered
}

/// The lanes among `candidates` that wait at the very same collective.
fn lanes_at(lanes: &[Lane], candidates: u32, request: &Request) -> u32 {
    let mut same = 0;
    for i in bits(candidates) {
        if let LaneState::AtCollective(other) = lanes[i].state
            && other.operation == request.operation
            && other.mask == request.mask
            && other.location == request.location
        {
            same |= 1 << i;
        }
    }
    same
}

/// The numbers of the bits that are set.
fn bits(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (bit < 32).then_some(bit as usize)
    })
}

type LaneFault = (u32, &'static std::panic::Location<'static>, Fault);

/// All lanes of the mask are there: gives each its answer and lets it run.
fn complete(lanes: &mut [Lane], request: &Request) -> Option<LaneFault> {
    let mut asked = [(0, 0); 32];
    let mut ballot = 0;
    let mut sum = 0u32;
    for i in bits(request.mask) {
        if let LaneState::AtCollective(own) = lanes[i].state {
            asked[i] = (own.value, own.argument);
            ballot |= u32::from(own.value != 0) << i;
            sum = sum.wrapping_add(own.value);
        }
        lanes[i].state = LaneState::Runnable;
    }
    let mut fault = None;
    for i in bits(request.mask) {
        let lane = i as u32;
        let (value, argument) = asked[i];
        let mut shuffle = |source: Option<u32>| match source.filter(|&source| source < 32) {
            // Beyond the warp: the lane's own value.
            None => value,
            Some(source) if request.mask >> source & 1 == 1 => asked[source as usize].0,
            Some(source_lane) => {
                let (operation, mask) = (request.operation.name(), request.mask);
                fault.get_or_insert((lane, request.location, Fault::SourceNotInMask { operation, mask, source_lane }));
                0
            }
        };
        lanes[i].answer = match request.operation {
            Operation::SyncWarp | Operation::ActiveMask => 0,
            Operation::Ballot => ballot,
            Operation::ReduxAdd => sum,
            Operation::MatchAny => {
                bits(request.mask).filter(|&other| asked[other].0 == value).fold(0, |peers, other| peers | 1 << other)
            }
            Operation::ShuffleUp => shuffle(lane.checked_sub(argument)),
            Operation::ShuffleDown => shuffle(lane.checked_add(argument)),
            Operation::ShuffleIdx => shuffle(Some(argument % 32)),
            Operation::ShuffleXor => shuffle(Some((lane ^ argument) % 32)),
        };
    }
    if request.operation == Operation::SyncWarp {
        let mut seen = [0; 32];
        for k in bits(request.mask) {
            for (latest, &known) in seen.iter_mut().zip(&lanes[k].seen) {
                *latest = known.max(*latest);
            }
            seen[k] = seen[k].max(lanes[k].clock);
        }
        for k in bits(request.mask) {
            lanes[k].seen = seen;
            lanes[k].clock += 1;
        }
    }
    fault
}

/// No warp can go on. When all threads wait at one barrier, lets them run; else the block is done, waits for another, or
/// is stuck.
fn pass_barrier(state: &BlockState<'_>) -> Turn {
    let mut guard = state.books.borrow_mut();
    let Books { block: books, stats, touched, .. } = &mut *guard;
    if books.lanes.iter().all(|lane| lane.state == LaneState::Finished) {
        return Turn::Over;
    }
    let first = books.lanes[0].state;
    if matches!(first, LaneState::AtBarrier(_)) && books.lanes.iter().all(|lane| lane.state == first) {
        for lane in &mut books.lanes {
            lane.state = LaneState::Runnable;
        }
        books.epoch += 1;
        stats.barriers += 1;
        for coalescer in &mut books.coalescers {
            coalescer.flush(stats, touched);
        }
        return Turn::Able;
    }
    if books.lanes.iter().any(|lane| matches!(lane.state, LaneState::Paused(_))) {
        return Turn::Waits;
    }
    // Stuck. A collective that waits in vain says more than the barrier that others wait at because of it.
    let stuck_at_collective = books.lanes.iter().enumerate().find_map(|(thread, lane)| match lane.state {
        LaneState::AtCollective(request) => Some((thread as u32, request)),
        _ => None,
    });
    let (thread, location, fault) = if let Some((thread, request)) = stuck_at_collective {
        let warp = &books.lanes[(thread / 32 * 32) as usize..][..32];
        let missing = request.mask & !lanes_at(warp, request.mask, &request);
        let missing = missing.trailing_zeros() % 32;
        let (operation, mask) = (request.operation.name(), request.mask);
        let doing = warp[missing as usize].doing();
        (thread, request.location, Fault::DivergentCollective { operation, mask, missing, doing })
    } else {
        let waits = books.lanes.iter().enumerate().find_map(|(thread, lane)| match lane.state {
            LaneState::AtBarrier(location) => Some((thread as u32, location)),
            _ => None,
        });
        let Some((thread, location)) = waits else { return Turn::Over };
        let own = LaneState::AtBarrier(location);
        let missing = books.lanes.iter().position(|lane| lane.state != own).unwrap_or(0);
        let doing = books.lanes[missing].doing();
        (thread, location, Fault::MissedBarrier { missing: missing as u32, doing })
    };
    drop(guard);
    fail(state, thread, Some(location), fault);
    Turn::Over
}

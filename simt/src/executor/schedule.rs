//! The schedule of a block: which thread runs when, in an order drawn from a seed, and the answers
//! to collectives.
//!
//! A thread runs until it parks: at a collective, a barrier, or a `pause`. There is no need to
//! switch threads anywhere else. Two accesses whose order matters and that nothing orders are a
//! race, which is reported whatever the order was.
//!
//! Once all threads of a warp are parked, each collective is answered for which all lanes of the
//! mask wait at the same place in the source. When no warp can go on, all threads must be at the
//! same barrier; otherwise the block waits for another one, or is stuck, and the first thread that
//! can never go on is reported. At a barrier, another block may get its turn.
//!
//! # A block's turn, step by step
//!
//! 1. All warps are able to run. One is picked (if nothing is drawn, the one that ran last), and
//!    its threads are resumed one after the other, each until it parks.
//! 2. Its collectives are answered. If any was due, the warp can go on, for up to four rounds,
//!    after which another warp may be picked. If none was due, the warp is taken from the list: all
//!    its threads wait for something outside of the warp.
//! 3. When the list is empty, every thread of the block has finished or waits. If all wait at the
//!    same barrier, the epoch grows by one, and everything begins again.
//! 4. Otherwise the turn ends: the block is over, or waits for another block (`pause`), or is
//!    stuck, which is reported.
//!
//! # Why the order is drawn
//!
//! Races are found in any order. But a kernel can be wrong without a race: it may take it for
//! granted that warp 0 is first at an atomic counter, or that a block sees the flag of another one
//! soon. So seeds vary the order of blocks, warps and lanes, hold a warp or a block back for as
//! long as another can run, and split the answers of `active_mask`. A kernel that gives the same
//! result for many seeds does not depend on the order.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Once;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};

use crate::Shuffle;

use super::block::{
    BlockContext, BlockState, Collective, CollectiveCall, EmulatedBlock, LaunchState, Status,
    ThreadState,
};
use super::known::join;
use super::order::Order;
use super::violation::{Fault, Violation};

/// Size of a thread's stack in bytes. Only touched pages cost memory; formatting a panic message
/// needs some.
///
/// A block of 1024 threads reserves 256 MiB of addresses, of which a few pages per thread become
/// memory.
const STACK: usize = 256 * 1024;

/// Maximum number of rounds that a warp runs at a time; a round ends when all its threads are
/// parked.
const MOST_ROUNDS: u32 = 4;

type ThreadRoutine = Coroutine<(), (), (), DefaultStack>;

/// Stacks of threads that have finished, for later threads.
#[derive(Default)]
pub struct Stacks(Vec<DefaultStack>);

impl std::fmt::Debug for Stacks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Stacks").field(&self.0.len()).finish()
    }
}

/// State of a block at the end of its turn. Faults are in the launch's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// All threads have left the kernel, or a rule was broken.
    Over,
    /// The block can go on; it gives way to another at a barrier.
    Able,
    /// A thread waits for another block, and no thread can run before that.
    Waits,
}

/// Block that has begun and is not over.
pub struct RunningBlock<'a> {
    /// Dropped before `context` and before what `'a` borrows: see `begin`.
    routines: Vec<ThreadRoutine>,
    context: Rc<BlockContext<'a>>,
    /// State of the block while another block has the turn; during its own turn it is in the
    /// launch.
    state: BlockState,
}

impl<'a> RunningBlock<'a> {
    /// Makes the coroutines of a block's threads; they begin to run with the block's first turn.
    pub fn begin(
        context: BlockContext<'a>,
        kernel: &'a impl Fn(&EmulatedBlock<'_>),
        state: BlockState,
        stacks: &mut Stacks,
    ) -> Self {
        let threads = context.block_dim.0 * context.block_dim.1;
        let context = Rc::new(context);
        let routine = |thread| {
            let stack = stacks
                .0
                .pop()
                .unwrap_or_else(|| DefaultStack::new(STACK).expect("memory for a stack"));
            let context = Rc::clone(&context);
            let body = move |yielder: &corosensei::Yielder<(), ()>, ()| {
                kernel(&EmulatedBlock {
                    context: &context,
                    yielder,
                    thread,
                });
            };
            // SAFETY: the coroutine must not outlive what its closure borrows, which is borrowed
            // for `'a`.
            // - `RunningBlock<'a>` owns the coroutine and hands it out only in `end`, which either
            //   drops it or takes the stack of a finished one.
            // - Dropping an unfinished coroutine unwinds it, so that nothing of the closure is
            //   left.
            unsafe { ThreadRoutine::with_stack_unchecked(stack, body) }
        };
        let routines = (0..threads).map(routine).collect();
        Self {
            routines,
            context,
            state,
        }
    }

    /// Gives the block a turn. `others`: other blocks may be resident, which can have turns, too.
    pub fn run(&mut self, others: bool, order: &mut Order) -> Turn {
        std::mem::swap(&mut self.state, &mut self.context.launch.borrow_mut().block);
        let turn = self.go_on(others, order);
        std::mem::swap(&mut self.state, &mut self.context.launch.borrow_mut().block);
        turn
    }

    /// Runs warps, in a drawn order and a few rounds each, until none can go on; then, if every
    /// warp has reached the barrier, lets them pass it, and begins again.
    fn go_on(&mut self, others: bool, order: &mut Order) -> Turn {
        let Self {
            routines, context, ..
        } = self;
        for thread in &mut context.launch.borrow_mut().block.threads {
            if matches!(thread.status, Status::Paused(_)) {
                thread.status = Status::Runnable;
            }
        }
        let n_warps = routines.len() as u32 / 32;
        let named = |warp| format!("warp {warp} of block {}", context.block);
        let gives_way = |order: &mut Order| {
            order
                .rarely(1, |_| {
                    format!(
                        "block {} lets another one go on at a barrier",
                        context.block
                    )
                })
                .is_some()
        };
        let mut able: Vec<u32> = (0..n_warps).collect();
        loop {
            let held = order.rarely(n_warps, |warp| {
                format!("{} waits until no other can go on", named(warp))
            });
            let mut last = 0;
            while !able.is_empty() {
                // The plain choice: the warp that went on last.
                let n_able = able.len();
                let after = |steps: usize| (last + steps) % n_able;
                let switched = |steps| {
                    format!(
                        "{} goes on instead of {}",
                        named(able[after(steps)]),
                        named(able[after(0)])
                    )
                };
                let mut pick =
                    after(order.below(n_able as u32, |steps| switched(steps as usize)) as usize);
                if held == Some(able[pick]) {
                    pick = (pick + 1) % n_able;
                }
                last = pick;
                let warp = able[pick];
                let rounds = 1 + order.below(MOST_ROUNDS, |more| {
                    format!("{} goes on {more} times more", named(warp))
                });
                let mut goes_on = true;
                for _ in 0..rounds {
                    if !run_warp(context, routines, warp, order) {
                        return Turn::Over;
                    }
                    goes_on = answer(context, warp, order);
                    if context.launch.borrow().violation.is_some() {
                        return Turn::Over;
                    }
                    if !goes_on {
                        break;
                    }
                }
                if !goes_on {
                    able.remove(pick);
                }
            }
            match pass_barrier(context) {
                Turn::Able if others && gives_way(order) => return Turn::Able,
                Turn::Able => able.extend(0..n_warps),
                turn => return turn,
            }
        }
    }

    /// Returns the first thread that waits for another block, and its place in the source.
    pub fn waits_at(&self) -> Option<(u32, &'static std::panic::Location<'static>)> {
        self.state
            .threads
            .iter()
            .zip(0..)
            .find_map(|(thread, number)| match thread.status {
                Status::Paused(location) => Some((number, location)),
                _ => None,
            })
    }

    /// Returns the index of the block in the grid.
    pub fn number(&self) -> u32 {
        self.context.block
    }

    /// Ends the block: returns its state, and gives its stacks back, for later blocks. Threads that
    /// have not finished are unwound.
    pub fn end(self, stacks: &mut Stacks) -> BlockState {
        stacks.0.extend(
            self.routines
                .into_iter()
                .filter(ThreadRoutine::done)
                .map(ThreadRoutine::into_stack),
        );
        self.state
    }
}

/// Resumes each thread of the warp that can run, once, in a drawn order. Returns false if a rule
/// was broken.
///
/// The stride is odd and so visits each of 32 lanes once.
///
/// 32 is a power of two, so that an odd stride has no factor in common with it. For example, start
/// 5 and stride 3 visit lanes 5, 8, 11, … 29, 0, 3, …
fn run_warp(
    context: &BlockContext<'_>,
    routines: &mut [ThreadRoutine],
    warp: u32,
    order: &mut Order,
) -> bool {
    let draw = order.next() as u32;
    let (start, stride) = (draw % 32, (draw >> 8) | 1);
    if draw != 0 {
        order.note(|| {
            format!(
                "lanes of warp {warp} of block {} go on from {start} in steps of {}",
                context.block,
                stride % 32
            )
        });
    }
    for i in 0..32 {
        let lane = start.wrapping_add(stride.wrapping_mul(i)) % 32;
        let thread = warp * 32 + lane;
        {
            let block = &mut context.launch.borrow_mut().block;
            if block.threads[thread as usize].status != Status::Runnable {
                continue;
            }
            block.not_only_reads();
        }
        let routine = &mut routines[thread as usize];
        match catch_unwind(AssertUnwindSafe(|| routine.resume(()))) {
            Ok(CoroutineResult::Yield(())) => {}
            Ok(CoroutineResult::Return(())) => {
                context.launch.borrow_mut().block.threads[thread as usize].status =
                    Status::Finished;
            }
            Err(payload) => {
                let message = payload
                    .downcast_ref::<String>()
                    .cloned()
                    .or_else(|| {
                        payload
                            .downcast_ref::<&str>()
                            .map(|text| (*text).to_owned())
                    })
                    .unwrap_or_else(|| "with a payload that is not text".to_owned());
                fail(
                    context,
                    thread,
                    None,
                    Fault::Panicked(message, PANICKED_AT.take()),
                );
            }
        }
        if context.launch.borrow().violation.is_some() {
            return false;
        }
    }
    true
}

/// Records a violation, if there is none yet.
fn fail(
    context: &BlockContext<'_>,
    thread: u32,
    location: Option<&'static std::panic::Location<'static>>,
    fault: Fault,
) {
    let kernel = context.kernel.to_owned();
    context
        .launch
        .borrow_mut()
        .violation
        .get_or_insert(Violation {
            kernel,
            block: context.block,
            thread,
            location,
            fault,
        });
}

thread_local! {
    /// Place of the last panic on this CPU thread: `catch_unwind` gives the message only.
    static PANICKED_AT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Installs, once per process, a panic hook that records the place and then calls the previous
/// hook.
pub fn note_panics() {
    static ONCE: Once = Once::new();
    if !std::thread::panicking() {
        ONCE.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                PANICKED_AT.set(info.location().map(ToString::to_string));
                before(info);
            }));
        });
    }
}

/// Answers the collectives of a warp whose threads are all parked. Returns true if a thread can run
/// now.
///
/// Several collectives may be due at a time, since lanes that have diverged may wait at different
/// places or with different masks. `active_mask` has no mask to wait for: a random part of the
/// lanes that wait there gets the answer, and the others wait on, as hardware may split a warp
/// anywhere.
fn answer(context: &BlockContext<'_>, warp: u32, order: &mut Order) -> bool {
    let mut guard = context.launch.borrow_mut();
    let launch: &mut LaunchState = &mut guard;
    let lanes = &mut launch.block.threads[(warp * 32) as usize..][..32];
    let mut waiting = 0u32;
    for (i, lane) in lanes.iter().enumerate() {
        if matches!(lane.status, Status::AtCollective(_)) {
            waiting |= 1 << i;
        }
    }
    let mut answered = false;
    let mut fault = None;
    let mut left: u32 = waiting;
    while left != 0 && fault.is_none() {
        let first = left.trailing_zeros();
        let Status::AtCollective(request) = lanes[first as usize].status else {
            break;
        };
        let same = lanes_at(lanes, left, &request);
        left &= !same;
        if request.operation == Collective::ActiveMask {
            // Any part of the waiting lanes that is not empty; the plain choice is all lanes.
            let some = same & !order.next() as u32;
            let some = if some == 0 { 1 << first } else { some };
            if some != same {
                order.note(|| {
                    format!(
                        "active_mask of warp {warp} of block {} gives {some:#010x}",
                        context.block
                    )
                });
            }
            for lane in bits(some) {
                lanes[lane].status = Status::Runnable;
                lanes[lane].answer = some;
            }
            answered = true;
            continue;
        }
        if same != request.mask {
            continue;
        }
        fault = complete(lanes, &request);
        launch.stats.collectives += 1;
        launch.stats.collective_lanes += u64::from(same.count_ones());
        answered = true;
    }
    if answered || waiting == 0 {
        launch.block.coalescers[warp as usize].flush(&mut launch.stats, &mut launch.touched);
    }
    drop(guard);
    if let Some((lane, location, fault)) = fault {
        fail(context, warp * 32 + lane, Some(location), fault);
    }
    answered
}

/// Returns the lanes among `candidates` that wait at the same collective with the same mask.
fn lanes_at(lanes: &[ThreadState], candidates: u32, request: &CollectiveCall) -> u32 {
    let mut same = 0;
    for i in bits(candidates) {
        if let Status::AtCollective(other) = lanes[i].status
            && other.operation.is_same(request.operation)
            && other.mask == request.mask
            && other.location == request.location
        {
            same |= 1 << i;
        }
    }
    same
}

/// Describes the threads of a block that are `chosen`: by warp if each warp has all of its threads
/// or none among them.
fn describe_threads(chosen: impl Iterator<Item = bool>) -> String {
    let chosen: Vec<bool> = chosen.collect();
    let by_warp = chosen
        .chunks(32)
        .all(|warp| warp.iter().all(|&one| one == warp[0]));
    let (of, unit) = if by_warp {
        (chosen.iter().copied().step_by(32).collect(), "warp")
    } else {
        (chosen, "thread")
    };
    let numbers: Vec<usize> = (0..of.len()).filter(|&i| of[i]).collect();
    let all = of.len();
    match numbers[..] {
        [only] => format!("{unit} {only} of {all}"),
        [first, .., last] => format!("{} of {all} {unit}s ({first} to {last})", numbers.len()),
        [] => format!("no {unit}"),
    }
}

/// Iterates over the numbers of the bits that are set, in ascending order.
fn bits(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (bit < 32).then_some(bit as usize)
    })
}

/// Lane, place in the source, and fault.
type ThreadFault = (u32, &'static std::panic::Location<'static>, Fault);

/// Completes a collective that all warp lanes of the mask have reached: gives each its answer and
/// lets it run.
fn complete(lanes: &mut [ThreadState], request: &CollectiveCall) -> Option<ThreadFault> {
    let mut asked = [(0, request.operation); 32];
    let mut ballot = 0;
    let mut sum = 0u32;
    for i in bits(request.mask) {
        if let Status::AtCollective(own) = lanes[i].status {
            asked[i] = (own.value, own.operation);
            ballot |= u32::from(own.value != 0) << i;
            sum = sum.wrapping_add(own.value);
        }
        lanes[i].status = Status::Runnable;
    }
    let mut fault = None;
    for i in bits(request.mask) {
        let lane = i as u32;
        let (value, operation) = asked[i];
        let mut shuffle = |source: Option<u32>| match source.filter(|&source| source < 32) {
            // Beyond the warp, the thread's own value.
            None => value,
            Some(source) if request.mask >> source & 1 == 1 => asked[source as usize].0,
            Some(source_lane) => {
                let (operation, mask) = (request.operation.name(), request.mask);
                fault.get_or_insert((
                    lane,
                    request.location,
                    Fault::SourceNotInMask {
                        operation,
                        mask,
                        source_lane,
                    },
                ));
                0
            }
        };
        lanes[i].answer = match operation {
            Collective::SyncWarp | Collective::ActiveMask => 0,
            Collective::Ballot => ballot,
            Collective::ReduxAdd => sum,
            Collective::MatchAny => bits(request.mask)
                .filter(|&other| asked[other].0 == value)
                .fold(0, |peers, other| peers | 1 << other),
            Collective::Shuffle(Shuffle::Up(delta)) => shuffle(lane.checked_sub(delta)),
            Collective::Shuffle(Shuffle::Down(delta)) => shuffle(lane.checked_add(delta)),
            Collective::Shuffle(Shuffle::Index(source)) => shuffle(Some(source % 32)),
            Collective::Shuffle(Shuffle::Xor(flipped)) => shuffle(Some((lane ^ flipped) % 32)),
        };
    }
    // Only `sync_warp` orders memory accesses. Every lane now knows what any lane of the mask knew,
    // and is ordered after every access that these lanes have made so far.
    if request.operation == Collective::SyncWarp {
        let (mut seen, mut known) = ([0; 32], None);
        // The clocks of all lanes go on from the highest, because a record that several lanes share
        // keeps only the highest clock (see `Toucher::enter`).
        let clock = bits(request.mask)
            .map(|k| lanes[k].clock)
            .max()
            .unwrap_or(0);
        for k in bits(request.mask) {
            for (latest, &known) in seen.iter_mut().zip(&lanes[k].seen) {
                *latest = known.max(*latest);
            }
            join(&mut known, &lanes[k].known);
        }
        for k in bits(request.mask) {
            seen[k] = clock;
        }
        for k in bits(request.mask) {
            lanes[k].seen = seen;
            lanes[k].clock = clock + 1;
            lanes[k].known.clone_from(&known);
        }
    }
    fault
}

/// Lets all threads run if they wait at one barrier; otherwise finds out why no warp of the block
/// can go on.
fn pass_barrier(context: &BlockContext<'_>) -> Turn {
    let mut guard = context.launch.borrow_mut();
    let LaunchState {
        block,
        stats,
        touched,
        ..
    } = &mut *guard;
    if block
        .threads
        .iter()
        .all(|thread| thread.status == Status::Finished)
    {
        return Turn::Over;
    }
    let first = block.threads[0].status;
    if matches!(first, Status::AtBarrier(_))
        && block.threads.iter().all(|thread| thread.status == first)
    {
        let mut known = None;
        block
            .threads
            .iter()
            .for_each(|thread| join(&mut known, &thread.known));
        for thread in &mut block.threads {
            thread.status = Status::Runnable;
            thread.known.clone_from(&known);
        }
        block.epoch += 1;
        stats.barriers += 1;
        for coalescer in &mut block.coalescers {
            coalescer.flush(stats, touched);
        }
        return Turn::Able;
    }
    if block
        .threads
        .iter()
        .any(|thread| matches!(thread.status, Status::Paused(_)))
    {
        return Turn::Waits;
    }
    // The block is stuck. If a collective can never complete, it is the cause, and threads that
    // wait at a barrier wait because of it.
    let stuck_at_collective = block
        .threads
        .iter()
        .enumerate()
        .find_map(|(number, thread)| match thread.status {
            Status::AtCollective(request) => Some((number as u32, request)),
            _ => None,
        });
    let (thread, location, fault) = if let Some((thread, request)) = stuck_at_collective {
        let warp = &block.threads[(thread / 32 * 32) as usize..][..32];
        let missing = request.mask & !lanes_at(warp, request.mask, &request);
        let missing = missing.trailing_zeros() % 32;
        let (operation, mask) = (request.operation.name(), request.mask);
        let doing = warp[missing as usize].doing();
        (
            thread,
            request.location,
            Fault::DivergentCollective {
                operation,
                mask,
                missing,
                doing,
            },
        )
    } else {
        let waits = block
            .threads
            .iter()
            .enumerate()
            .find_map(|(number, thread)| match thread.status {
                Status::AtBarrier(location) => Some((number as u32, location)),
                _ => None,
            });
        let Some((thread, location)) = waits else {
            return Turn::Over;
        };
        let own = Status::AtBarrier(location);
        let missing = block
            .threads
            .iter()
            .position(|thread| thread.status != own)
            .unwrap_or(0);
        let doing = block.threads[missing].doing();
        let reached_by = describe_threads(block.threads.iter().map(|thread| thread.status == own));
        (
            thread,
            location,
            Fault::MissedBarrier {
                reached_by,
                missing: missing as u32,
                doing,
            },
        )
    };
    drop(guard);
    fail(context, thread, Some(location), fault);
    Turn::Over
}

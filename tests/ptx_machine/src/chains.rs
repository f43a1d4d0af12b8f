//! Loads of global memory that a block has to wait for.
//!
//! The truth lies between two numbers, because the assembler may move a load, but never ahead of the loads that its address
//! depends on:
//! - **chain**: the longest chain of loads in which each address depends on the load before, through registers, shuffles and
//!   shared memory. Reordering instructions cannot shorten it. Dependence through branches is not counted.
//! - **waits**: the memory latencies that pass if every warp issues its instructions in program order, continues past a load,
//!   and stalls at the first instruction that needs a value which has not arrived. Consecutive loads that no instruction in
//!   between needs are one wait; a loop that loads and uses is one for each turn. Other instructions cost nothing.
//!
//! An atomic on global memory counts as a load if its old value is used. A load of what the block itself wrote to global
//! memory begins a new chain.

use super::parse::{Instruction, Kind, Operand, Space};
use super::{Counts, Entry};

/// Facts about a value: the length of the chain of loads it depends on, and when it arrives, in latencies from the start.
#[derive(Clone, Copy, Default)]
struct Value {
    chain: u32,
    ready: u32,
}

/// The chains of a block.
pub struct Chains {
    lanes: Vec<Lane>,
    /// By byte of shared memory.
    shared: Vec<u32>,
    /// Longest chain of a load so far.
    longest: u32,
    /// Longest chain of a load before the last barrier.
    longest_at_barrier: u32,
}

struct Lane {
    registers: Vec<Value>,
    /// Latencies that it has waited for.
    now: u32,
}

impl Chains {
    pub fn new(entry: &Entry, threads: u32, shared_bytes: u32) -> Self {
        let lane = |_| Lane { registers: vec![Value::default(); entry.n_registers], now: 0 };
        Self {
            lanes: (0..threads).map(lane).collect(),
            shared: vec![0; shared_bytes as usize],
            longest: 0,
            longest_at_barrier: 0,
        }
    }

    /// A lane asks whether to do an instruction.
    pub fn guard(&mut self, lane: usize, instruction: &Instruction) {
        if let Some((predicate, _)) = instruction.guard {
            self.lanes[lane].wait(predicate);
        }
    }

    /// A lane does an instruction, at `address` if it is an access. (A collective it only comes to.)
    pub fn follow(&mut self, lane: usize, instruction: &Instruction, address: u64, counts: &mut Counts) {
        let Self { lanes, shared, longest, .. } = self;
        let lane = &mut lanes[lane];
        let mut value = Value { chain: lane.chain(&instruction.kind), ready: 0 };
        let kind = &instruction.kind;
        reads(kind, |operand| {
            if let Operand::Register(register) = operand {
                lane.wait(*register);
            }
        });
        if let Kind::Load { space: Space::Global, .. } | Kind::Atomic { space: Space::Global, .. } = kind {
            value.chain += 1;
            value.ready = lane.now + 1;
            *longest = value.chain.max(*longest);
        }
        if let Kind::Store { space: Space::Global, relaxed: true, .. } = kind
            && counts.told == 0
        {
            // A lane that goes first may not have seen what others did since the barrier.
            (counts.told, counts.chain_told, counts.waits_told) = (1, self.longest_at_barrier.into(), lane.now.into());
        }
        if let Some(bytes) = shared_bytes(kind, address).and_then(|range| shared.get_mut(range)) {
            let is_store = !matches!(kind, Kind::Load { .. });
            value.chain = bytes.iter().copied().fold(if is_store { value.chain } else { 0 }, u32::max).max(value.chain);
            if is_store {
                bytes.fill(value.chain);
            }
        }
        writes(kind, |register| lane.registers[register] = value);
    }

    /// The lanes of a collective go on together.
    pub fn join(&mut self, members: &[usize], instruction: &Instruction) {
        let of = |lane: &usize| (self.lanes[*lane].now, self.lanes[*lane].chain(&instruction.kind));
        let (now, chain) = members.iter().map(of).fold((0, 0), |a, b| (a.0.max(b.0), a.1.max(b.1)));
        for &member in members {
            let lane = &mut self.lanes[member];
            lane.now = now;
            writes(&instruction.kind, |register| lane.registers[register] = Value { chain, ready: now });
        }
    }

    /// All threads are at a barrier, or at the end.
    pub fn barrier(&mut self, counts: &mut Counts) {
        let now = self.lanes.iter().map(|lane| lane.now).max().unwrap_or(0);
        self.lanes.iter_mut().for_each(|lane| lane.now = now);
        self.longest_at_barrier = self.longest;
        (counts.chain, counts.waits) = (self.longest.into(), now.into());
    }
}

impl Lane {
    fn wait(&mut self, register: usize) {
        self.now = self.now.max(self.registers[register].ready);
    }

    /// The longest chain of what an instruction reads.
    fn chain(&self, kind: &Kind) -> u32 {
        let mut chain = 0;
        reads(kind, |operand| {
            if let Operand::Register(register) = operand {
                chain = chain.max(self.registers[*register].chain);
            }
        });
        chain
    }
}

fn shared_bytes(kind: &Kind, address: u64) -> Option<std::ops::Range<usize>> {
    let bytes = match kind {
        Kind::Load { space: Space::Shared, ty, to, .. } => ty.bytes() * to.iter().flatten().count(),
        Kind::Store { space: Space::Shared, ty, .. } | Kind::Atomic { space: Space::Shared, ty, .. } => ty.bytes(),
        _ => return None,
    };
    Some(address as usize..address as usize + bytes)
}

/// Shows each operand that an instruction reads.
fn reads(kind: &Kind, mut show: impl FnMut(&Operand)) {
    match kind {
        Kind::Compute { from, .. } => from.iter().for_each(show),
        Kind::Unpack { from, .. } | Kind::BranchByIndex(from, _) | Kind::WarpBarrier(from) => show(from),
        Kind::Load { base, .. } => show(base),
        Kind::Store { base, from, .. } | Kind::Atomic { base, from, .. } => [base, from].into_iter().for_each(show),
        Kind::Ballot { predicate: value, mask, .. }
        | Kind::Match { value, mask, .. }
        | Kind::ReduxAdd { value, mask, .. } => [value, mask].into_iter().for_each(show),
        Kind::Shuffle { value, by, clamp, mask, .. } => [value, by, clamp, mask].into_iter().for_each(show),
        Kind::LoadParameter { .. } | Kind::Branch(_) | Kind::Pause | Kind::Return | Kind::Barrier => {}
    }
}

/// Shows each register that an instruction writes.
fn writes(kind: &Kind, mut show: impl FnMut(usize)) {
    match kind {
        Kind::Compute { to, .. }
        | Kind::LoadParameter { to, .. }
        | Kind::Atomic { to, .. }
        | Kind::Ballot { to, .. }
        | Kind::Shuffle { to, .. }
        | Kind::Match { to, .. }
        | Kind::ReduxAdd { to, .. } => show(*to),
        Kind::Unpack { low, high, .. } => [low, high].into_iter().flatten().for_each(|&to| show(to)),
        Kind::Load { to, .. } => to.iter().flatten().for_each(|&to| show(to)),
        Kind::Store { .. }
        | Kind::Branch(_)
        | Kind::BranchByIndex(..)
        | Kind::Pause
        | Kind::Return
        | Kind::Barrier
        | Kind::WarpBarrier(_) => {}
    }
}

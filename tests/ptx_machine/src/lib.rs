//! Runs PTX on the CPU, slowly and with checks. It knows the part of the language that rustc writes
//! for kernels.
//!
//! | step | |
//! |---|---|
//! | [`Program::new`] | reads a PTX text; [`Program::parameters`] are the sizes that an entry expects |
//! | [`Memory`] | global memory: [`put`](Memory::put) arrays, [`get`](Memory::get) them back |
//! | [`bytes_of`] | arguments by value: numbers, addresses, `repr(C)` structs |
//! | [`Program::launch`] | runs an entry to its end, and returns [`Counts`] of each block |
//!
//! The executor of `simt` tests a kernel's source; this machine tests the compiler's output, and
//! the way from the host's argument structs to the entries' parameters. Lanes run one by one, each
//! until it comes to a barrier or collective, which is done when all lanes of its mask wait there
//! with the same mask. Anything that hardware leaves undefined, and any access outside an
//! allocation or not aligned to its size, is a panic that quotes the line.
//!
//! On demand it counts the instructions that warps issue, as if lanes that diverge converged again
//! at once: between two collectives, an instruction counts as often as the lane that executes it
//! most often. It also counts the critical path (the largest number that one warp issues between
//! two barriers), bank conflicts, and sectors of global memory.

mod bytes;
mod compute;
mod counts;
mod memory;
mod parse;

use std::collections::HashMap;
use std::sync::Mutex;

pub use bytes::{bytes_of, copied};
use compute::compute;
use counts::Accesses;
pub use counts::Counts;
use memory::Touch;
pub use memory::{Address, Memory};
use parse::{Instruction, Kind, Operand, Shuffle, Space, Special};

/// Maximum number of instructions from one collective to the next; a lane with more is in a loop
/// without end.
const MAX_STEPS: u32 = 50_000_000;

/// Entry points of a PTX text. Several threads may launch from one, each with its own [`Memory`].
#[expect(missing_debug_implementations, reason = "pages of instructions")]
pub struct Program {
    entries: HashMap<String, Entry>,
}

/// One entry point.
struct Entry {
    /// Sizes of the parameters.
    parameters: Vec<usize>,
    n_registers: usize,
    code: Vec<Instruction>,
    /// Number of issues of each instruction, in all launches in which they were counted.
    issued: Mutex<Vec<u64>>,
}

/// Shape of a launch, and options for running it.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// Number of blocks.
    pub grid: u32,
    /// Number of threads of a block in x and y; the product must be a multiple of 32, at most 1024.
    pub block: (u32, u32),
    /// Size of a block's dynamic shared memory in bytes.
    pub shared_bytes: u32,
    /// Index of the block and of the lane that run first; the others follow in the order of their
    /// numbers.
    pub turn: u32,
    /// Also counts instructions and accesses.
    pub counts: bool,
}

impl Program {
    /// Reads the entry points of `text`.
    ///
    /// # Panics
    /// At the first instruction that the machine does not know; the message has its line.
    pub fn new(text: &str) -> Self {
        Self {
            entries: parse::entries(text),
        }
    }

    /// Returns the sizes of the parameters of an entry in bytes; `None` if there is no such entry.
    pub fn parameters(&self, name: &str) -> Option<&[usize]> {
        self.entries
            .get(name)
            .map(|entry| entry.parameters.as_slice())
    }

    /// Returns the instructions of an entry with the number of times that warps issued each, over
    /// all launches that counted.
    pub fn issued(&self, name: &str) -> Vec<(&str, u64)> {
        let Some(entry) = self.entries.get(name) else {
            return Vec::new();
        };
        let issued = entry.issued.lock().expect("no thread panicked");
        entry
            .code
            .iter()
            .map(|of| of.line.as_str())
            .zip(issued.iter().copied())
            .collect()
    }

    /// Runs an entry to its end; `arguments` are the bytes of each parameter. Returns the counts of
    /// each block in the order in which the blocks ran. Without [`Launch::counts`], only barriers
    /// are counted.
    ///
    /// # Panics
    /// If the kernel does anything that hardware leaves undefined, or if the arguments or the shape
    /// do not fit it.
    pub fn launch(
        &self,
        memory: &mut Memory,
        name: &str,
        launch: Launch,
        arguments: &[Vec<u8>],
    ) -> Vec<Counts> {
        self.launch_rows(memory, name, launch, launch.grid, arguments)
    }

    /// Runs an entry as [`launch`](Self::launch) does, on a grid of two dimensions: with `grid_x`
    /// blocks in a row.
    pub fn launch_rows(
        &self,
        memory: &mut Memory,
        name: &str,
        launch: Launch,
        grid_x: u32,
        arguments: &[Vec<u8>],
    ) -> Vec<Counts> {
        let entry = self
            .entries
            .get(name)
            .unwrap_or_else(|| panic!("no entry {name}"));
        let sizes: Vec<_> = arguments.iter().map(Vec::len).collect();
        assert_eq!(sizes, entry.parameters, "sizes of the arguments of {name}");
        memory.begin_launch();
        let threads = launch.block.0 * launch.block.1;
        assert!(
            threads.is_multiple_of(32) && (32..=1024).contains(&threads),
            "{launch:?}"
        );
        let mut all = Vec::new();
        for i in 0..launch.grid {
            let index = (i + launch.turn) % launch.grid;
            let mut block = Block {
                name,
                entry,
                memory,
                arguments,
                launch,
                grid_x,
                index,
                // No kernel may depend on the initial contents.
                shared: vec![0xA5; launch.shared_bytes as usize],
                lanes: (0..threads)
                    .map(|thread| Lane::new(entry, thread, launch.counts))
                    .collect(),
                counts: Counts::default(),
                paths: vec![0; threads as usize / 32],
                accesses: (0..threads / 32).map(|_| Accesses::default()).collect(),
            };
            block.run();
            all.push(block.counts);
        }
        all
    }
}

struct Block<'a> {
    name: &'a str,
    entry: &'a Entry,
    memory: &'a mut Memory,
    arguments: &'a [Vec<u8>],
    launch: Launch,
    /// Number of blocks in a row of the grid.
    grid_x: u32,
    index: u32,
    shared: Vec<u8>,
    lanes: Vec<Lane>,
    counts: Counts,
    /// Instructions that each warp issued since the last barrier.
    paths: Vec<u64>,
    /// Accesses of the lanes of each warp since its last collective.
    accesses: Vec<Accesses>,
}

struct Lane {
    thread: u32,
    pc: usize,
    state: State,
    registers: Vec<u64>,
    /// Number of executions of each instruction since the last collective of the warp; empty if the
    /// launch does not count.
    done: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    /// At the collective at `pc`.
    Waiting,
    Done,
}

impl Lane {
    fn new(entry: &Entry, thread: u32, counts: bool) -> Self {
        let done = vec![0; if counts { entry.code.len() } else { 0 }];
        Self {
            thread,
            pc: 0,
            state: State::Running,
            registers: vec![0; entry.n_registers],
            done,
        }
    }
}

impl Block<'_> {
    fn run(&mut self) {
        let n = self.lanes.len();
        loop {
            for i in 0..n {
                let lane = (i + self.launch.turn as usize) % n;
                if self.lanes[lane].state == State::Running {
                    self.advance(lane);
                }
            }
            if self.lanes.iter().all(|lane| lane.state == State::Done) {
                (0..n / 32).for_each(|warp| self.count(warp));
                self.end_path();
                return;
            }
            let collected = (0..n / 32)
                .map(|warp| self.warp_collectives(warp))
                .fold(false, |any, did| any | did);
            if !collected && !self.barrier() {
                let waiting = self
                    .lanes
                    .iter()
                    .filter(|lane| lane.state == State::Waiting);
                let mut lines: Vec<_> = waiting
                    .map(|lane| self.entry.code[lane.pc].line.as_str())
                    .collect();
                lines.dedup();
                panic!(
                    "{}, block {}: no thread can go on; some wait at {lines:?}",
                    self.name, self.index
                );
            }
        }
    }

    /// Runs a lane up to its next barrier, collective or end.
    fn advance(&mut self, lane: usize) {
        let entry = self.entry;
        for _ in 0..MAX_STEPS {
            let pc = self.lanes[lane].pc;
            if let Some(done) = self.lanes[lane].done.get_mut(pc) {
                *done += 1;
            }
            let instruction = &entry.code[pc];
            let registers = &self.lanes[lane].registers;
            if instruction
                .guard
                .is_some_and(|(predicate, wanted)| (registers[predicate] != 0) != wanted)
            {
                self.lanes[lane].pc += 1;
                continue;
            }
            match &instruction.kind {
                Kind::Branch(target) => self.lanes[lane].pc = *target,
                Kind::BranchByIndex(index, targets) => {
                    let index = self.value(lane, index) as usize;
                    self.lanes[lane].pc = targets[index];
                }
                Kind::Return => {
                    self.lanes[lane].state = State::Done;
                    return;
                }
                Kind::Barrier
                | Kind::WarpBarrier(_)
                | Kind::Ballot { .. }
                | Kind::Shuffle { .. }
                | Kind::Match { .. }
                | Kind::ReduxAdd { .. } => {
                    self.lanes[lane].state = State::Waiting;
                    return;
                }
                _ => {
                    self.execute(lane, instruction);
                    self.lanes[lane].pc += 1;
                }
            }
        }
        panic!("{}, block {}: a lane goes on and on", self.name, self.index);
    }

    fn value(&self, lane: usize, operand: &Operand) -> u64 {
        let Lane {
            thread, registers, ..
        } = &self.lanes[lane];
        let (x, y) = self.launch.block;
        match operand {
            Operand::Register(register) => registers[*register],
            Operand::Value(value) => *value,
            Operand::Special(special) => u64::from(match special {
                Special::ThreadX => thread % x,
                Special::ThreadY => thread / x,
                Special::BlockDimX => x,
                Special::BlockDimY => y,
                Special::BlockX => self.index % self.grid_x,
                Special::BlockY => self.index / self.grid_x,
                Special::GridX => self.grid_x,
                Special::GridY => self.launch.grid / self.grid_x,
                Special::Lane => thread % 32,
                Special::LanesBelow => (1 << (thread % 32)) - 1,
            }),
        }
    }

    /// Returns the address that an access touches, and 0 for other instructions.
    fn address(&self, lane: usize, kind: &Kind) -> u64 {
        match kind {
            Kind::Load { base, offset, .. }
            | Kind::Store { base, offset, .. }
            | Kind::Atomic { base, offset, .. } => {
                self.value(lane, base).wrapping_add_signed(*offset)
            }
            _ => 0,
        }
    }

    fn execute(&mut self, lane: usize, instruction: &Instruction) {
        let line = &instruction.line;
        match &instruction.kind {
            Kind::Compute { op, ty, to, from } => {
                let values = [0, 1, 2, 3]
                    .map(|i| from.get(i).map_or(0, |operand| self.value(lane, operand)));
                self.lanes[lane].registers[*to] = compute(*op, *ty, values);
            }
            Kind::Unpack {
                low,
                high,
                from,
                half_bits,
            } => {
                let value = self.value(lane, from);
                let mask = (1 << half_bits) - 1;
                for (half, value) in [(low, value & mask), (high, value >> half_bits & mask)] {
                    if let Some(half) = half {
                        self.lanes[lane].registers[*half] = value;
                    }
                }
            }
            Kind::LoadParameter {
                ty,
                to,
                parameter,
                offset,
            } => {
                let bytes = &self.arguments[*parameter][*offset..*offset + ty.bytes()];
                self.lanes[lane].registers[*to] = little_endian(bytes);
            }
            Kind::Load {
                space,
                read_only,
                ty,
                to,
                ..
            } => {
                let address = self.address(lane, &instruction.kind);
                let touch = if *read_only {
                    Touch::ReadOnly
                } else {
                    Touch::Read
                };
                let size = ty.bytes() * to.iter().flatten().count();
                self.touch(lane, *space, address, size);
                let bytes = self.bytes(*space, address, size, touch, line);
                let mut values = [0; 4];
                for (value, bytes) in values.iter_mut().zip(bytes.chunks_exact(ty.bytes())) {
                    *value = little_endian(bytes);
                }
                for (to, value) in to.iter().flatten().zip(values) {
                    self.lanes[lane].registers[*to] = value;
                }
            }
            Kind::Store {
                space, ty, from, ..
            } => {
                let address = self.address(lane, &instruction.kind);
                let size = ty.bytes();
                self.touch(lane, *space, address, size * from.len());
                let mut values = [0; 4];
                for (value, operand) in values.iter_mut().zip(from) {
                    *value = self.value(lane, operand);
                }
                let bytes = self.bytes(*space, address, size * from.len(), Touch::Write, line);
                for (bytes, value) in bytes.chunks_exact_mut(size).zip(values) {
                    bytes.copy_from_slice(&value.to_le_bytes()[..size]);
                }
            }
            Kind::Atomic {
                space,
                op,
                ty,
                to,
                from,
                new,
                ..
            } => {
                let address = self.address(lane, &instruction.kind);
                let value = self.value(lane, from);
                let new = new.as_ref().map_or(0, |new| self.value(lane, new));
                self.touch(lane, *space, address, ty.bytes());
                let bytes = self.bytes(*space, address, ty.bytes(), Touch::Write, line);
                let old = little_endian(bytes);
                let new = compute(*op, *ty, [old, value, new, 0]);
                bytes.copy_from_slice(&new.to_le_bytes()[..bytes.len()]);
                self.lanes[lane].registers[*to] = old;
            }
            Kind::Pause => {}
            _ => unreachable!("{line}"),
        }
    }

    fn bytes(
        &mut self,
        space: Space,
        address: u64,
        size: usize,
        touch: Touch,
        line: &str,
    ) -> &mut [u8] {
        let (name, block) = (self.name, self.index);
        assert!(
            address.is_multiple_of(size as u64),
            "{name}, block {block}: not aligned: {line}"
        );
        match space {
            Space::Global => {
                let bytes = self.memory.bytes(address, size, touch);
                bytes.unwrap_or_else(|fault| panic!("{name}, block {block}: {fault}: {line}"))
            }
            Space::Shared => {
                let range = address as usize..address as usize + size;
                self.shared
                    .get_mut(range)
                    .unwrap_or_else(|| panic!("{name}, block {block}: outside of shared: {line}"))
            }
        }
    }

    /// Adds the instructions and accesses of a warp since its last collective.
    fn count(&mut self, warp: usize) {
        let lanes = &mut self.lanes[32 * warp..32 * warp + 32];
        let mut issued = self.entry.issued.lock().expect("no thread panicked");
        for pc in 0..lanes[0].done.len() {
            let done = lanes
                .iter_mut()
                .map(|lane| u64::from(std::mem::take(&mut lane.done[pc])));
            let (most, sum) = done.fold((0, 0), |(most, sum), n| (n.max(most), sum + n));
            self.counts.issued += most;
            self.counts.lanes += sum;
            issued[pc] += most;
            self.paths[warp] += most;
        }
        self.accesses[warp].count(&mut self.counts);
    }

    /// Adds the longest path since the last barrier, when the block is at a barrier or at its end.
    fn end_path(&mut self) {
        self.counts.path += self.paths.iter().max().copied().unwrap_or(0);
        self.paths.fill(0);
    }

    /// Records an access of a lane, if accesses are counted.
    fn touch(&mut self, lane: usize, space: Space, address: u64, bytes: usize) {
        if !self.launch.counts {
            return;
        }
        // `done` counts an instruction before it is executed.
        let pc = self.lanes[lane].pc;
        let visit = self.lanes[lane].done[pc];
        self.accesses[lane / 32].add(space, pc, visit, lane % 32, address, bytes);
    }

    /// Lets the threads of the block pass a barrier, if all have arrived.
    fn barrier(&mut self) -> bool {
        let pc = self.lanes[0].pc;
        let there = |lane: &Lane| lane.state == State::Waiting && lane.pc == pc;
        if !matches!(self.entry.code[pc].kind, Kind::Barrier) || !self.lanes.iter().all(there) {
            return false;
        }
        (0..self.lanes.len() / 32).for_each(|warp| self.count(warp));
        self.end_path();
        self.counts.barriers += 1;
        for lane in &mut self.lanes {
            lane.state = State::Running;
            lane.pc += 1;
        }
        true
    }

    /// Executes each collective of a warp for which all lanes of the mask have arrived. Returns
    /// true if there was one.
    fn warp_collectives(&mut self, warp: usize) -> bool {
        let mut any = false;
        for first in 32 * warp..32 * warp + 32 {
            if self.lanes[first].state != State::Waiting {
                continue;
            }
            let pc = self.lanes[first].pc;
            let instruction = &self.entry.code[pc];
            let Some(mask) = instruction.kind.mask() else {
                continue;
            };
            let mask_of = |lane: usize| self.value(lane, mask) as u32;
            let mask = mask_of(first);
            assert!(
                (mask >> (first % 32)) & 1 == 1,
                "{}: not in its own mask: {}",
                self.name,
                instruction.line
            );
            let members: Vec<_> = (0..32)
                .filter(|lane| (mask >> lane) & 1 == 1)
                .map(|lane| 32 * warp + lane)
                .collect();
            let is_there = |&lane: &usize| {
                self.lanes[lane].state == State::Waiting
                    && self.lanes[lane].pc == pc
                    && mask_of(lane) == mask
            };
            if !members.iter().all(is_there) {
                continue;
            }
            let entry = self.entry;
            self.count(warp);
            self.collective(&entry.code[pc], &members, mask);
            for &lane in &members {
                self.lanes[lane].state = State::Running;
                self.lanes[lane].pc += 1;
            }
            any = true;
        }
        any
    }

    fn collective(&mut self, instruction: &Instruction, members: &[usize], mask: u32) {
        let results: Vec<(usize, u64)> = match &instruction.kind {
            Kind::Ballot { to, predicate, .. } => {
                let bit =
                    |&lane: &usize| u64::from(self.value(lane, predicate) != 0) << (lane % 32);
                let ballot = members.iter().map(bit).sum();
                members.iter().map(|_| (*to, ballot)).collect()
            }
            Kind::Shuffle {
                mode,
                to,
                value,
                by,
                clamp,
                ..
            } => {
                let of = |&lane: &usize| {
                    let (own, by) = (lane as u32 % 32, self.value(lane, by) as u32 & 31);
                    let clamp = self.value(lane, clamp) as u32 & 31;
                    let (from, is_inside) = match mode {
                        Shuffle::Up => (own.wrapping_sub(by), own >= by + clamp),
                        Shuffle::Down => (own + by, own + by <= clamp),
                        Shuffle::Index => (by, by <= clamp),
                        Shuffle::Xor => (own ^ by, own ^ by <= clamp),
                    };
                    let from = if is_inside { from } else { own };
                    assert!(
                        (mask >> from) & 1 == 1,
                        "{}: from a lane outside of the mask: {}",
                        self.name,
                        instruction.line
                    );
                    (*to, self.value(lane - own as usize + from as usize, value))
                };
                members.iter().map(of).collect()
            }
            Kind::Match { to, value, .. } => {
                let peers = |&lane: &usize| {
                    let own = self.value(lane, value);
                    let same = members
                        .iter()
                        .filter(|&&other| self.value(other, value) == own);
                    (*to, same.map(|other| 1u64 << (other % 32)).sum())
                };
                members.iter().map(peers).collect()
            }
            Kind::ReduxAdd { to, value, .. } => {
                let sum: u64 = members.iter().map(|&lane| self.value(lane, value)).sum();
                members.iter().map(|_| (*to, sum & 0xFFFF_FFFF)).collect()
            }
            _ => Vec::new(),
        };
        for (&lane, (to, value)) in members.iter().zip(results) {
            self.lanes[lane].registers[to] = value;
        }
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// Runs the program in the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

//! Instructions that a warp issues if lanes that part at a branch meet again at its immediate post-dominator: the first
//! block that all ways from the branch to the end pass.
//!
//! A GPU without independent scheduling of lanes works like this; newer ones may let lanes meet earlier.

use super::parse::{Instruction, Kind};

/// The basic blocks of an entry.
pub struct Flow {
    /// By instruction: the number of the basic block that begins there.
    begins: Vec<Option<u32>>,
    blocks: Vec<BasicBlock>,
}

#[derive(Clone, Copy)]
struct BasicBlock {
    first: usize,
    end: usize,
    /// Immediate post-dominator; `None`: the end of the entry.
    meets: Option<u32>,
    /// Ends with a barrier.
    is_barrier: bool,
}

/// Instructions that a warp issued, by instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Issued {
    /// Number of issues, if lanes meet again at once.
    pub at_once: u64,
    /// Number of issues, if they meet at the post-dominator.
    pub reconverged: u64,
    /// Number of lanes that did it.
    pub lanes: u64,
}

impl Flow {
    pub fn new(code: &[Instruction]) -> Self {
        let n = code.len();
        let mut is_first = vec![false; n + 1];
        is_first[0] = true;
        for (pc, instruction) in code.iter().enumerate() {
            let targets = targets(&instruction.kind);
            if !targets.is_empty() || matches!(instruction.kind, Kind::Return | Kind::Barrier) {
                is_first[pc + 1] = true;
            }
            for &target in targets {
                is_first[target] = true;
            }
        }
        let firsts: Vec<usize> = (0..n).filter(|&pc| is_first[pc]).collect();
        let mut begins = vec![None; n];
        for (block, &first) in firsts.iter().enumerate() {
            begins[first] = Some(block as u32);
        }
        // Number `firsts.len()` stands for the end of the entry.
        let exit = firsts.len();
        let block_at = |pc: usize| begins.get(pc).copied().flatten().map_or(exit, |block| block as usize);
        let end_of = |block: usize| firsts.get(block + 1).copied().unwrap_or(n);
        let successors: Vec<Vec<usize>> = (0..exit)
            .map(|block| {
                let Instruction { kind, guard, .. } = &code[end_of(block) - 1];
                let mut next: Vec<_> = targets(kind).iter().map(|&target| block_at(target)).collect();
                let ends = matches!(kind, Kind::Return);
                next.extend(ends.then_some(exit));
                next.extend(((next.is_empty() && !ends) || guard.is_some()).then(|| block_at(end_of(block))));
                next
            })
            .collect();
        let meets = post_dominators(&successors);
        let blocks = meets.into_iter().enumerate().map(|(block, meets)| {
            let (first, end) = (firsts[block], end_of(block));
            let is_barrier = matches!(code[end - 1].kind, Kind::Barrier);
            BasicBlock { first, end, meets: (meets != exit).then_some(meets as u32), is_barrier }
        });
        let blocks = blocks.collect();
        Self { begins, blocks }
    }

    /// The basic block that begins at an instruction.
    pub fn begins(&self, pc: usize) -> Option<u32> {
        self.begins[pc]
    }

    /// Replays the basic blocks that the 32 lanes of a warp passed. Adds to `issued` and returns how many instructions
    /// the warp issues between barriers.
    pub fn replay(&self, lanes: &[Vec<u32>], issued: &mut [Issued]) -> Vec<u64> {
        let mut replay = Replay { flow: self, lanes, at: [Cursor::default(); 32], issued, paths: Vec::new() };
        replay.run(u32::MAX, None);
        replay.paths
    }
}

fn targets(kind: &Kind) -> &[usize] {
    match kind {
        Kind::Branch(target) => std::slice::from_ref(target),
        Kind::BranchByIndex(_, targets) => targets,
        _ => &[],
    }
}

/// By node of a graph, its immediate post-dominator; the exit has the number behind the last node. (Cooper, Harvey and
/// Kennedy's iteration on the reversed graph.)
fn post_dominators(successors: &[Vec<usize>]) -> Vec<usize> {
    let exit = successors.len();
    let mut predecessors = vec![Vec::new(); exit + 1];
    for (node, next) in successors.iter().enumerate() {
        for &next in next {
            predecessors[next].push(node);
        }
    }
    // Post-order from the exit backwards.
    let mut order = Vec::new();
    let mut rank = vec![None; exit + 1];
    let mut stack = vec![(exit, 0)];
    let mut seen = vec![false; exit + 1];
    seen[exit] = true;
    while let Some((node, at)) = stack.last_mut() {
        if let Some(&next) = predecessors[*node].get(*at) {
            *at += 1;
            if !std::mem::replace(&mut seen[next], true) {
                stack.push((next, 0));
            }
        } else {
            rank[*node] = Some(order.len());
            order.push(*node);
            stack.pop();
        }
    }
    let mut meets: Vec<Option<usize>> = vec![None; exit + 1];
    meets[exit] = Some(exit);
    loop {
        let mut changed = false;
        for &node in order.iter().rev().skip(1) {
            let known = successors[node].iter().copied().filter(|&next| meets[next].is_some());
            let common = known.reduce(|mut a, mut b| {
                while a != b {
                    let behind = if rank[a] < rank[b] { &mut a } else { &mut b };
                    *behind = meets[*behind].expect("it is known");
                }
                a
            });
            changed |= meets[node] != common;
            meets[node] = common;
        }
        if !changed {
            // (A loop without an end has none: its lanes never meet.)
            return meets[..exit].iter().map(|of| of.unwrap_or(exit)).collect();
        }
    }
}

/// Position of a lane.
#[derive(Clone, Copy, Default)]
struct Cursor {
    blocks: usize,
    barriers: usize,
}

struct Replay<'a> {
    flow: &'a Flow,
    lanes: &'a [Vec<u32>],
    at: [Cursor; 32],
    issued: &'a mut [Issued],
    paths: Vec<u64>,
}

impl Replay<'_> {
    /// The block that a lane comes to; `None`: its end.
    fn block_of(&self, lane: u32) -> Option<u32> {
        self.lanes[lane as usize].get(self.at[lane as usize].blocks).copied()
    }

    /// The lanes of `mask` that stand where the first of them does.
    fn together(&self, mask: u32) -> u32 {
        let block = self.block_of(mask.trailing_zeros());
        lanes(mask).filter(|&lane| self.block_of(lane) == block).fold(0, |group, lane| group | 1 << lane)
    }

    /// Lanes that stand at the same block go on until they come to `until`, or end.
    fn run(&mut self, mask: u32, until: Option<u32>) {
        let mut mask = mask;
        while mask != 0 {
            let first = mask.trailing_zeros();
            let Some(number) = self.block_of(first).filter(|&block| Some(block) != until) else { return };
            let block = self.flow.blocks[number as usize];
            for issued in &mut self.issued[block.first..block.end] {
                issued.reconverged += 1;
                issued.lanes += u64::from(mask.count_ones());
            }
            let interval = self.at[first as usize].barriers;
            self.paths.resize(self.paths.len().max(interval + 1), 0);
            self.paths[interval] += (block.end - block.first) as u64;
            for lane in lanes(mask) {
                self.at[lane as usize].blocks += 1;
                self.at[lane as usize].barriers += usize::from(block.is_barrier);
            }
            if self.together(mask) == mask {
                continue;
            }
            let mut left = mask;
            while left != 0 {
                let group = self.together(left);
                left &= !group;
                if self.block_of(group.trailing_zeros()) != block.meets {
                    self.run(group, block.meets);
                }
            }
            // (Those that have ended do not go on.)
            mask = lanes(mask).filter(|&lane| self.block_of(lane).is_some()).fold(0, |rest, lane| rest | 1 << lane);
        }
    }
}

/// The lanes of a mask.
fn lanes(mask: u32) -> impl Iterator<Item = u32> {
    let mut left = mask;
    std::iter::from_fn(move || {
        let lane = (left != 0).then(|| left.trailing_zeros())?;
        left &= left - 1;
        Some(lane)
    })
}

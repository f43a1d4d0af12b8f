//! Many schedules of a test, and the few choices that make it fail.

use std::cell::Cell;

use super::launch::Executor;
use super::order::{Drawn, Order};

/// Most runs of the test that the search for fewer choices takes.
const MOST_RUNS: u32 = 500;

/// A test that fails under some schedule.
#[derive(Debug, thiserror::Error)]
#[error("with seed {seed}: {error}\n{}", self.told())]
pub struct Failure<E> {
    /// Seed of the first schedule that failed.
    pub seed: u64,
    /// Error under the schedule that differs least from the plain one.
    pub error: E,
    /// Differences of that schedule from the plain one, in which each block runs to its end before the next begins, and
    /// warps and lanes go on by number. Without any one of them the test passes, if the search had time enough.
    pub choices: Vec<String>,
}

impl<E> Failure<E> {
    fn told(&self) -> String {
        match &self.choices[..] {
            [] => "It fails in the plain order too, block by block, warp by warp.".to_owned(),
            choices => format!("It takes this, in an order that is plain otherwise:\n- {}", choices.join("\n- ")),
        }
    }
}

/// Runs `test` with an executor for each seed. If it fails, looks for the fewest choices of its schedule that matter.
///
/// The test makes its memory and launches its kernels; its result must depend on the executor alone. Its error can be a
/// [`Violation`](super::Violation), or say that a result is wrong.
///
/// # Errors
/// The first seed with which the test fails, and the choices of its schedule.
///
/// # Example
/// A block that expects another one to have come first:
/// ```
/// use simt::Block;
/// use simt::executor::explore;
///
/// let failure = explore(0..100, |executor| {
///     let mut cell = [0u32];
///     let mut seen = [0u32; 2];
///     let (cell, out) = (executor.writable(&mut cell), executor.writable(&mut seen));
///     let launched = executor.launch("ordered", 2, (32, 1), 0, |block| {
///         if block.thread() == 0 {
///             let before = block.atomic_add(cell, 0, 1);
///             block.store(out, block.block_idx_x(), before);
///         }
///     });
///     launched.map_err(|violation| violation.to_string())?;
///     if seen == [0, 1] { Ok(()) } else { Err(format!("{seen:?}")) }
/// });
/// assert_eq!(failure.unwrap_err().choices, ["block 1 begins first"]);
/// ```
pub fn explore<E>(
    seeds: impl IntoIterator<Item = u64>,
    mut test: impl FnMut(&mut Executor) -> Result<(), E>,
) -> Result<(), Failure<E>> {
    for seed in seeds {
        let mut executor = Executor::new(seed);
        if let Err(error) = test(&mut executor) {
            return Err(shrink(seed, error, executor.orders().map(Order::made), test));
        }
    }
    Ok(())
}

/// A choice: which of the two orders, and its number.
type Place = (usize, u64);

/// Looks for fewer choices, of the `made` choices of each order.
fn shrink<E>(seed: u64, error: E, made: [u64; 2], mut test: impl FnMut(&mut Executor) -> Result<(), E>) -> Failure<E> {
    let runs = Cell::new(0);
    let mut fails = |drawn: [Drawn; 2]| {
        runs.set(runs.get() + 1);
        let mut executor = Executor::drawing(seed, drawn);
        let error = test(&mut executor).err()?;
        let noted = executor.orders().map(|order| order.noted().to_vec());
        let noted = noted.into_iter().zip(0..).flat_map(|(of, k)| of.into_iter().map(move |(n, text)| ((k, n), text)));
        Some((error, noted.collect::<Vec<(Place, String)>>()))
    };
    let mut found = (error, Vec::new());
    let mut first = made;
    for of in [1, 0] {
        let (mut low, mut high) = (0, made[of]);
        while low < high {
            first[of] = low.midpoint(high);
            match fails(first.map(Drawn::First)) {
                Some(failure) => (found, high) = (failure, first[of]),
                None => low = first[of] + 1,
            }
        }
        first[of] = high;
    }
    if let Some(failure) = fails(first.map(Drawn::First)) {
        found = failure;
    }
    let mut at_once = found.1.len();
    while at_once > 0 {
        let mut at = 0;
        while at < found.1.len() && runs.get() < MOST_RUNS {
            let end = (at + at_once).min(found.1.len());
            let rest = [&found.1[..at], &found.1[end..]].concat();
            let of = |order| rest.iter().filter(|((of, _), _)| *of == order).map(|((_, number), _)| *number).collect();
            match fails([Drawn::These(of(0)), Drawn::These(of(1))]) {
                Some(failure) => found = failure,
                None => at = end,
            }
        }
        at_once /= 2;
    }
    Failure { seed, error: found.0, choices: found.1.into_iter().map(|(_, text)| text).collect() }
}

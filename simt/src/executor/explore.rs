//! Runs a test under many schedules, and shrinks a failing schedule to the few choices that matter.
//!
//! A schedule is a series of numbered choices, and choice 0 is always the plain one (`order.rs`). A
//! failing seed typically makes thousands of other choices, of which two or three cause the
//! failure. They are found as a property test finds a small input: run again with fewer choices,
//! and keep what still fails.

use std::cell::Cell;

use super::launch::Executor;
use super::order::{DrawnChoices, Order};

/// Maximum number of runs of the test in the search for fewer choices.
const MOST_RUNS: u32 = 500;

/// A test that fails under some schedule.
#[derive(Debug, thiserror::Error)]
#[error("with seed {seed}: {error}\n{}", self.told())]
pub struct Failure<E> {
    /// Seed of the first schedule that failed.
    pub seed: u64,
    /// Error under the schedule that differs least from the plain one.
    pub error: E,
    /// Differences between that schedule and the plain one, in which each block runs to its end
    /// before the next begins, and warps and lanes run in the order of their numbers. The test
    /// passes if any one choice is left out, unless the search ended early, after 500 runs.
    pub choices: Vec<String>,
}

impl<E> Failure<E> {
    /// Formats the choices as the end of the message.
    fn told(&self) -> String {
        match &self.choices[..] {
            [] => "It fails in the plain order too, block by block, warp by warp.".to_owned(),
            choices => format!(
                "It takes these changes of the plain order:\n- {}",
                choices.join("\n- ")
            ),
        }
    }
}

/// Runs `test` with one executor per seed; at the first failure, finds the choices that cause it.
///
/// The test makes its memory and launches its kernels; its result must depend on the executor
/// alone. Its error can be a [`Violation`](super::Violation), or say that a result is wrong.
///
/// # Errors
/// If the test fails: the first seed with which it does, and the choices of its schedule.
///
/// # Example
/// A kernel that takes for granted that block 0 begins before block 1:
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
            return Err(shrink(
                seed,
                error,
                executor.orders().map(Order::made),
                test,
            ));
        }
    }
    Ok(())
}

/// Order that a choice belongs to (0: the schedule, 1: the values of loads), and its number there.
type Place = (usize, u64);

/// Finds fewer choices that still fail; a run makes `made` choices in each order.
///
/// Shrinking runs the test again and again, up to [`MOST_RUNS`] times, each time with fewer choices
/// drawn. It does not prove that the remaining choices are the fewest: leaving out two at once
/// might work where leaving out one does not. But it is short enough to be read, which thousands of
/// choices are not.
fn shrink<E>(
    seed: u64,
    error: E,
    made: [u64; 2],
    mut test: impl FnMut(&mut Executor) -> Result<(), E>,
) -> Failure<E> {
    let runs = Cell::new(0);
    let mut fails = |drawn: [DrawnChoices; 2]| {
        runs.set(runs.get() + 1);
        let mut executor = Executor::drawing(seed, drawn);
        let error = test(&mut executor).err()?;
        let noted = executor.orders().map(|order| order.noted().to_vec());
        let noted = noted
            .into_iter()
            .zip(0..)
            .flat_map(|(of, k)| of.into_iter().map(move |(n, text)| ((k, n), text)));
        Some((error, noted.collect::<Vec<(Place, String)>>()))
    };
    // First the length: how many of the drawn choices must be kept from the beginning, by
    // bisection. A failure rarely depends on choices made after it, so this alone usually leaves
    // little work for the later steps.
    let mut found = (error, Vec::new());
    let mut first = made;
    for of in [1, 0] {
        let (mut low, mut high) = (0, made[of]);
        while low < high {
            first[of] = low.midpoint(high);
            match fails(first.map(DrawnChoices::First)) {
                Some(failure) => (found, high) = (failure, first[of]),
                None => low = first[of] + 1,
            }
        }
        first[of] = high;
    }
    if let Some(failure) = fails(first.map(DrawnChoices::First)) {
        found = failure;
    }
    // Then the choices themselves: leave out runs of choices, at first all, then halves, and at
    // last
    // one at a time (delta debugging). What still fails without a run of choices goes on without
    // it.
    let mut at_once = found.1.len();
    while at_once > 0 {
        let mut at = 0;
        while at < found.1.len() && runs.get() < MOST_RUNS {
            let end = (at + at_once).min(found.1.len());
            let rest = [&found.1[..at], &found.1[end..]].concat();
            let of = |order| {
                rest.iter()
                    .filter(|((of, _), _)| *of == order)
                    .map(|((_, number), _)| *number)
                    .collect()
            };
            match fails([DrawnChoices::These(of(0)), DrawnChoices::These(of(1))]) {
                Some(failure) => found = failure,
                None => at = end,
            }
        }
        at_once /= 2;
    }
    Failure {
        seed,
        error: found.0,
        choices: found.1.into_iter().map(|(_, text)| text).collect(),
    }
}

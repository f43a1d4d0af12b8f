//! The tuner from outside: spaces, strategies, races, decisions, whole sessions, the store, the forms of other programs.

mod chain;
mod decide;
mod ending;
mod interchange;
mod online;
mod programs;
mod racing;
mod replay;
mod report;
mod search;
mod session;
mod spaces;
mod store;
mod strategies;
mod verdicts;

use tuner::{Config, Device, Outcome, from_fn};

fn made(measure: impl FnMut(&Config, usize) -> Outcome) -> impl Device {
    from_fn("made", measure)
}

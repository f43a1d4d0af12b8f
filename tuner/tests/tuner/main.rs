//! The tuner from outside: spaces, strategies, races, decisions, whole sessions, the store, the
//! forms of other programs.

mod budget;
mod chain;
mod cost;
mod cpu;
mod decide;
mod drift;
mod ending;
mod errors;
mod objective;
mod online;
mod process;
mod programs;
mod promises;
mod racing;
mod search;
mod session;
mod spaces;
mod statistics;
mod store;
mod strategies;
mod template;
mod verdicts;

use tuner::watch::{State, Watch};
use tuner::{Config, Device, Outcome, from_fn};

fn made(measure: impl FnMut(&Config, usize) -> Outcome) -> impl Device {
    from_fn("made", measure)
}

/// Makes a machine that is in this state when it is looked at for the n-th time (from 1), if
/// `bad(n)`, and without trouble at other times.
fn disturbed(state: State, bad: fn(usize) -> bool) -> impl Watch {
    struct Looks(State, fn(usize) -> bool, usize);
    impl Watch for Looks {
        fn look(&mut self) -> State {
            self.2 += 1;
            let quiet = State {
                others: self.0.others.map(|_| 0.0),
                throttled: Vec::new(),
                ..self.0.clone()
            };
            if (self.1)(self.2) {
                self.0.clone()
            } else {
                quiet
            }
        }
    }
    Looks(state, bad, 0)
}

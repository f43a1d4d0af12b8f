//! The tuner from outside: spaces, strategies, races, decisions, whole sessions, the store, the forms of other programs.

mod chain;
mod decide;
mod ending;
mod interchange;
mod online;
mod programs;
mod racing;
mod recordings;
mod replay;
mod report;
mod search;
mod session;
mod spaces;
mod store;
mod strategies;
mod verdicts;

use tuner::{Config, Device, Outcome};

struct Made<F>(F);

impl<F: FnMut(&Config, usize) -> Outcome> Device for Made<F> {
    fn name(&self) -> String {
        "made".to_owned()
    }

    fn measure(&mut self, config: &Config, launches: usize) -> Outcome {
        (self.0)(config, launches)
    }
}

/// Makes a device of a closure.
fn made(measure: impl FnMut(&Config, usize) -> Outcome) -> impl Device {
    Made(measure)
}

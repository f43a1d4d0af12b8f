//! Names and helpers that most of these tests use.

use std::fmt::Display;

pub use std::time::{Duration, Instant};
pub use tuner::Outcome::{self, Failed, Times};
pub use tuner::budget::Budget;
pub use tuner::compare::{Plan, compare, decide};
pub use tuner::session::{Session, TuneError, Tuning};
pub use tuner::store::{
    DeviceIdentity, Locations, Store, StoreError, Task, TunableIdentity, Workload,
};
pub use tuner::strategy::StrategyKind;
pub use tuner::verdict::Verdict::{self, Better, CannotTell, Same};
pub use tuner::verdict::{Block, Judgement, Method, Reason, Rules, Side, judge};
pub use tuner::watch::{NoWatch, State, Watch};
pub use tuner::{Config, Device, Error, Failure, FailureKind, Space, SpaceBuilder, Value, tune};

pub fn made(measure: impl FnMut(&Config, usize) -> Outcome) -> impl Device {
    tuner::from_fn("made", measure)
}

/// Makes a machine that is in this state when it is looked at for the n-th time (from 1), if
/// `bad(n)`, and without trouble at other times.
pub fn disturbed(state: State, bad: fn(usize) -> bool) -> impl Watch {
    struct Looks(State, fn(usize) -> bool, usize);
    impl Watch for Looks {
        fn look(&mut self) -> State {
            self.2 += 1;
            let mut state = self.0.clone();
            if !(self.1)(self.2) {
                state.others = state.others.map(|_| 0.0);
                state.throttled.clear();
            }
            state
        }
    }
    Looks(state, bad, 0)
}

/// Makes a configuration of whole numbers.
pub fn ints(values: &[i64]) -> Config {
    Config(values.iter().map(|value| Value::Int(*value)).collect())
}

/// Returns the whole numbers of a configuration.
pub fn numbers(config: &Config) -> Vec<i64> {
    let int = |value: &Value| match value {
        Value::Int(number) => *number,
        other => panic!("{other:?}"),
    };
    config.0.iter().map(int).collect()
}

/// Returns the first value of a configuration, a whole number.
pub fn number(config: &Config) -> i64 {
    numbers(&Config(config.0[..1].to_vec()))[0]
}

pub fn line(most: i64) -> Space {
    SpaceBuilder::new().range("x", 0, most, 1).build().unwrap()
}

/// A launch that failed.
pub fn failed(message: impl Display) -> Failure {
    FailureKind::Launch.because(message)
}

pub fn failure(outcome: Outcome) -> Failure {
    match outcome {
        Failed(failure) => failure,
        Times(times) => panic!("{times:?}"),
    }
}

pub fn block(a: &[f64], b: &[f64]) -> Block {
    Block {
        a: a.to_vec(),
        b: b.to_vec(),
        ..Block::default()
    }
}

#[track_caller]
pub fn says(text: impl Display, part: &str) {
    let text = text.to_string();
    assert!(text.contains(part), "{part:?} is not in {text}");
}

/// Numbers in 0 … 1 that look random.
pub struct Chance(pub u64);

impl Chance {
    pub fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Everything that a task needs, to be changed one thing at a time.
#[derive(Clone)]
pub struct Key {
    pub device: DeviceIdentity,
    pub tunable: TunableIdentity,
    pub workload: Workload,
    pub space: Space,
}

impl Key {
    /// Makes the key of a made device in a space.
    pub fn of(space: Space) -> Self {
        Self {
            device: DeviceIdentity::named("made", "test"),
            tunable: TunableIdentity::new("kernel", 1),
            workload: Workload::new(),
            space,
        }
    }

    pub fn task(&self) -> Task<'_> {
        Task {
            device: &self.device,
            tunable: &self.tunable,
            workload: &self.workload,
            space: &self.space,
        }
    }

    pub fn session(&self, strategy: StrategyKind, budget: &str) -> Session<'_> {
        Session::new(self.task(), strategy, 5, budget.parse().unwrap())
    }
}

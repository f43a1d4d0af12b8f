//! Synthetic devices: times from a formula, with the faults of real devices.
//!
//! The space is like a kernel's: `block` (32 to 1024), `per_thread` (1 to 32), `unroll` (1 to 8),
//! `stage` (yes, no) and `layout` (three names), 1152 configurations. The time has one smooth
//! optimum, whose place depends on the seed; [`Synthetic::true_ms`] is the time without noise. A
//! launch's time is a function of the seed, the configuration and the number of its earlier
//! launches.
//!
//! A specification is a list like `seed=7,noise=0.02,outliers=0.01,fail=0.1`; [`Faults`] has all
//! words.

use std::collections::HashMap;
use std::str::FromStr;

use serde_json::json;
use tuner::strategy::draw::mix;
use tuner::{Config, Device, Failure, FailureKind, Outcome, Space, Value};

/// Faults of a synthetic device, none by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// Seed of the optimum's place, and of all faults.
    pub seed: u64,
    /// Standard deviation of the log of a launch's time.
    pub noise: f64,
    /// Share of launches that take five times as long.
    pub outliers: f64,
    /// Share of configurations that do not launch.
    pub fail: f64,
    /// Share of configurations with a wrong result.
    pub wrong: f64,
}

impl FromStr for Faults {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut faults = Self::default();
        for part in text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| format!("{part:?} is not name=value"))?;
            let number: f64 = value
                .parse()
                .map_err(|_| format!("{name}: {value:?} is not a number"))?;
            match name {
                "seed" => faults.seed = number as u64,
                "noise" => faults.noise = number,
                "outliers" => faults.outliers = number,
                "fail" => faults.fail = number,
                "wrong" => faults.wrong = number,
                other => {
                    return Err(format!(
                        "{other:?} is none of seed, noise, outliers, fail, wrong"
                    ));
                }
            }
        }
        Ok(faults)
    }
}

/// Synthetic device.
#[derive(Clone, Debug)]
pub struct Synthetic {
    faults: Faults,
    space: Space,
    launched: HashMap<usize, u64>,
}

/// Fate of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Runs,
    Fails,
    Wrong,
}

const LAYOUTS: [&str; 3] = ["row", "column", "tile"];

impl Synthetic {
    /// Makes a device with these faults.
    pub fn new(faults: Faults) -> Self {
        let mut rows = Vec::new();
        for block in [32, 64, 128, 256, 512, 1024].map(Value::Int) {
            for per_thread in [1, 2, 4, 8, 12, 16, 24, 32].map(Value::Int) {
                for unroll in [1, 2, 4, 8].map(Value::Int) {
                    for stage in [false, true].map(Value::Bool) {
                        for layout in LAYOUTS.map(Value::from) {
                            rows.push(vec![
                                block.clone(),
                                per_thread.clone(),
                                unroll.clone(),
                                stage.clone(),
                                layout,
                            ]);
                        }
                    }
                }
            }
        }
        let names = ["block", "per_thread", "unroll", "stage", "layout"].map(str::to_owned);
        // Cannot fail: the rows are distinct and finite.
        let space = Space::recorded(&names, &rows)
            .map(|(space, _)| space)
            .unwrap_or_default();
        Self {
            faults,
            space,
            launched: HashMap::new(),
        }
    }

    /// Returns the configurations.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Returns the time of configuration `index` without noise in ms; `None` if it does not run.
    pub fn true_ms(&self, index: usize) -> Option<f64> {
        (self.fate(index) == Fate::Runs).then(|| self.formula(index))
    }

    /// Returns the best configuration without noise.
    pub fn optimum(&self) -> Option<usize> {
        let times = (0..self.space.len()).filter_map(|index| Some((index, self.true_ms(index)?)));
        times
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(index, _)| index)
    }

    /// Returns a recording of all configurations, with `samples` of each, in the T4 form.
    pub fn recording(&mut self, samples: usize) -> String {
        let names = self.space.names();
        let result = |config: Config, outcome: Outcome| {
            let values = names
                .iter()
                .zip(&config.0)
                .map(|(name, value)| format!("{}:{}", json!(name), json!(value)));
            let configuration = values.collect::<Vec<_>>().join(",");
            let (times, invalidity, said) = match outcome {
                Outcome::Times(times) => (times, "correct", String::new()),
                Outcome::Failed(Failure {
                    kind: FailureKind::WrongResult,
                    message,
                }) => (vec![], "correctness", message),
                Outcome::Failed(failure) => (vec![], "runtime", failure.message),
            };
            let measurements = json!([{"name": "time", "value": said}]);
            let (times, invalidity) = (json!({"runtimes": times}), json!(invalidity));
            format!(
                "{{\"configuration\":{{{configuration}}},\"times\":{times},\"invalidity\":{invalidity},\
                 \"measurements\":{measurements}}}"
            )
        };
        let all: Vec<String> = (0..self.space.len())
            .map(|index| {
                let config = self.space.config(index);
                let outcome = self.measure(&config, samples);
                result(config, outcome)
            })
            .collect();
        let metadata =
            json!({"timeunit": "milliseconds", "device": self.name(), "kernel": "synthetic"});
        format!(
            "{{\"metadata\":{metadata},\"results\":[{}]}}",
            all.join(",\n")
        )
    }

    /// Returns a uniform number below 1 from the seed and two numbers.
    fn uniform(&self, a: u64, b: u64) -> f64 {
        (mix(mix(self.faults.seed ^ mix(a)) ^ b) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn fate(&self, index: usize) -> Fate {
        let Faults { fail, wrong, .. } = self.faults;
        let drawn = self.uniform(1, index as u64);
        match drawn {
            _ if drawn < fail => Fate::Fails,
            _ if drawn < fail + wrong => Fate::Wrong,
            _ => Fate::Runs,
        }
    }

    fn formula(&self, index: usize) -> f64 {
        let code = |parameter: usize| self.space.code(index, parameter) as f64;
        let wish = |what: u64, span: f64| (0.2 + 0.6 * self.uniform(2, what)) * span;
        let (block, per_thread, unroll, stage, layout) =
            (code(0), code(1), code(2), code(3), code(4));
        let off = |value: f64, best: f64, span: f64| ((value - best) / span).powi(2);
        let mut log =
            0.9 * off(block, wish(0, 5.0), 5.0) + 0.7 * off(per_thread, wish(1, 7.0), 7.0);
        log += 0.3 * off(unroll, wish(2, 3.0), 3.0);
        // Large blocks with much work a thread run out of registers; staging pays where blocks are
        // large.
        log += 0.12 * (block + per_thread - 8.0).max(0.0);
        log += if stage > 0.5 {
            0.15 - 0.06 * block
        } else {
            0.0
        };
        log += [0.0, 0.25, 0.1][(layout as usize + self.faults.seed as usize % 3) % 3];
        log.exp()
    }

    /// Returns the time of launch `nth` of a configuration in ms.
    fn launch_ms(&self, index: usize, nth: u64) -> f64 {
        let Faults {
            noise, outliers, ..
        } = self.faults;
        let draw = |what: u64| self.uniform(what, mix(index as u64) ^ nth);
        // Box and Muller; 1 - u is never 0.
        let normal = (-2.0 * (1.0 - draw(3)).ln()).sqrt() * (std::f64::consts::TAU * draw(4)).cos();
        let time = self.formula(index) * (noise * normal).exp();
        if draw(5) < outliers { 5.0 * time } else { time }
    }
}

impl Device for Synthetic {
    fn name(&self) -> String {
        format!("synthetic {}", self.faults.seed)
    }

    fn measure(&mut self, config: &Config, launches: usize) -> Outcome {
        let failed = |kind, message: &str| {
            Outcome::Failed(Failure {
                kind,
                message: message.to_owned(),
            })
        };
        let Some(index) = self.space.index_of(config) else {
            return failed(
                FailureKind::Constraint,
                "the synthetic device has no such configuration",
            );
        };
        match self.fate(index) {
            Fate::Runs => {}
            Fate::Fails => {
                return failed(
                    FailureKind::Launch,
                    "synthetic: too many resources requested",
                );
            }
            Fate::Wrong => {
                return failed(
                    FailureKind::WrongResult,
                    "synthetic: differs from the reference",
                );
            }
        }
        let mut times = Vec::with_capacity(launches);
        for _ in 0..launches {
            let nth = self.launched.get(&index).copied().unwrap_or(0);
            times.push(self.launch_ms(index, nth));
            self.launched.insert(index, nth + 1);
        }
        Outcome::Times(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(device: &mut Synthetic, launches: usize) -> Vec<Outcome> {
        let configs: Vec<Config> = (0..device.space().len())
            .map(|index| device.space().config(index))
            .collect();
        configs
            .iter()
            .map(|config| device.measure(config, launches))
            .collect()
    }

    fn synthetic(text: &str) -> Synthetic {
        Synthetic::new(text.parse().unwrap())
    }

    #[test]
    fn without_faults_every_launch_takes_the_true_time() {
        let mut device = synthetic("seed=5");
        assert_eq!(device.space().len(), 1152);
        for (index, outcome) in all(&mut device, 2).into_iter().enumerate() {
            assert_eq!(
                outcome,
                Outcome::Times(vec![device.true_ms(index).unwrap(); 2])
            );
        }
    }

    #[test]
    fn each_fault_shows_at_its_rate() {
        let mut device = synthetic("seed=3,fail=0.2,wrong=0.1,outliers=0.1");
        let (mut failed, mut wrong, mut outliers, mut launches) = (0, 0, 0, 0);
        for (index, outcome) in all(&mut device, 10).into_iter().enumerate() {
            match outcome {
                Outcome::Failed(failure) if failure.kind == FailureKind::Launch => failed += 1,
                Outcome::Failed(_) => wrong += 1,
                Outcome::Times(times) => {
                    let truth = device.true_ms(index).unwrap();
                    outliers += times.iter().filter(|&&time| time > 4.9 * truth).count();
                    launches += times.len();
                }
            }
        }
        assert!(
            (150..310).contains(&failed) && (60..170).contains(&wrong),
            "{failed} {wrong}"
        );
        assert!(
            (launches / 14..launches / 7).contains(&outliers),
            "{outliers} of {launches}"
        );
    }
}

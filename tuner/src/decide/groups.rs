//! A chain of kernels, tuned in groups.
//!
//! Kernels that run concurrently, or share the time of a step, cannot be tuned one by one: what makes one faster alone
//! may take what another needs. They are tuned together, on the time of their step. Kernels that run alone are tuned
//! separately. In the end the whole chain is measured with everything that was chosen against all defaults, and only
//! that verdict counts: what looked good apart may cost in the chain, through caches, clocks and memory.

use crate::compare::{Comparison, Dropped, Plan, compare};
use crate::verdict::{Side, Verdict};
use crate::watch::Watch;
use crate::{Config, Device, Failure, Outcome};
use serde::{Deserialize, Serialize};

/// What is timed when a chain runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span<'a> {
    /// One kernel, by number.
    Kernel(usize),
    /// The step in which these kernels run.
    Step(&'a [usize]),
    /// Everything.
    Chain,
}

/// A chain of kernels that can be run with a configuration for each.
pub trait Chain {
    /// What the device calls itself.
    fn name(&self) -> String;

    /// Runs the chain `launches` times with `configs[kernel]` for each kernel; times of `span` in ms, or the failure.
    fn measure(&mut self, configs: &[Config], span: Span<'_>, launches: usize) -> Outcome;
}

/// Kernels that are tuned together or after each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Numbers of its kernels.
    pub kernels: Vec<usize>,
    /// Whether they share the time of a step: then their configurations are one, in the order of `kernels`.
    pub together: bool,
}

/// What became of a chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainDecision {
    /// The configuration to use for each kernel: those that the groups chose if the chain is better with them, else the
    /// defaults.
    pub configs: Vec<Config>,
    /// What the groups chose.
    pub proposed: Vec<Config>,
    /// The whole chain, proposed (B) against defaults (A); none if the groups chose the defaults.
    pub comparison: Option<Comparison>,
    /// Why the chain does not run with what was proposed, if it does not.
    pub failure: Option<Failure>,
}

/// What can go wrong with a chain.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ChainError {
    /// A group names a kernel that does not exist, or a kernel is in two groups.
    #[error("group {group}: kernel {kernel} does not exist or is in another group already")]
    Kernel {
        /// The group.
        group: String,
        /// The kernel.
        kernel: usize,
    },
    /// What was chosen has not as many values as the default.
    #[error("group {group}: {got} values were chosen, the defaults have {expected}")]
    Shape {
        /// The group.
        group: String,
        /// Values that were chosen.
        got: usize,
        /// Values of the defaults.
        expected: usize,
    },
    /// The chain does not run with its defaults.
    #[error("the chain fails with its defaults: {}", .0.message)]
    Defaults(Failure),
}

/// Part of a chain as a device: its configuration is those of `kernels`, one after the other; all others stay as they are.
struct Part<'a> {
    chain: &'a mut dyn Chain,
    configs: Vec<Config>,
    kernels: &'a [usize],
    span: Span<'a>,
}

impl Part<'_> {
    /// Puts the values of `config` into the kernels' configurations; `false` if there are too few or too many.
    fn put(&mut self, config: &Config) -> bool {
        put(&mut self.configs, self.kernels, config)
    }
}

fn put(configs: &mut [Config], kernels: &[usize], config: &Config) -> bool {
    let widths: usize = kernels.iter().map(|kernel| configs[*kernel].0.len()).sum();
    let mut values = config.0.iter();
    if widths == config.0.len() {
        for kernel in kernels {
            for (place, value) in configs[*kernel].0.iter_mut().zip(&mut values) {
                place.clone_from(value);
            }
        }
    }
    widths == config.0.len()
}

fn joined(configs: &[Config], kernels: &[usize]) -> Config {
    Config(kernels.iter().flat_map(|kernel| configs[*kernel].0.iter().cloned()).collect())
}

impl Device for Part<'_> {
    fn name(&self) -> String {
        self.chain.name()
    }

    fn measure(&mut self, config: &Config, launches: usize) -> Outcome {
        if !self.put(config) {
            let message = format!("{} values do not fit the kernels", config.0.len());
            return Outcome::Failed(Failure { kind: crate::FailureKind::Constraint, message });
        }
        self.chain.measure(&self.configs, self.span, launches)
    }
}

/// Tunes `groups` of a chain and judges the result on the whole chain.
///
/// `choose` is given a group, a device whose configurations are those of the group (of one of its kernels, if it is not
/// tuned together) and the default, and returns the configuration that it prefers: a search, a contest, whatever suits.
///
/// # Errors
/// Groups that do not fit the chain; a chain that does not run with its defaults.
pub fn tune(
    chain: &mut dyn Chain,
    groups: &[Group],
    defaults: &[Config],
    plan: &Plan,
    watch: &mut dyn Watch,
    choose: &mut dyn FnMut(&Group, &mut dyn Device, &Config) -> Config,
) -> Result<ChainDecision, ChainError> {
    let mut taken = vec![false; defaults.len()];
    for group in groups {
        for &kernel in &group.kernels {
            if taken.get(kernel).copied().unwrap_or(true) {
                return Err(ChainError::Kernel { group: group.name.clone(), kernel });
            }
            taken[kernel] = true;
        }
    }
    let mut proposed = defaults.to_vec();
    for group in groups {
        let parts: Vec<&[usize]> =
            if group.together { vec![&group.kernels] } else { group.kernels.chunks(1).collect() };
        for kernels in parts {
            let default = joined(defaults, kernels);
            let span = if group.together { Span::Step(kernels) } else { Span::Kernel(kernels[0]) };
            // The others at their defaults: a group's choice does not depend on the order of the groups.
            let mut part = Part { chain: &mut *chain, configs: defaults.to_vec(), kernels, span };
            let chosen = choose(group, &mut part, &default);
            if !put(&mut proposed, kernels, &chosen) {
                let (got, expected) = (chosen.0.len(), default.0.len());
                return Err(ChainError::Shape { group: group.name.clone(), got, expected });
            }
        }
    }
    let mut decision = ChainDecision { configs: defaults.to_vec(), proposed, comparison: None, failure: None };
    if decision.proposed == defaults {
        return Ok(decision);
    }
    let all: Vec<usize> = (0..defaults.len()).collect();
    let (a, b) = (joined(defaults, &all), joined(&decision.proposed, &all));
    let mut whole = Part { chain, configs: defaults.to_vec(), kernels: &all, span: Span::Chain };
    match compare(&mut whole, &a, &b, plan, watch) {
        Ok(comparison) => {
            if comparison.judgement.verdict == Verdict::Better(Side::B) {
                decision.configs.clone_from(&decision.proposed);
            }
            decision.comparison = Some(comparison);
            Ok(decision)
        }
        Err(Dropped { side: 0, failure }) => Err(ChainError::Defaults(failure)),
        // The chain does not run with what was proposed: the defaults stay.
        Err(Dropped { failure, .. }) => {
            decision.failure = Some(failure);
            Ok(decision)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::NoWatch;
    use crate::{FailureKind, Value};

    /// Three kernels with a width each (1 to 4). 0 and 1 run at once and share eight units; 2 runs alone, and when it is
    /// wide the chain as a whole is slower (say, the cache).
    struct Three {
        greedy_costs: f64,
    }

    fn width(config: &Config) -> f64 {
        let Value::Int(width) = config.0[0] else { panic!() };
        width as f64
    }

    impl Chain for Three {
        fn name(&self) -> String {
            "three".into()
        }

        fn measure(&mut self, configs: &[Config], span: Span<'_>, launches: usize) -> Outcome {
            let w: Vec<f64> = configs.iter().map(width).collect();
            if w[0] + w[1] > 7.0 {
                return Outcome::Failed(Failure { kind: FailureKind::Launch, message: "too wide".into() });
            }
            let crowded = if w[0] + w[1] > 5.0 { 3.0 } else { 1.0 };
            let (first, second, third) = (4.0 / w[0] * crowded, 8.0 / w[1] * crowded, 3.0 / w[2]);
            let time = match span {
                Span::Kernel(kernel) => [first, second, third][kernel],
                Span::Step(_) => f64::max(first, second),
                Span::Chain => f64::max(first, second) + third + self.greedy_costs * (w[2] - 1.0),
            };
            Outcome::Times(vec![time; launches])
        }
    }

    fn widths(all: &[i64]) -> Vec<Config> {
        all.iter().map(|width| Config(vec![Value::Int(*width)])).collect()
    }

    fn groups() -> Vec<Group> {
        vec![
            Group { name: "step".into(), kernels: vec![0, 1], together: true },
            Group { name: "alone".into(), kernels: vec![2], together: false },
        ]
    }

    /// Tries everything.
    fn exhaust(_: &Group, device: &mut dyn Device, default: &Config) -> Config {
        let mut all = vec![Vec::new()];
        for _ in &default.0 {
            all = all
                .iter()
                .flat_map(|c: &Vec<Value>| (1..=4).map(move |w| [&c[..], &[Value::Int(w)]].concat()))
                .collect();
        }
        let time = |config: &Config, device: &mut dyn Device| match device.measure(config, 1) {
            Outcome::Times(times) => times[0],
            Outcome::Failed(_) => f64::INFINITY,
        };
        let timed = all.into_iter().map(Config).map(|config| (time(&config, device), config));
        timed.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap().1
    }

    #[test]
    fn kernels_of_a_step_are_tuned_on_its_time_and_the_chain_confirms() {
        let plan = Plan::default();
        let mut chain = Three { greedy_costs: 0.0 };
        let decision = tune(&mut chain, &groups(), &widths(&[1, 1, 1]), &plan, &mut NoWatch, &mut exhaust).unwrap();
        // Alone each of the first two would be as wide as it can; together they fit in five.
        assert_eq!(decision.configs, widths(&[2, 3, 4]));
        assert_eq!(decision.comparison.unwrap().judgement.verdict, Verdict::Better(Side::B));
    }

    #[test]
    fn only_the_whole_chain_counts() {
        let mut chain = Three { greedy_costs: 4.0 };
        let found = tune(&mut chain, &groups(), &widths(&[2, 3, 1]), &Plan::default(), &mut NoWatch, &mut exhaust);
        let decision = found.unwrap();
        assert_eq!(decision.proposed, widths(&[2, 3, 4]));
        assert_eq!(decision.configs, widths(&[2, 3, 1]));
        assert_eq!(decision.comparison.unwrap().judgement.verdict, Verdict::Better(Side::A));
    }

    #[test]
    fn defaults_need_no_comparison_and_what_does_not_fit_is_named() {
        let mut chain = Three { greedy_costs: 0.0 };
        let defaults = widths(&[1, 1, 1]);
        let mut go = |groups: &[Group], choose: &mut dyn FnMut(&Group, &mut dyn Device, &Config) -> Config| {
            tune(&mut chain, groups, &defaults, &Plan::default(), &mut NoWatch, choose)
        };
        let decision = go(&groups(), &mut |_, _, default| default.clone()).unwrap();
        assert_eq!((decision.comparison, decision.configs), (None, widths(&[1, 1, 1])));
        let short = go(&groups(), &mut |_, _, _| Config(Vec::new()));
        assert!(matches!(short, Err(ChainError::Shape { got: 0, expected: 2, .. })), "{short:?}");
        for kernels in [vec![3], vec![0, 0]] {
            let bad = Group { name: "bad".into(), kernels, together: true };
            assert!(matches!(go(&[bad], &mut exhaust), Err(ChainError::Kernel { .. })));
        }
        // A proposal that the chain does not survive leaves the defaults.
        let decision = go(&groups(), &mut |_, _, default| Config(vec![Value::Int(4); default.0.len()])).unwrap();
        assert_eq!(decision.configs, widths(&[1, 1, 1]));
        assert_eq!(decision.failure.unwrap().message, "too wide");
    }
}

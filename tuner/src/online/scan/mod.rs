//! The state of an on-line tuner: which configuration the next launch is given, and what its time teaches.
//!
//! A scan goes sample by sample over all configurations (one sweep is one sample of each), so that a slow change of the
//! machine meets all of them alike. The first tuning takes M sweeps. Then whatever may only have been unlucky is given a
//! second chance: in a kernel with two modes, all M samples of the best one may lie in the slow mode. Then a run-off gives
//! the most promising more samples, because a median of five cannot tell near-equals apart; then the best is locked.
//! A scan that comes with the period is one sweep, spread so thinly that the share of exploring launches stays below its
//! cap; each sample replaces the oldest of its configuration. Drift calls for M sweeps at once.
//!
//! Nothing here waits, locks, or reads a clock: the time comes with each launch.

mod choice;

use super::{Cause, Counters, Options};
use crate::drift::Detector;
use crate::statistics::median;
use crate::{Failure, FailureKind};
use rand::{SeedableRng as _, seq::SliceRandom as _};
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;
use std::time::Duration;

/// A launch whose time is awaited.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    epoch: u64,
    config: usize,
    /// Watches the locked configuration for drift instead of being a sample of the scan.
    monitor: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Scanning(Cause),
    /// A second chance for those that may only have been unlucky.
    Screening(Cause),
    /// A round of the run-off among the finalists.
    RunOff(Cause),
    Locked,
}

/// Times that were lost of one configuration in one scan before it counts as one that cannot be measured.
const PATIENCE: u32 = 8;

/// Maximum cost of exploring one launch, in launches of the configuration in use.
const DEAREST: f64 = 64.0;

/// Number of the most promising that are given more samples before one is locked.
const FINALISTS: usize = 8;

/// Most rounds of the run-off; it ends earlier if it is clear who wins.
const RUN_OFF_ROUNDS: usize = 5;

/// A change must win by more than this share of the time.
const INDIFFERENCE: f64 = 0.002;

pub(super) struct Scan {
    options: Options,
    samples: Vec<VecDeque<f64>>,
    banned: Vec<Option<Failure>>,
    lost: Vec<u32>,
    phase: Phase,
    /// Remaining launches of the scan, in this order.
    todo: VecDeque<usize>,
    finalists: Vec<usize>,
    outstanding: usize,
    /// Tickets of an earlier epoch are void.
    epoch: u64,
    current: usize,
    default: usize,
    complete: bool,
    detector: Detector,
    allowance: f64,
    explored_before: u64,
    since_last: u64,
    /// When the last launch was, and when the last scan ended.
    now: Duration,
    locked_at: Duration,
    /// No drift scan before this launch, and how long the next such wait is.
    quiet_until: u64,
    quiet: u64,
    lot: ChaCha8Rng,
    pub(super) counters: Counters,
}

impl Scan {
    pub(super) fn new(configs: usize, default: usize, options: Options) -> Self {
        let mut scan = Self {
            samples: vec![VecDeque::new(); configs],
            banned: vec![None; configs],
            lost: vec![0; configs],
            phase: Phase::Locked,
            todo: VecDeque::new(),
            finalists: Vec::new(),
            outstanding: 0,
            epoch: 0,
            current: default,
            default,
            complete: false,
            detector: Detector::default(),
            allowance: 0.0,
            explored_before: 0,
            since_last: 0,
            now: Duration::ZERO,
            locked_at: Duration::ZERO,
            quiet_until: 0,
            quiet: 0,
            lot: ChaCha8Rng::seed_from_u64(options.seed),
            counters: Counters::default(),
            options,
        };
        scan.start(Cause::First);
        scan
    }

    /// The configuration for the next launch, and a ticket if its time is wanted.
    pub(super) fn assign(&mut self, now: Duration) -> (usize, Option<Ticket>) {
        self.counters.launches += 1;
        self.now = now;
        if self.complete {
            // Only while there is something to explore is it saved for what is slow.
            let most = if self.todo.is_empty() { 1.0 } else { DEAREST };
            self.allowance = (self.allowance + self.options.explore_share.max(0.0)).min(most);
        }
        match self.phase {
            Phase::Locked => {
                self.since_last += 1;
                let passed = now.saturating_sub(self.locked_at);
                if self.options.rescan_after.is_some_and(|launches| self.since_last >= launches)
                    || self.options.rescan_every.is_some_and(|period| passed >= period)
                {
                    self.start(Cause::Period);
                }
                self.locked_launch()
            }
            Phase::Scanning(Cause::Period) | Phase::Screening(Cause::Period) | Phase::RunOff(Cause::Period) => {
                self.thin_launch()
            }
            Phase::Scanning(_) | Phase::Screening(_) | Phase::RunOff(_) => match self.todo.pop_front() {
                Some(config) => self.explore(config),
                // All are being measured; until they are back, the best that is known.
                None => (self.current, None),
            },
        }
    }

    /// A launch during a scan whose share is capped.
    fn thin_launch(&mut self) -> (usize, Option<Ticket>) {
        let price = match self.todo.front().copied() {
            Some(config) if config == self.current => 0.0,
            // Below that, none can be paid for.
            Some(config) if self.allowance >= 1.0 => self.price(config),
            _ => f64::INFINITY,
        };
        if self.allowance < price {
            return self.locked_launch();
        }
        self.allowance -= price;
        match self.todo.pop_front() {
            Some(config) => self.explore(config),
            None => self.locked_launch(),
        }
    }

    /// Launches of the configuration in use that one of another takes.
    fn price(&self, config: usize) -> f64 {
        let times = self.estimate(config).zip(self.estimate(self.current));
        times.map_or(1.0, |(other, current)| other / current).clamp(1.0, DEAREST)
    }

    fn locked_launch(&self) -> (usize, Option<Ticket>) {
        (self.current, Some(Ticket { epoch: self.epoch, config: self.current, monitor: true }))
    }

    fn explore(&mut self, config: usize) -> (usize, Option<Ticket>) {
        self.outstanding += 1;
        let away = u64::from(config != self.current);
        self.counters.explored += away;
        self.counters.explored_after += if self.complete { away } else { 0 };
        (config, Some(Ticket { epoch: self.epoch, config, monitor: false }))
    }

    /// The time of a launch came back, or is known to be lost (`None`).
    pub(super) fn take(&mut self, ticket: Ticket, time: Option<f64>) {
        if ticket.epoch != self.epoch {
            return;
        }
        let time = time.filter(|t| t.is_finite() && *t > 0.0);
        if ticket.monitor {
            let thin = match self.phase {
                Phase::Locked => true,
                Phase::Scanning(cause) | Phase::Screening(cause) | Phase::RunOff(cause) => cause == Cause::Period,
            };
            if thin
                && ticket.config == self.current
                && time.is_some_and(|time| self.detector.push(time))
                && self.counters.launches >= self.quiet_until
            {
                self.counters.drifts += 1;
                self.start(Cause::Drift);
            }
            return;
        }
        self.outstanding = self.outstanding.saturating_sub(1);
        let config = ticket.config;
        match time {
            _ if self.banned[config].is_some() => {}
            Some(time) => {
                let replaces = matches!(self.phase, Phase::Scanning(Cause::Period | Cause::Drift));
                if replaces && self.samples[config].len() >= self.options.samples.max(1) {
                    self.samples[config].pop_front();
                }
                self.samples[config].push_back(time);
            }
            None => {
                self.lost[config] += 1;
                if self.lost[config] < PATIENCE {
                    self.todo.push_back(config);
                } else {
                    let message = format!("{PATIENCE} launches of it gave no time");
                    self.ban(config, Failure { kind: FailureKind::Launch, message });
                }
            }
        }
        self.advance_if_done();
    }

    /// Begins a scan for `cause`.
    fn start(&mut self, cause: Cause) {
        self.todo.clear();
        self.finalists.clear();
        self.outstanding = 0;
        self.epoch += 1;
        self.since_last = 0;
        self.lost.fill(0);
        let target = self.options.samples.max(1);
        let sweeps = match cause {
            Cause::First => target,
            Cause::Drift => {
                for samples in &mut self.samples {
                    let extra = samples.len().saturating_sub(target);
                    samples.drain(..extra);
                }
                target
            }
            // One, unless the choice came from the store and there are no samples yet.
            Cause::Period => {
                let fewest = self.valid().into_iter().map(|config| self.samples[config].len()).min().unwrap_or(0);
                target.saturating_sub(fewest).max(1)
            }
        };
        self.phase = Phase::Scanning(cause);
        self.counters.scans += 1;
        self.explored_before = self.counters.explored;
        for _ in 0..sweeps {
            self.queue_sweep(&self.valid());
        }
        self.advance_if_done();
    }

    fn valid(&self) -> Vec<usize> {
        (0..self.samples.len()).filter(|i| self.banned[*i].is_none()).collect()
    }

    fn queue_sweep(&mut self, configs: &[usize]) {
        let mut order = configs.to_vec();
        order.shuffle(&mut self.lot);
        self.todo.extend(order);
    }

    fn advance_if_done(&mut self) {
        if !self.todo.is_empty() || self.outstanding > 0 {
            return;
        }
        match self.phase {
            Phase::Locked => {}
            Phase::Scanning(cause) | Phase::Screening(cause) => self.screen(cause),
            Phase::RunOff(cause) => self.run_off(cause),
        }
    }

    /// Queues one more sample of all that may only have been unlucky so far, or goes on to the run-off.
    fn screen(&mut self, cause: Cause) {
        if self.options.run_off > 0 {
            self.phase = Phase::Screening(cause);
            self.queue_sweep(&self.unlucky());
        }
        if self.todo.is_empty() {
            self.finalists = self.promising();
            self.run_off(cause);
        }
    }

    /// Queues a round of the run-off, or locks the best if there is nothing more to find out. Finalists of an earlier
    /// run-off have their samples still; newcomers catch up with them.
    fn run_off(&mut self, cause: Cause) {
        self.phase = Phase::RunOff(cause);
        self.finalists = self.undecided();
        if self.finalists.len() > 1 {
            let count = |config: &usize| self.samples[*config].len();
            let most = self.options.samples.max(1) + self.options.run_off * RUN_OFF_ROUNDS;
            let fewest = self.finalists.iter().map(count).min().unwrap_or(most);
            let target = most.min(fewest + self.options.run_off);
            let rows: Vec<Vec<usize>> = (fewest..target)
                .map(|have| self.finalists.iter().copied().filter(|config| count(config) <= have).collect())
                .collect();
            for row in rows {
                self.queue_sweep(&row);
            }
        }
        if self.todo.is_empty() {
            self.lock(cause);
        }
    }

    fn lock(&mut self, cause: Cause) {
        let before = self.current;
        self.current = self.best();
        self.phase = Phase::Locked;
        self.since_last = 0;
        self.locked_at = self.now;
        if !self.complete {
            self.complete = true;
            self.counters.first_tuning = self.counters.launches;
        }
        if self.current != before {
            self.counters.changes += u64::from(cause != Cause::First);
            self.quiet = 0;
            self.watch_anew();
        } else if cause == Cause::First {
            self.watch_anew();
        } else if cause == Cause::Drift {
            // A false alarm: it is learned from, and the next one has to wait, longer each time.
            self.detector.was_harmless();
            self.watch_anew();
            let cost = self.counters.explored - self.explored_before;
            // What it explored is paid back by later scans of the period.
            self.allowance -= cost as f64;
            self.quiet = (2 * self.quiet).max(10 * cost).min(1 << 40);
            self.quiet_until = self.counters.launches + self.quiet;
        }
    }

    /// Watches the configuration in use from now on. How far launches stray is learned from all configurations
    /// together: two spikes among the few samples of a single one look like a second mode, and what is taken for a mode
    /// hides a drift.
    fn watch_anew(&mut self) {
        let mut strays = Vec::new();
        for samples in self.samples.iter().filter(|samples| samples.len() > 2) {
            let samples: Vec<f64> = samples.iter().copied().collect();
            let middle = median(&samples);
            strays.extend(samples.iter().map(|time| time / middle));
        }
        self.detector.restart(&strays);
    }

    /// Takes a configuration out for good: it failed, or decoded differently.
    pub(super) fn ban(&mut self, config: usize, failure: Failure) {
        if self.banned[config].is_none() {
            self.banned[config] = Some(failure);
            self.todo.retain(|waiting| *waiting != config);
            self.finalists.retain(|finalist| *finalist != config);
            self.samples[config].clear();
            if self.current == config {
                self.current = self.best();
                self.watch_anew();
            }
        }
    }

    /// A launch with this ticket failed: no time will come.
    pub(super) fn fail(&mut self, config: usize, ticket: Option<Ticket>, failure: Failure) {
        self.ban(config, failure);
        if let Some(ticket) = ticket
            && ticket.epoch == self.epoch
            && !ticket.monitor
        {
            self.outstanding = self.outstanding.saturating_sub(1);
        }
        self.advance_if_done();
    }

    /// The worker of this launch is gone: another one repeats it.
    pub(super) fn put_back(&mut self, ticket: Ticket) {
        if ticket.epoch == self.epoch && !ticket.monitor {
            self.outstanding = self.outstanding.saturating_sub(1);
            if self.banned[ticket.config].is_none() {
                self.todo.push_back(ticket.config);
            }
            self.advance_if_done();
        }
    }

    pub(super) fn failure(&self, config: usize) -> Option<&Failure> {
        self.banned.get(config)?.as_ref()
    }

    pub(super) fn current(&self) -> usize {
        self.current
    }

    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    pub(super) fn is_scanning(&self) -> bool {
        self.phase != Phase::Locked
    }

    pub(super) fn samples(&self, config: usize) -> Vec<f64> {
        self.samples.get(config).map(|s| s.iter().copied().collect()).unwrap_or_default()
    }

    /// Uses `config` from now on, as if a scan had found it.
    pub(super) fn set(&mut self, config: usize) {
        self.todo.clear();
        self.finalists.clear();
        self.outstanding = 0;
        self.epoch += 1;
        self.phase = Phase::Locked;
        self.complete = true;
        self.since_last = 0;
        self.locked_at = self.now;
        self.current = config;
        self.watch_anew();
    }

    /// Uses `config` while the scan goes on: a hint that has not been validated.
    pub(super) fn prefer(&mut self, config: usize) {
        self.current = config;
    }
}

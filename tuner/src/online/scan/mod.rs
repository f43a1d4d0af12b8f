//! State of an on-line tuner: chooses the configuration of each launch, and learns from its time.
//!
//! A scan takes sweeps, each one sample of every configuration, so that slow changes of the machine
//! affect all alike. The first tuning takes M sweeps. Then a screening samples again what may only
//! have been unlucky: of a kernel with two modes, all M samples of the best configuration may lie
//! in the slow mode. Then a run-off gives the most promising more samples, because five cannot tell
//! near-equals apart; then the best is locked. A periodic scan is one sweep, in which each sample
//! replaces the oldest of its configuration, with a run-off behind it. After drift, M sweeps
//! follow. The launches of a scan follow each other: a scan is short, and none of its samples is
//! old when it ends.
//!
//! ```text
//! first use       M sweeps → screening → run-off → locked
//! after a period  1 sweep             → run-off → locked
//! after drift     M sweeps → screening → run-off → locked
//! ```
//!
//! Nothing here waits, locks, or reads a clock: the time comes with each launch.

mod choice;

use super::{Again, Counters, Options, ScanCause, Statistic};
use crate::drift::DriftDetector;
use crate::statistics::median;
use crate::{Failure, FailureKind};
use chacha20::ChaCha8Rng;
use rand::{SeedableRng as _, seq::SliceRandom as _};
use std::collections::VecDeque;
use std::time::Duration;

/// Launch whose time is awaited.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaunchTicket {
    epoch: u64,
    config: usize,
    /// True for a launch of the configuration in use that only watches for drift.
    monitor: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScanPhase {
    Scanning(ScanCause),
    /// More samples of configurations that may only have been unlucky.
    Screening(ScanCause),
    /// Rounds between the finalists.
    RunOff(ScanCause),
    Locked,
}

/// Lost times of a configuration in one scan after which it counts as failed.
///
/// A time is lost if the event that should give it never completes, or the launch fails after it
/// began. Now and then this is chance; eight times in a scan it is the configuration.
const PATIENCE: u32 = 8;

/// Largest share of the launches since the last scan that the next one may cost, if the user chose
/// no period.
const MOST_LOST: f64 = 0.002;

/// Shortest time between scans, if the user chose no period.
const USUAL_PERIOD: Duration = Duration::from_mins(5);

/// Number of finalists in the run-off.
///
/// More finalists would share the same launches among candidates that hardly ever win.
const FINALISTS: usize = 8;

/// Maximum number of samples of a finalist, in rounds of the run-off, which ends earlier if the
/// winner is clear. At 3 % noise 150 rounds of ten tell 0.3 %, and cost little, because the
/// finalists are nearly as fast as the best.
const RUN_OFF_ROUNDS: usize = 150;

/// Zone of indifference: the share of the time by which a change must win.
///
/// A gain of less than a thousandth is not worth a change.
const INDIFFERENCE: f64 = 0.001;

pub(super) struct Scan {
    options: Options,
    samples: Vec<VecDeque<f64>>,
    banned: Vec<Option<Failure>>,
    lost: Vec<u32>,
    phase: ScanPhase,
    /// Configurations of the scan's remaining launches, in order.
    todo: VecDeque<usize>,
    finalists: Vec<usize>,
    outstanding: usize,
    /// Number of the scan; tickets of earlier ones are void.
    epoch: u64,
    current: usize,
    default: usize,
    complete: bool,
    last_failure: Option<Failure>,
    detector: DriftDetector,
    explored_before: u64,
    /// Time of the last launch.
    now: Duration,
    /// Number and time of the launch at which the last scan ended.
    locked_at: (u64, Duration),
    /// Time that the next sweep is expected to lose, in launches.
    cost: f64,
    /// Launch before which drift starts no scan, and the number of launches of the last such wait.
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
            phase: ScanPhase::Locked,
            todo: VecDeque::new(),
            finalists: Vec::new(),
            outstanding: 0,
            epoch: 0,
            current: default,
            default,
            complete: false,
            last_failure: None,
            detector: DriftDetector::default(),
            explored_before: 0,
            now: Duration::ZERO,
            locked_at: (0, Duration::ZERO),
            cost: 0.0,
            quiet_until: 0,
            quiet: 0,
            lot: ChaCha8Rng::seed_from_u64(options.seed),
            counters: Counters::default(),
            options,
        };
        scan.start(ScanCause::First);
        scan
    }

    /// Returns the configuration of the next launch, which is number `launches`, and a ticket if
    /// its time is needed.
    pub(super) fn assign(&mut self, now: Duration, launches: u64) -> (usize, Option<LaunchTicket>) {
        self.counters.launches = self.counters.launches.max(launches);
        self.now = now;
        if self.has_failed() {
            return (self.current, None);
        }
        if self.phase == ScanPhase::Locked && self.is_due() {
            self.start(ScanCause::Period);
        }
        match self.todo.pop_front() {
            Some(config) => self.explore(config),
            None if self.phase == ScanPhase::Locked => self.locked_launch(),
            // All samples are in flight: use the best known configuration until they are back.
            None => (self.current, None),
        }
    }

    /// Returns true if the period is over.
    fn is_due(&self) -> bool {
        let (launches, time) = self.locked_at;
        let (launches, time) = (
            self.counters.launches - launches,
            self.now.saturating_sub(time),
        );
        match self.options.again {
            Again::Never => false,
            Again::AfterLaunches(period) => launches >= period,
            Again::After(period) => time >= period,
            Again::Usual => time >= USUAL_PERIOD && self.cost <= MOST_LOST * launches as f64,
        }
    }

    /// Returns the time that a sweep loses against the configuration in use, in launches of that
    /// configuration.
    fn cost_of_sweep(&self) -> f64 {
        let Some(current) = self.estimate(self.current) else {
            return 0.0;
        };
        let lost = |config: usize| {
            self.estimate(config)
                .map_or(0.0, |time| (time / current - 1.0).max(0.0))
        };
        self.valid().into_iter().map(lost).sum()
    }

    fn locked_launch(&self) -> (usize, Option<LaunchTicket>) {
        (
            self.current,
            Some(LaunchTicket {
                epoch: self.epoch,
                config: self.current,
                monitor: true,
            }),
        )
    }

    fn explore(&mut self, config: usize) -> (usize, Option<LaunchTicket>) {
        self.outstanding += 1;
        let away = u64::from(config != self.current);
        self.counters.explored += away;
        self.counters.explored_after += if self.complete { away } else { 0 };
        (
            config,
            Some(LaunchTicket {
                epoch: self.epoch,
                config,
                monitor: false,
            }),
        )
    }

    /// Takes the time of a launch, or the loss of it (`None`).
    pub(super) fn take(&mut self, ticket: LaunchTicket, time: Option<f64>) {
        if ticket.epoch != self.epoch {
            return;
        }
        let time = time.filter(|t| t.is_finite() && *t > 0.0);
        if ticket.monitor {
            if self.phase == ScanPhase::Locked
                && ticket.config == self.current
                && time.is_some_and(|time| self.detector.push(time))
                && self.counters.launches >= self.quiet_until
            {
                self.counters.drifts += 1;
                self.start(ScanCause::Drift);
            }
            return;
        }
        self.outstanding = self.outstanding.saturating_sub(1);
        let config = ticket.config;
        match time {
            _ if self.banned[config].is_some() => {}
            Some(time) => {
                let replaces = matches!(
                    self.phase,
                    ScanPhase::Scanning(ScanCause::Period | ScanCause::Drift)
                );
                if replaces && self.samples[config].len() >= self.options.samples {
                    self.samples[config].pop_front();
                }
                self.samples[config].push_back(time);
            }
            None => {
                self.lost[config] += 1;
                if self.lost[config] < PATIENCE {
                    self.todo.push_back(config);
                } else {
                    let what = format!("{PATIENCE} launches of it gave no time");
                    self.ban(config, FailureKind::Launch.because(what));
                }
            }
        }
        self.advance_if_done();
    }

    /// Begins a scan for `cause`.
    fn start(&mut self, cause: ScanCause) {
        self.todo.clear();
        self.finalists.clear();
        self.outstanding = 0;
        self.epoch += 1;
        self.lost.fill(0);
        let target = self.options.samples;
        // Only the newest samples count, so that a change is followed.
        for samples in &mut self.samples {
            let extra = samples.len().saturating_sub(target);
            samples.drain(..extra);
        }
        let sweeps = match cause {
            ScanCause::First | ScanCause::Drift => target,
            // One sweep, unless the choice came from the store and samples are missing.
            ScanCause::Period => {
                let fewest = self
                    .valid()
                    .into_iter()
                    .map(|config| self.samples[config].len())
                    .min()
                    .unwrap_or(0);
                target.saturating_sub(fewest).max(1)
            }
        };
        self.phase = ScanPhase::Scanning(cause);
        self.counters.scans += 1;
        self.explored_before = self.counters.explored;
        for _ in 0..sweeps {
            self.queue_sweep(&self.valid());
        }
        self.advance_if_done();
    }

    fn valid(&self) -> Vec<usize> {
        (0..self.samples.len())
            .filter(|i| self.banned[*i].is_none())
            .collect()
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
            ScanPhase::Locked => {}
            ScanPhase::Scanning(cause) | ScanPhase::Screening(cause) => self.screen(cause),
            ScanPhase::RunOff(cause) => self.run_off(cause),
        }
    }

    /// Queues one more sample of all configurations that may only have been unlucky, or begins the
    /// run-off.
    ///
    /// A maximum grows with the number of samples, so that all configurations need the same number.
    fn screen(&mut self, cause: ScanCause) {
        if self.options.run_off == 0 || self.options.statistic == Statistic::Maximum {
            return self.lock(cause);
        }
        if self.options.statistic == Statistic::Median {
            self.phase = ScanPhase::Screening(cause);
            self.queue_sweep(&self.unlucky());
        }
        if self.todo.is_empty() {
            self.finalists = self.promising();
            self.run_off(cause);
        }
    }

    /// Queues a round of the run-off, or locks the best if more samples cannot decide. Finalists of
    /// an earlier run-off still have their samples; new ones catch up.
    fn run_off(&mut self, cause: ScanCause) {
        self.phase = ScanPhase::RunOff(cause);
        self.finalists = self.undecided();
        if self.finalists.len() > 1 {
            let count = |config: &usize| self.samples[*config].len();
            let most = self.options.samples + self.options.run_off * RUN_OFF_ROUNDS;
            let fewest = self.finalists.iter().map(count).min().unwrap_or(most);
            // Each round is half as long as all before it: the closer the race, the less a decision
            // is worth.
            let target = most.min(fewest + self.options.run_off.max(fewest / 2));
            let rows: Vec<Vec<usize>> = (fewest..target)
                .map(|have| {
                    self.finalists
                        .iter()
                        .copied()
                        .filter(|config| count(config) <= have)
                        .collect()
                })
                .collect();
            for row in rows {
                self.queue_sweep(&row);
            }
        }
        if self.todo.is_empty() {
            self.lock(cause);
        }
    }

    fn lock(&mut self, cause: ScanCause) {
        let before = self.current;
        if self.has_failed() {
            self.phase = ScanPhase::Locked;
            return;
        }
        self.current = self.best();
        self.phase = ScanPhase::Locked;
        self.locked_at = (self.counters.launches, self.now);
        self.cost = self.cost_of_sweep();
        if !self.complete {
            self.complete = true;
            self.counters.first_tuning = self.counters.launches;
        }
        if self.current != before {
            self.counters.changes += u64::from(cause != ScanCause::First);
            self.quiet = 0;
            self.watch_anew();
        } else if cause == ScanCause::First {
            self.watch_anew();
        } else if cause == ScanCause::Drift {
            // A false alarm: the detector learns from it, and the next one has to wait, longer each
            // time.
            self.detector.was_harmless();
            self.watch_anew();
            let cost = self.counters.explored - self.explored_before;
            self.quiet = (2 * self.quiet).max(10 * cost).min(1 << 40);
            self.quiet_until = self.counters.launches + self.quiet;
        }
    }

    /// Watches the configuration in use from now on. The usual deviations are learned from all
    /// configurations together: two spikes among the few samples of one look like a second mode,
    /// which would hide a drift.
    fn watch_anew(&mut self) {
        let mut strays = Vec::new();
        for samples in self.samples.iter().filter(|samples| samples.len() > 2) {
            let samples: Vec<f64> = samples.iter().copied().collect();
            let middle = median(&samples);
            strays.extend(samples.iter().map(|time| time / middle));
        }
        self.detector.restart(&strays);
    }

    /// Excludes a failed configuration for good.
    pub(super) fn ban(&mut self, config: usize, failure: Failure) {
        if self.banned[config].is_none() {
            self.last_failure = Some(failure.clone());
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

    /// Takes the failure of a launch.
    pub(super) fn fail(&mut self, config: usize, ticket: Option<LaunchTicket>, failure: Failure) {
        self.ban(config, failure);
        if let Some(ticket) = ticket
            && ticket.epoch == self.epoch
            && !ticket.monitor
        {
            self.outstanding = self.outstanding.saturating_sub(1);
        }
        self.advance_if_done();
    }

    /// Queues a launch again that did not take place.
    pub(super) fn put_back(&mut self, ticket: LaunchTicket) {
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
        self.complete && !self.has_failed()
    }

    /// Returns true if every configuration failed.
    fn has_failed(&self) -> bool {
        self.banned.iter().all(Option::is_some)
    }

    /// Returns the last failure if every configuration failed.
    pub(super) fn last_failure(&self) -> Option<&Failure> {
        self.last_failure.as_ref().filter(|_| self.has_failed())
    }

    /// Begins a scan as if the period were over, unless one is going on.
    pub(super) fn scan_again(&mut self) {
        if self.phase == ScanPhase::Locked && !self.has_failed() {
            self.start(ScanCause::Period);
        }
    }

    pub(super) fn is_scanning(&self) -> bool {
        self.phase != ScanPhase::Locked
    }

    pub(super) fn samples(&self, config: usize) -> Vec<f64> {
        self.samples
            .get(config)
            .map(|s| s.iter().copied().collect())
            .unwrap_or_default()
    }

    /// Uses `config` from now on, as if a scan had found it.
    pub(super) fn set(&mut self, config: usize) {
        self.todo.clear();
        self.finalists.clear();
        self.outstanding = 0;
        self.epoch += 1;
        self.phase = ScanPhase::Locked;
        self.complete = true;
        self.locked_at = (self.counters.launches, self.now);
        self.current = config;
        self.watch_anew();
    }

    /// Uses `config` while the scan goes on.
    pub(super) fn prefer(&mut self, config: usize) {
        self.current = config;
    }
}

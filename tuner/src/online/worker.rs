//! Workers of an on-line tuner: one for each thread or stream that launches.

use super::scan::{LaunchTicket, Scan};
use super::{Tuner, TunerState};
use crate::{Config, Failure};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard, TryLockError};

/// Progress of a launch.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Progress {
    /// Not finished.
    Running,
    /// Finished, with the time in ms.
    Done(f64),
    /// Finished without a time.
    Lost,
}

/// Launch in flight: a pair of events on a stream, or a clock that was read.
pub trait Event {
    /// Returns the progress, without waiting.
    fn poll(&mut self) -> Progress;
}

/// Time in ms of a finished launch, such as a launch of a CPU decoder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Elapsed(pub f64);

impl Event for Elapsed {
    fn poll(&mut self) -> Progress {
        Progress::Done(self.0)
    }
}

/// Maximum number of launches in flight whose times a worker awaits; others are not timed.
const IN_FLIGHT: usize = 64;
/// Number of later launches of the same worker after which an unfinished launch counts as lost.
const FORGOTTEN: u64 = 100_000;

/// Number of launches of a locked tuner for each timed launch.
const UNTIMED: u64 = 3;

/// Worker of one thread: `begin`, launch with `param`, `end`. Never waits for a launch or another
/// worker.
pub struct Worker<E: Event> {
    shared: Arc<TunerState>,
    config: usize,
    ticket: Option<LaunchTicket>,
    launches: u64,
    /// Number of the launch from which on a locked tuner is asked again.
    asks_at: u64,
    pending: VecDeque<(LaunchTicket, E, f64, u64)>,
    /// Results that arrived while another worker held the tuner.
    held_back: Vec<(LaunchTicket, Returned)>,
}

/// Result of a ticket.
#[derive(Clone, Copy, Debug)]
enum Returned {
    Time(f64),
    Lost,
    /// The launch did not take place, or did no work.
    Unused,
}

impl Tuner {
    /// Makes a worker.
    pub fn worker<E: Event>(&self) -> Worker<E> {
        Worker {
            shared: Arc::clone(&self.shared),
            config: self.shared.current.load(Relaxed),
            ticket: None,
            launches: 0,
            asks_at: 0,
            pending: VecDeque::new(),
            held_back: Vec::new(),
        }
    }
}

impl<E: Event> Worker<E> {
    /// Collects the times of finished launches, and chooses the configuration of the next one. Call
    /// before a launch.
    pub fn begin(&mut self) -> &Config {
        self.launches += 1;
        let all = self.shared.launches.fetch_add(1, Relaxed) + 1;
        self.poll();
        if self.ticket.is_none() && self.launches < self.asks_at && self.shared.locked.load(Relaxed)
        {
            self.config = self.shared.current.load(Relaxed);
            return self.param();
        }
        if let Some(ticket) = self.ticket.take() {
            // The last launch was not ended.
            self.held_back.push((ticket, Returned::Unused));
        }
        let full = self.pending.len() >= IN_FLIGHT || self.held_back.len() >= IN_FLIGHT;
        match try_lock(&self.shared) {
            Some(mut scan) if !full => {
                deliver(&mut self.held_back, &mut scan);
                (self.config, self.ticket) = scan.assign(self.shared.begun.elapsed(), all);
                self.asks_at = self.launches + UNTIMED + 1;
                self.shared.publish(&scan);
            }
            _ => self.config = self.shared.current.load(Relaxed),
        }
        self.param()
    }

    /// Returns the configuration of the launch that `begin` announced.
    pub fn param(&self) -> &Config {
        &self.shared.configs[self.config]
    }

    /// Returns true if the time of this launch is needed. If not, no event need be recorded.
    pub fn is_timed(&self) -> bool {
        self.ticket.is_some()
    }

    /// Takes the event of a launch, to be polled later. Call after a launch.
    pub fn end(&mut self, event: E) {
        self.end_of(event, 1.0);
    }

    /// Takes the event of a launch that did `work` units of work (events, hits): the time for a
    /// unit is compared. The time is not used if the work is not positive.
    pub fn end_of(&mut self, event: E, work: f64) {
        if let Some(ticket) = self.ticket.take() {
            self.pending.push_back((ticket, event, work, self.launches));
        }
    }

    /// Takes the failure of a launch, instead of `end`. No worker uses the configuration again.
    ///
    /// May wait shortly for another worker's lock: a failure must not get lost.
    pub fn fail(&mut self, failure: Failure) {
        let ticket = self.ticket.take();
        let mut scan = self.shared.lock();
        deliver(&mut self.held_back, &mut scan);
        scan.fail(self.config, ticket, failure);
        self.shared.publish(&scan);
    }

    /// Collects the times of finished launches, as `begin` does.
    pub fn poll(&mut self) {
        let now = self.launches;
        let held_back = &mut self.held_back;
        // Polls every launch: one stream finishes in order, several do not.
        self.pending.retain_mut(|(ticket, event, work, since)| {
            let returned = match event.poll() {
                Progress::Running if now - *since < FORGOTTEN => return true,
                Progress::Done(time) if *work > 0.0 => Returned::Time(time / *work),
                // The time of no work says nothing about a configuration.
                Progress::Done(_) => Returned::Unused,
                Progress::Running | Progress::Lost => Returned::Lost,
            };
            held_back.push((*ticket, returned));
            false
        });
        if !self.held_back.is_empty()
            && let Some(mut scan) = try_lock(&self.shared)
        {
            deliver(&mut self.held_back, &mut scan);
            self.shared.publish(&scan);
        }
    }
}

fn deliver(held_back: &mut Vec<(LaunchTicket, Returned)>, scan: &mut Scan) {
    for (ticket, returned) in held_back.drain(..) {
        match returned {
            Returned::Time(time) => scan.take(ticket, Some(time)),
            Returned::Lost => scan.take(ticket, None),
            Returned::Unused => scan.put_back(ticket),
        }
    }
}

impl<E: Event> Drop for Worker<E> {
    /// Returns the launches in flight to the tuner, which repeats them.
    fn drop(&mut self) {
        let unfinished = self
            .pending
            .drain(..)
            .map(|(ticket, ..)| ticket)
            .chain(self.ticket.take());
        self.held_back
            .extend(unfinished.map(|ticket| (ticket, Returned::Unused)));
        let mut scan = self.shared.lock();
        deliver(&mut self.held_back, &mut scan);
    }
}

fn try_lock(shared: &TunerState) -> Option<MutexGuard<'_, Scan>> {
    match shared.scan.try_lock() {
        Ok(scan) => Some(scan),
        // The state is counters and samples, which are valid between any two statements that can
        // panic.
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

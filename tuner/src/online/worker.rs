//! The hands of an on-line tuner: one for each thread or stream that launches.

use super::scan::{Scan, Ticket};
use super::{Shared, Tuner};
use crate::{Config, Failure};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard, TryLockError};

/// Progress of a launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// Not finished yet.
    Running,
    /// Finished; its time in ms.
    Done(f64),
    /// No time will come.
    Lost,
}

/// A launch in flight: a pair of events on a stream, or a clock that was read.
pub trait Event {
    /// Looks, without waiting.
    fn poll(&mut self) -> Progress;
}

/// A launch that has already finished, with its time in ms: what a CPU decoder has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Elapsed(pub f64);

impl Event for Elapsed {
    fn poll(&mut self) -> Progress {
        Progress::Done(self.0)
    }
}

/// Launches a worker keeps an eye on; beyond it, launches go untimed until some are finished.
const IN_FLIGHT: usize = 64;
/// A launch not finished after this many later ones of the same worker never will be.
const FORGOTTEN: u64 = 100_000;

/// One worker. `begin`, launch with `param`, `end`; never waits, neither for a launch nor for another worker.
pub struct Worker<E: Event> {
    shared: Arc<Shared>,
    config: usize,
    ticket: Option<Ticket>,
    launches: u64,
    pending: VecDeque<(Ticket, E, f64, u64)>,
    /// Times that came while another worker held the tuner.
    held_back: Vec<(Ticket, Returned)>,
}

/// Result of a ticket.
#[derive(Clone, Copy, Debug)]
enum Returned {
    Time(f64),
    Lost,
    /// The launch never took place.
    Unused,
}

impl Tuner {
    /// A new worker.
    pub fn worker<E: Event>(&self) -> Worker<E> {
        Worker {
            shared: Arc::clone(&self.shared),
            config: self.shared.current.load(Relaxed),
            ticket: None,
            launches: 0,
            pending: VecDeque::new(),
            held_back: Vec::new(),
        }
    }
}

impl<E: Event> Worker<E> {
    /// Before a launch: collects the times of finished ones and chooses the configuration of the next.
    pub fn begin(&mut self) -> &Config {
        self.launches += 1;
        self.poll();
        if let Some(ticket) = self.ticket.take() {
            // The last launch was never ended.
            self.held_back.push((ticket, Returned::Unused));
        }
        let full = self.pending.len() >= IN_FLIGHT || self.held_back.len() >= IN_FLIGHT;
        match try_lock(&self.shared) {
            Some(mut scan) if !full => {
                deliver(&mut self.held_back, &mut scan);
                (self.config, self.ticket) = scan.assign(self.shared.begun.elapsed());
                self.shared.current.store(scan.current(), Relaxed);
            }
            _ => self.config = self.shared.current.load(Relaxed),
        }
        self.param()
    }

    /// The configuration of the launch that `begin` announced.
    pub fn param(&self) -> &Config {
        &self.shared.configs[self.config]
    }

    /// Returns true if the time of this launch is wanted; if not, the events need not be recorded.
    pub fn is_timed(&self) -> bool {
        self.ticket.is_some()
    }

    /// After a launch: leaves its event to be polled later.
    pub fn end(&mut self, event: E) {
        self.end_of(event, 1.0);
    }

    /// The same for a launch that did `work` units of work (events, hits): what is compared is the time for a unit.
    /// Work that is not a positive number makes the time worthless, and it is not used.
    pub fn end_of(&mut self, event: E, work: f64) {
        if let Some(ticket) = self.ticket.take() {
            self.pending.push_back((ticket, event, work, self.launches));
        }
    }

    /// Instead of `end`: the launch failed, or its result was wrong. The configuration is not used again by any worker.
    ///
    /// This may wait for another worker for the time of a few memory accesses: a failure must not get lost.
    pub fn fail(&mut self, failure: Failure) {
        let ticket = self.ticket.take();
        let mut scan = self.shared.lock();
        deliver(&mut self.held_back, &mut scan);
        scan.fail(self.config, ticket, failure);
        self.shared.current.store(scan.current(), Relaxed);
    }

    /// Collects the times of finished launches; `begin` does it, too.
    pub fn poll(&mut self) {
        let now = self.launches;
        let held_back = &mut self.held_back;
        // Streams finish in order, several streams do not: every one is asked.
        self.pending.retain_mut(|(ticket, event, work, since)| {
            let returned = match event.poll() {
                Progress::Running if now - *since < FORGOTTEN => return true,
                Progress::Done(time) if *work > 0.0 => Returned::Time(time / *work),
                // An empty batch says nothing about a configuration.
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
            self.shared.current.store(scan.current(), Relaxed);
        }
    }
}

fn deliver(held_back: &mut Vec<(Ticket, Returned)>, scan: &mut Scan) {
    for (ticket, returned) in held_back.drain(..) {
        match returned {
            Returned::Time(time) => scan.take(ticket, Some(time)),
            Returned::Lost => scan.take(ticket, None),
            Returned::Unused => scan.put_back(ticket),
        }
    }
}

impl<E: Event> Drop for Worker<E> {
    /// Gives up the launch in flight: the tuner will ask another worker.
    fn drop(&mut self) {
        let unfinished = self.pending.drain(..).map(|(ticket, ..)| ticket).chain(self.ticket.take());
        self.held_back.extend(unfinished.map(|ticket| (ticket, Returned::Unused)));
        let mut scan = self.shared.lock();
        deliver(&mut self.held_back, &mut scan);
    }
}

fn try_lock(shared: &Shared) -> Option<MutexGuard<'_, Scan>> {
    match shared.scan.try_lock() {
        Ok(scan) => Some(scan),
        // The state is counters and samples; it is whole between any two statements that can panic.
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

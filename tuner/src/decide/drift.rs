//! Detects that a series of times has moved to another level: another workload, another clock.
//!
//! Launch times are neither normal nor independent (a free clock moves by a third for tens of
//! launches and comes back), so no fixed threshold serves every machine. The detector learns how
//! far the medians of short windows stray, and reports drift when three windows in a row lie on the
//! same side, well beyond that.
//!
//! The numbers are a compromise. A window of 8 launches makes the median robust against three
//! outliers. Three windows in a row, on the same side, do not come from a clock that strays for a
//! window or two and returns. The price is a delay: a real step is reported after three to four
//! windows. What "far" means is learned: at least 5 %, at least twice the largest deviation that
//! turned out to be temporary, and at least six robust standard deviations.
//!
//! For example, with windows at 1.00, 1.01, 0.99, 1.00, 1.01, 1.00, 0.99, 1.00 ms the threshold is
//! 5 %. If the next windows are 1.30, 1.31 and 1.01 ms, the first two are suspects, the third
//! clears them, and both are remembered: from then on 30 % is known to be harmless here, and only
//! steps beyond about twice that raise an alarm.

use crate::statistics::{median, quantile, robust_spread};
use std::collections::VecDeque;

/// Number of times in a window.
const WINDOW: usize = 8;
/// Number of windows in a row that must be out of line.
const STREAK: usize = 3;
/// Number of windows before the first alarm is possible.
///
/// Before these have been seen, nothing is known about what is normal.
const SETTLE: usize = 8;
/// Smallest relative change that matters.
const LEAST: f64 = 0.05;
/// Factor by which a change must exceed the largest deviation seen so far.
///
/// The largest of some deviations is a weak estimate of how large they can become.
const MARGIN: f64 = 2.0;
/// Maximum number of windows to remember.
///
/// With a limit, the detector follows a workload that changes slowly, and its memory stays bounded.
const MEMORY: usize = 64;
/// Robust standard deviations of the window medians that a change must exceed as well.
const SPREADS: f64 = 6.0;

/// Detector, which takes one time after the other.
#[derive(Clone, Debug, Default)]
pub struct DriftDetector {
    window: Vec<f64>,
    /// Log medians of the past windows.
    past: VecDeque<f64>,
    /// Log medians of the last windows, if all are out of line on the same side.
    suspects: Vec<f64>,
    /// Largest deviation of single times: a window within one of two modes is as far off.
    single: f64,
    /// Largest deviation that turned out to be harmless.
    harmless: f64,
    /// Deviation that raised the last alarm.
    last_alarm: f64,
}

impl DriftDetector {
    /// Takes one time, and returns true for an alarm. Ignores numbers that are not positive.
    pub fn push(&mut self, time: f64) -> bool {
        if !(time.is_finite() && time > 0.0) {
            return false;
        }
        self.window.push(time.ln());
        if self.window.len() < WINDOW {
            return false;
        }
        // A full window: its median stands for it, and the single times are forgotten.
        let level = median(&self.window);
        self.window.clear();
        if self.past.len() < SETTLE {
            self.remember(level);
            return false;
        }
        let past: Vec<f64> = self.past.iter().copied().collect();
        let centre = median(&past);
        let strayed = past
            .iter()
            .map(|p| (p - centre).abs())
            .fold(self.harmless.max(self.single), f64::max);
        // Three conditions, of which the strictest counts. Everything is a logarithm, so that a
        // kernel of 10 µs and one of 10 s are treated alike.
        let threshold = LEAST
            .ln_1p()
            .max(MARGIN * strayed)
            .max(SPREADS * robust_spread(&past));
        let away = level - centre;
        let odd = away.abs() > threshold;
        if !odd
            || self
                .suspects
                .first()
                .is_some_and(|first| (first - centre).signum() != away.signum())
        {
            // Deviations that did not last are normal here.
            for suspect in std::mem::take(&mut self.suspects) {
                self.remember(suspect);
            }
        }
        if !odd {
            self.remember(level);
            return false;
        }
        self.suspects.push(level);
        if self.suspects.len() < STREAK {
            return false;
        }
        // The smallest of the three deviations: if the alarm proves harmless, later windows up to
        // this level are known to be harmless, too.
        self.last_alarm = self
            .suspects
            .drain(..)
            .map(|s| (s - centre).abs())
            .fold(f64::INFINITY, f64::min);
        true
    }

    /// Starts again at the level that follows, and keeps the harmless deviation. `samples` are
    /// earlier times relative to their level: deviations up to their tenth and ninetieth
    /// percentiles are not drift.
    pub fn restart(&mut self, samples: &[f64]) {
        let middle = median(samples);
        let stray = [0.1, 0.9].map(|p| (quantile(samples, p) / middle).ln().abs());
        self.single = if samples.len() < 5 {
            0.0
        } else {
            stray.into_iter().fold(0.0, f64::max)
        };
        self.window.clear();
        self.past.clear();
        self.suspects.clear();
    }

    /// Calls the last alarm harmless: a deviation of its size raises no other.
    pub fn was_harmless(&mut self) {
        self.harmless = self.harmless.max(self.last_alarm);
    }

    fn remember(&mut self, level: f64) {
        if self.past.len() == MEMORY {
            self.past.pop_front();
        }
        self.past.push_back(level);
    }
}

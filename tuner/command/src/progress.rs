//! A progress bar for work of more than a second, on a terminal.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use crate::output::{is_quiet, say};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Time before the bar is shown.
const PATIENCE: Duration = Duration::from_secs(1);

/// A bar on standard error, hidden at first, and for good if that is not a terminal.
pub struct Progress {
    bar: ProgressBar,
    start: Instant,
    shown: bool,
}

impl Progress {
    /// Makes a bar that is full at `total`, after a template of indicatif's.
    pub fn new(total: u64, template: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self {
            bar,
            start: Instant::now(),
            shown: !stderr().is_terminal() || is_quiet(),
        }
    }

    /// Fills the bar up to a position.
    pub fn set(&mut self, position: u64) {
        if !self.shown && self.start.elapsed() > PATIENCE {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.shown = true;
        }
        self.bar.set_position(position);
    }

    /// Sets the template's `{msg}`.
    pub fn message(&self, text: &str) {
        self.bar.set_message(text.to_owned());
    }

    /// Prints a line above the bar.
    pub fn say(&self, line: &str) {
        self.bar.suspend(|| say(line));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

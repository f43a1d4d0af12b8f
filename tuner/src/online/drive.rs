//! Real work with an on-line tuner, where the work is a [`Device`].

use super::{Counters, Elapsed, OnlineError, Tuner};
use crate::{Config, Device, Outcome};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// What a tuner came to while it worked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Driven {
    /// What was used in the end.
    pub chosen: Config,
    /// Whether the tuner has locked a configuration.
    pub complete: bool,
    /// What it did.
    pub counters: Counters,
    /// Mean time of a launch, exploring ones included, ms.
    pub mean_ms: f64,
}

/// Launches for `duration`, and at least once, with what `tuner` chooses each time. `tick` is told how much of the
/// duration is over.
///
/// # Errors
/// [`OnlineError::Banned`]: the default failed. Any other configuration that fails is only not used again.
pub fn drive(
    tuner: &Tuner,
    device: &mut dyn Device,
    duration: Duration,
    mut tick: impl FnMut(Duration),
) -> Result<Driven, OnlineError> {
    let mut worker = tuner.worker();
    let (mut sum, mut launches) = (0.0, 0_u32);
    let start = Instant::now();
    loop {
        let config = worker.begin().clone();
        match device.measure(&config, 1) {
            Outcome::Times(times) => {
                let time = times.first().copied().unwrap_or(f64::NAN);
                sum += time;
                launches += 1;
                worker.end(Elapsed(time));
            }
            Outcome::Failed(failure) if config == *tuner.default_config() => {
                return Err(OnlineError::Banned { config, failure });
            }
            Outcome::Failed(failure) => worker.fail(failure),
        }
        tick(start.elapsed());
        if start.elapsed() >= duration {
            break;
        }
    }
    worker.poll();
    Ok(Driven {
        chosen: tuner.best(),
        complete: tuner.is_complete(),
        counters: tuner.counters(),
        mean_ms: sum / f64::from(launches.max(1)),
    })
}

//! Asking for a tuned configuration, and getting one without caring where it comes from.
//!
//! [`tuned`] looks into the store. What matches in everything is used. What matches only nearly is validated first:
//! measured here against the default, in turns; if it fails or is slower, the next best is tried. If nothing is left, it
//! tunes (where that is allowed and there is something to measure with), and keeps the result; else the default is used.
//! Whichever it is, [`Tuned`] says so.
//! [`first_use`](crate::first_use) is the short form for a closure.
//!
//! Tests must not depend on what a machine has in its stores, nor wait for a tuning: inside this crate's own tests, and
//! after [`stub`], everything is answered with the default, unless the request forces it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use super::session::{Progress, Session, TuneError};
use super::store::{Found, Locations, Store, StoreError, Task};
use super::strategy::search_time;
use super::tune;
use super::{Config, Device};

/// A relaxed match may be slower than the default by this share and still count as no slower.
const SLACK: f64 = 0.02;

/// Rounds of a validation.
const ROUNDS: usize = 5;

/// Matches that are validated before it is given up.
const MOST_VALIDATED: usize = 3;

static STUBBED: AtomicBool = AtomicBool::new(cfg!(test));

/// From now on, in this process, every request that does not force it is answered with its default: for tests.
pub fn stub() {
    STUBBED.store(true, Ordering::Relaxed);
}

/// The request.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Session to run if nothing is found. Its default is what is used where nothing is tuned.
    pub session: Session<'a>,
    /// Allows tuning.
    pub tune: bool,
    /// Relaxation with which a match is used without validation: 0 is only what matches in everything; see
    /// [`Found::step`]. Something whose configurations cannot fail or give another result may allow more.
    pub trusted_step: u8,
    /// Answers in earnest even where everything is stubbed.
    pub force: bool,
}

impl<'a> Request<'a> {
    /// A request that may tune and trusts only what matches in everything.
    pub fn new(session: Session<'a>) -> Self {
        Self { session, tune: true, trusted_step: 0, force: false }
    }

    fn task(&self) -> &Task<'a> {
        &self.session.task
    }
}

/// Origin of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// From a store.
    Found(Box<Found>),
    /// From a store, matching nearly, and no slower here than the default.
    Validated(Box<Found>),
    /// Tuned just now; the number of the run.
    TunedNow(i64),
    /// Nothing was found, and tuning was not allowed.
    Default,
    /// This is a test.
    Stub,
}

/// A configuration to use.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuned {
    /// It; `None` where there is neither a result nor a default.
    pub config: Option<Config>,
    /// Origin of the configuration.
    pub source: Source,
    /// Results that were found and not used, and why.
    pub rejected: Vec<String>,
}

impl fmt::Display for Tuned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::Found(found) => f.write_str(&found.in_words())?,
            Source::Validated(found) => write!(f, "{}, no slower here than the default", found.in_words())?,
            Source::TunedNow(run) => write!(f, "tuned now (run {run})")?,
            Source::Default => write!(f, "not tuned: the default")?,
            Source::Stub => write!(f, "not tuned: a test")?,
        }
        self.rejected.iter().try_for_each(|rejected| write!(f, "; not used: {rejected}"))
    }
}

/// Answers a request. `device` measures, for validation and tuning; it is made only if it is needed. `tell` as for
/// [`tune`].
///
/// # Errors
/// Those of the stores, of making the device, and of tuning.
pub fn tuned<'d>(
    request: &Request<'_>,
    locations: &Locations,
    device: Option<&mut dyn FnMut() -> Result<Box<dyn Device + 'd>, String>>,
    tell: &mut dyn FnMut(&Progress<'_>) -> bool,
) -> Result<Tuned, TunedError> {
    let default = request.session.default.clone();
    if STUBBED.load(Ordering::Relaxed) && !request.force {
        return Ok(Tuned { config: default, source: Source::Stub, rejected: Vec::new() });
    }
    let mut rejected = Vec::new();
    let mut made: Option<Box<dyn Device + 'd>> = None;
    let mut make = device;
    for (validated, found) in locations.find(request.task())?.into_iter().enumerate() {
        if found.step() <= request.trusted_step {
            return Ok(Tuned { config: Some(found.config.clone()), source: Source::Found(Box::new(found)), rejected });
        }
        if validated == MOST_VALIDATED {
            break;
        }
        if made.is_none()
            && let Some(make) = make.as_mut()
        {
            made = Some(make().map_err(TunedError::Device)?);
        }
        let verdict = match made.as_mut() {
            Some(device) => validate(device.as_mut(), &found.config, default.as_ref()),
            None => Err("it is not validated here".to_owned()),
        };
        match verdict {
            Ok(()) => {
                let config = Some(found.config.clone());
                return Ok(Tuned { config, source: Source::Validated(Box::new(found)), rejected });
            }
            Err(why) => rejected.push(format!("{}: {why}", found.in_words())),
        }
    }
    if !request.tune {
        return Ok(Tuned { config: default, source: Source::Default, rejected });
    }
    if made.is_none()
        && let Some(make) = make.as_mut()
    {
        made = Some(make().map_err(TunedError::Device)?);
    }
    let Some(mut device) = made else {
        return Ok(Tuned { config: default, source: Source::Default, rejected });
    };
    let mut store = Store::open(&locations.user)?;
    let tuning = tune(&request.session, device.as_mut(), &mut store, tell)?;
    Ok(Tuned { config: Some(tuning.evidence.chosen.config), source: Source::TunedNow(tuning.run), rejected })
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum TunedError {
    /// A store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The tuning failed.
    #[error(transparent)]
    Tune(#[from] TuneError),
    /// There is nothing to measure with.
    #[error("the device: {0}")]
    Device(String),
}

/// Measures `config` against the default, in turns.
fn validate(device: &mut dyn Device, config: &Config, default: Option<&Config>) -> Result<(), String> {
    let mut sides = vec![(config, Vec::new())];
    sides.extend(default.filter(|&default| default != config).map(|default| (default, Vec::new())));
    for round in 0..ROUNDS {
        let places: Vec<usize> =
            if round % 2 == 0 { (0..sides.len()).collect() } else { (0..sides.len()).rev().collect() };
        for place in places {
            let (config, times) = &mut sides[place];
            let outcome = device.measure(config, 1);
            match (place, search_time(&outcome), outcome) {
                (_, Some(time), _) => times.push(time),
                (0, None, super::Outcome::Failed(failure)) => {
                    return Err(format!("it fails here: {}", failure.message));
                }
                (0, None, super::Outcome::Times(_)) => return Err("it gives no time here".to_owned()),
                // A default that fails is not an argument against another configuration.
                (_, None, _) => times.push(f64::INFINITY),
            }
        }
    }
    let median = |place: usize| sides.get(place).map(|(_, times)| super::statistics::median(times));
    match (median(0), median(1)) {
        (Some(time), Some(default)) if time > default * (1.0 + SLACK) => {
            Err(format!("here it takes {:.2} times as long as the default", time / default))
        }
        _ => Ok(()),
    }
}

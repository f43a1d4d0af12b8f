//! On-line tuning from C and C++. `include/online_tuner.h` says what the functions do.

mod version;

pub use version::{TUNER_ABI_VERSION, tuner_abi_version, tuner_version};

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int, c_void};
use std::slice;
use std::time::Duration;

use tuner::online::{Again, Counters, Event, Options, Progress, Statistic, Tuner, Worker, grid};
use tuner::{Config, FailureKind, Value};

/// Result of a function that had an error.
const ERROR: c_int = -1;

/// Parameter of a kernel.
#[repr(C)]
pub struct TunerParameter {
    /// Values.
    pub values: *const i64,
    /// Number of values.
    pub count: usize,
    /// Value to start with.
    pub start: i64,
}

/// Settings of a tuner. Zeros are the defaults.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct TunerOptions {
    /// Number of samples of each configuration; 0: 5.
    pub samples: usize,
    /// Statistic of the samples; 0: median, 1: mean, 2: maximum.
    pub statistic: c_int,
    /// Time in s after which all are sampled again; 0: the usual, below 0: never.
    pub again_after_s: f64,
}

/// Counters of a tuner.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "those of `tuner::online::Counters`")]
pub struct TunerCounters {
    pub launches: u64,
    pub explored: u64,
    pub explored_after: u64,
    pub first_tuning: u64,
    pub scans: u64,
    pub drifts: u64,
    pub changes: u64,
}

/// Tuner, and the worker of the thread that launches.
pub struct TunerKernel {
    tuner: Tuner,
    worker: Worker<Launch>,
}

/// Function that returns not 0 if a configuration can be launched.
pub type Valid = unsafe extern "C" fn(values: *const i64) -> c_int;

/// Function that writes the time of a launch; see the header.
pub type Poll = unsafe extern "C" fn(event: *mut c_void, ms: *mut f64) -> c_int;

/// Launch that was ended.
enum Launch {
    Elapsed(f64),
    Event(Poll, *mut c_void),
}

impl Event for Launch {
    fn poll(&mut self) -> Progress {
        let mut ms = f64::NAN;
        match self {
            Self::Elapsed(ms) => Progress::Done(*ms),
            // SAFETY:
            // - who called `tuner_end_event` gave a function that takes this event until it says
            //   that it has ended;
            // - `ms` is there for the call.
            Self::Event(poll, event) => match unsafe { poll(*event, &raw mut ms) } {
                0 => Progress::Running,
                1 => Progress::Done(ms),
                _ => Progress::Lost,
            },
        }
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Returns the result, or `otherwise` for an error, which [`tuner_error`] then tells.
fn told<T>(otherwise: T, result: Result<T, String>) -> T {
    result.unwrap_or_else(|message| {
        LAST.set(CString::new(message).unwrap_or_default());
        otherwise
    })
}

/// Dereferences a kernel, if there is one.
///
/// # Safety
/// - `kernel` is null, or of `tuner_new`, not freed, and no other thread uses it now.
unsafe fn of<'k>(kernel: *const TunerKernel) -> Result<&'k mut TunerKernel, String> {
    // SAFETY: it is null, or alive and not used by another thread.
    unsafe { kernel.cast_mut().as_mut() }.ok_or_else(|| "the kernel is NULL".to_owned())
}

fn numbers(config: &Config) -> Vec<i64> {
    config
        .0
        .iter()
        .map(|value| {
            if let Value::Int(number) = value {
                *number
            } else {
                0
            }
        })
        .collect()
}

fn options_of(options: TunerOptions) -> Result<Options, String> {
    let TunerOptions {
        samples,
        statistic,
        again_after_s,
    } = options;
    let statistic = match statistic {
        0 => Statistic::Median,
        1 => Statistic::Mean,
        2 => Statistic::Maximum,
        other => {
            return Err(format!(
                "statistic {other}: there are 0 (median), 1 (mean), 2 (maximum)"
            ));
        }
    };
    let again = match again_after_s {
        0.0 => Again::Usual,
        never if never < 0.0 => Again::Never,
        period => Again::After(
            Duration::try_from_secs_f64(period)
                .map_err(|error| format!("again_after_s: {error}"))?,
        ),
    };
    let options = Options::default()
        .with_statistic(statistic)
        .with_again(again);
    Ok(if samples == 0 {
        options
    } else {
        options.with_samples(samples)
    })
}

/// Makes a tuner; null if an argument is wrong.
///
/// # Safety
/// - `parameters` is null, or points to `count` parameters, each with null or a pointer to as many
///   values as it says;
/// - `valid` is null, or takes a pointer to `count` numbers;
/// - `options` is null, or points to options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tuner_new(
    parameters: *const TunerParameter,
    count: usize,
    valid: Option<Valid>,
    options: *const TunerOptions,
) -> *mut TunerKernel {
    let make = || {
        if parameters.is_null() {
            return Err("the parameters are NULL".to_owned());
        }
        let (mut dimensions, mut start) = (Vec::new(), Vec::new());
        for at in 0..count {
            // SAFETY: there are `count` parameters.
            let parameter = unsafe { &*parameters.add(at) };
            if parameter.values.is_null() || parameter.count == 0 {
                return Err(format!("parameter {at} has no values"));
            }
            // SAFETY: the parameter has as many values as it says.
            let values = unsafe { slice::from_raw_parts(parameter.values, parameter.count) };
            dimensions.push(("", values.iter().map(|&value| Value::Int(value)).collect()));
            start.push(Value::Int(parameter.start));
        }
        let is_valid = |config: &Config| match valid {
            // SAFETY: it takes a number for each parameter.
            Some(valid) => unsafe { valid(numbers(config).as_ptr()) != 0 },
            None => true,
        };
        // SAFETY: it is null, or there are options.
        let options = options_of(unsafe { options.as_ref() }.copied().unwrap_or_default())?;
        let configs = grid(&dimensions, is_valid).map_err(|error| error.to_string())?;
        let default = configs.iter().position(|config| config.0 == start);
        let default = default.ok_or("the start values are not a valid configuration")?;
        let tuner = Tuner::new(configs, default, options).map_err(|error| error.to_string())?;
        let worker = tuner.worker();
        Ok(Box::into_raw(Box::new(TunerKernel { tuner, worker })))
    };
    told(std::ptr::null_mut(), make())
}

/// Chooses the configuration of the next launch.
///
/// # Safety
/// - `kernel` is null, or of `tuner_new`, not freed, and no other thread uses it now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tuner_begin(kernel: *mut TunerKernel) -> c_int {
    // SAFETY: it is null, or alive and not used by another thread.
    let begun = unsafe { of(kernel) }.and_then(|kernel| {
        kernel.worker.begin();
        // Only a tuner that is not complete asks for the time and gets none.
        let failure = if kernel.worker.is_timed() {
            None
        } else {
            kernel.tuner.failure()
        };
        failure.map_or(Ok(0), |last| {
            Err(format!(
                "all configurations failed; the last: {}",
                last.message
            ))
        })
    });
    told(ERROR, begun)
}

/// Returns the value of a parameter for this launch.
///
/// # Safety
/// - as [`tuner_begin`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tuner_param(kernel: *const TunerKernel, parameter: usize) -> i64 {
    // SAFETY: it is null, or alive and not used by another thread.
    let value =
        unsafe { of(kernel) }.and_then(|kernel| match kernel.worker.param().0.get(parameter) {
            Some(Value::Int(number)) => Ok(*number),
            _ => Err(format!("there is no parameter {parameter}")),
        });
    told(i64::MIN, value)
}

/// Returns a number other than 0 if the time of this launch is needed.
///
/// # Safety
/// - as [`tuner_begin`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tuner_is_timed(kernel: *const TunerKernel) -> c_int {
    // SAFETY: it is null, or alive and not used by another thread.
    told(
        ERROR,
        unsafe { of(kernel) }.map(|kernel| c_int::from(kernel.worker.is_timed())),
    )
}

/// Ends a launch that took `ms`, or failed.
///
/// # Safety
/// - as [`tuner_begin`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tuner_end(kernel: *mut TunerKernel, ms: f64) -> c_int {
    // SAFETY: it is null, or alive and not used by another thread.
    let ended = unsafe { of(kernel) }.map(|kernel| {
        if ms < 0.0 {
            let config = numbers(kernel.worker.param());
            let what = format!("the launch of {config:?} failed");
            kernel.worker.fail(FailureKind::Launch.because(what));
        } else {
            kernel.worker.end(Launch::Elapsed(ms));
        }
        0
    });
    told(ERROR, ended)
}

/// Ends a launch whose time will be known later.
///
/// # Safety
/// - as [`tuner_begin`];
/// - `poll` is null, or takes `event` until it returns anything but 0, or until `tuner_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tuner_end_event(
    kernel: *mut TunerKernel,
    poll: Option<Poll>,
    event: *mut c_void,
) -> c_int {
    // SAFETY: it is null, or alive and not used by another thread.
    let ended = unsafe { of(kernel) }.and_then(|kernel| {
        kernel.worker.end(Launch::Event(
            poll.ok_or("the poll function is NULL")?,
            event,
        ));
        Ok(0)
    });
    told(ERROR, ended)
}

/// Returns 1 once the first tuning is complete, 0 before; -1 if all configurations failed.
///
/// # Safety
/// - as [`tuner_begin`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tuner_is_complete(kernel: *const TunerKernel) -> c_int {
    // SAFETY: it is null, or alive and not used by another thread.
    let complete = unsafe { of(kernel) }.and_then(|kernel| match kernel.tuner.failure() {
        None => Ok(c_int::from(kernel.tuner.is_complete())),
        Some(last) => Err(format!(
            "all configurations failed; the last: {}",
            last.message
        )),
    });
    told(ERROR, complete)
}

/// Samples all configurations again, as after a period.
///
/// # Safety
/// - as [`tuner_begin`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tuner_scan_again(kernel: *mut TunerKernel) -> c_int {
    // SAFETY: it is null, or alive and not used by another thread.
    let asked = unsafe { of(kernel) }.map(|kernel| {
        kernel.tuner.scan_again();
        0
    });
    told(ERROR, asked)
}

/// Writes the counters.
///
/// # Safety
/// - as [`tuner_begin`];
/// - `counters` is null, or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tuner_read_counters(
    kernel: *const TunerKernel,
    counters: *mut TunerCounters,
) -> c_int {
    // SAFETY: it is null, or alive and not used by another thread.
    let read = unsafe { of(kernel) }.and_then(|kernel| {
        // SAFETY: it is null, or can be written.
        let counters = unsafe { counters.as_mut() }.ok_or("the counters are NULL")?;
        let Counters {
            launches,
            explored,
            explored_after,
            first_tuning,
            scans,
            drifts,
            changes,
        } = kernel.tuner.counters();
        *counters = TunerCounters {
            launches,
            explored,
            explored_after,
            first_tuning,
            scans,
            drifts,
            changes,
        };
        Ok(0)
    });
    told(ERROR, read)
}

/// Returns the last error on this thread, in words; empty if there was none. Valid until the next
/// error.
#[unsafe(no_mangle)]
pub extern "C" fn tuner_error() -> *const c_char {
    LAST.with_borrow(|last| last.as_ptr())
}

/// Ends a tuner.
///
/// # Safety
/// - `kernel` is null, or comes from `tuner_new` and has not been freed; no thread uses it any
///   more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tuner_free(kernel: *mut TunerKernel) {
    if !kernel.is_null() {
        // SAFETY: it is of `Box::into_raw`, and no thread uses it any more.
        drop(unsafe { Box::from_raw(kernel) });
    }
}

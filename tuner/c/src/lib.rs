//! On-line tuning from C and C++. `include/online_tuner.h` says what the functions do.

use std::ffi::{c_int, c_void};
use std::slice;
use std::time::Duration;

use tuner::online::{Event, Options, Progress, Tuner, Worker, grid};
use tuner::{Config, Failure, FailureKind, Value};

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
            // - who called `tuner_end_event` gave a function that takes this event until it says that it has ended;
            // - `ms` is there for the call.
            Self::Event(poll, event) => match unsafe { poll(*event, &raw mut ms) } {
                0 => Progress::Running,
                1 => Progress::Done(ms),
                _ => Progress::Lost,
            },
        }
    }
}

fn numbers(config: &Config) -> Vec<i64> {
    config.0.iter().map(|value| if let Value::Int(number) = value { *number } else { 0 }).collect()
}

/// Makes a tuner; null if an argument is wrong.
///
/// # Safety
/// - `parameters` points to `count` parameters, each with a pointer to as many values as it says; either may be null if
///   there are none;
/// - `valid` is null, or takes a pointer to `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tuner_new(
    parameters: *const TunerParameter,
    count: usize,
    valid: Option<Valid>,
    again_after_s: f64,
) -> *mut TunerKernel {
    let (mut dimensions, mut start) = (Vec::new(), Vec::new());
    for at in 0..if parameters.is_null() { 0 } else { count } {
        // SAFETY: there are `count` parameters.
        let parameter = unsafe { &*parameters.add(at) };
        if parameter.values.is_null() || parameter.count == 0 {
            return std::ptr::null_mut();
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
    let period = Duration::try_from_secs_f64(again_after_s).ok().filter(|period| !period.is_zero());
    let options = Options { rescan_after: None, rescan_every: period, ..Options::default() };
    let made = grid(&dimensions, is_valid).ok().and_then(|configs| {
        let default = configs.iter().position(|config| config.0 == start)?;
        Tuner::new(configs, default, options).ok()
    });
    made.map_or(std::ptr::null_mut(), |tuner| {
        let worker = tuner.worker();
        Box::into_raw(Box::new(TunerKernel { tuner, worker }))
    })
}

/// Chooses the configuration of the next launch.
///
/// # Safety
/// - `kernel` is of `tuner_new`, not freed, and no other thread uses it now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tuner_begin(kernel: *mut TunerKernel) {
    // SAFETY: the kernel is alive, and no other thread uses it now.
    unsafe { &mut *kernel }.worker.begin();
}

/// Returns the value of a parameter for this launch.
///
/// # Safety
/// - as [`tuner_begin`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tuner_param(kernel: *const TunerKernel, parameter: usize) -> i64 {
    // SAFETY: the kernel is alive, and no other thread uses it now.
    let config = unsafe { &*kernel }.worker.param();
    if let Some(Value::Int(number)) = config.0.get(parameter) { *number } else { 0 }
}

/// Returns not 0 if the time of this launch is needed.
///
/// # Safety
/// - as [`tuner_begin`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tuner_is_timed(kernel: *const TunerKernel) -> c_int {
    // SAFETY: the kernel is alive, and no other thread uses it now.
    c_int::from(unsafe { &*kernel }.worker.is_timed())
}

/// Ends a launch that took `ms`, or failed.
///
/// # Safety
/// - as [`tuner_begin`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tuner_end(kernel: *mut TunerKernel, ms: f64) {
    // SAFETY: the kernel is alive, and no other thread uses it now.
    let worker = &mut unsafe { &mut *kernel }.worker;
    if ms < 0.0 {
        worker.fail(Failure { kind: FailureKind::Launch, message: "the launch failed".to_owned() });
    } else {
        worker.end(Launch::Elapsed(ms));
    }
}

/// Ends a launch whose time will be known later.
///
/// # Safety
/// - as [`tuner_begin`];
/// - `poll` takes `event` until it returns anything but 0, or until `tuner_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tuner_end_event(kernel: *mut TunerKernel, poll: Poll, event: *mut c_void) {
    // SAFETY: the kernel is alive, and no other thread uses it now.
    unsafe { &mut *kernel }.worker.end(Launch::Event(poll, event));
}

/// Returns not 0 once the first tuning is complete.
///
/// # Safety
/// - as [`tuner_begin`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tuner_is_complete(kernel: *const TunerKernel) -> c_int {
    // SAFETY: the kernel is alive, and no other thread uses it now.
    c_int::from(unsafe { &*kernel }.tuner.is_complete())
}

/// Ends a tuner.
///
/// # Safety
/// - `kernel` is null, or of `tuner_new` and not freed; no thread uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tuner_free(kernel: *mut TunerKernel) {
    if !kernel.is_null() {
        // SAFETY: it is of `Box::into_raw`, and no thread uses it any more.
        drop(unsafe { Box::from_raw(kernel) });
    }
}

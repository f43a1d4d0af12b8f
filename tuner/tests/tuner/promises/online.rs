//! Kernels are tuned while they work, as HOOMD-blue does.

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use chacha20::ChaCha8Rng;
use rand::SeedableRng as _;
use rand_distr::{Distribution as _, StandardNormal};
use tuner::online::{Again, Elapsed, Event, Options, Progress, Statistic, Tuner, grid};
use tuner_c::{
    TunerCounters, TunerKernel, TunerOptions, TunerParameter, tuner_begin, tuner_end,
    tuner_end_event, tuner_error, tuner_free, tuner_is_complete, tuner_is_timed, tuner_new,
    tuner_param, tuner_read_counters, tuner_scan_again,
};

use crate::online::{Machine, Noise, begun_at, finish, first_tuning, launch, of_three};
use crate::prelude::*;

#[test]
fn h1_each_kernel_has_a_tuner_and_they_are_called_at_different_rates() {
    // Begin, parameter, end around a launch; a tuner for each kernel, called at different rates.
    let [often, seldom] = [(); 2].map(|()| of_three(Options::default()));
    let (mut of_often, mut of_seldom) = (often.worker(), seldom.worker());
    for step in 0..3000 {
        of_often.begin();
        let config = number(of_often.param());
        of_often.end(Elapsed(3.0 - config as f64));
        if step % 100 == 0 {
            launch(&mut of_seldom, |config| 1.0 + config as f64);
        }
    }
    assert!(often.is_complete() && seldom.is_complete());
    assert_eq!((number(&often.best()), number(&seldom.best())), (2, 0));
    assert_eq!(
        (often.counters().launches, seldom.counters().launches),
        (3000, 30)
    );
    // In C.
    let kernel = Kernel::new(TunerOptions::default());
    kernel.launch(100, |config| config as f64);
    assert_eq!((kernel.is_complete(), kernel.param(0)), (1, 1));
}

fn values(all: &[i64]) -> Vec<Value> {
    ints(all).0
}

#[test]
fn h2_parameters_have_several_dimensions() {
    // Parameters of several dimensions: block size, stride, which algorithm.
    let dimensions = [
        ("block", values(&[64, 128, 256])),
        ("stride", values(&[1, 2, 4])),
        ("algorithm", ["shared", "global"].map(Value::from).to_vec()),
    ];
    let configs = grid(&dimensions, |_| true).unwrap();
    assert_eq!(configs.len(), 18);
    let best = Config(vec![Value::Int(128), Value::Int(4), "global".into()]);
    let tuner = Tuner::new(configs, 0, Options::default()).unwrap();
    let mut worker = tuner.worker();
    while !tuner.is_complete() {
        let config = worker.begin();
        let apart = config.0.iter().zip(&best.0).filter(|(a, b)| a != b).count();
        worker.end(Elapsed(1.0 + 0.1 * apart as f64));
    }
    assert_eq!(tuner.best(), best);
    // In C, where names are numbers.
    let (blocks, ways) = ([64, 128, 256], [0, 1]);
    let kernel = Kernel::of(&[parameter(&blocks, 64), parameter(&ways, 0)], None);
    while kernel.is_complete() == 0 {
        kernel.launch(1, |block| (block * (2 - kernel.param(1))) as f64);
    }
    kernel.begin();
    assert_eq!([0, 1].map(|at| kernel.param(at)), [64, 1]);
}

/// Returns the time of a launch of one of three configurations. The first configuration has the
/// smallest median, the second the smallest mean, the third the smallest maximum.
fn samples(config: usize, launch: usize) -> f64 {
    [
        [1.0, 1.0, 9.0, 1.0, 9.0],
        [1.5, 1.5, 1.5, 1.5, 5.5],
        [4.0; 5],
    ][config][launch % 5]
}

#[test]
fn h3_each_has_m_samples_and_their_median_mean_or_maximum_counts() {
    // M samples of each (M chosen by the user, 5 by default), then median, mean or maximum, chosen
    // by the user.
    let usual = Options::default()
        .with_samples(5)
        .with_statistic(Statistic::Median);
    assert_eq!(Options::default(), usual);
    let all = [Statistic::Median, Statistic::Mean, Statistic::Maximum];
    for (in_c, statistic) in all.into_iter().enumerate() {
        for m in [5, 10] {
            let options = Options::default().with_samples(m).with_statistic(statistic);
            let tuner = of_three(options.with_run_off(0));
            let (mut worker, mut taken) = (tuner.worker(), [0; 3]);
            for at in 0..3 * m {
                launch(&mut worker, |config| {
                    taken[config as usize] += 1;
                    samples(config as usize, taken[config as usize] - 1)
                });
                // One sample of each comes before the second of any.
                assert!(
                    taken.iter().all(|taken| taken.abs_diff(at / 3) <= 1),
                    "{taken:?}"
                );
            }
            worker.poll();
            assert!(
                tuner.is_complete() && taken == [m; 3],
                "{statistic:?}: {taken:?}"
            );
            assert_eq!(number(&tuner.best()), in_c as i64, "{statistic:?} of {m}");
        }
        // In C, where the samples are the same for every statistic, and a run-off follows.
        let statistic = in_c as c_int;
        let kernel = Kernel::new(TunerOptions {
            samples: 5,
            statistic,
            again_after_s: -1.0,
        });
        let mut taken = [0; 3];
        while kernel.is_complete() == 0 {
            kernel.launch(1, |config| {
                let config = config as usize - 1;
                taken[config] += 1;
                samples(config, taken[config] - 1)
            });
        }
        kernel.begin();
        assert_eq!(kernel.param(0), 1 + in_c as i64, "{statistic:?}");
        assert!(taken.iter().all(|taken| *taken >= 5), "{taken:?}");
    }
}

/// Launch whose time is polled.
struct Polled(Rc<Cell<usize>>);

impl Event for Polled {
    fn poll(&mut self) -> Progress {
        self.0.set(self.0.get() + 1);
        Progress::Done(1.0)
    }
}

#[test]
fn h4_then_the_best_is_locked_and_a_launch_costs_next_to_nothing() {
    // Then locked to the best; begin and end cost next to nothing: three of four launches need no
    // event, take no lock, and read no clock.
    let tuner = begun_at(1, Options::default().with_again(Again::Never));
    finish(&tuner, |config| 1.0 + config as f64);
    let (mut worker, polled) = (tuner.worker(), Rc::new(Cell::new(0)));
    let mut timed = 0;
    for _ in 0..8000 {
        assert_eq!(number(worker.begin()), 0);
        timed += usize::from(worker.is_timed());
        worker.end(Polled(Rc::clone(&polled)));
    }
    worker.poll();
    assert_eq!(
        (timed, polled.get(), tuner.counters().scans),
        (2000, 2000, 1)
    );
}

#[test]
fn h5_after_a_period_one_sample_of_each_is_replaced_and_a_change_is_followed() {
    // After a time (five minutes, chosen by the user) sampled again, one sample of each replaced,
    // so that changes of the workload are followed.
    let options = Options::default().with_samples(3).with_run_off(0);
    let tuner = of_three(options.with_again(Again::AfterLaunches(100)));
    let mut worker = tuner.worker();
    let first = |config: i64| 1.0 + config as f64;
    for _ in 0..9 {
        launch(&mut worker, first);
    }
    worker.poll();
    assert!(tuner.is_complete() && !tuner.is_scanning());
    // From now on the second is the fastest, and the first is as fast as before.
    let changed = |config: i64| [1.0, 0.5, 3.0][config as usize];
    let mut scan = || {
        let scans = tuner.counters().scans;
        while tuner.counters().scans == scans || tuner.is_scanning() {
            launch(&mut worker, changed);
            worker.poll();
        }
        tuner.report().unwrap()
    };
    let report = scan();
    assert_eq!((number(&report.config), report.samples), (0, vec![1.0; 3]));
    assert_eq!(report.others[0].1, [2.0, 2.0, 0.5]);
    let report = scan();
    assert_eq!(
        (number(&report.config), report.samples),
        (1, vec![2.0, 0.5, 0.5])
    );
    assert_eq!((report.counters.scans, report.counters.changes), (3, 1));
    // By time, as the user chose it; and with a run-off the first scan after the change is enough.
    for (again, best) in [
        (Again::After(Duration::from_millis(20)), 1),
        (Again::Never, 0),
    ] {
        let tuner = of_three(Options::default().with_again(again));
        finish(&tuner, first);
        let mut worker = tuner.worker();
        for _ in 0..200 {
            launch(&mut worker, changed);
            std::thread::sleep(Duration::from_micros(500));
        }
        assert_eq!(
            (tuner.counters().scans > 1, number(&tuner.best())),
            (best == 1, best)
        );
    }
    // In C, on request.
    let kernel = Kernel::new(TunerOptions {
        again_after_s: -1.0,
        ..TunerOptions::default()
    });
    let best = |time: &dyn Fn(i64) -> f64| {
        kernel.launch(300, |config| time(config - 1));
        kernel.begin();
        kernel.param(0)
    };
    assert_eq!((best(&first), best(&changed)), (1, 1));
    // SAFETY: the kernel is alive.
    assert_eq!(unsafe { tuner_scan_again(kernel.0) }, 0);
    assert_eq!(best(&changed), 2);
}

#[test]
fn h6_little_time_is_lost_over_a_period_and_a_scan_follows_launch_on_launch() {
    // Over a period the time lost against the best configuration, scans included, is below 0.2 %; a
    // scan of 32 to 192 configurations follows launch on launch (a second or two), not one now and
    // then.
    for (count, seed) in [(32, 1), (32, 2), (32, 3), (192, 4)] {
        let truth = |config: i64| 1.0 + 0.008 * (config - count / 3).abs() as f64;
        let configs = (0..count).map(|config| ints(&[config])).collect();
        // Launches of 1 ms: five minutes.
        let again = Again::AfterLaunches(300_000);
        let options = Options::default().with_again(again).with_seed(seed);
        let tuner = Tuner::new(configs, 0, options).unwrap();
        let (mut worker, mut lot) = (tuner.worker(), ChaCha8Rng::seed_from_u64(seed));
        let mut noisy = || {
            let noise: f64 = StandardNormal.sample(&mut lot);
            launch(&mut worker, |config| truth(config) * (1.0 + 0.03 * noise))
        };
        while !tuner.is_complete() {
            noisy();
        }
        let found = || truth(number(&tuner.best())) <= 1.002;
        assert!(found(), "{count}, seed {seed}: {:?}", tuner.best());
        let (mut lost, mut away, mut sweep) = (0.0, Vec::new(), Vec::new());
        for at in 0..310_000 {
            let config = noisy();
            lost += truth(config) - 1.0;
            if tuner.counters().scans == 2 && sweep.len() < count as usize {
                sweep.push(config);
            }
            if config != number(&tuner.best()) {
                away.push(at);
            }
        }
        assert!(lost / 310_000.0 < 0.002, "{count}, seed {seed}: {lost} ms");
        assert!(found(), "{count}, seed {seed}: {:?}", tuner.best());
        assert_eq!(tuner.counters().scans, 2);
        // Sweep and run-off lie together, and the sweep has each configuration once.
        sweep.sort_unstable();
        assert!(sweep.into_iter().eq(0..count), "{count}, seed {seed}");
        assert!(
            away[away.len() - 1] - away[0] < 10_000,
            "{count}, seed {seed}: {away:?}"
        );
    }
    // Unless the user chooses a period, a scan waits as well until the launches since the last one
    // have paid for it.
    assert_eq!(
        Options::default(),
        Options::default().with_again(Again::Usual)
    );
}

/// As cudaFuncGetAttributes says it: at most 768 threads, and 48 kB of shared memory, 64 bytes
/// each.
fn runs(block: i64, items: i64) -> bool {
    block <= 768 && block * items * 64 <= 49_152
}

unsafe extern "C" fn valid(values: *const i64) -> c_int {
    // SAFETY: there are two values.
    let values = unsafe { std::slice::from_raw_parts(values, 2) };
    c_int::from(runs(values[0], values[1]))
}

#[test]
fn h7_configurations_that_the_kernel_cannot_run_are_never_launched() {
    // Configurations that the kernel cannot run (its attributes, shared memory) are never launched.
    let (blocks, items) = ([128, 256, 512, 1024], [1, 2, 4, 8]);
    let of = |config: &Config| (numbers(config)[0], numbers(config)[1]);
    let dimensions = [("block", values(&blocks)), ("items", values(&items))];
    let configs = grid(&dimensions, |config| runs(of(config).0, of(config).1)).unwrap();
    assert_eq!(configs.len(), 6);
    let tuner = Tuner::new(configs, 0, Options::default()).unwrap();
    let mut worker = tuner.worker();
    for _ in 0..500 {
        let (block, items) = of(worker.begin());
        assert!(runs(block, items), "{block} {items}");
        worker.end(Elapsed(1.0 / (block * items) as f64));
    }
    // In C; and a launch that fails after all is not repeated.
    let kernel = Kernel::of(
        &[parameter(&blocks, 128), parameter(&items, 1)],
        Some(valid),
    );
    let mut failed = 0;
    kernel.launch(500, |block| {
        let items = kernel.param(1);
        assert!(runs(block, items), "{block} {items}");
        let fails = (block, items) == (256, 1);
        failed += i32::from(fails);
        if fails { -1.0 } else { 1.0 }
    });
    assert_eq!((failed, kernel.is_complete()), (1, 1));
}

/// Events around a launch: their time, and the step at which it is known.
struct Pair {
    due: usize,
    ms: f64,
}

/// Present step.
static NOW: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn poll(event: *mut c_void, ms: *mut f64) -> c_int {
    // SAFETY: the event is a pair that lives to the end of the test, and `ms` is there.
    unsafe {
        let pair = &*event.cast::<Pair>();
        *ms = pair.ms;
        c_int::from(NOW.load(Relaxed) >= pair.due)
    }
}

#[test]
fn h8_the_time_comes_from_the_devices_own_events() {
    // Time from the device's own events. Here they are numbers that are ready ten launches later,
    // and the clock of the CPU says the contrary.
    let mut machine = Machine::new(Noise::Normal(0.01), 10, 1);
    let (tuner, ..) = first_tuning(&mut machine, Options::default());
    assert_eq!(tuner.best(), ints(&[5, 2]));
    // In C, by a function that is polled.
    let kernel = Kernel::new(TunerOptions::default());
    let mut pairs = Vec::new();
    for now in 0..500 {
        NOW.store(now, Relaxed);
        kernel.begin();
        let config = kernel.param(0);
        std::thread::sleep(Duration::from_micros(10 * config as u64));
        // SAFETY: the kernel is alive, and the pairs outlive it.
        unsafe {
            if tuner_is_timed(kernel.0) == 1 {
                let pair = Pair {
                    due: now + 10,
                    ms: 4.0 - config as f64,
                };
                let pair = Box::into_raw(Box::new(pair));
                assert_eq!(tuner_end_event(kernel.0, Some(poll), pair.cast()), 0);
                pairs.push(pair);
            }
        }
    }
    assert_eq!((kernel.is_complete(), kernel.param(0)), (1, 3));
    drop(kernel);
    for pair in pairs {
        // SAFETY: each pair came out of a box, and no kernel polls it any more.
        drop(unsafe { Box::from_raw(pair) });
    }
}

#[test]
#[cfg(unix)]
fn h9_five_lines_of_cpp_or_c_tune_a_kernel() {
    // From C++ with five lines.
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("c/examples");
    let source = std::fs::read_to_string(examples.join("five.cpp")).unwrap();
    let calls =
        |line: &&str| !line.starts_with("//") && line.contains("tuner_") && line.contains('(');
    assert_eq!(source.lines().filter(calls).count(), 5);
    let folder = tempfile::tempdir().unwrap();
    // Cargo leaves it in the folder of the tests.
    let library = std::env::current_exe()
        .unwrap()
        .with_file_name("libtuner_c.a");
    let run = |compiler: &str, standard: &str, name: &str| {
        let program = folder.path().join(name);
        let mut command = Command::new(compiler);
        command
            .args([
                standard,
                "-pedantic",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-O2",
                "-I",
            ])
            .args([&examples.join("../include"), &examples.join(name), &library])
            .args(["-lpthread", "-ldl", "-lm", "-o"])
            .arg(&program);
        let said = |command: &mut Command| {
            let output = command.output().unwrap();
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{name}: {error}");
            String::from_utf8(output.stdout).unwrap()
        };
        said(&mut command);
        said(&mut Command::new(&program))
    };
    let block = run("c++", "-std=c++11", "five.cpp");
    assert!(
        ["block=1\n", "block=64\n", "block=4096\n"].contains(&block.as_str()),
        "{block}"
    );
    let said = run("cc", "-std=c99", "loop.c");
    let number = |name: &str| {
        let behind = said.split(name).nth(1).unwrap();
        behind
            .split_whitespace()
            .next()
            .unwrap()
            .parse::<i64>()
            .unwrap()
    };
    // 22 combinations of at most 4096 numbers, five times each at least.
    assert!(number("rows=") * number("columns=") <= 4096, "{said}");
    assert!(
        said.split(' ').next().unwrap().parse::<usize>().unwrap() >= 5 * 22,
        "{said}"
    );
}

#[test]
fn h10_a_tuner_all_of_whose_configurations_fail_says_so_and_is_not_complete() {
    // All of it in Rust and in C. A tuner all of whose configurations fail says so and is not
    // "complete".
    let tuner = begun_at(1, Options::default());
    let mut worker = tuner.worker::<Elapsed>();
    for _ in 0..20 {
        let message = format!("{} does not launch", number(worker.begin()));
        assert!(!tuner.is_complete());
        if worker.is_timed() {
            worker.fail(failed(message));
        }
    }
    assert!(!tuner.is_complete() && !tuner.is_scanning() && tuner.report().is_none());
    says(tuner.failure().unwrap().message, " does not launch");
    assert_eq!(number(&tuner.best()), 1);
    // After a first tuning, too.
    let tuner = begun_at(1, Options::default());
    finish(&tuner, |_| 1.0);
    let mut worker = tuner.worker::<Elapsed>();
    for _ in 0..3 {
        assert!(tuner.is_complete() && tuner.failure().is_none());
        worker.begin();
        worker.fail(failed("no more"));
    }
    assert!(!tuner.is_complete() && tuner.failure().unwrap().message == "no more");
    let kernel = Kernel::new(TunerOptions::default());
    for _ in 0..3 {
        assert_eq!((kernel.begin(), kernel.is_complete()), (0, 0));
        assert_eq!(kernel.end(-1.0), 0);
    }
    // SAFETY: the kernel is alive.
    let is_timed = |kernel: &Kernel| unsafe { tuner_is_timed(kernel.0) };
    assert_eq!(
        (kernel.begin(), kernel.is_complete(), is_timed(&kernel)),
        (-1, -1, 0)
    );
    says(last_error(), "all configurations failed; the last: ");
}

#[test]
fn h11_in_c_counters_are_read_and_calls_with_null_are_errors() {
    // Counters can be read; in C, calls with NULL are errors.
    let kernel = Kernel::new(TunerOptions {
        again_after_s: -1.0,
        ..TunerOptions::default()
    });
    let mut counters = TunerCounters::default();
    let null = Kernel(std::ptr::null_mut());
    kernel.launch(40, |config| config as f64);
    let event = std::ptr::null_mut();
    // SAFETY: the kernel is alive, and the others are null.
    unsafe {
        assert_eq!(tuner_read_counters(kernel.0, &raw mut counters), 0);
        assert_eq!(
            (counters.launches, counters.scans, counters.first_tuning),
            (40, 1, 15)
        );
        assert!(
            counters.explored >= 10 && counters.explored_after == 0,
            "{counters:?}"
        );
        assert_eq!(
            (null.begin(), null.end(1.0), null.is_complete()),
            (-1, -1, -1)
        );
        assert_eq!((tuner_is_timed(null.0), tuner_scan_again(null.0)), (-1, -1));
        assert_eq!(tuner_end_event(null.0, None, event), -1);
        assert_eq!(tuner_read_counters(null.0, &raw mut counters), -1);
        assert_eq!(
            (null.param(0), last_error().as_str()),
            (i64::MIN, "the kernel is NULL")
        );
        let said = "there is no parameter 7";
        assert_eq!((kernel.param(7), last_error().as_str()), (i64::MIN, said));
        assert_eq!(tuner_end_event(kernel.0, None, event), -1);
        assert_eq!(last_error(), "the poll function is NULL");
        assert_eq!(tuner_read_counters(kernel.0, std::ptr::null_mut()), -1);
        assert!(tuner_new(std::ptr::null(), 1, None, std::ptr::null()).is_null());
        assert_eq!(last_error(), "the parameters are NULL");
    }
    let (default, values) = (TunerOptions::default(), [1, 2]);
    let good = || parameter(&values, 1);
    let no_values = TunerParameter {
        values: std::ptr::null(),
        ..good()
    };
    let watt = TunerOptions {
        statistic: 3,
        ..default
    };
    let never = TunerOptions {
        again_after_s: f64::NAN,
        ..default
    };
    let no_start = "the start values are not a valid configuration";
    for (parameter, options, said) in [
        (no_values, default, "parameter 0 has no values"),
        (parameter(&values, 3), default, no_start),
        (good(), watt, "statistic 3: "),
        (good(), never, "again_after_s: "),
    ] {
        // SAFETY: the parameter and the options are there.
        let made = unsafe { tuner_new(&raw const parameter, 1, None, &raw const options) };
        assert!(Kernel(made).0.is_null());
        says(last_error(), said);
    }
}

fn last_error() -> String {
    // SAFETY: the text is valid until the next error.
    unsafe { CStr::from_ptr(tuner_error()) }
        .to_str()
        .unwrap()
        .to_owned()
}

fn parameter(values: &[i64], start: i64) -> TunerParameter {
    TunerParameter {
        values: values.as_ptr(),
        count: values.len(),
        start,
    }
}

/// Tuner in C: alive, or null.
struct Kernel(*mut TunerKernel);

impl Kernel {
    /// Makes a tuner of one parameter with the values 1, 2 and 3.
    fn new(options: TunerOptions) -> Self {
        let values = [1, 2, 3];
        let parameter = parameter(&values, 1);
        // SAFETY: the parameter and the options are there.
        let kernel = unsafe { tuner_new(&raw const parameter, 1, None, &raw const options) };
        assert!(!kernel.is_null(), "{}", last_error());
        Self(kernel)
    }

    fn of(
        parameters: &[TunerParameter],
        valid: Option<unsafe extern "C" fn(*const i64) -> c_int>,
    ) -> Self {
        // SAFETY: the parameters are there.
        let kernel = unsafe {
            tuner_new(
                parameters.as_ptr(),
                parameters.len(),
                valid,
                std::ptr::null(),
            )
        };
        Self(kernel)
    }

    fn begin(&self) -> c_int {
        // SAFETY: the kernel is alive, or null.
        unsafe { tuner_begin(self.0) }
    }

    fn param(&self, at: usize) -> i64 {
        // SAFETY: the kernel is alive, or null.
        unsafe { tuner_param(self.0, at) }
    }

    fn end(&self, ms: f64) -> c_int {
        // SAFETY: the kernel is alive, or null.
        unsafe { tuner_end(self.0, ms) }
    }

    fn is_complete(&self) -> c_int {
        // SAFETY: the kernel is alive, or null.
        unsafe { tuner_is_complete(self.0) }
    }

    /// Launches this number of times; `time` gives the time by the first parameter.
    fn launch(&self, launches: usize, mut time: impl FnMut(i64) -> f64) {
        for _ in 0..launches {
            assert_eq!(self.begin(), 0);
            assert_eq!(self.end(time(self.param(0))), 0);
        }
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // SAFETY: the kernel is null, or alive and used no more.
        unsafe { tuner_free(self.0) };
    }
}

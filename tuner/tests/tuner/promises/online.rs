//! Kernels are tuned while they work, as HOOMD-blue does.

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use chacha20::ChaCha8Rng;
use rand::SeedableRng as _;
use rand_distr::{Distribution as _, StandardNormal};
use tuner::online::{Again, Elapsed, Event, Options, Progress, Statistic, Tuner, grid};
use tuner::{Config, Failure, FailureKind, Value};
use tuner_c::{
    TunerCounters, TunerKernel, TunerOptions, TunerParameter, tuner_begin, tuner_end,
    tuner_end_event, tuner_error, tuner_free, tuner_is_complete, tuner_is_timed, tuner_new,
    tuner_param, tuner_read_counters, tuner_scan_again,
};

use crate::online::{Machine, Noise, eight_by_eight, finish, first_tuning, number, three};

#[test]
fn h1_each_kernel_has_a_tuner_and_they_are_called_at_different_rates() {
    // Begin, parameter, end around a launch; a tuner for each kernel, called at different rates.
    let [often, seldom] = [(); 2].map(|()| Tuner::new(three(), 0, Options::default()).unwrap());
    let (mut of_often, mut of_seldom) = (often.worker(), seldom.worker());
    for step in 0..3000 {
        of_often.begin();
        let config = number(of_often.param());
        of_often.end(Elapsed(3.0 - config as f64));
        if step % 100 == 0 {
            of_seldom.begin();
            let config = number(of_seldom.param());
            of_seldom.end(Elapsed(1.0 + config as f64));
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
    // SAFETY: the kernel is alive.
    unsafe {
        for _ in 0..100 {
            assert_eq!(tuner_begin(kernel.0), 0);
            assert_eq!(tuner_end(kernel.0, tuner_param(kernel.0, 0) as f64), 0);
        }
        assert_eq!(
            (tuner_is_complete(kernel.0), tuner_param(kernel.0, 0)),
            (1, 1)
        );
    }
}

#[test]
fn h2_parameters_have_several_dimensions() {
    // Parameters of several dimensions: block size, stride, which algorithm.
    let ints = |all: &[i64]| {
        all.iter()
            .map(|value| Value::Int(*value))
            .collect::<Vec<_>>()
    };
    let algorithms = vec![Value::from("shared"), Value::from("global")];
    let dimensions = [
        ("block", ints(&[64, 128, 256])),
        ("stride", ints(&[1, 2, 4])),
        ("algorithm", algorithms),
    ];
    let configs = grid(&dimensions, |_| true).unwrap();
    assert_eq!(configs.len(), 18);
    let best = Config(vec![Value::Int(128), Value::Int(4), Value::from("global")]);
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
    let parameters = [parameter(&blocks, 64), parameter(&ways, 0)];
    // SAFETY: the parameters are there, and the kernel is alive.
    unsafe {
        let kernel = Kernel(tuner_new(parameters.as_ptr(), 2, None, std::ptr::null()));
        while tuner_is_complete(kernel.0) == 0 {
            tuner_begin(kernel.0);
            tuner_end(
                kernel.0,
                (tuner_param(kernel.0, 0) * (2 - tuner_param(kernel.0, 1))) as f64,
            );
        }
        tuner_begin(kernel.0);
        assert_eq!(
            (tuner_param(kernel.0, 0), tuner_param(kernel.0, 1)),
            (64, 1)
        );
    }
}

/// Returns the time of a launch of one of three configurations. The first configuration has the
/// smallest median, the second the smallest mean, the third the smallest maximum.
fn samples(config: i64, launch: usize) -> f64 {
    [
        [1.0, 1.0, 9.0, 1.0, 9.0],
        [1.5, 1.5, 1.5, 1.5, 5.5],
        [4.0; 5],
    ][config as usize][launch % 5]
}

#[test]
fn h3_m_samples_of_each_and_their_median_mean_or_maximum() {
    // M samples of each (M chosen by the user, 5 by default), then median, mean or maximum, chosen
    // by the user.
    assert_eq!(
        Options::default(),
        Options::default()
            .with_samples(5)
            .with_statistic(Statistic::Median)
    );
    for (number_in_c, statistic) in [Statistic::Median, Statistic::Mean, Statistic::Maximum]
        .into_iter()
        .enumerate()
    {
        for m in [5, 10] {
            let options = Options::default()
                .with_samples(m)
                .with_statistic(statistic)
                .with_run_off(0);
            let tuner = Tuner::new(three(), 0, options).unwrap();
            let mut worker = tuner.worker();
            let mut taken = [0; 3];
            for _ in 0..3 * m {
                let config = number(worker.begin());
                taken[config as usize] += 1;
                worker.end(Elapsed(samples(config, taken[config as usize] - 1)));
            }
            worker.poll();
            assert!(
                tuner.is_complete() && taken == [m; 3],
                "{statistic:?}: {taken:?}"
            );
            assert_eq!(
                number(&tuner.best()),
                number_in_c as i64,
                "{statistic:?} of {m}"
            );
        }
        // In C, where the samples are the same for every statistic, and a run-off follows.
        let kernel = Kernel::new(TunerOptions {
            samples: 5,
            statistic: number_in_c as c_int,
            again_after_s: -1.0,
        });
        let mut taken = [0; 3];
        // SAFETY: the kernel is alive.
        unsafe {
            while tuner_is_complete(kernel.0) == 0 {
                tuner_begin(kernel.0);
                let config = tuner_param(kernel.0, 0) - 1;
                taken[config as usize] += 1;
                tuner_end(kernel.0, samples(config, taken[config as usize] - 1));
            }
            tuner_begin(kernel.0);
            assert_eq!(
                tuner_param(kernel.0, 0),
                1 + number_in_c as i64,
                "{statistic:?}"
            );
        }
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
    let tuner = Tuner::new(three(), 1, Options::default().with_again(Again::Never)).unwrap();
    finish(&tuner, |config| 1.0 + config as f64);
    let (mut worker, polled) = (tuner.worker(), Rc::new(Cell::new(0)));
    let mut timed = 0;
    for _ in 0..8000 {
        assert_eq!(number(worker.begin()), 0);
        timed += usize::from(worker.is_timed());
        worker.end(Polled(Rc::clone(&polled)));
    }
    worker.poll();
    assert_eq!((timed, polled.get()), (2000, 2000));
    assert_eq!(tuner.counters().scans, 1);
}

#[test]
fn h5_after_a_period_one_sample_of_each_is_replaced_and_a_change_is_followed() {
    // After a time (five minutes, chosen by the user) sampled again, one sample of each replaced,
    // so that changes of the workload are followed.
    let options = Options::default()
        .with_samples(3)
        .with_run_off(0)
        .with_again(Again::AfterLaunches(100));
    let tuner = Tuner::new(three(), 0, options).unwrap();
    let mut worker = tuner.worker();
    let mut go = |launches: usize, times: [f64; 3]| {
        for _ in 0..launches {
            let config = number(worker.begin());
            worker.end(Elapsed(times[config as usize]));
        }
        worker.poll();
    };
    let scan = |go: &mut dyn FnMut(usize, [f64; 3]), times: [f64; 3]| {
        let scans = tuner.counters().scans;
        while tuner.counters().scans == scans || tuner.is_scanning() {
            go(1, times);
        }
    };
    go(9, [1.0, 2.0, 3.0]);
    assert!(tuner.is_complete() && !tuner.is_scanning());
    // From now on the second is the fastest, and the first is as fast as before.
    let changed = [1.0, 0.5, 3.0];
    scan(&mut go, changed);
    let report = tuner.report().unwrap();
    assert_eq!((number(&report.config), report.samples), (0, vec![1.0; 3]));
    assert_eq!(report.others[0].1, [2.0, 2.0, 0.5]);
    scan(&mut go, changed);
    let report = tuner.report().unwrap();
    assert_eq!(
        (number(&report.config), report.samples),
        (1, vec![2.0, 0.5, 0.5])
    );
    assert_eq!((report.counters.scans, report.counters.changes), (3, 1));
    // By time, as the user chose it; and with a run-off the first scan after the change is enough.
    for (again, scanned) in [
        (Again::After(Duration::from_millis(20)), true),
        (Again::Never, false),
    ] {
        let tuner = Tuner::new(three(), 0, Options::default().with_again(again)).unwrap();
        finish(&tuner, |config| [1.0, 2.0, 3.0][config as usize]);
        let mut worker = tuner.worker();
        for _ in 0..200 {
            let config = number(worker.begin());
            worker.end(Elapsed(changed[config as usize]));
            std::thread::sleep(Duration::from_micros(500));
        }
        assert_eq!(
            (tuner.counters().scans > 1, number(&tuner.best())),
            (scanned, i64::from(scanned))
        );
    }
    // In C, on request.
    let kernel = Kernel::new(TunerOptions {
        again_after_s: -1.0,
        ..TunerOptions::default()
    });
    // SAFETY: the kernel is alive.
    unsafe {
        let go = |times: [f64; 3]| {
            for _ in 0..300 {
                tuner_begin(kernel.0);
                tuner_end(kernel.0, times[tuner_param(kernel.0, 0) as usize - 1]);
            }
            tuner_begin(kernel.0);
            tuner_param(kernel.0, 0)
        };
        assert_eq!((go([1.0, 2.0, 3.0]), go(changed)), (1, 1));
        assert_eq!(tuner_scan_again(kernel.0), 0);
        assert_eq!(go(changed), 2);
    }
}

#[test]
fn h6_little_time_is_lost_over_a_period_and_a_scan_follows_launch_on_launch() {
    // Over a period the time lost against the best configuration, scans included, is below 0.2 %; a
    // scan of 32 to 192 configurations follows launch on launch (a second or two), not one now and
    // then.
    for (count, seed) in [(32, 1), (32, 2), (32, 3), (192, 4)] {
        let best = count / 3;
        let truth = |config: i64| 1.0 + 0.008 * (config - best).abs() as f64;
        let configs = (0..count)
            .map(|config| Config(vec![Value::Int(config)]))
            .collect();
        // Launches of 1 ms: five minutes.
        let options = Options::default()
            .with_again(Again::AfterLaunches(300_000))
            .with_seed(seed);
        let tuner = Tuner::new(configs, 0, options).unwrap();
        let mut worker = tuner.worker();
        let mut lot = ChaCha8Rng::seed_from_u64(seed);
        let mut launch = || {
            let config = number(worker.begin());
            let noise: f64 = StandardNormal.sample(&mut lot);
            worker.end(Elapsed(truth(config) * (1.0 + 0.03 * noise)));
            config
        };
        while !tuner.is_complete() {
            launch();
        }
        assert!(
            truth(number(&tuner.best())) <= 1.002,
            "{count}, seed {seed}: {:?}",
            tuner.best()
        );
        let (mut lost, mut away, mut sweep) = (0.0, Vec::new(), Vec::new());
        for at in 0..310_000 {
            let config = launch();
            lost += truth(config) - 1.0;
            if tuner.counters().scans == 2 && sweep.len() < count as usize {
                sweep.push(config);
            }
            if config != number(&tuner.best()) {
                away.push(at);
            }
        }
        assert!(lost / 310_000.0 < 0.002, "{count}, seed {seed}: {lost} ms");
        assert!(
            truth(number(&tuner.best())) <= 1.002,
            "{count}, seed {seed}: {:?}",
            tuner.best()
        );
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

unsafe extern "C" fn valid(values: *const i64) -> c_int {
    // SAFETY: there are two values.
    let values = unsafe { std::slice::from_raw_parts(values, 2) };
    c_int::from(values[0] <= 768 && values[0] * values[1] * 64 <= 49_152)
}

#[test]
fn h7_configurations_that_the_kernel_cannot_run_are_never_launched() {
    // Configurations that the kernel cannot run (its attributes, shared memory) are never launched.
    let ints = |all: &[i64]| {
        all.iter()
            .map(|value| Value::Int(*value))
            .collect::<Vec<_>>()
    };
    // As cudaFuncGetAttributes says it: at most 768 threads, and 48 kB of shared memory, 64 bytes
    // each.
    let runs = |block: i64, items: i64| block <= 768 && block * items * 64 <= 49_152;
    let of = |config: &Config| match config.0[..] {
        [Value::Int(block), Value::Int(items)] => (block, items),
        _ => panic!(),
    };
    let dimensions = [
        ("block", ints(&[128, 256, 512, 1024])),
        ("items", ints(&[1, 2, 4, 8])),
    ];
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
    let (blocks, items) = ([128, 256, 512, 1024], [1, 2, 4, 8]);
    let parameters = [parameter(&blocks, 128), parameter(&items, 1)];
    // SAFETY: the parameters are there, and the kernel is alive.
    unsafe {
        let kernel = Kernel(tuner_new(
            parameters.as_ptr(),
            2,
            Some(valid),
            std::ptr::null(),
        ));
        let mut failed = 0;
        for _ in 0..500 {
            tuner_begin(kernel.0);
            let (block, items) = (tuner_param(kernel.0, 0), tuner_param(kernel.0, 1));
            assert!(runs(block, items), "{block} {items}");
            failed += i32::from(block == 256 && items == 1);
            tuner_end(
                kernel.0,
                if block == 256 && items == 1 {
                    -1.0
                } else {
                    1.0
                },
            );
        }
        assert_eq!((failed, tuner_is_complete(kernel.0)), (1, 1));
    }
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
fn h8_the_time_is_that_of_the_devices_own_events() {
    // Time from the device's own events. Here they are numbers that are ready ten launches later,
    // and the clock of the CPU tells the contrary.
    let mut machine = Machine::new((5, 2), Noise::Normal(0.01), 10, 1);
    let (tuner, ..) = first_tuning(&mut machine, Options::default());
    assert_eq!(tuner.best(), Config(vec![Value::Int(5), Value::Int(2)]));
    assert_eq!(eight_by_eight().len(), 64);
    // In C, by a function that is polled.
    let kernel = Kernel::new(TunerOptions::default());
    let mut pairs = Vec::new();
    // SAFETY: the kernel is alive, and the pairs outlive it.
    unsafe {
        for now in 0..500 {
            NOW.store(now, Relaxed);
            tuner_begin(kernel.0);
            let config = tuner_param(kernel.0, 0);
            std::thread::sleep(Duration::from_micros(10 * config as u64));
            if tuner_is_timed(kernel.0) == 1 {
                let pair = Box::into_raw(Box::new(Pair {
                    due: now + 10,
                    ms: 4.0 - config as f64,
                }));
                assert_eq!(tuner_end_event(kernel.0, Some(poll), pair.cast()), 0);
                pairs.push(pair);
            }
        }
        assert_eq!(
            (tuner_is_complete(kernel.0), tuner_param(kernel.0, 0)),
            (1, 3)
        );
        drop(kernel);
        for pair in pairs {
            drop(Box::from_raw(pair));
        }
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
        command.args([
            standard,
            "-pedantic",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-O2",
            "-I",
        ]);
        command
            .arg(examples.join("../include"))
            .arg(examples.join(name))
            .arg(&library);
        let compiled = command
            .args(["-lpthread", "-ldl", "-lm", "-o"])
            .arg(&program)
            .output()
            .unwrap();
        assert!(
            compiled.status.success(),
            "{}",
            String::from_utf8_lossy(&compiled.stderr)
        );
        let ran = Command::new(&program).output().unwrap();
        assert!(ran.status.success(), "{name}");
        String::from_utf8(ran.stdout).unwrap()
    };
    let block = run("c++", "-std=c++11", "five.cpp");
    assert!(
        ["block=1\n", "block=64\n", "block=4096\n"].contains(&block.as_str()),
        "{block}"
    );
    let said = run("cc", "-std=c99", "loop.c");
    let number = |name: &str| {
        said.split(name)
            .nth(1)
            .unwrap()
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
    let tuner = Tuner::new(three(), 1, Options::default()).unwrap();
    let mut worker = tuner.worker::<Elapsed>();
    for _ in 0..20 {
        let message = format!("{} does not launch", number(worker.begin()));
        assert!(!tuner.is_complete());
        if worker.is_timed() {
            worker.fail(Failure {
                kind: FailureKind::Launch,
                message,
            });
        }
    }
    assert!(!tuner.is_complete() && tuner.report().is_none());
    assert!(
        tuner
            .failure()
            .unwrap()
            .message
            .ends_with(" does not launch")
    );
    // After a first tuning, too.
    let tuner = Tuner::new(three(), 1, Options::default()).unwrap();
    finish(&tuner, |_| 1.0);
    let mut worker = tuner.worker::<Elapsed>();
    for _ in 0..3 {
        assert!(tuner.is_complete() && tuner.failure().is_none());
        worker.begin();
        worker.fail(Failure {
            kind: FailureKind::Launch,
            message: "no more".to_owned(),
        });
    }
    assert!(!tuner.is_complete() && tuner.failure().unwrap().message == "no more");
    let kernel = Kernel::new(TunerOptions::default());
    // SAFETY: the kernel is alive.
    unsafe {
        for _ in 0..3 {
            assert_eq!((tuner_begin(kernel.0), tuner_is_complete(kernel.0)), (0, 0));
            assert_eq!(tuner_end(kernel.0, -1.0), 0);
        }
        assert_eq!(
            (
                tuner_begin(kernel.0),
                tuner_is_complete(kernel.0),
                tuner_is_timed(kernel.0)
            ),
            (-1, -1, 0)
        );
    }
    assert!(
        last_error().starts_with("all configurations failed; the last: "),
        "{}",
        last_error()
    );
}

#[test]
fn h11_in_c_counters_are_read_and_calls_with_null_are_errors() {
    // Counters can be read; in C, calls with NULL are errors.
    let kernel = Kernel::new(TunerOptions {
        again_after_s: -1.0,
        ..TunerOptions::default()
    });
    let mut counters = TunerCounters::default();
    let null = std::ptr::null_mut::<TunerKernel>();
    let values = [1, 2];
    let good = [parameter(&values, 1)];
    let make = |parameters: &[TunerParameter], options: TunerOptions| {
        // SAFETY: the parameters and the options are there.
        let made = unsafe {
            tuner_new(
                parameters.as_ptr(),
                parameters.len(),
                None,
                &raw const options,
            )
        };
        assert!(Kernel(made).0.is_null());
        last_error()
    };
    // SAFETY: the kernel is alive, and the others are null.
    unsafe {
        for _ in 0..40 {
            tuner_begin(kernel.0);
            tuner_end(kernel.0, tuner_param(kernel.0, 0) as f64);
        }
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
            (
                tuner_begin(null),
                tuner_end(null, 1.0),
                tuner_is_timed(null)
            ),
            (-1, -1, -1)
        );
        assert_eq!((tuner_is_complete(null), tuner_scan_again(null)), (-1, -1));
        assert_eq!(tuner_end_event(null, None, std::ptr::null_mut()), -1);
        assert_eq!(tuner_read_counters(null, &raw mut counters), -1);
        assert_eq!(
            (tuner_param(null, 0), last_error().as_str()),
            (i64::MIN, "the kernel is NULL")
        );
        assert_eq!(
            (tuner_param(kernel.0, 7), last_error().as_str()),
            (i64::MIN, "there is no parameter 7")
        );
        assert_eq!(tuner_end_event(kernel.0, None, std::ptr::null_mut()), -1);
        assert_eq!(last_error(), "the poll function is NULL");
        assert_eq!(tuner_read_counters(kernel.0, std::ptr::null_mut()), -1);
        tuner_free(null);
        assert!(tuner_new(std::ptr::null(), 1, None, std::ptr::null()).is_null());
        assert_eq!(last_error(), "the parameters are NULL");
    }
    let default = TunerOptions::default();
    let no_values = TunerParameter {
        values: std::ptr::null(),
        count: 2,
        start: 1,
    };
    assert_eq!(make(&[no_values], default), "parameter 0 has no values");
    assert_eq!(
        make(&[parameter(&values, 3)], default),
        "the start values are not a valid configuration"
    );
    assert!(
        make(
            &good,
            TunerOptions {
                statistic: 3,
                ..default
            }
        )
        .starts_with("statistic 3: ")
    );
    assert!(
        make(
            &good,
            TunerOptions {
                again_after_s: f64::NAN,
                ..default
            }
        )
        .starts_with("again_after_s: ")
    );
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

/// Tuner in C of one parameter with the values 1, 2 and 3.
struct Kernel(*mut TunerKernel);

impl Kernel {
    fn new(options: TunerOptions) -> Self {
        let values = [1, 2, 3];
        let parameter = parameter(&values, 1);
        // SAFETY: the parameter and the options are there.
        let kernel = unsafe { tuner_new(&raw const parameter, 1, None, &raw const options) };
        assert!(!kernel.is_null(), "{}", last_error());
        Self(kernel)
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // SAFETY: the kernel is null, or alive and used no more.
        unsafe { tuner_free(self.0) };
    }
}

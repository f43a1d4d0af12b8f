//! Load and throttling of the CPU, from files that are made up.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use tuner::watch::cpu::{CpuWatch, Files};
use tuner::watch::{Limits, State, Watch};

#[derive(Clone, Default)]
struct Fake(Rc<RefCell<HashMap<String, String>>>);

impl Fake {
    fn set(&self, path: &str, text: &str) {
        self.0.borrow_mut().insert(path.into(), text.into());
    }

    fn ticks(&self, busy: u64, idle: u64, stolen: u64, own: u64) {
        self.set(
            "/proc/stat",
            &format!("cpu  {busy} 0 0 {idle} 0 0 0 {stolen} 0 0\ncpu0 1 2 3\n"),
        );
        self.set(
            "/proc/self/stat",
            &format!("1 (a (odd) name) R 1 1 1 0 -1 0 0 0 0 0 {own} 0 0 0 20 0 1 0 0"),
        );
    }
}

impl Files for Fake {
    fn read(&self, path: &str) -> Option<String> {
        self.0.borrow().get(path).cloned()
    }
}

#[test]
fn the_load_of_others_leaves_out_our_own_and_counts_stolen_time() {
    let files = Fake::default();
    files.ticks(1000, 1000, 0, 500);
    let mut watch = CpuWatch::new(files.clone(), Limits::default());
    assert_eq!(watch.look().others, None, "too short to say");
    files.ticks(1100, 1100, 0, 600);
    let quiet = watch.look();
    assert_eq!(
        (quiet.others, quiet.is_disturbed(&Limits::default())),
        (Some(0.0), false)
    );
    files.ticks(1150, 1200, 50, 600);
    let busy = watch.look();
    assert_eq!(
        (busy.others, busy.is_disturbed(&Limits::default())),
        (Some(0.5), true)
    );
    files.ticks(1151, 1200, 50, 600);
    assert_eq!(
        watch.look().others,
        Some(0.5),
        "the last known, until there is enough to say more"
    );
    files.ticks(1250, 1300, 50, 600);
    // The time of measured programs that have ended is our own.
    files.set(
        "/proc/self/stat",
        "1 (name) R 1 1 1 0 -1 0 0 0 0 0 600 0 70 30 20 0 1 0 0",
    );
    assert_eq!(watch.look().others, Some(0.0));
}

#[test]
fn throttling_is_a_counter_that_rose() {
    let files = Fake::default();
    files.set("/sys/devices/system/cpu/online", "0-1\n");
    for core in 0..2 {
        let at = format!("/sys/devices/system/cpu/cpu{core}");
        files.set(&format!("{at}/thermal_throttle/core_throttle_count"), "7\n");
        files.set(
            &format!("{at}/cpufreq/scaling_cur_freq"),
            if core == 0 { "3000000\n" } else { "1200000\n" },
        );
    }
    let limits = Limits::default();
    let mut watch = CpuWatch::new(files.clone(), limits.clone());
    let state = watch.look();
    assert_eq!(
        (state.clock_mhz, state.is_disturbed(&limits)),
        (Some(1200.0), false)
    );
    files.set(
        "/sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count",
        "9\n",
    );
    let state = watch.look();
    assert!(
        state.is_disturbed(&limits) && state.throttled == ["core temperature"],
        "{state:?}"
    );
    assert!(!watch.look().is_disturbed(&limits));
    files.set("/sys/fs/cgroup/cpu.stat", "usage_usec 1\nnr_throttled 3\n");
    watch.look();
    files.set("/sys/fs/cgroup/cpu.stat", "usage_usec 1\nnr_throttled 4\n");
    assert_eq!(watch.look().throttled, ["quota of the control group"]);
}

#[test]
fn a_machine_without_sensors_counts_as_untroubled() {
    let mut watch = CpuWatch::new(Fake::default(), Limits::default());
    assert_eq!(watch.look(), State::default());
    let files = Fake::default();
    for path in [
        "/proc/stat",
        "/proc/self/stat",
        "/sys/devices/system/cpu/online",
        "/sys/fs/cgroup/cpu.stat",
    ] {
        files.set(path, "nonsense 4294967295-1,0-4294967295 \u{0}");
    }
    let state = CpuWatch::new(files, Limits::default()).look();
    assert!(!state.is_disturbed(&Limits::default()));
}

//! Load and throttling of the CPU, from files that are made up.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use tuner::watch::Limits;
use tuner::watch::cpu::{CpuWatch, Files};

use crate::prelude::*;

#[derive(Clone, Default)]
struct Fake(Rc<RefCell<HashMap<String, String>>>);

impl Fake {
    fn set(&self, path: &str, text: &str) {
        self.0.borrow_mut().insert(path.into(), text.into());
    }

    /// Sets the machine's ticks, and the ticks of this process and of its ended children.
    fn ticks(&self, [busy, idle, stolen]: [u64; 3], own: &str) {
        let stat = format!("cpu  {busy} 0 0 {idle} 0 0 0 {stolen} 0 0\ncpu0 1 2 3\n");
        self.set("/proc/stat", &stat);
        let own = format!("1 (a (odd) name) R 1 1 1 0 -1 0 0 0 0 0 {own} 20 0 1 0 0");
        self.set("/proc/self/stat", &own);
    }

    fn watch(&self) -> CpuWatch<Self> {
        CpuWatch::new(self.clone(), Limits::default())
    }
}

impl Files for Fake {
    fn read(&self, path: &str) -> Option<String> {
        self.0.borrow().get(path).cloned()
    }
}

fn is_disturbed(state: &State) -> bool {
    state.is_disturbed(&Limits::default())
}

#[test]
fn the_load_of_others_excludes_our_own_and_counts_stolen_time() {
    let files = Fake::default();
    files.ticks([1000, 1000, 0], "500 0 0 0");
    let mut watch = files.watch();
    assert_eq!(watch.look().others, None, "too short to say");
    for (ticks, own, others) in [
        ([1100, 1100, 0], "600 0 0 0", 0.0),
        ([1150, 1200, 50], "600 0 0 0", 0.5),
        // The last known, until there is enough to say more.
        ([1151, 1200, 50], "600 0 0 0", 0.5),
        // The time of measured programs that have ended is our own.
        ([1250, 1300, 50], "600 0 70 30", 0.0),
    ] {
        files.ticks(ticks, own);
        let state = watch.look();
        assert_eq!(
            (state.others, is_disturbed(&state)),
            (Some(others), others > 0.0)
        );
    }
}

#[test]
fn throttling_is_a_counter_that_rose() {
    let files = Fake::default();
    files.set("/sys/devices/system/cpu/online", "0-1\n");
    let core = |core: usize, file: &str, text: &str| {
        files.set(&format!("/sys/devices/system/cpu/cpu{core}/{file}"), text);
    };
    let count = "thermal_throttle/core_throttle_count";
    for (at, clock) in ["3000000\n", "1200000\n"].into_iter().enumerate() {
        core(at, count, "7\n");
        core(at, "cpufreq/scaling_cur_freq", clock);
    }
    let mut watch = files.watch();
    let state = watch.look();
    assert_eq!(
        (state.clock_mhz, is_disturbed(&state)),
        (Some(1200.0), false)
    );
    core(1, count, "9\n");
    let state = watch.look();
    assert!(
        is_disturbed(&state) && state.throttled == ["core temperature"],
        "{state:?}"
    );
    assert!(!is_disturbed(&watch.look()));
    for throttled in [3, 4] {
        let text = format!("usage_usec 1\nnr_throttled {throttled}\n");
        files.set("/sys/fs/cgroup/cpu.stat", &text);
        let found = watch.look().throttled;
        assert_eq!(found == ["quota of the control group"], throttled == 4);
    }
}

#[test]
fn a_machine_without_sensors_counts_as_untroubled() {
    let files = Fake::default();
    assert_eq!(files.watch().look(), State::default());
    for path in [
        "/proc/stat",
        "/proc/self/stat",
        "/sys/devices/system/cpu/online",
        "/sys/fs/cgroup/cpu.stat",
    ] {
        files.set(path, "nonsense 4294967295-1,0-4294967295 \u{0}");
    }
    assert!(!is_disturbed(&files.watch().look()));
}

//! Watches the CPU through sysfs and procfs.

use super::{Limits, State, Watch};
use std::path::Path;

/// Source of the system's files, which tests replace.
pub trait Files {
    /// Reads a file; `None` if that fails.
    fn read(&self, path: &str) -> Option<String>;

    /// Returns the time that running measured programs have taken so far, in ticks.
    fn of_measured(&self) -> u64 {
        0
    }
}

/// Files of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Files for System {
    fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(Path::new(path)).ok()
    }

    fn of_measured(&self) -> u64 {
        let groups = crate::device::group::running();
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let stats = processes
            .filter_map(|process| std::fs::read_to_string(process.path().join("stat")).ok());
        let measured =
            |stat: String| fields_of(&stat).filter(|fields| groups.contains(&(fields[0] as u32)));
        if groups.is_empty() {
            0
        } else {
            stats.filter_map(measured).map(|fields| fields[1]).sum()
        }
    }
}

/// Reads a process's group, and the time in ticks that it and its ended children took.
fn fields_of(stat: &str) -> Option<[u64; 2]> {
    // The program's name may contain blanks and brackets; the fields after it do not.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |i: usize| {
        fields
            .get(i)
            .and_then(|text| text.parse::<u64>().ok())
            .unwrap_or(0)
    };
    // With the times of ended children, because measured programs are children.
    Some([field(2), (11..=14).map(field).sum()])
}

/// Returns the name of the CPU, if the system knows it.
pub fn model() -> Option<String> {
    let info = System.read("/proc/cpuinfo")?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Minimum number of ticks (of 10 ms, over all cores) for computing the load of other programs.
const FEWEST_TICKS: u64 = 20;

#[derive(Clone, Copy, Debug, Default)]
struct Ticks {
    all: u64,
    busy: u64,
    own: u64,
}

/// Watches the CPU: clock (cpufreq), throttling (of the core and of the control group), and other
/// load (all time that is neither idle nor of this process and its children, stolen time included).
///
/// Virtual machines and containers hide much of this, which stays unknown.
#[derive(Debug)]
pub struct CpuWatch<F: Files = System> {
    files: F,
    limits: Limits,
    cores: Vec<u32>,
    before: Ticks,
    others: Option<f64>,
    throttles: Option<u64>,
    quota: Option<u64>,
}

impl<F: Files> CpuWatch<F> {
    /// Makes a watch that reads `files`.
    pub fn new(files: F, limits: Limits) -> Self {
        let cores = files
            .read("/sys/devices/system/cpu/online")
            .map(|text| ranges(&text))
            .unwrap_or_default();
        let mut watch = Self {
            files,
            limits,
            cores,
            before: Ticks::default(),
            others: None,
            throttles: None,
            quota: None,
        };
        watch.before = watch.ticks().unwrap_or_default();
        watch.before.own += watch.files.of_measured();
        watch.throttles = watch.core_throttles();
        watch.quota = watch.quota_throttles();
        watch
    }

    fn number(&self, path: &str) -> Option<u64> {
        self.files.read(path)?.trim().parse().ok()
    }

    fn of_cores(&self, file: &str) -> impl Iterator<Item = u64> {
        self.cores.iter().filter_map(move |core| {
            self.number(&format!("/sys/devices/system/cpu/cpu{core}/{file}"))
        })
    }

    fn core_throttles(&self) -> Option<u64> {
        self.of_cores("thermal_throttle/core_throttle_count")
            .reduce(u64::saturating_add)
    }

    fn quota_throttles(&self) -> Option<u64> {
        let stat = self.files.read("/sys/fs/cgroup/cpu.stat")?;
        stat.lines()
            .find_map(|line| line.strip_prefix("nr_throttled ")?.trim().parse().ok())
    }

    fn ticks(&self) -> Option<Ticks> {
        let stat = self.files.read("/proc/stat")?;
        let counts: Vec<u64> = stat
            .lines()
            .next()?
            .split_whitespace()
            .skip(1)
            .map(|count| count.parse().unwrap_or(0))
            .collect();
        // user nice system idle iowait irq softirq steal; user time includes guest time.
        let all: u64 = counts.iter().take(8).sum();
        let idle: u64 = counts.iter().skip(3).take(2).sum();
        let [_, own] = fields_of(&self.files.read("/proc/self/stat")?)?;
        Some(Ticks {
            all,
            busy: all - idle.min(all),
            own,
        })
    }
}

impl<F: Files> Watch for CpuWatch<F> {
    fn look(&mut self) -> State {
        if let Some(mut now) = self.ticks()
            && now.all.saturating_sub(self.before.all) >= FEWEST_TICKS
        {
            now.own += self.files.of_measured();
            let all = now.all - self.before.all;
            let busy = now.busy.saturating_sub(self.before.busy);
            let own = now.own.saturating_sub(self.before.own);
            self.others = Some(busy.saturating_sub(own) as f64 / all as f64);
            self.before = now;
        }
        let (throttles, quota) = (self.core_throttles(), self.quota_throttles());
        let rose = |now: Option<u64>, before: Option<u64>| {
            now.zip(before).is_some_and(|(now, before)| now > before)
        };
        let mut throttled = Vec::new();
        if rose(throttles, self.throttles) {
            throttled.push("core temperature".to_owned());
        }
        if rose(quota, self.quota) {
            throttled.push("quota of the control group".to_owned());
        }
        (self.throttles, self.quota) = (throttles, quota);
        State {
            clock_mhz: self
                .of_cores("cpufreq/scaling_cur_freq")
                .min()
                .map(|khz| khz as f64 / 1000.0),
            temperature: None,
            others: self.others,
            throttled,
        }
    }

    fn limits(&self) -> Limits {
        self.limits.clone()
    }
}

/// Reads a list like `0-3,8`, without invalid parts, up to 4096 numbers.
fn ranges(text: &str) -> Vec<u32> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<u32>(), last.trim().parse::<u32>()) {
            numbers.extend((first..=last).take(4096));
        }
    }
    numbers.truncate(4096);
    numbers
}

//! State of the machine while it is measured: clocks, temperature, throttling, other programs; and
//! its GPU.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::gpu_watch::GpuWatch;
pub use super::link::Link;
use tuner::watch::cpu::{CpuWatch, System};
use tuner::watch::{Limits, NoWatch, State, Watch};
use ut_decoders::Backend;
use ut_decoders::cuda::{CudaDevice, Facts};

/// Minimum time between two observations, which take a little of the measured time.
const PAUSE: Duration = Duration::from_millis(250);

/// Observations during a measurement; `None` if they cannot be made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observations {
    /// Lowest and highest clock of the device, MHz (CPU: of the slowest core).
    pub clock_mhz: Option<[f64; 2]>,
    /// Lowest and highest temperature of the device, degrees Celsius.
    pub temperature: Option<[f64; 2]>,
    /// Largest share of the machine's time that other programs took, 0…1; on a GPU 1 if another
    /// process used it.
    pub others: Option<f64>,
    /// Reasons for a lower clock, as their source words them.
    pub throttled: Vec<String>,
    /// Number of observations.
    pub looks: usize,
}

impl Observations {
    fn add(&mut self, state: State) {
        self.looks += 1;
        widen(&mut self.clock_mhz, state.clock_mhz);
        widen(&mut self.temperature, state.temperature);
        self.others = [self.others, state.others]
            .into_iter()
            .flatten()
            .reduce(f64::max);
        for reason in state.throttled {
            if !self.throttled.contains(&reason) {
                self.throttled.push(reason);
            }
        }
    }
}

fn widen(range: &mut Option<[f64; 2]>, value: Option<f64>) {
    if let Some(value) = value {
        let [low, high] = range.unwrap_or([value, value]);
        *range = Some([low.min(value), high.max(value)]);
    }
}

/// Facts about the measured GPU; `None` if neither driver nor NVML reports them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuReport {
    /// Name, such as `NVIDIA A100`.
    pub name: String,
    /// Compute capability, such as `8.0`.
    pub capability: String,
    /// Number of multiprocessors.
    pub multiprocessors: i32,
    /// Size of the memory in bytes.
    pub memory: usize,
    /// Version of the driver.
    pub driver: Option<String>,
    /// Newest CUDA release that the driver knows.
    pub cuda: Option<String>,
    /// Highest clock of the multiprocessors, MHz.
    pub max_clock_mhz: Option<f64>,
    /// Highest clock of the memory, MHz.
    pub max_memory_clock_mhz: Option<f64>,
    /// Peak bandwidth of the memory, bytes per second.
    pub peak_bandwidth: Option<f64>,
    /// Fastest link to the host during the measurement: idle links slow down.
    pub link: Option<Link>,
    /// Error of NVML, which reports clocks, temperature, throttling and link.
    pub nvml: Option<String>,
}

/// Makes a watch over the machine of `backend`. For a GPU, call this once there is a decoder on it.
/// A GPU that cannot be watched is taken to be in a good state.
pub fn watch(backend: Backend, limits: Limits) -> Box<dyn Watch> {
    if backend != Backend::Cuda {
        return Box::new(CpuWatch::new(System, limits));
    }
    match Facts::of(0)
        .ok()
        .and_then(|facts| GpuWatch::open(&facts.bus, limits).ok())
    {
        Some(watch) => Box::new(watch),
        None => Box::new(NoWatch),
    }
}

/// Observer of the machine while it is measured.
pub struct Environment {
    watch: Box<dyn Watch>,
    last: Option<Instant>,
    seen: Observations,
    gpu: Option<(GpuReport, Facts)>,
    link: Option<GpuWatch>,
    /// Keeps the GPU open while decoders come and go: opening takes longer than decoding.
    _open: Option<CudaDevice>,
}

impl Environment {
    /// Watches the machine of `backend`; for a GPU, make it once there is a decoder on it.
    pub fn of(backend: Backend) -> Self {
        let on_gpu = backend == Backend::Cuda;
        let open = if on_gpu {
            CudaDevice::new(0, 0).ok()
        } else {
            None
        };
        let facts = if on_gpu { Facts::of(0).ok() } else { None };
        let mut link = None;
        let gpu = facts.map(|facts| {
            let mut report = GpuReport::of(&facts);
            match GpuWatch::open(&facts.bus, Limits::default()) {
                Ok(found) => (link, report.driver) = (Some(found), driver_version()),
                Err(error) => report.nvml = Some(error),
            }
            (report, facts)
        });
        let watch = watch(backend, Limits::default());
        let mut environment = Self {
            watch,
            last: None,
            seen: Observations::default(),
            gpu,
            link,
            _open: open,
        };
        environment.look();
        environment
    }

    /// Observes the machine, unless the last observation is too recent.
    pub fn tick(&mut self) {
        if self.last.is_none_or(|last| last.elapsed() >= PAUSE) {
            self.look();
        }
    }

    fn look(&mut self) {
        self.seen.add(self.watch.look());
        if let (Some((report, _)), Some(watch)) = (&mut self.gpu, &self.link)
            && let Some(now) = watch.link()
        {
            let faster = |before: Link| before.peak_bandwidth() >= now.peak_bandwidth();
            report.link = Some(report.link.filter(|before| faster(*before)).unwrap_or(now));
        }
        self.last = Some(Instant::now());
    }

    /// Makes a last observation; returns all observations, and the GPU.
    pub fn seen(&mut self) -> (&Observations, Option<&GpuReport>) {
        self.look();
        (&self.seen, self.gpu.as_ref().map(|(report, _)| report))
    }

    /// Returns the observations and the GPU as JSON.
    pub fn json(&mut self) -> serde_json::Value {
        let (seen, gpu) = self.seen();
        serde_json::json!({ "seen": seen, "gpu": gpu })
    }

    /// Returns the observations and the GPU in lines of a name and a value.
    pub fn in_words(&mut self) -> Vec<(&'static str, String)> {
        let (seen, gpu) = self.seen();
        in_words(seen, gpu)
    }

    /// Returns the facts about the GPU that the driver reports.
    pub fn facts(&self) -> Option<&Facts> {
        self.gpu.as_ref().map(|(_, facts)| facts)
    }
}

impl GpuReport {
    fn of(facts: &Facts) -> Self {
        let (major, minor) = facts.gpu.capability;
        let mhz = |khz: Option<u32>| khz.map(|khz| f64::from(khz) / 1e3);
        Self {
            name: facts.gpu.name.clone(),
            capability: format!("{major}.{minor}"),
            multiprocessors: facts.gpu.multiprocessors,
            memory: facts.gpu.memory,
            driver: None,
            cuda: facts
                .driver
                .map(|version| format!("{}.{}", version / 1000, version % 1000 / 10)),
            max_clock_mhz: mhz(facts.clock),
            max_memory_clock_mhz: mhz(facts.memory_clock),
            peak_bandwidth: facts.peak_bandwidth(),
            link: None,
            nvml: None,
        }
    }
}

fn in_words(seen: &Observations, gpu: Option<&GpuReport>) -> Vec<(&'static str, String)> {
    let unknown = || "unknown".to_owned();
    let range = |range: Option<[f64; 2]>, unit: &str| {
        range.map_or_else(unknown, |[low, high]| {
            format!("{low:.0} to {high:.0} {unit}")
        })
    };
    let mut lines = Vec::new();
    if let Some(gpu) = gpu {
        let text = |text: &Option<String>| text.clone().unwrap_or_else(unknown);
        lines.push((
            "gpu",
            format!(
                "{}, compute capability {}, {} multiprocessors, {:.1} GB; driver {}, CUDA {}",
                gpu.name,
                gpu.capability,
                gpu.multiprocessors,
                gpu.memory as f64 * 1e-9,
                text(&gpu.driver),
                text(&gpu.cuda)
            ),
        ));
        let peak = gpu
            .peak_bandwidth
            .map_or_else(unknown, |peak| format!("{:.0} GB/s", peak * 1e-9));
        let link = gpu.link.map_or_else(unknown, |link| {
            let peak = link
                .peak_bandwidth()
                .map_or_else(unknown, |peak| format!("{:.1} GB/s", peak * 1e-9));
            format!("PCIe {} x{}, {peak} each way", link.generation, link.width)
        });
        lines.push(("its peaks", format!("memory {peak}; link {link}")));
        if let Some(why) = &gpu.nvml {
            lines.push(("note", why.clone()));
        }
    }
    let throttled = match (&seen.throttled[..], seen.clock_mhz) {
        ([], None) => "throttling unknown".to_owned(),
        ([], Some(_)) => "not throttled".to_owned(),
        (reasons, _) => format!("THROTTLED: {}", reasons.join(", ")),
    };
    lines.push((
        "while measured",
        format!(
            "clock {}, temperature {}, {throttled}",
            range(seen.clock_mhz, "MHz"),
            range(seen.temperature, "C")
        ),
    ));
    if let Some(others) = seen.others.filter(|&others| others > 0.05) {
        let text = if gpu.is_some() {
            "another process was on the GPU".to_owned()
        } else {
            format!(
                "other processes took up to {:.0} % of this machine",
                100.0 * others
            )
        };
        lines.push(("note", text));
    }
    lines
}

/// Reads the version of the NVIDIA driver from its kernel module.
pub fn driver_version() -> Option<String> {
    version_in(&std::fs::read_to_string("/proc/driver/nvidia/version").ok()?)
}

fn version_in(text: &str) -> Option<String> {
    let is_version =
        |word: &&str| word.contains('.') && word.split('.').all(|part| part.parse::<u32>().is_ok());
    text.lines()
        .next()?
        .split_whitespace()
        .find(is_version)
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observations_add_up_to_ranges_and_reasons() {
        let mut seen = Observations::default();
        seen.add(State::default());
        assert_eq!(
            seen,
            Observations {
                looks: 1,
                ..Observations::default()
            }
        );
        for (clock, temperature, reason) in
            [(1500.0, 60.0, "power cap"), (1200.0, 70.0, "power cap")]
        {
            seen.add(State {
                clock_mhz: Some(clock),
                temperature: Some(temperature),
                others: Some(clock / 10_000.0),
                throttled: vec![reason.to_owned()],
            });
        }
        assert_eq!(
            (seen.clock_mhz, seen.temperature),
            (Some([1200.0, 1500.0]), Some([60.0, 70.0]))
        );
        assert_eq!(
            (seen.others, seen.throttled.len(), seen.looks),
            (Some(0.15), 1, 3)
        );
        let lines = in_words(&seen, None);
        assert!(
            lines[0].1.contains("1200 to 1500 MHz") && lines[0].1.contains("THROTTLED: power cap"),
            "{lines:?}"
        );
        assert!(lines[1].1.contains("15 %"), "{lines:?}");
    }

    #[test]
    fn the_rate_of_a_link_follows_from_lanes_and_line_code() {
        let of = |generation, width| Link { generation, width }.peak_bandwidth();
        assert_eq!(of(1, 16), Some(4e9));
        assert!((of(4, 16).unwrap() - 31.508e9).abs() < 1e6);
        assert!((of(5, 16).unwrap() - 63.015e9).abs() < 1e6);
        assert_eq!((of(9, 16), of(4, 0)), (None, None));
    }

    #[test]
    fn the_driver_version_is_read_from_the_kernel_module() {
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  Release Build\nGCC version: 12.2.0";
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023";
        assert_eq!(version_in(open).as_deref(), Some("560.35.03"));
        assert_eq!(version_in(closed).as_deref(), Some("535.104.05"));
        assert_eq!(version_in("GCC version: unknown"), None);
    }
}

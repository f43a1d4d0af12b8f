//! Settings from the environment.

use std::path::PathBuf;

/// Fault of a kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Break {
    /// A bit is wrong in the next hits that are copied to the host.
    Wrong,
    /// The kernel never ends.
    Hang,
    /// The kernel fails, and the context is unusable after it.
    Fault,
    /// No module contains the kernel.
    Missing,
}

impl Break {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "wrong" => Self::Wrong,
            "hang" => Self::Hang,
            "fault" => Self::Fault,
            "missing" => Self::Missing,
            _ => return None,
        })
    }
}

/// Properties of the simulated machine.
pub struct Settings {
    pub seed: u64,
    pub devices: i32,
    pub version: i32,
    /// Compute capability of each device; the last entry is for all devices that follow.
    pub capabilities: Vec<(i32, i32)>,
    pub memory: usize,
    pub refuse_pageable: bool,
    /// Maximum number of threads per block, for any kernel.
    pub max_threads: u32,
    pub refuse: Option<String>,
    /// Name of a kernel, and its fault.
    pub broken: Option<(String, Break)>,
    /// File to which the counts of each launch are appended.
    pub counts: Option<PathBuf>,
    /// Reported clock rate of multiprocessors and memory in kHz; 0: unknown.
    pub clock: i32,
}

impl Settings {
    /// Reads the settings from the environment.
    pub fn of_environment() -> Self {
        let number = |name: &str, default: u64| {
            let text = std::env::var(name).ok();
            text.map_or(default, |text| {
                text.parse()
                    .unwrap_or_else(|_| panic!("fake cuda: {name}={text}"))
            })
        };
        let capabilities =
            std::env::var("FAKE_CUDA_CAPABILITY").unwrap_or_else(|_| "80".to_owned());
        let capability = |text: &str| {
            let number: i32 = text
                .parse()
                .unwrap_or_else(|_| panic!("fake cuda: FAKE_CUDA_CAPABILITY={capabilities}"));
            (number / 10, number % 10)
        };
        Self {
            seed: number("FAKE_CUDA_SEED", 0),
            devices: number("FAKE_CUDA_DEVICES", 1) as i32,
            version: number("FAKE_CUDA_VERSION", 13000) as i32,
            capabilities: capabilities.split(',').map(capability).collect(),
            memory: number("FAKE_CUDA_MEMORY", 4 << 30) as usize,
            refuse_pageable: std::env::var("FAKE_CUDA_PAGEABLE")
                .is_ok_and(|value| value == "refuse"),
            max_threads: number("FAKE_CUDA_MAX_THREADS", 1024) as u32,
            refuse: std::env::var("FAKE_CUDA_REFUSE").ok(),
            broken: std::env::var("FAKE_CUDA_BREAK").ok().map(|text| {
                let broken = text
                    .split_once('=')
                    .and_then(|(kernel, how)| Some((kernel.to_owned(), Break::named(how)?)));
                broken.unwrap_or_else(|| panic!("fake cuda: FAKE_CUDA_BREAK={text}"))
            }),
            counts: std::env::var_os("FAKE_CUDA_COUNTS").map(PathBuf::from),
            clock: number("FAKE_CUDA_CLOCK", 0) as i32,
        }
    }

    /// Returns the fault of the kernel with this entry point, if it has one.
    pub fn broken(&self, entry: &str) -> Option<Break> {
        let (kernel, how) = self.broken.as_ref()?;
        (entry.split("__").next() == Some(kernel)).then_some(*how)
    }

    /// Returns the compute capability of a device, major and minor.
    pub fn capability(&self, device: usize) -> (i32, i32) {
        self.capabilities[device.min(self.capabilities.len() - 1)]
    }
}

//! Observes a GPU through NVML, the library of nvidia-smi. It is opened at run time, so that
//! without a driver or the feature `nvml` only opening fails.

use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use tuner::watch::{Limits, State, Watch};

use crate::link::Link;

/// Watch over one GPU: clock of the multiprocessors, temperature, throttling, other processes.
#[derive(Debug)]
pub struct GpuWatch {
    nvml: Nvml,
    bus: String,
    limits: Limits,
}

impl GpuWatch {
    /// Watches the GPU with a PCI bus id (`0000:01:00.0`, as CUDA gives it: the numbers of CUDA and
    /// of NVML differ). Open it when the process has its CUDA context: one process on the GPU is
    /// taken to be this one, whose number differs in a container.
    pub fn open(bus: &str, limits: Limits) -> Result<Self, String> {
        let nvml = Nvml::init().map_err(|error| format!("NVML cannot be opened: {error}"))?;
        let found = nvml.device_by_pci_bus_id(bus).map(|_| ());
        found.map_err(|error| format!("NVML knows no GPU at {bus}: {error}"))?;
        Ok(Self {
            nvml,
            bus: bus.to_owned(),
            limits,
        })
    }

    /// Reads the current link to the host.
    pub fn link(&self) -> Option<Link> {
        let device = self.nvml.device_by_pci_bus_id(self.bus.as_str()).ok()?;
        Some(Link {
            generation: device.current_pcie_link_gen().ok()?,
            width: device.current_pcie_link_width().ok()?,
        })
    }
}

impl Watch for GpuWatch {
    fn look(&mut self) -> State {
        let Ok(device) = self.nvml.device_by_pci_bus_id(self.bus.as_str()) else {
            return State::default();
        };
        State {
            clock_mhz: device.clock_info(Clock::SM).ok().map(f64::from),
            temperature: device
                .temperature(TemperatureSensor::Gpu)
                .ok()
                .map(f64::from),
            others: device
                .running_compute_processes_count()
                .ok()
                .map(|count| f64::from(u8::from(count > 1))),
            throttled: device
                .current_throttle_reasons()
                .map(words)
                .unwrap_or_default(),
        }
    }

    fn limits(&self) -> Limits {
        self.limits.clone()
    }
}

/// Returns the reasons for a low clock that the user did not choose. Idle clocks and chosen clocks
/// are none.
fn words(reasons: ThrottleReasons) -> Vec<String> {
    let known = [
        (ThrottleReasons::SW_POWER_CAP, "power cap"),
        (ThrottleReasons::HW_SLOWDOWN, "hardware slowdown"),
        (
            ThrottleReasons::SW_THERMAL_SLOWDOWN,
            "temperature (software)",
        ),
        (
            ThrottleReasons::HW_THERMAL_SLOWDOWN,
            "temperature (hardware)",
        ),
        (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "power brake"),
    ];
    known
        .into_iter()
        .filter(|(reason, _)| reasons.contains(*reason))
        .map(|(_, word)| word.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_chosen_clocks_are_not_throttling_and_heat_is() {
        let state = |reasons| State {
            throttled: words(reasons),
            ..State::default()
        };
        let harmless = ThrottleReasons::GPU_IDLE | ThrottleReasons::APPLICATIONS_CLOCKS_SETTING;
        assert!(!state(harmless).is_disturbed(&Limits::default()));
        let hot = ThrottleReasons::HW_THERMAL_SLOWDOWN | ThrottleReasons::HW_SLOWDOWN;
        assert!(state(hot | harmless).is_disturbed(&Limits::default()));
        assert_eq!(state(hot).throttled.len(), 2);
    }

    #[test]
    fn watching_a_missing_gpu_is_an_error() {
        let error = GpuWatch::open("ffff:ff:1f.7", Limits::default()).unwrap_err();
        assert!(error.contains("NVML"), "{error}");
    }
}

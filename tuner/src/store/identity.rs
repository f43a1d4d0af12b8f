//! Identity of a stored result: device, tunable and workload.

use std::collections::BTreeMap;
use std::fmt;

use super::StoreError;
use crate::Value;
use crate::objective::Objective;

/// Device, and the software that drives it.
///
/// Fields that are unknown or have no meaning are empty or 0; empty equals only empty. The UUID is
/// never compared: two cards of one model share their results.
#[derive(
    Clone,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(default)]
pub struct DeviceIdentity {
    /// Name that the device reports: "NVIDIA H200".
    pub name: String,
    /// UUID of the card.
    pub uuid: String,
    /// CUDA compute capability: "9.0". For a CPU, its architecture.
    pub compute_capability: String,
    /// Streaming multiprocessors, of which a slice of a GPU has fewer; for a CPU, hardware threads.
    pub sm_count: u32,
    /// Version of the driver.
    pub driver: String,
    /// Version of the runtime or compiler that made the code.
    pub runtime: String,
    /// Programming interface: "CUDA", "cpu", "replay".
    pub platform: String,
}

impl DeviceIdentity {
    /// Makes a device with only name and platform known.
    pub fn named(name: impl Into<String>, platform: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            platform: platform.into(),
            ..Self::default()
        }
    }
}

impl fmt::Display for DeviceIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.name.is_empty() {
            "(unnamed device)"
        } else {
            &self.name
        };
        write!(f, "{name}")?;
        let driver = if self.driver.is_empty() {
            String::new()
        } else {
            format!("driver {}", self.driver)
        };
        let details = [&self.platform, &self.runtime, &driver];
        let details: Vec<_> = details
            .into_iter()
            .filter(|text| !text.is_empty())
            .map(String::as_str)
            .collect();
        if details.is_empty() {
            Ok(())
        } else {
            write!(f, " [{}]", details.join(", "))
        }
    }
}

/// Program, decoder or kernel that can be tuned.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct TunableIdentity {
    /// Name of the tunable.
    pub name: String,
    /// Version, which the author raises when earlier measurements become meaningless. Other
    /// versions are never found.
    pub version: u32,
    /// Hash of the code, or empty. Other hashes are never found.
    pub kernel_hash: String,
}

impl TunableIdentity {
    /// Makes a tunable without a code hash.
    pub fn new(name: impl Into<String>, version: u32) -> Self {
        Self {
            name: name.into(),
            version,
            kernel_hash: String::new(),
        }
    }
}

impl fmt::Display for TunableIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} v{}", self.name, self.version)?;
        if self.kernel_hash.is_empty() {
            Ok(())
        } else {
            write!(f, " ({})", self.kernel_hash)
        }
    }
}

/// Workload, as far as it matters for the speed: named values, and the place of the call. A lookup
/// finds only equal workloads.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Workload {
    keys: BTreeMap<String, Value>,
    place: String,
}

/// Replaces -0.0 by 0.0: they are equal, but a store compares their texts.
fn one_zero(value: Value) -> Value {
    if let Value::Float(number) = value {
        Value::Float(number + 0.0)
    } else {
        value
    }
}

impl Workload {
    /// Makes a workload without keys.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a key, or replaces its value.
    ///
    /// # Errors
    /// If the value is not finite.
    pub fn with(
        mut self,
        name: impl Into<String>,
        value: impl Into<Value>,
    ) -> Result<Self, StoreError> {
        let (name, value) = (name.into(), value.into());
        match value {
            Value::Float(number) if !number.is_finite() => Err(StoreError::Wrong(format!(
                "workload key {name:?}: {number} is not finite"
            ))),
            value => {
                self.keys.insert(name, one_zero(value));
                Ok(self)
            }
        }
    }

    /// Names the place of the call, so that a kernel called from two places is tuned twice.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.place = place.into();
        self
    }

    /// Returns the meaning of the numbers, which the key `objective` names.
    pub fn objective(&self) -> Objective {
        match self.keys.get("objective") {
            Some(Value::Text(name)) => name.parse().unwrap_or_default(),
            _ => Objective::Time,
        }
    }

    /// Returns the keys, by name.
    pub fn keys(&self) -> &BTreeMap<String, Value> {
        &self.keys
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> = self
            .keys
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        match (keys.join(", "), self.place.as_str()) {
            (keys, "") if keys.is_empty() => f.write_str("any workload"),
            (keys, "") => f.write_str(&keys),
            (keys, place) => f.write_str(format!("{keys} at {place}").trim_start()),
        }
    }
}

//! Identity of a stored result: the device, the tunable thing, and the workload.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::Location;

use serde::Deserialize as _;

use super::StoreError;
use crate::Value;

/// A device, and the software that drives it.
///
/// What is unknown or has no meaning (the compute capability of a CPU) is empty or 0; empty equals only empty. The UUID
/// is kept for the record and never compared: two cards of one model share their results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct DeviceIdentity {
    /// Name, as the device gives it: "NVIDIA H200".
    pub name: String,
    /// The UUID of this very device.
    pub uuid: String,
    /// CUDA compute capability: "9.0". For a CPU, its architecture.
    pub compute_capability: String,
    /// Streaming multiprocessors; for a CPU, hardware threads. Part of the device: a slice of a GPU has fewer.
    pub sm_count: u32,
    /// Version of the driver.
    pub driver: String,
    /// Version of the runtime or compiler that made the code.
    pub runtime: String,
    /// The programming interface: "CUDA", "cpu", "replay".
    pub platform: String,
}

impl DeviceIdentity {
    /// A device of which no more than the name and the platform are known.
    pub fn named(name: impl Into<String>, platform: impl Into<String>) -> Self {
        Self { name: name.into(), platform: platform.into(), ..Self::default() }
    }
}

impl fmt::Display for DeviceIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.name.is_empty() { "(unnamed device)" } else { &self.name };
        write!(f, "{name}")?;
        let driver = if self.driver.is_empty() { String::new() } else { format!("driver {}", self.driver) };
        let details = [&self.platform, &self.runtime, &driver];
        let details: Vec<_> = details.into_iter().filter(|text| !text.is_empty()).map(String::as_str).collect();
        if details.is_empty() { Ok(()) } else { write!(f, " [{}]", details.join(", ")) }
    }
}

/// A thing that can be tuned.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct TunableIdentity {
    /// Name of the tunable.
    pub name: String,
    /// Raised by its author when what was measured before no longer says anything: results of other versions stay in
    /// the store and are never found.
    pub version: u32,
    /// A hash of the code; empty where there is none. Another hash never matches either: other code, other times.
    pub kernel_hash: String,
}

impl TunableIdentity {
    /// A tunable thing without a hash of its code.
    pub fn new(name: impl Into<String>, version: u32) -> Self {
        Self { name: name.into(), version, kernel_hash: String::new() }
    }
}

impl fmt::Display for TunableIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} v{}", self.name, self.version)?;
        if self.kernel_hash.is_empty() { Ok(()) } else { write!(f, " ({})", self.kernel_hash) }
    }
}

/// Workload of the tunable thing, as far as it matters for its speed: named numbers, strings and enums, and where it
/// is called from. A lookup compares all of it and never relaxes any.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Workload {
    #[serde(deserialize_with = "with_one_zero")]
    keys: BTreeMap<String, Value>,
    place: String,
}

/// The value with 0.0 for -0.0: they are equal, but a store compares their texts.
fn one_zero(value: Value) -> Value {
    if let Value::Float(number) = value { Value::Float(number + 0.0) } else { value }
}

fn with_one_zero<'d, D: serde::Deserializer<'d>>(from: D) -> Result<BTreeMap<String, Value>, D::Error> {
    let keys = BTreeMap::<String, Value>::deserialize(from)?;
    Ok(keys.into_iter().map(|(name, value)| (name, one_zero(value))).collect())
}

impl Workload {
    /// A workload without keys.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a key. The same name again replaces the value.
    ///
    /// # Errors
    /// A value that is not finite: it would not even equal itself.
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Value>) -> Result<Self, StoreError> {
        let (name, value) = (name.into(), value.into());
        match value {
            Value::Float(number) if !number.is_finite() => Err(StoreError::BadKey {
                what: format!("workload key {name:?}"),
                why: format!("{number} is not finite"),
            }),
            value => {
                self.keys.insert(name, one_zero(value));
                Ok(self)
            }
        }
    }

    /// Names the place that the tunable thing is called from.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.place = place.into();
        self
    }

    /// Takes the caller's file, line and column as the place, so that the same kernel called from two places is tuned
    /// twice. An edit that moves the call makes it a new place; [`at`](Self::at) gives it a name that stays.
    #[must_use]
    #[track_caller]
    pub fn at_caller(self) -> Self {
        let place = Location::caller();
        // The compiler's path separator is the build machine's.
        self.at(format!("{}:{}:{}", place.file().replace('\\', "/"), place.line(), place.column()))
    }

    /// The keys, by name.
    pub fn keys(&self) -> &BTreeMap<String, Value> {
        &self.keys
    }

    /// Returns the place from which the tunable thing is called; empty if that does not matter.
    pub fn place(&self) -> &str {
        &self.place
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.keys.is_empty() && self.place.is_empty() {
            return write!(f, "any workload");
        }
        for (at, (name, value)) in self.keys.iter().enumerate() {
            write!(f, "{}{name}={value}", if at == 0 { "" } else { ", " })?;
        }
        match (self.place.is_empty(), self.keys.is_empty()) {
            (true, _) => Ok(()),
            (false, true) => write!(f, "at {}", self.place),
            (false, false) => write!(f, " at {}", self.place),
        }
    }
}

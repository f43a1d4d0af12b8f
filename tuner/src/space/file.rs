//! Reading a search space from a TOML file.
//!
//! ```toml
//! [default]                       # may be left out: what is used where nothing is tuned
//! block = 128
//!
//! [constants]
//! items = 500000
//!
//! [[parameter]]
//! name = "block"
//! powers_of_two = [32, 1024]      # or: values = [32, 64, 96]
//!                                 # or: range = { from = 32, to = 1024, step = 32 }
//! [[derived]]
//! name = "grid"
//! value = "items // block"
//!
//! [[constraint]]
//! name = "enough blocks"          # may be left out
//! when = "grid >= 108"
//!
//! [limits]                        # of the device
//! threads_per_block = 1024
//! shared_bytes = 49152
//! registers_per_block = 65536
//! warp = 32
//!
//! [footprint]                     # of one block
//! threads = "block"
//! shared_bytes = "4 * block"      # may be left out, as may registers_per_thread
//! ```

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use crate::space::builder::{DeviceLimits, Footprint, SpaceBuilder};
use crate::space::{Space, SpaceError};
use crate::{Config, Value};

/// Larger files are refused: a space is declared in some KB.
const LARGEST: u64 = 1 << 24;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    default: BTreeMap<String, Value>,
    #[serde(default)]
    constants: BTreeMap<String, Value>,
    #[serde(default)]
    parameter: Vec<ParameterEntry>,
    #[serde(default)]
    derived: Vec<DerivedEntry>,
    #[serde(default)]
    constraint: Vec<ConstraintEntry>,
    limits: Option<DeviceLimits>,
    footprint: Option<FootprintEntry>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ParameterEntry {
    name: String,
    values: Option<Vec<Value>>,
    range: Option<RangeEntry>,
    powers_of_two: Option<[i64; 2]>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RangeEntry {
    from: i64,
    to: i64,
    step: Option<i64>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct DerivedEntry {
    name: String,
    value: String,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ConstraintEntry {
    name: Option<String>,
    when: String,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct FootprintEntry {
    threads: String,
    shared_bytes: Option<String>,
    registers_per_thread: Option<String>,
}

/// Reads the space of a TOML file.
///
/// # Errors
/// The file, with what is wrong in it.
pub fn read_toml(path: &Path) -> Result<SpaceBuilder, SpaceError> {
    Ok(read(path)?.0)
}

/// Reads the space of a TOML file, and its default configuration if it has a `[default]`.
///
/// # Errors
/// The file, with what is wrong in it; a default that leaves out a parameter, names another, or does not make a valid
/// configuration.
pub fn read_space(path: &Path) -> Result<(Space, Option<Config>), SpaceError> {
    let (builder, default) = read(path)?;
    let space = builder.build()?;
    if default.is_empty() {
        return Ok((space, None));
    }
    let wrong = |what: String| SpaceError::Wrong(format!("{}: default: {what}", path.display()));
    let config = space.config_of(&default).map_err(wrong)?;
    Ok((space, Some(config)))
}

/// Reads a space from the text of a TOML file.
///
/// # Errors
/// What is wrong, in words.
pub fn parse_toml(text: &str) -> Result<SpaceBuilder, String> {
    Ok(parse(text)?.0)
}

fn read(path: &Path) -> Result<(SpaceBuilder, BTreeMap<String, Value>), SpaceError> {
    let wrong = |message: String| SpaceError::Wrong(format!("{}: {message}", path.display()));
    parse(&read_limited(path).map_err(wrong)?).map_err(wrong)
}

/// Parses a space and its default.
fn parse(text: &str) -> Result<(SpaceBuilder, BTreeMap<String, Value>), String> {
    let document: Document = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut builder = SpaceBuilder::new();
    for (name, value) in document.constants {
        builder = builder.constant(&name, value);
    }
    for parameter in document.parameter {
        let name = &parameter.name;
        builder = match (parameter.values, parameter.range, parameter.powers_of_two) {
            (Some(values), None, None) => builder.parameter(name, values),
            (None, Some(range), None) => builder.range(name, range.from, range.to, range.step.unwrap_or(1)),
            (None, None, Some([first, last])) => builder.powers_of_two(name, first, last),
            _ => return Err(format!("parameter {name:?} needs one of values, range and powers_of_two")),
        };
    }
    for derived in document.derived {
        builder = builder.derive(&derived.name, &derived.value);
    }
    for constraint in document.constraint {
        builder = builder.named_constraint(constraint.name.as_ref().unwrap_or(&constraint.when), &constraint.when);
    }
    match (document.limits, document.footprint) {
        (Some(limits), Some(footprint)) => {
            let footprint = Footprint {
                threads: &footprint.threads,
                shared_bytes: footprint.shared_bytes.as_deref(),
                registers_per_thread: footprint.registers_per_thread.as_deref(),
            };
            builder = builder.limits(&limits, &footprint);
        }
        (None, None) => {}
        _ => return Err("limits and footprint go together".to_owned()),
    }
    Ok((builder, document.default))
}

/// The text of a file that declares a space.
pub(crate) fn read_limited(path: &Path) -> Result<String, String> {
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let mut text = String::new();
    file.take(LARGEST + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > LARGEST {
        return Err("larger than 16 MiB".to_owned());
    }
    Ok(text)
}

//! Reads a search space from a TOML file; `docs/tuning-programs.md` shows one.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use crate::space::Space;
use crate::space::builder::SpaceBuilder;
use crate::{Config, Error, ErrorKind, Value};

/// Largest file: a declaration has some KB.
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

/// Reads the space of a TOML file, and the default configuration if it has a `[default]`.
///
/// # Errors
/// If the file is wrong, or the default leaves out a parameter, names an unknown one, or is not
/// valid.
pub fn read_space(path: &Path) -> Result<(Space, Option<Config>), Error> {
    let read = read_limited(path)
        .and_then(|text| parse(&text))
        .and_then(|(builder, default)| built(&builder, &default));
    read.map_err(|error| error.of(path.display()))
}

/// Reads a space from the text of a TOML file.
///
/// # Errors
/// If the text is not a valid file.
pub fn parse_toml(text: &str) -> Result<SpaceBuilder, Error> {
    Ok(parse(text)?.0)
}

/// Makes a space of a table of TOML, with the default configuration if it has a `[default]`.
///
/// # Errors
/// Same errors as [`read_space`].
pub fn space_of_table(table: toml::Table) -> Result<(Space, Option<Config>), Error> {
    let document = table
        .try_into()
        .map_err(|error: toml::de::Error| Error::format(error.to_string()))?;
    let (builder, default) = declared(document)?;
    built(&builder, &default)
}

/// Builds a space, and looks its default up.
fn built(
    builder: &SpaceBuilder,
    default: &BTreeMap<String, Value>,
) -> Result<(Space, Option<Config>), Error> {
    let space = builder.build()?;
    if default.is_empty() {
        return Ok((space, None));
    }
    let config = space
        .config_of(default)
        .map_err(|error| error.of("default"))?;
    Ok((space, Some(config)))
}

/// Parses a space and its default.
fn parse(text: &str) -> Result<(SpaceBuilder, BTreeMap<String, Value>), Error> {
    declared(toml::from_str(text).map_err(|error| Error::format(error.to_string()))?)
}

fn declared(document: Document) -> Result<(SpaceBuilder, BTreeMap<String, Value>), Error> {
    let mut builder = SpaceBuilder::new();
    for (name, value) in document.constants {
        builder = builder.constant(&name, value);
    }
    for parameter in document.parameter {
        let name = &parameter.name;
        builder = match (parameter.values, parameter.range, parameter.powers_of_two) {
            (Some(values), None, None) => builder.parameter(name, values),
            (None, Some(range), None) => {
                builder.range(name, range.from, range.to, range.step.unwrap_or(1))
            }
            (None, None, Some([first, last])) => builder.powers_of_two(name, first, last),
            _ => {
                return Err(Error::format(format!(
                    "parameter {name:?} needs one of values, range and powers_of_two"
                )));
            }
        };
    }
    for derived in document.derived {
        builder = builder.derive(&derived.name, &derived.value);
    }
    for constraint in document.constraint {
        builder = builder.named_constraint(
            constraint.name.as_ref().unwrap_or(&constraint.when),
            &constraint.when,
        );
    }
    Ok((builder, document.default))
}

/// Reads a file of at most [`LARGEST`] bytes.
pub(crate) fn read_limited(path: &Path) -> Result<String, Error> {
    let cannot = |error: std::io::Error| Error::new(ErrorKind::File, error.to_string());
    let file = std::fs::File::open(path).map_err(cannot)?;
    let mut text = String::new();
    file.take(LARGEST + 1)
        .read_to_string(&mut text)
        .map_err(cannot)?;
    if text.len() as u64 > LARGEST {
        return Err(Error::format("larger than 16 MiB"));
    }
    Ok(text)
}

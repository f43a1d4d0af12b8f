//! Reading a search space in Kernel Tuner's T1 form: JSON, with the values and the conditions as Python expressions.

use std::path::Path;

use crate::Value;
use crate::expression::list::values;
use crate::space::SpaceError;
use crate::space::builder::SpaceBuilder;
use crate::space::file::read_limited;

#[derive(serde::Deserialize)]
struct Document {
    #[serde(rename = "ConfigurationSpace")]
    space: ConfigurationSpace,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ConfigurationSpace {
    tuning_parameters: Vec<TuningParameter>,
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TuningParameter {
    name: String,
    r#type: String,
    values: String,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Condition {
    expression: String,
}

/// Reads the space of a T1 file. What it says about the kernel and its arguments is ignored.
///
/// # Errors
/// Says which file, and what is wrong in it.
pub fn read_t1(path: &Path) -> Result<SpaceBuilder, SpaceError> {
    let wrong = |message: String| SpaceError::File { file: path.display().to_string(), message };
    parse_t1(&read_limited(path).map_err(wrong)?).map_err(wrong)
}

/// Reads the space of a T1 file from its text.
///
/// # Errors
/// What is wrong, in words.
pub fn parse_t1(text: &str) -> Result<SpaceBuilder, String> {
    let document: Document = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut builder = SpaceBuilder::new();
    for parameter in document.space.tuning_parameters {
        let name = &parameter.name;
        let list = values(&parameter.values).map_err(|error| format!("values of {name:?}: {error}"))?;
        let typed = |value: Value| match (parameter.r#type.as_str(), value) {
            ("int", Value::Int(value)) => Ok(Value::Int(value)),
            ("uint", Value::Int(value)) if value >= 0 => Ok(Value::Int(value)),
            ("float", Value::Int(value)) => Ok(Value::Float(value as f64)),
            ("float", Value::Float(value)) => Ok(Value::Float(value)),
            ("bool", Value::Bool(value)) => Ok(Value::Bool(value)),
            ("bool", Value::Int(value @ 0..=1)) => Ok(Value::Bool(value == 1)),
            ("string", Value::Text(value)) => Ok(Value::Text(value)),
            (kind, value) => Err(format!("values of {name:?}: {value} is no {kind}")),
        };
        builder = builder.parameter(name, list.into_iter().map(typed).collect::<Result<Vec<_>, _>>()?);
    }
    Ok(document.space.conditions.iter().fold(builder, |builder, condition| builder.constraint(&condition.expression)))
}

//! Axes in nvbench's notation, with or without its square brackets round the values: a parameter's values in a sweep.
//!
//! ```text
//! cluster.block_x=32,64,128      these values
//! count.block_x=128:512:64       from, to (with it if it is met), step; without a step: 1
//! batch[pow2]=6:12:1             powers of two, by their exponents
//! cluster.block_x                the parameter's candidates
//! ```

use serde::{Deserialize, Serialize};

use ut_decoders::Backend;
use ut_decoders::parameters::{Parameter, ParameterError, value_text};

/// Most values of an axis.
const MAX_VALUES: usize = 10_000;

/// An axis of a sweep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Axis {
    pub name: String,
    /// Values, in order, without repetitions.
    pub values: Vec<u32>,
}

impl std::fmt::Display for Axis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let values: Vec<String> = self.values.iter().map(|&value| value_text(&self.name, value)).collect();
        write!(f, "{}={}", self.name, values.join(","))
    }
}

/// Reason for refusing an axis.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each message says it")]
pub enum AxisError {
    #[error("{name}: {value:?} is neither a number nor a range from:to:step")]
    Value { name: String, value: String },
    #[error("{name}: the range {range:?} is empty, or its step is 0")]
    EmptyRange { name: String, range: String },
    #[error("{name}: 2^{exponent} is too large")]
    Power { name: String, exponent: u32 },
    #[error("{name}: more than {MAX_VALUES} values")]
    TooMany { name: String },
    #[error("{name}: the only kind of axis is [pow2], not [{kind}]")]
    Kind { name: String, kind: String },
    #[error("{0} is there twice")]
    Twice(String),
    #[error(transparent)]
    Parameter(#[from] ParameterError),
}

/// Reads axes.
pub fn parse_all<T: AsRef<str>>(backend: Backend, texts: &[T]) -> Result<Vec<Axis>, AxisError> {
    let mut axes: Vec<Axis> = Vec::new();
    for text in texts {
        let axis = parse(backend, text.as_ref())?;
        if axes.iter().any(|other| other.name == axis.name) {
            return Err(AxisError::Twice(axis.name));
        }
        axes.push(axis);
    }
    Ok(axes)
}

/// Reads an axis. Values that the parameter cannot have are no error: a sweep skips them.
pub fn parse(backend: Backend, text: &str) -> Result<Axis, AxisError> {
    let (head, values) = match text.split_once('=') {
        Some((head, values)) => (head.trim(), Some(values.trim())),
        None => (text.trim(), None),
    };
    let (name, pow2) = match head.split_once('[') {
        Some((name, "pow2]")) => (name.trim(), true),
        Some((name, "]")) => (name.trim(), false),
        Some((name, kind)) => {
            return Err(AxisError::Kind { name: name.to_owned(), kind: kind.trim_end_matches(']').to_owned() });
        }
        None => (head, false),
    };
    let parameter = backend.parameter(name)?;
    let name = parameter.name;
    let Some(values) = values else {
        return Ok(Axis { name: name.to_owned(), values: parameter.candidates.to_vec() });
    };
    let values = values.strip_prefix('[').and_then(|values| values.strip_suffix(']')).unwrap_or(values);
    let mut all = Vec::new();
    for item in values.split(',').map(str::trim) {
        range(parameter, name, item, pow2, &mut all)?;
    }
    let mut axis = Axis { name: name.to_owned(), values: Vec::new() };
    for value in all {
        let value = if pow2 {
            1u32.checked_shl(value).ok_or_else(|| AxisError::Power { name: name.to_owned(), exponent: value })?
        } else {
            value
        };
        if !axis.values.contains(&value) {
            axis.values.push(value);
        }
    }
    Ok(axis)
}

/// Appends the values of one item between commas.
fn range(parameter: &Parameter, name: &str, item: &str, pow2: bool, all: &mut Vec<u32>) -> Result<(), AxisError> {
    let bad = || AxisError::Value { name: name.to_owned(), value: item.to_owned() };
    let number = |text: &str| text.trim().parse::<u32>().map_err(|_| bad());
    let parts: Vec<&str> = item.split(':').collect();
    let (from, to, step) = match parts[..] {
        [value] => {
            // Only the parameter knows a word such as avx2.
            let value = match value.parse() {
                Ok(value) => value,
                Err(_) if !pow2 && value_text(name, 0) != "0" => parameter.parse(value)?,
                Err(_) => return Err(bad()),
            };
            (value, value, 1)
        }
        [from, to] => (number(from)?, number(to)?, 1),
        [from, to, step] => (number(from)?, number(to)?, number(step)?),
        _ => return Err(bad()),
    };
    if from > to || step == 0 {
        return Err(AxisError::EmptyRange { name: name.to_owned(), range: item.to_owned() });
    }
    if all.len() + ((to - from) / step) as usize >= MAX_VALUES {
        return Err(AxisError::TooMany { name: name.to_owned() });
    }
    all.extend((from..=to).step_by(step as usize));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<u32> {
        parse(Backend::Emulated, text).unwrap().values
    }

    #[test]
    fn lists_ranges_and_powers_are_read_as_nvbench_does() {
        assert_eq!(values("cluster.block_x=32,64,128"), [32, 64, 128]);
        assert_eq!(values("cluster.block_x=[32, 64,128]"), [32, 64, 128]);
        assert_eq!(values("count.block_x=128:512:64"), [128, 192, 256, 320, 384, 448, 512]);
        assert_eq!(values("count.block_x=1:4"), [1, 2, 3, 4]);
        assert_eq!(values("count.block_x=1:6:3"), [1, 4], "the end is not met");
        assert_eq!(values("batch[pow2]=6:12:1"), [64, 128, 256, 512, 1024, 2048, 4096]);
        assert_eq!(values("batch[pow2]=[0,31]"), [1, 1 << 31]);
        assert_eq!(values("batch[]=5,1:3,2"), [5, 1, 2, 3], "each value once, in order");
        assert_eq!(values("sort.block_x"), [32, 64, 96, 128, 192, 256, 384, 512, 768, 1024]);
        assert_eq!(values("batch=4294967295"), [u32::MAX]);
    }

    #[test]
    fn words_are_values_of_the_parameter_that_knows_them() {
        assert_eq!(parse(Backend::Cpu, "cpu.simd=scalar,avx512").unwrap().values, [1, 3]);
        assert!(matches!(parse(Backend::Cpu, "cpu.simd=mmx"), Err(AxisError::Parameter(_))));
        assert!(matches!(parse(Backend::Cpu, "threads=many"), Err(AxisError::Value { .. })));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_and_named() {
        let refused = |text: &str| parse(Backend::Emulated, text).unwrap_err();
        assert!(matches!(refused("cluster.block_z=1"), AxisError::Parameter(ParameterError::Unknown { .. })));
        assert!(refused("cluster.block_z=1").to_string().contains("cluster.block_y"));
        assert!(matches!(refused("batch="), AxisError::Value { .. }));
        assert!(matches!(refused("batch=1,,2"), AxisError::Value { .. }));
        assert!(matches!(refused("batch=-1"), AxisError::Value { .. }));
        assert!(matches!(refused("batch=1:2:3:4"), AxisError::Value { .. }));
        assert!(matches!(refused("batch=4294967296"), AxisError::Value { .. }));
        assert!(matches!(refused("batch=3:2"), AxisError::EmptyRange { .. }));
        assert!(matches!(refused("batch=1:2:0"), AxisError::EmptyRange { .. }));
        assert!(matches!(refused("batch=0:4294967295"), AxisError::TooMany { .. }));
        assert!(matches!(refused("batch[pow2]=32"), AxisError::Power { exponent: 32, .. }));
        assert!(matches!(refused("batch[pow3]=1"), AxisError::Kind { .. }));
        let threads = refused("threads=1");
        assert!(matches!(threads, AxisError::Parameter(ParameterError::Unknown { .. })), "one executor, one thread");
        let twice = parse_all(Backend::Emulated, &["batch=1", "batch=2"]);
        assert_eq!(twice, Err(AxisError::Twice("batch".to_owned())));
    }
}

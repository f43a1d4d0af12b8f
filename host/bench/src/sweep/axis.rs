//! Axes of a sweep: a parameter and its values.
//!
//! ```text
//! cluster.block_x=32,64,128      these values
//! count.block_x=128:512:64       from, to (with it if it is met), step
//! cluster.block_x                the parameter's candidates
//! ```

use serde::{Serialize, Serializer};

use ut_decoders::Backend;
use ut_decoders::parameters::{Parameter, ParameterError};

/// Maximum number of values of an axis.
const MAX_VALUES: u32 = 10_000;

/// Axis of a sweep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Axis {
    /// Name of the parameter.
    #[serde(rename = "name", serialize_with = "name")]
    pub parameter: &'static Parameter,
    /// Values, in order, without repetitions.
    pub values: Vec<u32>,
}

impl Axis {
    /// Writes the values of the axis as its parameter reads them.
    pub fn texts(&self) -> Vec<String> {
        self.values
            .iter()
            .map(|&value| self.parameter.text(value))
            .collect()
    }
}

fn name<S: Serializer>(parameter: &Parameter, to: S) -> Result<S::Ok, S::Error> {
    parameter.name.serialize(to)
}

/// Reads axes.
pub fn parse_all<T: AsRef<str>>(
    backend: Backend,
    texts: &[T],
) -> Result<Vec<Axis>, ParameterError> {
    let mut axes: Vec<Axis> = Vec::new();
    for text in texts {
        let (parameter, values) = parse(backend, text.as_ref())?;
        if axes.iter().any(|other| other.parameter == parameter) {
            return Err(ParameterError::Other(format!(
                "{} is given twice",
                parameter.name
            )));
        }
        axes.push(Axis { parameter, values });
    }
    Ok(axes)
}

/// Reads an axis. Numbers that the parameter cannot have are not errors: a sweep skips them.
fn parse(backend: Backend, text: &str) -> Result<(&'static Parameter, Vec<u32>), ParameterError> {
    let Some((name, list)) = text.split_once('=') else {
        let parameter = backend.parameter(text.trim())?;
        return Ok((parameter, parameter.candidates.to_vec()));
    };
    let parameter = backend.parameter(name.trim())?;
    if list.contains(':') {
        let numbers: Result<Vec<u32>, _> = list
            .split(':')
            .map(|number| number.trim().parse())
            .collect();
        return match numbers.as_deref() {
            Ok(&[from, to, step]) if from <= to && step > 0 && (to - from) / step < MAX_VALUES => {
                Ok((parameter, (from..=to).step_by(step as usize).collect()))
            }
            _ => Err(ParameterError::Other(format!(
                "{} = {list}: must be FROM:TO:STEP with at most {MAX_VALUES} values",
                parameter.name
            ))),
        };
    }
    let mut values = Vec::new();
    for value in list.split(',').map(str::trim) {
        // Only the parameter can read a word such as avx2.
        let value = value.parse().or_else(|_| parameter.parse(value))?;
        if !values.contains(&value) {
            values.push(value);
        }
    }
    Ok((parameter, values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_ranges_words_and_candidates_are_read() {
        for (backend, text, values) in [
            (
                Backend::Emulated,
                "cluster.block_x=32, 64,32",
                &[32, 64][..],
            ),
            (
                Backend::Emulated,
                "count.block_x=128:320:64",
                &[128, 192, 256, 320],
            ),
            (Backend::Emulated, "count.block_x=1:6:3", &[1, 4]),
            (
                Backend::Emulated,
                "sort.block_x",
                &[32, 64, 96, 128, 192, 256, 384, 512, 768, 1024],
            ),
            (Backend::Cpu, "cpu.simd=scalar,avx512", &[1, 3]),
        ] {
            assert_eq!(
                parse_all(backend, &[text]).unwrap()[0].values,
                values,
                "{text}"
            );
        }
    }

    #[test]
    fn malformed_axes_are_refused_by_name() {
        for text in [
            "batch=",
            "batch=1,,2",
            "batch=-1",
            "batch=4294967296",
            "batch=1:2",
            "batch=1:2:3:4",
            "batch=1:x:2:3",
        ] {
            assert!(
                parse_all(Backend::Emulated, &[text])
                    .unwrap_err()
                    .to_string()
                    .starts_with("batch = "),
                "{text}"
            );
        }
        for text in ["batch=3:2:1", "batch=1:2:0", "batch=0:4294967295:1"] {
            let error = parse_all(Backend::Emulated, &[text])
                .unwrap_err()
                .to_string();
            assert!(error.contains("must be FROM:TO:STEP"), "{error}");
        }
        let unknown = parse_all(Backend::Emulated, &["cluster.block_z=1"]);
        assert!(matches!(unknown, Err(ParameterError::Unknown { .. })));
        let twice = parse_all(Backend::Emulated, &["batch=1", "batch=2"]).unwrap_err();
        assert_eq!(twice.to_string(), "batch is given twice");
    }
}

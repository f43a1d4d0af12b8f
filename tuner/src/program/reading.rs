//! Reads the numbers of a launch: from the clock, or from the program's output.

use std::time::Duration;

use regex_lite::Regex;

use crate::Error;

/// Source of the numbers of a launch.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Reading {
    /// Duration of the process in ms.
    Clock,
    /// Matches in the standard output: first group, or the whole.
    Pattern(Regex),
    /// Pointer (RFC 6901) to one or more numbers in the standard output, or in its last line of
    /// JSON.
    Json(String),
}

/// Returns a unit of time in ms: `s`, `ms`, `us`, `ns`, or spelt out.
pub fn unit_ms(name: &str) -> Option<f64> {
    match name.trim().to_ascii_lowercase().as_str() {
        "s" | "sec" | "second" | "seconds" => Some(1e3),
        "ms" | "millisecond" | "milliseconds" | "milisecond" | "miliseconds" => Some(1.0),
        "us" | "µs" | "microsecond" | "microseconds" => Some(1e-3),
        "ns" | "nanosecond" | "nanoseconds" => Some(1e-6),
        _ => None,
    }
}

impl Reading {
    /// Reads numbers by a regular expression.
    ///
    /// # Errors
    /// If the expression is wrong.
    pub fn regex(pattern: &str) -> Result<Self, Error> {
        let regex =
            Regex::new(pattern).map_err(|error| Error::program(format!("{pattern:?}: {error}")))?;
        Ok(Self::Pattern(regex))
    }

    /// Reads numbers by a JSON pointer, such as `/results/0/seconds`.
    ///
    /// # Errors
    /// If the text is not a pointer.
    pub fn json(pointer: &str) -> Result<Self, Error> {
        if !pointer.is_empty() && !pointer.starts_with('/') {
            return Err(Error::program(format!(
                "{pointer:?} is not a JSON pointer: it does not begin with /"
            )));
        }
        Ok(Self::Json(pointer.to_owned()))
    }

    /// Returns the numbers of a launch, at least one.
    ///
    /// # Errors
    /// If the output has no number where one is expected.
    pub(super) fn values(&self, output: &[u8], took: Duration) -> Result<Vec<f64>, String> {
        let text = String::from_utf8_lossy(output);
        let values = match self {
            Self::Clock => return Ok(vec![took.as_secs_f64() * 1e3]),
            Self::Pattern(regex) => {
                let found = regex
                    .captures_iter(&text)
                    .filter_map(|found| found.get(1).or_else(|| found.get(0)));
                let number = |text: &str| {
                    text.trim()
                        .parse::<f64>()
                        .map_err(|_| format!("{text:?} is not a number"))
                };
                found
                    .map(|found| number(found.as_str()))
                    .collect::<Result<Vec<f64>, String>>()?
            }
            Self::Json(pointer) => from_json(&text, pointer)?,
        };
        if values.is_empty() {
            let shown: String = text.chars().take(200).collect();
            return Err(format!("no number in its output: {shown:?}"));
        }
        Ok(values)
    }
}

fn from_json(text: &str, pointer: &str) -> Result<Vec<f64>, String> {
    let last = || {
        text.lines()
            .rev()
            .find_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
    };
    let whole = serde_json::from_str::<serde_json::Value>(text)
        .ok()
        .or_else(last);
    let value =
        whole.ok_or_else(|| "its output is not JSON, and neither is a line of it".to_owned())?;
    let found = value
        .pointer(pointer)
        .ok_or_else(|| format!("its JSON has nothing at {pointer:?}"))?;
    let list = found
        .as_array()
        .map_or_else(|| std::slice::from_ref(found), Vec::as_slice);
    let number = |value: &serde_json::Value| {
        value
            .as_f64()
            .ok_or_else(|| format!("{value} at {pointer:?} is not a number"))
    };
    list.iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(reading: &Reading, text: &str) -> Result<Vec<f64>, String> {
        reading.values(text.as_bytes(), Duration::from_millis(1500))
    }

    #[test]
    fn numbers_come_from_the_clock_a_pattern_or_json() {
        assert_eq!(read(&Reading::Clock, "7"), Ok(vec![1500.0]));
        let pattern = Reading::regex(r"t=([0-9.e-]+)").unwrap();
        assert_eq!(
            read(&pattern, "t=1.5 t=2\nt=1e-3"),
            Ok(vec![1.5, 2.0, 0.001])
        );
        assert_eq!(
            read(&Reading::regex(r"\d+").unwrap(), "took 12 of 15"),
            Ok(vec![12.0, 15.0])
        );
        let json = Reading::json("/runs").unwrap();
        assert_eq!(read(&json, "{\"runs\": [1, 2.5]}"), Ok(vec![1.0, 2.5]));
        assert_eq!(read(&json, "warming up\n{\"runs\": 3}\n"), Ok(vec![3.0]));
    }

    #[test]
    fn missing_or_malformed_numbers_are_reported() {
        assert!(Reading::regex("(").is_err() && Reading::json("runs").is_err());
        let pattern = Reading::regex(r"t=(\w*)").unwrap();
        assert!(read(&pattern, "nothing").is_err() && read(&pattern, "t=fast").is_err());
        let json = Reading::json("/a/b").unwrap();
        assert!(read(&json, "hello").unwrap_err().contains("not JSON"));
        assert!(
            read(&json, "{\"a\": 1}")
                .unwrap_err()
                .contains("nothing at \"/a/b\"")
        );
        assert!(
            read(&json, "{\"a\": {\"b\": \"x\"}}")
                .unwrap_err()
                .contains("is not a number")
        );
        assert!(
            read(&json, "{\"a\": {\"b\": []}}")
                .unwrap_err()
                .contains("no number")
        );
    }
}

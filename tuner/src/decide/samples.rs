//! Reads samples that somebody else took: the result files of a comparison.

use std::path::Path;

use crate::space::file::read_limited;

/// What can be wrong with a file of samples.
#[derive(Debug, thiserror::Error)]
pub enum SamplesError {
    /// It cannot be read.
    #[error("cannot read {file}: {source}")]
    Read {
        /// The file.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// It is neither JSON nor lines of numbers.
    #[error("{file}, line {line}: {text:?} is not a number")]
    Number {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is there.
        text: String,
    },
    /// It is JSON that cannot be read.
    #[error("{file}: {source}")]
    Json {
        /// The file.
        file: String,
        /// Why.
        source: serde_json::Error,
    },
    /// A time that no launch can take.
    #[error("{file}: sample {sample} of block {block} is {time} ms")]
    Time {
        /// The file.
        file: String,
        /// The block, from 0.
        block: usize,
        /// The sample in it, from 0.
        sample: usize,
        /// The time.
        time: f64,
    },
    /// There is not a single sample in it.
    #[error(
        "{file} holds no samples: expected JSON like [[1.0, 1.1], [1.0, 1.2]] (blocks of times in ms), the same under \"times\", or a block a line"
    )]
    Empty {
        /// The file.
        file: String,
    },
}

/// The blocks of times (ms) in a file: JSON (an array of arrays, or an object that has one under `times`), or text, a block
/// a line. Times that are not in blocks are cut into blocks of `size` in their order.
///
/// # Errors
/// If it is not a list of times.
pub fn read(path: &Path, size: usize) -> Result<Vec<Vec<f64>>, SamplesError> {
    let file = path.display().to_string();
    let text = read_limited(path)
        .map_err(|what| SamplesError::Read { file: file.clone(), source: std::io::Error::other(what) })?;
    parse(&text, &file, size)
}

/// JSON in one of the forms that are understood. No form is recursive: while it is read, each level takes another copy.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Json {
    Times(Times),
    Under { times: Times },
}

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Times {
    Blocks(Vec<Vec<f64>>),
    Flat(Vec<f64>),
}

/// The same for the content of a file called `file`.
///
/// # Errors
/// If it is not a list of times.
pub fn parse(text: &str, file: &str, size: usize) -> Result<Vec<Vec<f64>>, SamplesError> {
    let name = || file.to_owned();
    let mut blocks = if text.trim_start().starts_with(['[', '{']) {
        let json: Json = serde_json::from_str(text).map_err(|source| match source.classify() {
            serde_json::error::Category::Data => SamplesError::Empty { file: name() },
            _ => SamplesError::Json { file: name(), source },
        })?;
        let (Json::Times(times) | Json::Under { times }) = json;
        match times {
            Times::Blocks(blocks) => blocks,
            Times::Flat(times) => vec![times],
        }
    } else {
        lines(text, file)?
    };
    blocks.retain(|block| !block.is_empty());
    if blocks.is_empty() {
        return Err(SamplesError::Empty { file: name() });
    }
    for (block, times) in blocks.iter().enumerate() {
        if let Some(sample) = times.iter().position(|time| !(time.is_finite() && *time > 0.0)) {
            return Err(SamplesError::Time { file: name(), block, sample, time: times[sample] });
        }
    }
    let flat = blocks.len() == 1 || blocks.iter().all(|block| block.len() == 1);
    Ok(if flat { blocks.concat().chunks(size.max(1)).map(<[f64]>::to_vec).collect() } else { blocks })
}

fn lines(text: &str, file: &str) -> Result<Vec<Vec<f64>>, SamplesError> {
    let line = |(i, line): (usize, &str)| {
        let words = line.split('#').next().unwrap_or_default().split([' ', '\t', ',', ';', '\r']);
        words
            .filter(|word| !word.is_empty())
            .map(|word| {
                word.parse().map_err(|_| SamplesError::Number {
                    file: file.to_owned(),
                    line: i + 1,
                    text: word.chars().take(40).collect(),
                })
            })
            .collect::<Result<Vec<f64>, _>>()
    };
    text.lines().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_gives_the_same_blocks() {
        let expected = vec![vec![1.0, 2.0], vec![3.0, 4.0]];
        for text in [
            "[[1, 2], [3, 4]]",
            "{\"times\": [[1, 2], [3, 4.0]], \"device\": \"x\"}",
            "1 2\n3 4\n",
            "# ms\n1.0, 2.0 # first\n\n3;4",
            "[1, 2, 3, 4]",
            "1\n2\n3\n4\n",
            "1 2 3 4",
        ] {
            assert_eq!(parse(text, "x", 2).unwrap(), expected, "{text}");
        }
        assert_eq!(parse("[1, 2, 3]", "x", 0).unwrap().len(), 3);
    }

    #[test]
    fn what_is_no_time_is_named() {
        for (text, part) in [
            ("", "no samples"),
            ("[]", "no samples"),
            ("[[], []]", "no samples"),
            ("1 2\n3 x\n", "line 2: \"x\""),
            ("[[1, 2], [3, -4]]", "sample 1 of block 1 is -4"),
            ("1 nan", "sample 1 of block 0"),
            ("1 inf", "sample 1 of block 0"),
            ("[1, 2", "x: "),
            ("{\"rate\": 1}", "no samples"),
            ("{\"times\": \"soon\"}", "no samples"),
            ("{\"times\": {\"times\": [1, 2]}}", "no samples"),
        ] {
            let error = parse(text, "x", 2).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn deep_nesting_is_an_error_and_no_overflow() {
        let text = format!("{}1{}", "{\"times\":".repeat(100_000), "}".repeat(100_000));
        assert!(parse(&text, "x", 2).is_err());
    }
}

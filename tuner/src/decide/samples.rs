//! Reads samples that somebody else took: the result files of a comparison.

use std::path::Path;

use crate::space::file::read_limited;

/// Reads the blocks of times (ms) of a file: JSON (an array of arrays, or an object that has one under `times`), or text, a
/// block a line. Times that are not in blocks are cut into blocks of `size` in their order.
///
/// # Errors
/// If it is not a list of times; in words, with the file.
pub fn read(path: &Path, size: usize) -> Result<Vec<Vec<f64>>, String> {
    let file = path.display();
    let text = read_limited(path).map_err(|what| format!("cannot read {file}: {what}"))?;
    parse(&text, size).map_err(|what| format!("{file}{what}"))
}

/// The end of the message about a file without samples.
const NONE: &str = " holds no samples: expected JSON like [[1.0, 1.1], [1.0, 1.2]] (blocks of times in ms), the same under \
                    \"times\", or a block a line";

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

fn parse(text: &str, size: usize) -> Result<Vec<Vec<f64>>, String> {
    let mut blocks = if text.trim_start().starts_with(['[', '{']) {
        let json: Json = serde_json::from_str(text).map_err(|source| match source.classify() {
            serde_json::error::Category::Data => NONE.to_owned(),
            _ => format!(": {source}"),
        })?;
        let (Json::Times(times) | Json::Under { times }) = json;
        match times {
            Times::Blocks(blocks) => blocks,
            Times::Flat(times) => vec![times],
        }
    } else {
        text.lines().enumerate().map(|(number, text)| line(number + 1, text)).collect::<Result<_, _>>()?
    };
    blocks.retain(|block| !block.is_empty());
    if blocks.is_empty() {
        return Err(NONE.to_owned());
    }
    for (block, times) in blocks.iter().enumerate() {
        if let Some(sample) = times.iter().position(|time| !(time.is_finite() && *time > 0.0)) {
            return Err(format!(": sample {sample} of block {block} is {} ms", times[sample]));
        }
    }
    let flat = blocks.len() == 1 || blocks.iter().all(|block| block.len() == 1);
    Ok(if flat { blocks.concat().chunks(size.max(1)).map(<[f64]>::to_vec).collect() } else { blocks })
}

fn line(number: usize, text: &str) -> Result<Vec<f64>, String> {
    let words = text.split('#').next().unwrap_or_default().split([' ', '\t', ',', ';', '\r']);
    let time = |word: &str| {
        let wrong = |_| format!(", line {number}: {:?} is not a number", word.chars().take(40).collect::<String>());
        word.parse().map_err(wrong)
    };
    words.filter(|word| !word.is_empty()).map(time).collect()
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
            assert_eq!(parse(text, 2).unwrap(), expected, "{text}");
        }
        assert_eq!(parse("[1, 2, 3]", 0).unwrap().len(), 3);
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
            ("[1, 2", ": EOF"),
            ("{\"rate\": 1}", "no samples"),
            ("{\"times\": \"soon\"}", "no samples"),
            ("{\"times\": {\"times\": [1, 2]}}", "no samples"),
        ] {
            let error = parse(text, 2).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn deep_nesting_is_an_error_and_no_overflow() {
        let text = format!("{}1{}", "{\"times\":".repeat(100_000), "}".repeat(100_000));
        assert!(parse(&text, 2).is_err());
    }
}

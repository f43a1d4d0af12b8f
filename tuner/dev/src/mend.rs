//! Makes JSON out of what Python's programs leave behind.
//!
//! Kernel Tuner appends to its cache and closes the braces only at the end: a killed run leaves a file that stops after,
//! or in the middle of, an entry. And Python writes `NaN` and `Infinity`, which JSON does not have.

use std::borrow::Cow;

/// Returns the text itself if nothing is wrong with it. Otherwise: what is not JSON among the numbers becomes `null`, and
/// if the file ends before it is closed, the last entry that is complete becomes the end (an entry: a member of an object
/// inside the outermost one, or an element of a list inside it). A text that is beyond this is returned as far as it was
/// mended; reading it says what is wrong.
pub fn mend(text: &str) -> Cow<'_, str> {
    if serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(close(&without_python_numbers(text)))
}

/// `text` with NaN, Infinity and -Infinity outside of strings replaced by null.
fn without_python_numbers(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    let mut in_string = false;
    while let Some(character) = rest.chars().next() {
        let found = ["-Infinity", "Infinity", "NaN"].into_iter().find(|word| !in_string && rest.starts_with(word));
        if let Some(word) = found {
            plain.push_str("null");
            rest = &rest[word.len()..];
            continue;
        }
        let mut taken = character.len_utf8();
        if in_string && character == '\\' {
            taken += rest[taken..].chars().next().map_or(0, char::len_utf8);
        } else if character == '"' {
            in_string = !in_string;
        }
        plain.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    plain
}

/// `text`, closed after its last complete entry if it is not closed.
fn close(text: &str) -> String {
    let mut open: Vec<u8> = Vec::new();
    let mut in_string = false;
    let mut escaped = false;
    // Where the last complete entry ends, and the bracket that its container then needs.
    let mut complete = None;
    for (at, byte) in text.bytes().enumerate() {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' => open.push(b'}'),
            b'[' => open.push(b']'),
            b'}' | b']' => {
                if open.pop() != Some(byte) {
                    return text.to_owned();
                }
                if let [b'}', container] = open[..] {
                    complete = Some((at + 1, container));
                }
            }
            _ => {}
        }
    }
    match complete {
        Some((end, container)) if !open.is_empty() => format!("{}{}}}", &text[..end], char::from(container)),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::mend;

    #[test]
    fn a_file_that_stops_after_an_entry_or_inside_one_ends_at_the_last_complete_entry() {
        let mended = r#"{"n": 1, "cache": {"1,2": {"time": 1.5, "times": [1, 2]}}}"#;
        for rest in ["", ",", ",\n", ",\n\"1,3\"", ",\n\"1,3\": {\"time\": 2", ",\n\"1,3\": {\"ti}}]\\\"me", "}", "}}"]
        {
            let text = format!("{}{rest}", mended.strip_suffix("}}").unwrap());
            assert_eq!(mend(&text), mended, "{rest:?}");
        }
        assert_eq!(mend(r#"{"results": [{"a": 1}, {"a": "#), r#"{"results": [{"a": 1}]}"#);
        for name in [r#"a\"{"#, r"a\\"] {
            let mended = format!(r#"{{"cache": {{"{name}": {{"time": 1}}}}}}"#);
            let text = format!("{}, \"b\": {{\"ti", mended.strip_suffix("}}").unwrap());
            assert_eq!(mend(&text), mended);
        }
    }

    #[test]
    fn pythons_numbers_become_null_but_not_inside_strings() {
        assert_eq!(
            mend(r#"{"a": {"b": NaN, "NaN\"": [-Infinity, Infinity, "Infinity"]}}"#),
            r#"{"a": {"b": null, "NaN\"": [null, null, "Infinity"]}}"#
        );
    }

    #[test]
    fn what_cannot_be_mended_stays_nonsense() {
        for text in ["", "{", "}", "{]", "[{]", "{\"a", r#"{"cache": {"1": {"x": [1}, "2": {"y": "#] {
            assert!(serde_json::from_str::<serde_json::Value>(&mend(text)).is_err(), "{text:?}");
        }
    }
}

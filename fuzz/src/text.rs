//! Mutations for inputs that are text. Left alone, libFuzzer changes bytes, and hardly any of its inputs get past a parser.
//! Here a token, a list or object, a member or a line is replaced, dropped, copied, repeated or wrapped. Most of the results
//! still parse, and they reach in minutes what changed bytes do not reach in hours.

use std::ops::Range;
use std::sync::LazyLock;

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};

/// Values of every kind, valid or not, including very long and deeply nested ones.
static VALUES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut values: Vec<String> = serde_json::from_str(include_str!("../words/values.json")).expect("a list of texts");
    let members = |one: fn(usize) -> String| (0..200).map(one).collect::<Vec<_>>().join(", ");
    values.extend([
        format!("1{}", "0".repeat(400)),
        format!("\"{}\"", "x".repeat(300)),
        format!("{}{}", "[".repeat(140), "]".repeat(140)),
        format!("{}1{}", r#"{"a": "#.repeat(140), "}".repeat(140)),
        format!("[{}]", members(|i| i.to_string())),
        format!("{{{}}}", members(|i| format!(r#""k{i}": {i}"#))),
    ]);
    values
});

/// Copies `text` to `out` with one piece changed, and returns the length; 0 if `out` is too short. New pieces come from
/// `other` or from a list of values. The same seed makes the same change.
pub fn mutate(text: &[u8], other: &[u8], seed: u32, out: &mut [u8]) -> usize {
    let mut rng = SmallRng::seed_from_u64(seed.into());
    let piece = unit(text, &mut rng);
    let (before, this, mut after) = (&text[..piece.start], &text[piece.clone()], &text[piece.end..]);
    let separator: &[u8] = [",", ", ", "\n", " ", ""].choose(&mut rng).map_or(b"", |text| text.as_bytes());
    let middle = match rng.random_range(0..10) {
        0..3 => value(&mut rng).to_vec(),
        3..5 => other[unit(other, &mut rng)].to_vec(),
        5 => {
            after = after.strip_prefix(b",").unwrap_or(after);
            Vec::new()
        }
        6 => vec![this; [2, 2, 3, 5, 13, 40, 200][rng.random_range(0..7)]].join(separator),
        7 => [&other[unit(other, &mut rng)], this].join(separator),
        8 => [this, value(&mut rng)].join(separator),
        _ => {
            let around =
                [["[", "]"], ["{\"a\": ", "}"], ["{a = ", "}"], ["\"", "\""], ["(", ")"], ["", " x"], ["-", ""]];
            let [left, right] = around[rng.random_range(0..around.len())].map(str::as_bytes);
            [left, this, right].concat()
        }
    };
    let changed = [before, &middle, after].concat();
    let Some(room) = out.get_mut(..changed.len()) else { return 0 };
    room.copy_from_slice(&changed);
    changed.len()
}

fn value(rng: &mut SmallRng) -> &'static [u8] {
    VALUES.choose(rng).map_or(b"", |value| value.as_bytes())
}

/// Where a token, a list or object, a member of one, or a line is, chosen at random; often inside a quoted string.
fn unit(text: &[u8], rng: &mut SmallRng) -> Range<usize> {
    let tokens = tokens(text);
    if tokens.is_empty() {
        return 0..0;
    }
    let first = rng.random_range(0..tokens.len());
    let start = tokens[first].start;
    let how = rng.random_range(0..4);
    if how == 3 {
        let is_end = |byte: &u8| *byte == b'\n';
        let start = text[..start].iter().rposition(is_end).map_or(0, |at| at + 1);
        return start..text[start..].iter().position(is_end).map_or(text.len(), |at| start + at + 1);
    }
    let inside = start + 1..tokens[first].end.saturating_sub(1);
    if how == 0 && matches!(text[start], b'"' | b'\'') && !inside.is_empty() {
        // Strings hold expressions, and some hold JSON.
        let of = unit(&text[inside.clone()], rng);
        return inside.start + of.start..inside.start + of.end;
    }
    let mut level = 0;
    for token in &tokens[first..] {
        match text[token.start] {
            b'[' | b'{' | b'(' => level += 1,
            b']' | b'}' | b')' if level == 0 => return start..token.start.max(tokens[first].end),
            b']' | b'}' | b')' => level -= 1,
            b',' | b'\n' if level == 0 && how == 2 => return start..token.start.max(tokens[first].end),
            _ => {}
        }
        // A list or object is taken whole, another token alone.
        if level == 0 && how < 2 {
            return start..token.end;
        }
    }
    tokens[first].clone()
}

/// Where each quoted string, number, name and other byte is; no blanks.
fn tokens(text: &[u8]) -> Vec<Range<usize>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < text.len() {
        let rest = &text[at..];
        let length_while = |of: fn(u8) -> bool| rest.iter().position(|&byte| !of(byte)).unwrap_or(rest.len());
        let length = match rest[0] {
            quote @ (b'"' | b'\'') => {
                // True at first, so that the opening quote is not taken for the closing one.
                let mut escaped = true;
                let end = rest.iter().position(|&byte| {
                    let ends = byte == quote && !escaped || byte == b'\n';
                    escaped = byte == b'\\' && !escaped;
                    ends
                });
                end.map_or(1, |end| end + usize::from(rest[end] == quote))
            }
            _ => length_while(|byte| byte.is_ascii_alphanumeric() || b"_.-+".contains(&byte)).max(1),
        };
        if !matches!(rest[0], b' ' | b'\t') {
            found.push(at..at + length);
        }
        at += length;
    }
    found
}

//! Changes of texts: a token, a list, an object or a line is replaced, dropped, moved, repeated or wrapped, where libFuzzer
//! by itself changes bytes. Keeping the brackets balanced, it gets past the parser, and finds in minutes what changed bytes
//! do not in hours.

use std::ops::Range;
use std::sync::LazyLock;

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};

/// Targets that read text.
pub const TARGETS: [&str; 8] = ["mask", "expression", "space", "chain", "recording", "import", "settings", "sets"];

const NUMBERS: &str = "0 -0 1 -1 2 7 64 255 256 65535 65536 4294967295 4294967296 9223372036854775807 9223372036854775808 \
    -9223372036854775808 -9223372036854775809 18446744073709551615 18446744073709551616 1.5 -0.25 1e300 1e-300 1e999 -1e999 \
    0.1e1 1E+2 123456789012345678901234567890.5e-10 .5 5. 01 1e 1e+ - --1 +1 0x1f 0o17 0b11 1_000 nan -nan inf +inf NaN \
    1979-05-27T07:32:00Z null true false True False tru";
const TEXTS: [&str; 28] = [
    r#""""#,
    r#""a""#,
    r#""b""#,
    r#""-1""#,
    r#""64""#,
    r#""1.5""#,
    r#""nan""#,
    r#""a,b""#,
    r#""a=1,b=2""#,
    r#""@""#,
    r#""é""#,
    r#""\n""#,
    r#""\u0041""#,
    r#""\ud83d\ude00""#,
    r#""\ud800""#,
    r#""\ud800\u0041""#,
    r#""\x""#,
    r#""\U0001F600""#,
    r#""\b\f\r\t\/\\\"""#,
    "\"\x01\"",
    r#""unclosed"#,
    "'a'",
    "'''a'''",
    "\"\"\"a\nb\"\"\"",
    "# c",
    "1 x",
    r#""[1, 2]""#,
    r#""{\"a\": 1}""#,
];
/// What expressions are made of.
const TERMS: [&str; 30] = [
    "1 + 2",
    "7 - 9",
    "3 * -4",
    "7 / 2",
    "-7 // 2",
    "7 % -3",
    "2 ** 63",
    "2 ** -1",
    "1 << 62",
    "-1 >> 3",
    "1 < 2 <= 2",
    "1.5 != 2",
    "0.1 + 0.2 == 0.3",
    "not 1",
    "1 and 0 or 2",
    "1 in [1, 2]",
    "'a' not in ['a']",
    "1 if 0 else 2",
    "abs(-3)",
    "int(1.5)",
    "max(1, 2.5)",
    "min([3, 1])",
    "list(range(3))",
    "range(1, 9, 2)",
    "sum([1, 2])",
    "[i for i in [1, 2]]",
    "9223372036854775807 + 1",
    "True + 1",
    "1e308 * 10",
    "(((1)))",
];
const LISTS: [&str; 24] = [
    "[]",
    "[1]",
    "[1, 2]",
    r#"["a"]"#,
    r#"["a", "b"]"#,
    "[null]",
    r#"[true, 1.5, "x"]"#,
    "[[1]]",
    "[{}]",
    "[1,]",
    "[1 2]",
    "[1",
    "{}",
    r#"{"a": 1}"#,
    r#"{"a": 1, "a": 2}"#,
    r#"{"a": {}}"#,
    r#"{"a": "", "b": [1]}"#,
    r#"{"a": 1,}"#,
    "{a = 1}",
    "{ a = 1, b = 2 }",
    "[x]\n",
    "[[x]]\n",
    "x = 1\n",
    "a.b.c = 1\n",
];

static VALUES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let members = |one: fn(usize) -> String| (0..200).map(one).collect::<Vec<_>>().join(", ");
    let long = [
        format!("1{}", "0".repeat(400)),
        format!("\"{}\"", "x".repeat(300)),
        format!("{}{}", "[".repeat(140), "]".repeat(140)),
        format!("{}1{}", r#"{"a": "#.repeat(140), "}".repeat(140)),
        format!("[{}]", members(|i| i.to_string())),
        format!("{{{}}}", members(|i| format!(r#""k{i}": {i}"#))),
    ];
    let short = NUMBERS.split_whitespace().chain(TEXTS).chain(TERMS).chain(LISTS);
    short.map(str::to_owned).chain(long).collect()
});

/// Writes `text` with one change to `out`, and gives its length, 0 if there is no room. New pieces are of `other`, or any value.
pub fn change(text: &[u8], other: &[u8], seed: u32, out: &mut [u8]) -> usize {
    let mut rng = SmallRng::seed_from_u64(seed.into());
    let piece = unit(text, &mut rng);
    let (before, this, mut after) = (&text[..piece.start], &text[piece.clone()], &text[piece.end..]);
    let separator: &[u8] = [",", ", ", "\n", " ", ""].choose(&mut rng).map_or(b"", |text| text.as_bytes());
    let middle = match rng.random_range(0..10) {
        0..3 => VALUES.choose(&mut rng).map_or_else(Vec::new, |value| value.clone().into_bytes()),
        3..5 => other[unit(other, &mut rng)].to_vec(),
        5 => {
            after = after.strip_prefix(b",").unwrap_or(after);
            Vec::new()
        }
        6 => vec![this; [2, 2, 3, 5, 13, 40, 200][rng.random_range(0..7)]].join(separator),
        7 => [&other[unit(other, &mut rng)], this].join(separator),
        8 => [this, VALUES.choose(&mut rng).map_or(b"", |value| value.as_bytes())].join(separator),
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

/// A token, a list or an object, a member of one, or a line, chosen at random; some inside a quoted text.
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
        // Texts hold expressions, and lists in JSON.
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
        // A list or object as a whole; of other tokens only the first, or the whole member.
        if level == 0 && how < 2 {
            return start..token.end;
        }
    }
    tokens[first].clone()
}

/// Where each quoted text, number, name, and other byte is; no blanks.
fn tokens(text: &[u8]) -> Vec<Range<usize>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < text.len() {
        let rest = &text[at..];
        let length_while = |of: fn(u8) -> bool| rest.iter().position(|&byte| !of(byte)).unwrap_or(rest.len());
        let length = match rest[0] {
            quote @ (b'"' | b'\'') => {
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

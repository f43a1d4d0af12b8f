//! Chosen configurations as source code, for programs that want no store at run time: a Rust module or a C header.

use std::collections::HashSet;
use std::fmt::Write;

use crate::store::{DeviceIdentity, TunableIdentity, Workload};
use crate::{Config, Value};

/// One chosen configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Constants {
    /// What was tuned.
    pub tunable: TunableIdentity,
    /// For what.
    pub workload: Workload,
    /// On which device.
    pub device: DeviceIdentity,
    /// Names of the parameters.
    pub names: Vec<String>,
    /// Their values.
    pub config: Config,
    /// Where it comes from, in words: "run 5, 2026-11-20".
    pub origin: String,
}

/// A Rust module for each configuration. `program` is what wrote it.
pub fn rust(program: &str, constants: &[Constants]) -> String {
    let mut text = format!("// {}\n", headline(program));
    for (module, entry) in named(constants, str::to_ascii_lowercase) {
        let about = entry.about();
        // Writing to a string does not fail.
        let _ = write!(text, "\n/// {about}\npub mod {module} {{\n");
        for (name, value) in entry.named_values() {
            let (kind, value) = match value {
                Value::Bool(value) => ("bool", value.to_string()),
                Value::Int(value) => ("i64", value.to_string()),
                Value::Float(value) => ("f64", format!("{value:?}")),
                Value::Text(value) => ("&str", format!("{value:?}")),
            };
            let _ =
                writeln!(text, "    /// Parameter `{}`.\n    pub const {}: {kind} = {value};", plain(name.0), name.1);
        }
        text.push_str("}\n");
    }
    text
}

/// A C header with a macro for each parameter of each configuration. `program` is what wrote it, and names the guard.
pub fn c_header(program: &str, constants: &[Constants]) -> String {
    let guard = program.replace(|c: char| !c.is_ascii_alphanumeric(), "_").to_ascii_uppercase();
    let mut text = format!("/* {} */\n#ifndef {guard}_TUNED_H\n#define {guard}_TUNED_H\n", headline(program));
    for (prefix, entry) in named(constants, str::to_ascii_uppercase) {
        let _ = writeln!(text, "\n/* {} */", entry.about());
        for (name, value) in entry.named_values() {
            let value = match value {
                Value::Bool(value) => u8::from(*value).to_string(),
                // The most negative number is not a literal in C.
                Value::Int(i64::MIN) => "(-9223372036854775807 - 1)".to_owned(),
                Value::Int(value) => value.to_string(),
                Value::Float(value) => format!("{value:?}"),
                Value::Text(value) => c_string(value),
            };
            let _ = writeln!(text, "#define {prefix}_{} {value}", name.1);
        }
    }
    text.push_str("\n#endif\n");
    text
}

fn headline(program: &str) -> String {
    let program = plain(program);
    format!("Launch parameters chosen by {program}'s tuner. Generated: tune and export again instead of editing.")
}

impl Constants {
    fn about(&self) -> String {
        plain(&format!("{} for {}, on {}: {}.", self.tunable, self.workload, self.device, self.origin))
    }

    /// The parameters' own names with the constants' names, and the values.
    fn named_values(&self) -> Vec<((&str, String), &Value)> {
        let mut taken = HashSet::new();
        let name = |name: &String| unique(&identifier(name).to_ascii_uppercase(), &mut taken);
        let names: Vec<String> = self.names.iter().map(name).collect();
        self.names.iter().map(String::as_str).zip(names).zip(&self.config.0).collect()
    }
}

/// Each configuration under its own name.
fn named(constants: &[Constants], case: fn(&str) -> String) -> Vec<(String, &Constants)> {
    let mut taken = HashSet::new();
    constants.iter().map(|entry| (unique(&case(&identifier(&entry.tunable.name)), &mut taken), entry)).collect()
}

/// The name, or the name with a number if it is taken.
fn unique(name: &str, taken: &mut HashSet<String>) -> String {
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    let free = std::iter::once(name.to_owned()).chain(numbered).find(|name| !taken.contains(name));
    let free = free.unwrap_or_default();
    taken.insert(free.clone());
    free
}

/// `name` as a C and Rust identifier that is not a keyword.
fn identifier(name: &str) -> String {
    let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let reserved = [
        "as", "async", "await", "break", "const", "continue", "crate", "dyn", "else", "enum", "extern", "false", "fn",
        "for", "gen", "if", "impl", "in", "let", "loop", "match", "mod", "move", "mut", "pub", "ref", "return", "self",
        "static", "struct", "super", "trait", "true", "type", "unsafe", "use", "where", "while", "abstract", "become",
        "box", "do", "final", "macro", "override", "priv", "try", "typeof", "unsized", "virtual", "yield",
    ];
    if plain.trim_matches('_').is_empty() || plain.starts_with(|c: char| c.is_ascii_digit()) {
        format!("p_{plain}")
    } else if reserved.contains(&plain.to_ascii_lowercase().as_str()) {
        format!("{plain}_")
    } else {
        plain
    }
}

/// Text that ends no comment, Rust's or C's.
fn plain(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.replace("*/", "* /").replace("/*", "/ *").replace('\\', "/")
}

/// A C string literal; what is not printable ASCII as octal escapes of its UTF-8.
fn c_string(text: &str) -> String {
    let mut literal = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => literal.extend(['\\', char::from(byte)]),
            // A question mark might begin a trigraph.
            b' '..=b'~' if byte != b'?' => literal.push(char::from(byte)),
            other => {
                let _ = write!(literal, "\\{other:03o}");
            }
        }
    }
    literal.push('"');
    literal
}

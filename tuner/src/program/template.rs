//! Command line with places for values.

use super::shell::{Around, Shell, written};
use crate::Error;

/// Text in which `{name}` stands for a value, and `{{` and `}}` for braces.
///
/// The value is put in as its own text: outside quotes it is one word, inside quotes it is part of
/// what they enclose. Nothing in it is split, expanded or run. Several words come from the
/// environment: `$TUNE_name` without quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(String);

/// Piece of a template.
enum Piece<'a> {
    Text(&'a str),
    Place(&'a str),
    Open,
}

impl Template {
    /// Makes a template of a text.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    fn parts(&self) -> Vec<Piece<'_>> {
        let (mut parts, mut rest) = (Vec::new(), self.0.as_str());
        while let Some(at) = rest.find(['{', '}']) {
            parts.push(Piece::Text(&rest[..at]));
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                parts.push(Piece::Text(brace));
                rest = after;
            } else if brace == "}" {
                parts.push(Piece::Text(brace));
            } else if let Some(end) = rest.find('}') {
                parts.push(Piece::Place(&rest[..end]));
                rest = &rest[end + 1..];
            } else {
                parts.push(Piece::Open);
            }
        }
        parts.push(Piece::Text(rest));
        parts
    }

    /// Returns the names of the places.
    pub fn names(&self) -> Vec<&str> {
        self.parts()
            .into_iter()
            .filter_map(|part| {
                if let Piece::Place(name) = part {
                    Some(name)
                } else {
                    None
                }
            })
            .collect()
    }

    /// Returns true if the text names a parameter, as a place or as an environment variable.
    pub(super) fn sees(&self, name: &str) -> bool {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let variable = format!("TUNE_{name}");
        let mut found = self
            .0
            .match_indices(&variable)
            .map(|(at, found)| &self.0[at + found.len()..]);
        found.any(|rest| !rest.starts_with(word)) || self.names().contains(&name)
    }

    /// Returns the parts, each place with the syntax around it.
    fn read(&self) -> Vec<(Piece<'_>, Around)> {
        let mut shell = Shell::new();
        let one = |part: Piece<'_>| {
            let around = shell.around();
            match part {
                Piece::Text(text) => shell.read(text),
                Piece::Place(_) | Piece::Open => shell.value(),
            }
            around
        };
        let around: Vec<Around> = self.parts().into_iter().map(one).collect();
        self.parts().into_iter().zip(around).collect()
    }

    /// Checks that every place is one of `known`, and stands where a value can.
    ///
    /// # Errors
    /// If one is not, or a brace is not closed.
    pub fn validate(&self, known: &[&str]) -> Result<(), Error> {
        for (part, around) in self.read() {
            let wrong = |what: String| Err(Error::program(format!("{:?}: {what}", self.0)));
            match (part, around) {
                (Piece::Place(name), _) if !known.contains(&name) => {
                    return wrong(format!(
                        "there is no {{{name}}}; there are {}",
                        known.join(", ")
                    ));
                }
                (Piece::Place(name), Around::Refused(place)) => {
                    return wrong(format!(
                        "{{{name}}} has no meaning {place}; write $TUNE_{name} there"
                    ));
                }
                (Piece::Text(_) | Piece::Place(_), _) => {}
                (Piece::Open, _) => {
                    return wrong("a brace is not closed; write {{ for a literal brace".to_owned());
                }
            }
        }
        Ok(())
    }

    /// Fills the places, each with the text of a value: outside quotes one word, inside quotes a
    /// part of their text.
    pub fn fill(&self, values: &[(&str, String)]) -> String {
        let one = |(part, around): (Piece<'_>, Around)| match part {
            Piece::Text(text) => text.to_owned(),
            Piece::Open => "{".to_owned(),
            Piece::Place(name) => {
                let value = values.iter().find(|(known, _)| *known == name);
                value
                    .and_then(|(_, value)| written(value, around))
                    .unwrap_or_else(|| format!("{{{name}}}"))
            }
        };
        self.read().into_iter().map(one).collect()
    }
}

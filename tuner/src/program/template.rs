//! Command line with places for values.

/// Text in which `{name}` stands for a value, and `{{` and `}}` for braces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(String);

/// Piece of a template.
enum Part<'a> {
    Text(&'a str),
    Place(&'a str),
    Open,
}

impl Template {
    /// Makes a template of a text.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    fn parts(&self) -> Vec<Part<'_>> {
        let (mut parts, mut rest) = (Vec::new(), self.0.as_str());
        while let Some(at) = rest.find(['{', '}']) {
            parts.push(Part::Text(&rest[..at]));
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                parts.push(Part::Text(brace));
                rest = after;
            } else if brace == "}" {
                parts.push(Part::Text(brace));
            } else if let Some(end) = rest.find('}') {
                parts.push(Part::Place(&rest[..end]));
                rest = &rest[end + 1..];
            } else {
                parts.push(Part::Open);
            }
        }
        parts.push(Part::Text(rest));
        parts
    }

    /// Returns the names of the places.
    pub fn names(&self) -> Vec<&str> {
        self.parts()
            .into_iter()
            .filter_map(|part| if let Part::Place(name) = part { Some(name) } else { None })
            .collect()
    }

    /// Returns true if the text names a parameter, as a place or as an environment variable.
    pub(super) fn sees(&self, name: &str) -> bool {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let variable = format!("TUNE_{name}");
        let mut found = self.0.match_indices(&variable).map(|(at, found)| &self.0[at + found.len()..]);
        found.any(|rest| !rest.starts_with(word)) || self.names().contains(&name)
    }

    /// Checks that every place is one of `known`.
    ///
    /// # Errors
    /// If one is not, or a brace is not closed.
    pub fn validate(&self, known: &[&str]) -> Result<(), String> {
        for part in self.parts() {
            match part {
                Part::Text(_) => {}
                Part::Place(name) if known.contains(&name) => {}
                Part::Place(name) => {
                    let (text, known) = (&self.0, known.join(", "));
                    return Err(format!("{text:?}: there is no {{{name}}}; there are {known}"));
                }
                Part::Open => {
                    let how = "write {{ for one that is meant as such";
                    return Err(format!("{:?}: a brace is not closed; {how}", self.0));
                }
            }
        }
        Ok(())
    }

    /// Fills the places, each with a value as one word of a shell.
    pub fn fill(&self, values: &[(&str, String)]) -> String {
        let one = |part: Part<'_>| match part {
            Part::Text(text) => text.to_owned(),
            Part::Open => "{".to_owned(),
            Part::Place(name) => values
                .iter()
                .find(|(known, _)| *known == name)
                .map_or_else(|| format!("{{{name}}}"), |(_, value)| quoted(value)),
        };
        self.parts().into_iter().map(one).collect()
    }
}

/// Quotes a text as one word of a shell.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-+./:,=@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled_and_doubled_braces_stay() {
        let values = [("tile", "32".to_owned()), ("flag", "a b's".to_owned())];
        let fill = |text: &str| Template::new(text).fill(&values);
        assert_eq!(fill("./mm --tile {tile} --flag={flag}"), r"./mm --tile 32 --flag='a b'\''s'");
        assert_eq!(fill("awk '{{print $1}}' {tile}{tile}"), "awk '{print $1}' 3232");
        assert_eq!(fill(""), "");
    }

    #[test]
    fn values_cannot_become_commands() {
        let values = [("x", "$(rm -rf /); `id` & \n".to_owned())];
        assert_eq!(Template::new("echo {x}").fill(&values), "echo '$(rm -rf /); `id` & \n'");
        assert_eq!(Template::new("echo {x}").fill(&[("x", String::new())]), "echo ''");
    }
}

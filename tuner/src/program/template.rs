//! Command line with places for values.

use super::shell::{Around, Shell, written};
use crate::Error;

/// Text in which `{name}` stands for a value, and `{{` and `}}` for braces.
///
/// The value is put in as its own text: outside quotes it is one word, inside quotes it is part of what they enclose.
/// Nothing in it is split, expanded or run. Several words come from the environment: `$TUNE_name` without quotes.
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

    /// Returns the parts, each place with the syntax around it.
    fn read(&self) -> Vec<(Part<'_>, Around)> {
        let mut shell = Shell::new();
        let one = |part: Part<'_>| {
            let around = shell.around();
            match part {
                Part::Text(text) => shell.read(text),
                Part::Place(_) | Part::Open => shell.value(),
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
                (Part::Place(name), _) if !known.contains(&name) => {
                    return wrong(format!("there is no {{{name}}}; there are {}", known.join(", ")));
                }
                (Part::Place(name), Around::Refused(place)) => {
                    return wrong(format!("{{{name}}} has no meaning {place}; write $TUNE_{name} there"));
                }
                (Part::Text(_) | Part::Place(_), _) => {}
                (Part::Open, _) => {
                    return wrong("a brace is not closed; write {{ for one that is meant as such".to_owned());
                }
            }
        }
        Ok(())
    }

    /// Fills the places, each with the text of a value: outside quotes one word, inside quotes a part of their text.
    pub fn fill(&self, values: &[(&str, String)]) -> String {
        let one = |(part, around): (Part<'_>, Around)| match part {
            Part::Text(text) => text.to_owned(),
            Part::Open => "{".to_owned(),
            Part::Place(name) => {
                let value = values.iter().find(|(known, _)| *known == name);
                value.and_then(|(_, value)| written(value, around)).unwrap_or_else(|| format!("{{{name}}}"))
            }
        };
        self.read().into_iter().map(one).collect()
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

    /// The shell itself says what a value has become, in whatever quotes.
    #[cfg(unix)]
    #[test]
    fn a_value_is_its_own_text_wherever_it_stands_and_never_a_command() {
        let contexts = [
            ("{x}", "{x}"),
            ("a'-{x}-'b", "a-{x}-b"),
            ("\"a {x} b\"", "a {x} b"),
            ("\"$(printf %s {x})\"", "{x}"),
            ("\"$(printf %s \"<{x}>\")\"", "<{x}>"),
            ("$(printf %s '{x}' | wc -c | tr -d ' ') \"{x}\"", ""),
            ("(echo) \"{x}\"", ""),
            ("it\\'s{x}", "it's{x}"),
            ("\"\\\"{x}\"", "\"{x}"),
        ];
        for value in
            ["32", "-O2 -g", "$(touch /nonexistent/x)`id`", "it's \"so\"", "a;b&c|d\\", "\\\\\"'", "", "$HOME\n*"]
        {
            for (context, text) in contexts.iter().filter(|(_, text)| !text.is_empty()) {
                let line = Template::new(&format!("printf '%s!' {context}")).fill(&[("x", value.to_owned())]);
                let said = std::process::Command::new("sh").arg("-c").arg(&line).output().unwrap();
                let expected = text.replace("{x}", value) + "!";
                assert_eq!(String::from_utf8_lossy(&said.stdout), expected, "{line}");
            }
        }
        // A number in arithmetic is a number.
        let line = Template::new("echo $(( 100 + 10 * ({x} - 2) << {x} ))").fill(&[("x", "3".to_owned())]);
        assert_eq!(line, "echo $(( 100 + 10 * (3 - 2) << 3 ))");
    }

    #[test]
    fn where_a_value_has_no_meaning_it_is_refused() {
        for (text, place) in [
            ("echo ${x}", "behind a $"),
            ("echo \"cost: ${x}\"", "behind a $"),
            ("echo \\{x}", "behind a backslash"),
            ("echo `echo {x}`", "in backquotes"),
            ("echo ${{y:-{x}}}", "in ${...}"),
            ("cat <<E\n{x}\nE", "in a here-document"),
            ("true # with {x}", "in a comment"),
            ("echo \"$(case a in a) echo {x};; esac)\"", "in a case inside $(...)"),
            ("echo $'{x}'", "in $'...'"),
        ] {
            let refused = Template::new(text).validate(&["x"]).unwrap_err().to_string();
            assert!(refused.contains(place) && refused.contains("write $TUNE_x"), "{text}: {refused}");
        }
        for text in
            ["case {x} in 3|7) exit;; *) echo {x};; esac", "echo a#{x} '$'{x} '# {x}'", "true # don't\necho {x}"]
        {
            assert_eq!(Template::new(text).validate(&["x"]), Ok(()), "{text}");
        }
    }
}

//! Quotes of the shell, as far as they decide what a value in a command line means.
//!
//! A value stands for its own text wherever it is put: outside quotes it is one word, inside quotes
//! it is part of what they enclose. Where that cannot be promised ([`Around::Refused`]), a command
//! line has no place for a value.

/// Syntax around a place in a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Around {
    /// Outside quotes, or inside `$(...)`.
    Word,
    /// Inside `'...'`.
    Single,
    /// Inside `"..."`.
    Double,
    /// Number of an open bracket in `$((...))`.
    Arithmetic,
    /// Open bracket outside arithmetic.
    Bracket,
    /// Elsewhere, in words for a message.
    Refused(&'static str),
}

/// Reads a command line up to a place.
pub(super) struct Shell {
    /// Open quotes and brackets, the innermost last.
    open: Vec<Around>,
    /// Last character, if it changes the meaning of the next one.
    before: Option<char>,
    /// Letters of the word that is being read.
    word: String,
}

impl Shell {
    pub(super) fn new() -> Self {
        Self {
            open: Vec::new(),
            before: None,
            word: String::new(),
        }
    }

    /// Returns the syntax at the end of what was read.
    pub(super) fn around(&self) -> Around {
        match (self.before, self.inner()) {
            (Some('\\'), around) if around != Around::Single => {
                Around::Refused("behind a backslash")
            }
            (Some('$'), around) if around != Around::Single => Around::Refused("behind a $"),
            (_, Around::Bracket) => Around::Word,
            (_, around) => around,
        }
    }

    fn inner(&self) -> Around {
        self.open.last().copied().unwrap_or(Around::Word)
    }

    /// Reads text.
    pub(super) fn read(&mut self, text: &str) {
        text.chars().for_each(|c| self.take(c));
    }

    /// Reads a value, which ends whatever the last character began.
    pub(super) fn value(&mut self) {
        (self.before, self.word) = (None, "value".to_owned());
    }

    fn take(&mut self, c: char) {
        let (before, inner) = (self.before.take(), self.inner());
        let quoted = matches!(inner, Around::Single | Around::Double);
        match (inner, c) {
            (Around::Single, '\'')
            | (Around::Double, '"')
            | (Around::Refused("in a comment"), '\n')
            | (Around::Refused("in backquotes"), '`')
            | (Around::Refused("in ${...}"), '}')
                if before != Some('\\') =>
            {
                self.open.pop();
            }
            (Around::Single | Around::Refused(_), _) => {}
            _ if before == Some('\\') => {}
            (_, '\\') => self.before = Some('\\'),
            (_, '`') => self.open.push(Around::Refused("in backquotes")),
            (_, '(') if before == Some('$') => {
                self.open.push(Around::Bracket);
                self.before = Some('(');
            }
            (Around::Bracket, '(') if before == Some('(') => {
                self.open.pop();
                self.open.extend([Around::Arithmetic, Around::Arithmetic]);
            }
            (_, '{') if before == Some('$') => self.open.push(Around::Refused("in ${...}")),
            (_, '\'') if before == Some('$') && !quoted => {
                self.open.push(Around::Refused("in $'...'"));
            }
            (_, '$') => self.before = Some('$'),
            (Around::Double, _) => {}
            (_, '\'') => self.open.push(Around::Single),
            (_, '"') => self.open.push(Around::Double),
            (Around::Word | Around::Bracket, '#') if self.word.is_empty() => {
                self.open.push(Around::Refused("in a comment"));
            }
            (Around::Word | Around::Bracket, '<') if before == Some('<') => {
                self.open.push(Around::Refused("in a here-document"));
            }
            (Around::Word | Around::Bracket, '<') => self.before = Some('<'),
            (Around::Arithmetic | Around::Bracket, '(') => self.open.push(inner),
            (Around::Arithmetic | Around::Bracket, ')') => _ = self.open.pop(),
            _ => {}
        }
        if c.is_whitespace() || "();&|".contains(c) {
            // Its patterns have brackets that nothing opened.
            if inner == Around::Bracket && self.word == "case" {
                self.open.push(Around::Refused("in a case inside $(...)"));
            }
            self.word.clear();
        } else {
            self.word.push(c);
        }
    }
}

/// Writes a value so that the shell reads its text; `None` where it has no place.
pub(super) fn written(value: &str, around: Around) -> Option<String> {
    match around {
        Around::Single => Some(value.replace('\'', r"'\''")),
        Around::Double => {
            let escaped = |c: char| {
                if "\\\"$`".contains(c) {
                    format!("\\{c}")
                } else {
                    c.to_string()
                }
            };
            Some(value.chars().map(escaped).collect())
        }
        Around::Refused(_) => None,
        Around::Word | Around::Arithmetic | Around::Bracket => Some(quoted(value)),
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

//! Names of the values of enums.

/// A name that no value has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no {what} is called {name:?}: it is {}", or(names))]
#[expect(missing_docs, reason = "the message says it")]
#[non_exhaustive]
pub struct UnknownName {
    pub what: &'static str,
    pub name: String,
    pub names: &'static [&'static str],
}

impl UnknownName {
    #[doc(hidden)]
    pub fn new(what: &'static str, name: &str, names: &'static [&'static str]) -> Self {
        Self {
            what,
            name: name.to_owned(),
            names,
        }
    }
}

fn or(names: &[&str]) -> String {
    names
        .split_last()
        .map_or_else(String::new, |(last, others)| {
            format!("{} or {last}", others.join(", "))
        })
}

/// Gives an enum, all of whose values are listed, `ALL`, `NAMES`, `name`, `Display`, and `FromStr`
/// with the error [`UnknownName`], which calls it by the first words.
#[macro_export]
macro_rules! named {
    ($what:literal $type:ident: $($value:ident $name:literal),+ $(,)?) => {
        impl $type {
            /// Every value, in order.
            pub const ALL: [Self; Self::NAMES.len()] = [$(Self::$value),+];

            /// Names of all values, in order.
            pub const NAMES: [&'static str; [$($name),+].len()] = [$($name),+];

            /// Returns the name on the command line and in outputs.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)+
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::UnknownName;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                let unknown = || $crate::UnknownName::new($what, name, &Self::NAMES);
                Self::ALL.into_iter().find(|value| value.name() == name).ok_or_else(unknown)
            }
        }
    };
}

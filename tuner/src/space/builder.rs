//! Declares a space: parameters, constants, derived values and constraints.
//!
//! ```
//! let space = tuner::SpaceBuilder::new()
//!     .constant("sms", 108)
//!     .constant("items", 500_000)
//!     .powers_of_two("block", 32, 1024)
//!     .range("k", 1, 32, 1)
//!     .flag("staged")
//!     .derive("grid", "k * sms")
//!     .constraint("grid * block * 64 >= items")
//!     .constraint("4 * block * staged <= 49152")
//!     .build()?;
//! assert!(space.len() < 6 * 32 * 2);
//! # Ok::<(), tuner::Error>(())
//! ```

use std::sync::Arc;

use crate::expression::Expr;
use crate::space::enumerate::{MOST_STEPS, Predicate, Problem, Rule};
use crate::space::{Parameter, Space, strides, unique};
use crate::{Error, Value};

/// Maximum number of values in a range.
const LONGEST: usize = 1 << 20;

/// Maximum number of parameters, and of derived values.
const MOST_PARAMETERS: usize = 256;
/// Maximum number of constraints: the work of ordering them grows with constraints times
/// parameters.
const MOST_CONSTRAINTS: usize = 1000;

/// Declares a space. [`build`](Self::build) reports the errors of the declarations.
#[derive(Clone, Default)]
#[must_use]
pub struct SpaceBuilder {
    parameters: Vec<(String, Result<Vec<Value>, String>)>,
    constants: Vec<(String, Value)>,
    derived: Vec<(String, String)>,
    constraints: Vec<(String, Constraint)>,
}

#[derive(Clone)]
enum Constraint {
    Expression(String),
    Closure(Vec<String>, Predicate),
}

impl SpaceBuilder {
    /// Begins with a space without parameters, which has one configuration.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a parameter that takes `values`.
    pub fn parameter(mut self, name: &str, values: impl IntoIterator<Item = Value>) -> Self {
        self.parameters
            .push((name.to_owned(), Ok(values.into_iter().collect())));
        self
    }

    /// Adds a parameter that takes whole numbers.
    pub fn ints(self, name: &str, values: impl IntoIterator<Item = i64>) -> Self {
        self.parameter(name, values.into_iter().map(Value::Int))
    }

    /// Adds a parameter that takes names.
    pub fn choices<'a>(self, name: &str, values: impl IntoIterator<Item = &'a str>) -> Self {
        self.parameter(
            name,
            values
                .into_iter()
                .map(|value| Value::Text(value.to_owned())),
        )
    }

    /// Adds a parameter that is false or true.
    pub fn flag(self, name: &str) -> Self {
        self.parameter(name, [Value::Bool(false), Value::Bool(true)])
    }

    /// Adds a parameter from `first` in steps of `step` (above 0) up to `last`, included if a step
    /// reaches it.
    pub fn range(mut self, name: &str, first: i64, last: i64, step: i64) -> Self {
        let values = if step <= 0 {
            Err(format!("a range in steps of {step}"))
        } else if last.saturating_sub(first) / step >= LONGEST as i64 {
            Err(format!("a range of more than {LONGEST} values"))
        } else {
            let values = std::iter::successors(Some(first), |at| at.checked_add(step))
                .take_while(|&at| at <= last);
            Ok(values.map(Value::Int).collect())
        };
        self.parameters.push((name.to_owned(), values));
        self
    }

    /// Adds a parameter that takes the powers of two from `first` to `last`.
    pub fn powers_of_two(self, name: &str, first: i64, last: i64) -> Self {
        let powers: Vec<i64> = (0..63)
            .map(|at| 1 << at)
            .filter(|power| (first..=last).contains(power))
            .collect();
        self.ints(name, powers)
    }

    /// Adds a constant for expressions: the size of the workload, a resource of the device.
    pub fn constant(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.constants.push((name.to_owned(), value.into()));
        self
    }

    /// Adds a value computed from parameters, constants and earlier derived values.
    pub fn derive(mut self, name: &str, expression: &str) -> Self {
        self.derived.push((name.to_owned(), expression.to_owned()));
        self
    }

    /// Adds a condition on parameters, constants and derived values, as an
    /// [expression](crate::expression).
    pub fn constraint(self, expression: &str) -> Self {
        self.named_constraint(expression, expression)
    }

    /// Adds a condition with a name for the report.
    pub fn named_constraint(mut self, name: &str, expression: &str) -> Self {
        self.constraints.push((
            name.to_owned(),
            Constraint::Expression(expression.to_owned()),
        ));
        self
    }

    /// Adds a condition in Rust: `predicate` gets the value of each of `parameters`, in that order.
    pub fn constraint_fn(
        mut self,
        name: &str,
        parameters: &[&str],
        predicate: impl Fn(&[&Value]) -> bool + Send + Sync + 'static,
    ) -> Self {
        let parameters = parameters.iter().map(|&name| name.to_owned()).collect();
        self.constraints.push((
            name.to_owned(),
            Constraint::Closure(parameters, Arc::new(predicate)),
        ));
        self
    }

    /// Returns the number of combinations before any constraint; `None` if it exceeds 64 bits, or a
    /// parameter is invalid.
    #[must_use]
    pub fn combinations(&self) -> Option<u64> {
        let sizes = self
            .parameters
            .iter()
            .map(|(_, values)| values.as_ref().map(Vec::len));
        let (_, combinations) =
            strides(sizes.collect::<Result<Vec<_>, _>>().ok()?.into_iter()).ok()?;
        Some(combinations)
    }

    /// Enumerates the valid configurations, of which there may be none.
    ///
    /// # Errors
    /// If a name or a value occurs twice, a name is unknown, an expression does not parse, or the
    /// space is too large.
    pub fn build(&self) -> Result<Space, Error> {
        let names: Vec<&String> = self.parameters.iter().map(|(name, _)| name).collect();
        let others = self
            .constants
            .iter()
            .map(|(name, _)| name)
            .chain(self.derived.iter().map(|(name, _)| name));
        unique(names.iter().copied().chain(others))?;
        for (what, count, most) in [
            ("parameters", names.len(), MOST_PARAMETERS),
            ("derived values", self.derived.len(), MOST_PARAMETERS),
            ("constraints", self.constraints.len(), MOST_CONSTRAINTS),
        ] {
            if count > most {
                return Err(Error::request(format!("more than {most} {what}")));
            }
        }
        let mut parameters = Vec::new();
        for (name, values) in &self.parameters {
            let bad = |message| Error::request(format!("parameter {name:?}: {message}"));
            parameters.push(Parameter::new(name.clone(), values.clone().map_err(bad)?)?);
        }
        let place = |wanted: &str| names.iter().position(|name| *name == wanted);
        // Constants become literals; a derived value is known to all declarations behind it.
        let parse = |what: String, text: &str, known: usize| {
            let derived = |name: &str| {
                self.derived[..known]
                    .iter()
                    .position(|(derived, _)| derived == name)
            };
            let constant =
                |name: &str| self.constants.iter().find(|(constant, _)| constant == name);
            let named = |name: &str| match (place(name), derived(name), constant(name)) {
                (Some(place), ..) => Some(Expr::Slot(place)),
                (_, Some(number), _) => Some(Expr::Slot(names.len() + number)),
                (.., constant) => constant.map(|(_, value)| Expr::Literal(value.clone())),
            };
            Expr::parse(text, &named).map_err(|error| Error::request(format!("{what}: {error}")))
        };
        let mut derived = Vec::new();
        for (number, (name, text)) in self.derived.iter().enumerate() {
            derived.push(parse(format!("derived value {name:?}"), text, number)?);
        }
        let mut constraints = Vec::new();
        for (name, constraint) in &self.constraints {
            let rule = match constraint {
                Constraint::Expression(text) => {
                    Rule::Expression(parse(format!("constraint {name:?}"), text, derived.len())?)
                }
                Constraint::Closure(wanted, predicate) => {
                    let known = |wanted: &String| {
                        let what = || {
                            format!(
                                "constraint {name:?} asks for {wanted:?}, which is not a parameter"
                            )
                        };
                        place(wanted).ok_or_else(|| Error::request(what()))
                    };
                    Rule::Closure(
                        wanted.iter().map(known).collect::<Result<_, _>>()?,
                        Arc::clone(predicate),
                    )
                }
            };
            constraints.push((name.clone(), rule));
        }
        Problem {
            parameters: &parameters,
            derived: &derived,
            constraints: &constraints,
        }
        .enumerate(MOST_STEPS)
    }
}

//! Declaring a space: parameters, constants, derived values, constraints, and what the device allows.
//!
//! ```
//! use tuner::{DeviceLimits, Footprint, SpaceBuilder};
//!
//! let space = SpaceBuilder::new()
//!     .constant("sms", 108)
//!     .constant("items", 500_000)
//!     .powers_of_two("block", 32, 1024)
//!     .range("k", 1, 32, 1)
//!     .flag("staged")
//!     .derive("grid", "k * sms")
//!     .constraint("grid * block * 64 >= items")
//!     .limits(
//!         &DeviceLimits { threads_per_block: 1024, shared_bytes: 49152, registers_per_block: 65536, warp: 32 },
//!         &Footprint { threads: "block", shared_bytes: Some("4 * block * staged"), registers_per_thread: None },
//!     )
//!     .build()?;
//! assert!(space.len() < 6 * 32 * 2);
//! # Ok::<(), tuner::SpaceError>(())
//! ```

use std::sync::Arc;

use crate::Value;
use crate::expression::list::LONGEST;
use crate::expression::program::{Graph, Program};
use crate::expression::{Expr, ExpressionError};
use crate::space::enumerate::{Problem, Rule};
use crate::space::{Parameter, Space, SpaceError, SpaceReport, strides, unique};

/// More parameters are refused.
const MOST_PARAMETERS: usize = 256;
/// Constraints: the work of ordering them grows with their number times that of the parameters.
const MOST_CONSTRAINTS: usize = 1000;
/// A constraint is tried by itself if its own parameters have at most this many combinations.
const MOST_ALONE: u64 = 1 << 22;

/// Declares a space. Every method but the last takes anything; [`build`](Self::build) says what is wrong with it.
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
    Closure(Vec<String>, crate::space::enumerate::Predicate),
}

/// What a device allows one block to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct DeviceLimits {
    /// Threads in a block.
    pub threads_per_block: u32,
    /// Bytes of shared memory in a block.
    pub shared_bytes: u32,
    /// Registers in a block.
    pub registers_per_block: u32,
    /// Threads in a warp; a block has whole warps.
    pub warp: u32,
}

/// What one block uses, as expressions over the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint<'a> {
    /// Threads in a block.
    pub threads: &'a str,
    /// Bytes of shared memory in a block.
    pub shared_bytes: Option<&'a str>,
    /// Registers of the compiled kernel in a thread.
    pub registers_per_thread: Option<&'a str>,
}

impl SpaceBuilder {
    /// A space without parameters: it has one configuration.
    pub fn new() -> Self {
        Self::default()
    }

    /// A parameter that takes `values`.
    pub fn parameter(mut self, name: &str, values: impl IntoIterator<Item = Value>) -> Self {
        self.parameters.push((name.to_owned(), Ok(values.into_iter().collect())));
        self
    }

    /// A parameter that takes these whole numbers.
    pub fn ints(self, name: &str, values: impl IntoIterator<Item = i64>) -> Self {
        self.parameter(name, values.into_iter().map(Value::Int))
    }

    /// A parameter that takes these numbers.
    pub fn floats(self, name: &str, values: impl IntoIterator<Item = f64>) -> Self {
        self.parameter(name, values.into_iter().map(Value::Float))
    }

    /// A parameter that is one of these names.
    pub fn choices<'a>(self, name: &str, values: impl IntoIterator<Item = &'a str>) -> Self {
        self.parameter(name, values.into_iter().map(|value| Value::Text(value.to_owned())))
    }

    /// A parameter that is false or true.
    pub fn flag(self, name: &str) -> Self {
        self.parameter(name, [Value::Bool(false), Value::Bool(true)])
    }

    /// A parameter from `first` in steps of `step` (above 0) up to `last`, which it reaches only if a step does.
    pub fn range(mut self, name: &str, first: i64, last: i64, step: i64) -> Self {
        let values = if step <= 0 {
            Err(format!("a range in steps of {step}"))
        } else if last.saturating_sub(first) / step >= LONGEST as i64 {
            Err(format!("a range of more than {LONGEST} values"))
        } else {
            let values = std::iter::successors(Some(first), |at| at.checked_add(step)).take_while(|&at| at <= last);
            Ok(values.map(Value::Int).collect())
        };
        self.parameters.push((name.to_owned(), values));
        self
    }

    /// A parameter that takes the powers of two from `first` to `last`.
    pub fn powers_of_two(self, name: &str, first: i64, last: i64) -> Self {
        let powers: Vec<i64> = (0..63).map(|at| 1 << at).filter(|power| (first..=last).contains(power)).collect();
        self.ints(name, powers)
    }

    /// A value that expressions may use: the size of the workload, what the device has of something.
    pub fn constant(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.constants.push((name.to_owned(), value.into()));
        self
    }

    /// A value that follows from the parameters, the constants and earlier derived values.
    pub fn derive(mut self, name: &str, expression: &str) -> Self {
        self.derived.push((name.to_owned(), expression.to_owned()));
        self
    }

    /// A condition on parameters, constants and derived values, in [Python's words](crate::expression).
    pub fn constraint(self, expression: &str) -> Self {
        self.named_constraint(expression, expression)
    }

    /// A condition with a name by which the report calls it.
    pub fn named_constraint(mut self, name: &str, expression: &str) -> Self {
        self.constraints.push((name.to_owned(), Constraint::Expression(expression.to_owned())));
        self
    }

    /// A condition in Rust: `predicate` gets one value of each of `parameters`, in that order.
    pub fn constraint_fn(
        mut self,
        name: &str,
        parameters: &[&str],
        predicate: impl Fn(&[&Value]) -> bool + Send + Sync + 'static,
    ) -> Self {
        let parameters = parameters.iter().map(|&name| name.to_owned()).collect();
        self.constraints.push((name.to_owned(), Constraint::Closure(parameters, Arc::new(predicate))));
        self
    }

    /// What the device allows, as constraints; their names begin with `device:`.
    pub fn limits(mut self, limits: &DeviceLimits, footprint: &Footprint<'_>) -> Self {
        let mut limit = |name: &str, expression: String| {
            self.constraints.push((format!("device: {name}"), Constraint::Expression(expression)));
        };
        let threads = footprint.threads;
        limit("threads per block", format!("1 <= ({threads}) <= {}", limits.threads_per_block));
        limit("whole warps", format!("({threads}) % {} == 0", limits.warp));
        if let Some(shared) = footprint.shared_bytes {
            limit("shared memory", format!("({shared}) <= {}", limits.shared_bytes));
        }
        if let Some(registers) = footprint.registers_per_thread {
            limit("registers", format!("({registers}) * ({threads}) <= {}", limits.registers_per_block));
        }
        self
    }

    /// The number of combinations before any constraint, which is the most that [`build`](Self::build) may have to visit.
    /// `None` if it does not fit in 64 bits, or if a parameter's values are invalid.
    #[must_use]
    pub fn combinations(&self) -> Option<u64> {
        let sizes = self.parameters.iter().map(|(_, values)| values.as_ref().map(Vec::len));
        let (_, combinations) = strides(sizes.collect::<Result<Vec<_>, _>>().ok()?.into_iter()).ok()?;
        Some(combinations)
    }

    /// Enumerates the valid configurations.
    ///
    /// # Errors
    /// Names that are there twice or are not there, values that are there twice, expressions that do not parse, and
    /// spaces that are too large. A space in which nothing is valid is not an error.
    pub fn build(&self) -> Result<Space, SpaceError> {
        let (parameters, graph, derived) = self.compile()?;
        let constraints = (0..self.constraints.len()).collect::<Vec<_>>();
        let (graph, constraints) = self.rules(graph, &constraints)?;
        let enumerated = Problem { parameters: &parameters, graph, constraints }.enumerate()?;
        Ok(Space::from_keys(parameters, enumerated.strides, enumerated.keys, derived, enumerated.report))
    }

    /// The space's report, with what each constraint rejects by itself, which takes another enumeration for each.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn report(&self) -> Result<SpaceReport, SpaceError> {
        let mut report = self.build()?.report().clone();
        let (parameters, graph, _) = self.compile()?;
        if report.combinations == 0 {
            // A parameter without values: the products of the others may be beyond every number.
            return Ok(report);
        }
        for (number, constraint) in report.constraints.iter_mut().enumerate() {
            let (graph, rules) = self.rules(graph.clone(), &[number])?;
            let used = rules.first().map(|(_, rule)| rule.parameters(&graph)).unwrap_or_default();
            let own: u64 = used.iter().map(|&place| parameters[place].values().len() as u64).product();
            if own > MOST_ALONE {
                continue;
            }
            // One value for each parameter that it does not ask for.
            let narrowed = parameters.iter().enumerate().map(|(place, parameter)| {
                let kept = if used.contains(&place) { parameter.values() } else { &parameter.values()[..1] };
                Parameter::new(parameter.name(), kept.to_vec())
            });
            let narrowed = narrowed.collect::<Result<Vec<_>, _>>()?;
            let alone = Problem { parameters: &narrowed, graph, constraints: rules }.enumerate()?;
            constraint.alone = Some((own - alone.report.valid) * (report.combinations / own));
        }
        Ok(report)
    }

    #[allow(clippy::type_complexity, reason = "three results of one pass")]
    fn compile(&self) -> Result<(Vec<Parameter>, Graph, Vec<(String, Program)>), SpaceError> {
        let parameter_names: Vec<String> = self.parameters.iter().map(|(name, _)| name.clone()).collect();
        let others = self.constants.iter().map(|(name, _)| name).chain(self.derived.iter().map(|(name, _)| name));
        unique(parameter_names.iter().chain(others))?;
        if parameter_names.len() > MOST_PARAMETERS {
            let message = format!("one of more than {MOST_PARAMETERS}");
            return Err(SpaceError::BadValues { parameter: parameter_names[MOST_PARAMETERS].clone(), message });
        }
        if let Some((parameter, _)) = self.derived.get(MOST_PARAMETERS) {
            let message = format!("one of more than {MOST_PARAMETERS} derived values");
            return Err(SpaceError::BadValues { parameter: parameter.clone(), message });
        }
        if let Some((name, _)) = self.constraints.get(MOST_CONSTRAINTS) {
            return Err(SpaceError::TooManyConstraints { constraint: name.clone(), most: MOST_CONSTRAINTS });
        }
        let mut parameters = Vec::new();
        for (name, values) in &self.parameters {
            let values = values.clone();
            let bad = |message| SpaceError::BadValues { parameter: name.clone(), message };
            parameters.push(Parameter::new(name.clone(), values.map_err(bad)?)?);
        }
        let mut graph = Graph::new(&parameter_names);
        for (name, value) in &self.constants {
            graph.constant(name, value);
        }
        let mut derived = Vec::new();
        for (name, text) in &self.derived {
            let wrong =
                |source: ExpressionError| SpaceError::Expression { what: format!("derived value {name:?}"), source };
            let node = Expr::parse(text).and_then(|expr| graph.compile(&expr)).map_err(wrong)?;
            graph.define(name, node);
            derived.push((name.clone(), node));
        }
        let derived = derived.into_iter().map(|(name, node)| (name, Program::new(graph.clone(), node))).collect();
        Ok((parameters, graph, derived))
    }

    /// Compiles the constraints of these numbers into `graph`.
    #[allow(clippy::type_complexity, reason = "a graph and what it holds")]
    fn rules(&self, mut graph: Graph, numbers: &[usize]) -> Result<(Graph, Vec<(String, Rule)>), SpaceError> {
        let mut rules = Vec::new();
        for (name, constraint) in numbers.iter().map(|&number| &self.constraints[number]) {
            let rule = match constraint {
                Constraint::Expression(text) => {
                    let wrong = |source| SpaceError::Expression { what: format!("constraint {name:?}"), source };
                    Rule::Node(Expr::parse(text).and_then(|expr| graph.compile(&expr)).map_err(wrong)?)
                }
                Constraint::Closure(wanted, predicate) => {
                    let place = |wanted: &String| {
                        let unknown =
                            || SpaceError::UnknownParameter { constraint: name.clone(), name: wanted.clone() };
                        self.parameters.iter().position(|(name, _)| name == wanted).ok_or_else(unknown)
                    };
                    let places = wanted.iter().map(place).collect::<Result<_, _>>()?;
                    Rule::Closure(places, Arc::clone(predicate))
                }
            };
            rules.push((name.clone(), rule));
        }
        Ok((graph, rules))
    }
}

impl std::fmt::Debug for SpaceBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpaceBuilder")
            .field("parameters", &self.parameters)
            .field("constants", &self.constants)
            .field("derived", &self.derived)
            .field("constraints", &self.constraints.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .finish()
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

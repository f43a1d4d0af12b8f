//! Lists the valid configurations without visiting all combinations.
//!
//! Parameters are bound one after the other, first those that decide a constraint early. A derived
//! value is computed, and a constraint evaluated, as soon as all parameters that it needs are
//! bound. A rejection skips all combinations below.

use std::sync::Arc;

use crate::expression::{Computed, Expr, ExprFault, Number};
use crate::space::{ConstraintReport, Parameter, Space, SpaceReport, strides};
use crate::{Error, Value};

/// Maximum number of values tried, each counted with the operations computed for it.
pub(super) const MOST_STEPS: u64 = 2_000_000_000;
/// Maximum number of valid configurations: 1 GiB of keys.
const MOST_VALID: usize = 1 << 27;

/// Condition on one value of each of its parameters, in their order.
pub(super) type Predicate = Arc<dyn Fn(&[&Value]) -> bool + Send + Sync>;

/// Condition of a valid combination.
pub(super) enum Rule {
    Expression(Expr),
    /// Closure, and the places of its parameters.
    Closure(Vec<usize>, Predicate),
}

/// Constraints over parameters, ready to be enumerated. Slots of expressions are the parameters,
/// then the derived values.
pub(super) struct Problem<'a> {
    pub parameters: &'a [Parameter],
    pub derived: &'a [Expr],
    /// Names and rules.
    pub constraints: &'a [(String, Rule)],
}

/// Computation that follows the binding of a level's parameter.
enum Computation<'a> {
    /// Slot and expression of a derived value.
    Derive(usize, &'a Expr),
    /// Number and rule of a constraint.
    Check(usize, &'a Rule),
}

/// Parameter in the order of binding. The first level has none, and computes the constants.
struct BoundParameter<'a> {
    parameter: usize,
    stride: u64,
    steps: Vec<Computation<'a>>,
    /// Number of steps counted for a value.
    cost: u64,
    /// Number of combinations of the deeper levels.
    below: u64,
}

struct Walk<'a> {
    parameters: &'a [Parameter],
    /// Values of parameters and derived values, as far as they are known.
    slots: Vec<Computed<'a>>,
    /// Value index of each parameter.
    codes: Vec<usize>,
    keys: Vec<u64>,
    rejected: Vec<u64>,
    faults: Vec<Option<ExprFault>>,
    steps_done: u64,
    steps_most: u64,
}

impl<'a> Problem<'a> {
    /// Lists the valid combinations as a space.
    ///
    /// # Errors
    /// If there are more than 2^64 combinations, or more than `steps_most` steps are needed.
    pub(super) fn enumerate(&self, steps_most: u64) -> Result<Space, Error> {
        let (strides, combinations) = strides(
            self.parameters
                .iter()
                .map(|parameter| parameter.values().len()),
        )?;
        let count = self.constraints.len();
        let mut walk = Walk {
            parameters: self.parameters,
            slots: vec![Err(ExprFault::Type); self.parameters.len() + self.derived.len()],
            codes: vec![0; self.parameters.len()],
            keys: Vec::new(),
            rejected: vec![0; count],
            faults: vec![None; count],
            steps_done: 0,
            steps_most,
        };
        if combinations > 0 {
            let levels = self.levels(&strides);
            if walk.pass(&levels[0]) {
                walk.descend(&levels[1..], 0)?;
            }
        }
        let constraints = self.constraints.iter().zip(walk.rejected).zip(walk.faults);
        let constraints = constraints.map(|(((name, _), first), fault)| ConstraintReport {
            name: name.clone(),
            first,
            not_evaluated: fault.map(|fault| fault.to_string()),
        });
        let report = SpaceReport {
            combinations,
            valid: walk.keys.len() as u64,
            constraints: constraints.collect(),
        };
        Ok(Space::from_keys(
            self.parameters.to_vec(),
            strides,
            walk.keys,
            report,
        ))
    }

    /// Returns the order of binding: each step takes the parameters of the constraint that needs
    /// the fewest combinations, parameters with fewer values first; parameters that no constraint
    /// needs come last.
    fn order(&self, uses: &[Vec<bool>]) -> Vec<usize> {
        let size = |place: usize| self.parameters[place].values().len();
        let mut order: Vec<usize> = Vec::new();
        loop {
            let unbound = |used: &Vec<bool>| -> Vec<usize> {
                (0..used.len())
                    .filter(|place| used[*place] && !order.contains(place))
                    .collect()
            };
            let cost = |places: &Vec<usize>| {
                places
                    .iter()
                    .map(|&place| size(place) as f64)
                    .product::<f64>()
            };
            let open = uses.iter().map(unbound).filter(|places| !places.is_empty());
            let Some(mut next) = open.min_by(|a, b| cost(a).total_cmp(&cost(b))) else {
                break;
            };
            next.sort_by_key(|&place| size(place));
            order.extend(next);
        }
        let rest: Vec<usize> = (0..self.parameters.len())
            .filter(|place| !order.contains(place))
            .collect();
        order.extend(rest);
        order
    }

    fn levels(&self, strides: &[u64]) -> Vec<BoundParameter<'a>> {
        let parameters = self.parameters.len();
        // Parameters that each derived value needs, directly or through an earlier one; then the
        // parameters that each constraint needs.
        let mut of_derived: Vec<Vec<bool>> = Vec::new();
        for expr in self.derived {
            let used = used_by(expr, parameters, &of_derived);
            of_derived.push(used);
        }
        let of_rule = |(_, rule): &(String, Rule)| match rule {
            Rule::Expression(expr) => used_by(expr, parameters, &of_derived),
            Rule::Closure(places, _) => (0..parameters)
                .map(|place| places.contains(&place))
                .collect(),
        };
        let of_constraints: Vec<Vec<bool>> = self.constraints.iter().map(of_rule).collect();
        let order = self.order(&of_constraints);
        let mut rank = vec![0; parameters];
        order
            .iter()
            .enumerate()
            .for_each(|(at, &place)| rank[place] = at + 1);
        let level_of = |used: &[bool]| {
            (0..used.len())
                .filter(|&place| used[place])
                .map(|place| rank[place])
                .max()
                .unwrap_or(0)
        };

        let mut below = order
            .iter()
            .map(|&place| self.parameters[place].values().len() as u64)
            .product::<u64>();
        let mut levels: Vec<BoundParameter<'a>> = vec![BoundParameter {
            parameter: usize::MAX,
            stride: 0,
            steps: Vec::new(),
            cost: 1,
            below,
        }];
        for &place in &order {
            below /= self.parameters[place].values().len() as u64;
            levels.push(BoundParameter {
                parameter: place,
                stride: strides[place],
                steps: Vec::new(),
                cost: 1,
                below,
            });
        }
        for (number, (expr, used)) in self.derived.iter().zip(&of_derived).enumerate() {
            let level = &mut levels[level_of(used)];
            level
                .steps
                .push(Computation::Derive(parameters + number, expr));
            level.cost += size_of(expr);
        }
        for (number, ((_, rule), used)) in self.constraints.iter().zip(&of_constraints).enumerate()
        {
            let level = &mut levels[level_of(used)];
            level.steps.push(Computation::Check(number, rule));
            level.cost += if let Rule::Expression(expr) = rule {
                size_of(expr)
            } else {
                1
            };
        }
        levels
    }
}

/// Returns, for each parameter, true if `expr` needs it.
fn used_by(expr: &Expr, parameters: usize, derived: &[Vec<bool>]) -> Vec<bool> {
    let mut used = vec![false; parameters];
    expr.visit(&mut |part| {
        if let Expr::Slot(slot) = part {
            match slot.checked_sub(parameters) {
                None => used[*slot] = true,
                Some(number) => used
                    .iter_mut()
                    .zip(&derived[number])
                    .for_each(|(used, of)| *used |= of),
            }
        }
    });
    used
}

fn size_of(expr: &Expr) -> u64 {
    let mut size = 0;
    expr.visit(&mut |_| size += 1);
    size
}

fn too_long(steps: u64) -> Error {
    Error::request(format!(
        "the enumeration was given up after {steps} steps; constrain the space further"
    ))
}

impl<'a> Walk<'a> {
    /// Computes the steps of a level; returns true if no constraint rejects.
    fn pass(&mut self, level: &BoundParameter<'a>) -> bool {
        for step in &level.steps {
            let (number, holds) = match step {
                Computation::Derive(slot, expr) => {
                    self.slots[*slot] = expr.compute(&self.slots);
                    continue;
                }
                Computation::Check(number, Rule::Expression(expr)) => {
                    (*number, expr.compute(&self.slots).map(Number::truth))
                }
                Computation::Check(number, Rule::Closure(places, predicate)) => {
                    let value =
                        |&place: &usize| &self.parameters[place].values()[self.codes[place]];
                    (
                        *number,
                        Ok(predicate(&places.iter().map(value).collect::<Vec<_>>())),
                    )
                }
            };
            if holds == Ok(true) {
                continue;
            }
            self.rejected[number] += level.below;
            self.faults[number] = self.faults[number].or(holds.err());
            return false;
        }
        true
    }

    /// Binds the parameter of the first of `levels` to each of its values; `key` is the sum of the
    /// levels above.
    fn descend(&mut self, levels: &[BoundParameter<'a>], key: u64) -> Result<(), Error> {
        let Some((level, deeper)) = levels.split_first() else {
            if self.keys.len() == MOST_VALID {
                return Err(too_long(self.steps_done));
            }
            self.keys.push(key);
            return Ok(());
        };
        let parameters = self.parameters;
        for (code, value) in parameters[level.parameter].values().iter().enumerate() {
            self.steps_done += level.cost;
            if self.steps_done > self.steps_most {
                return Err(too_long(self.steps_most));
            }
            self.slots[level.parameter] = Ok(value.into());
            self.codes[level.parameter] = code;
            if self.pass(level) {
                self.descend(deeper, key + code as u64 * level.stride)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_derived_value_counts_like_a_declared_one() {
        let parameters = [Parameter::new("a", (0..100).map(Value::Int).collect()).unwrap()];
        let expr = Expr::parse("a * a + 3 * a + 1 > 0", &|_| Some(Expr::Slot(0))).unwrap();
        let constraints = [("c".to_owned(), Rule::Expression(expr))];
        let problem = Problem {
            parameters: &parameters,
            derived: &[],
            constraints: &constraints,
        };
        let enumerate = |steps| problem.enumerate(steps).map(|space| space.len());
        assert_eq!(enumerate(2000).unwrap(), 100);
        assert!(
            enumerate(300)
                .unwrap_err()
                .to_string()
                .contains("given up after 300 steps")
        );
    }
}

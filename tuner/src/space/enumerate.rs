//! Listing the configurations that no constraint rejects, without visiting all combinations.
//!
//! Parameters are bound one after the other, those first that let a constraint be decided early. What a constraint
//! computes is done at the first level where its parameters are bound, once for all combinations of the later ones; as
//! soon as a constraint rejects, all that lies below is skipped. A closure is asked when its last parameter is bound.

use std::collections::HashSet;
use std::sync::Arc;

use crate::Value;
use crate::expression::number::{Fault, Number};
use crate::expression::program::{Graph, Node, NodeId};
use crate::space::{ConstraintReport, Parameter, SpaceError, SpaceReport, strides};

/// Values tried, and what is computed for each, in all before the enumeration is given up.
const MOST_STEPS: u64 = 2_000_000_000;
/// Valid configurations before it is given up: 1 GiB of keys.
const MOST_VALID: usize = 1 << 27;

/// What a closure decides on: one value of each parameter that it named, in its order.
pub(crate) type Predicate = Arc<dyn Fn(&[&Value]) -> bool + Send + Sync>;

/// What decides whether a combination is valid.
#[derive(Clone)]
pub(crate) enum Rule {
    /// An expression, by its node.
    Node(NodeId),
    /// A closure over these parameters, by their places.
    Closure(Vec<usize>, Predicate),
}

impl Rule {
    /// The parameters that it asks for, by their places, in ascending order.
    pub(crate) fn parameters(&self, graph: &Graph) -> Vec<usize> {
        match self {
            Self::Node(root) => graph.parameters_of(*root),
            Self::Closure(places, _) => {
                let mut places = places.clone();
                places.sort_unstable();
                places.dedup();
                places
            }
        }
    }
}

/// Constraints over parameters, ready to be enumerated.
pub(crate) struct Problem<'a> {
    pub(crate) parameters: &'a [Parameter],
    pub(crate) graph: Graph,
    /// Names and rules.
    pub(crate) constraints: Vec<(String, Rule)>,
}

/// The keys of the valid combinations, in the order in which they were found, with the strides, and the report.
pub(crate) struct Enumerated {
    pub(crate) keys: Vec<u64>,
    pub(crate) strides: Vec<u64>,
    pub(crate) report: SpaceReport,
}

/// What is done once a level's value is set.
enum Step {
    Compute(NodeId, Node),
    /// A constraint, by its number, and its node.
    Check(usize, NodeId),
    Ask(usize, Vec<usize>, Predicate),
}

/// One parameter in the order in which they are bound.
struct Level {
    parameter: usize,
    stride: u64,
    values: Vec<Number>,
    steps: Vec<Step>,
    /// Combinations of the parameters of the deeper levels.
    below: u64,
}

struct Walk<'a> {
    parameters: &'a [Parameter],
    levels: Vec<Level>,
    /// The value of each node, as far as it is known.
    values: Vec<Number>,
    /// The value index of each parameter.
    codes: Vec<usize>,
    keys: Vec<u64>,
    rejected: Vec<u64>,
    faults: Vec<Option<Fault>>,
    steps_done: u64,
    steps_most: u64,
}

impl Problem<'_> {
    /// Lists the valid combinations.
    ///
    /// # Errors
    /// More combinations than 2^64, or too many to visit.
    pub(crate) fn enumerate(self) -> Result<Enumerated, SpaceError> {
        self.enumerate_within(MOST_STEPS)
    }

    fn enumerate_within(mut self, steps: u64) -> Result<Enumerated, SpaceError> {
        let (strides, combinations) = strides(self.parameters.iter().map(|parameter| parameter.values().len()))?;
        let uses = self.uses();
        let order = self.order(&uses);
        let count = self.constraints.len();
        let mut walk = Walk {
            parameters: self.parameters,
            levels: Vec::new(),
            values: vec![Number::Bad(Fault::Type); self.graph.nodes.len()],
            codes: vec![0; self.parameters.len()],
            keys: Vec::new(),
            rejected: vec![0; count],
            faults: vec![None; count],
            steps_done: 0,
            steps_most: steps,
        };
        if combinations > 0 {
            self.plan(&order, &strides, &uses, &mut walk);
            // Constants, and the constraints that depend on nothing else.
            let fixed = walk.levels.remove(0);
            if walk.pass(&fixed.steps, fixed.below) {
                walk.descend(0, 0)?;
            }
        }
        let constraints = self.constraints.into_iter().zip(walk.rejected).zip(walk.faults);
        let constraints = constraints
            .map(|(((name, _), first), fault)| ConstraintReport {
                name,
                first,
                alone: None,
                not_evaluated: fault.map(|fault| fault.to_string()),
            })
            .collect();
        let report = SpaceReport { combinations, valid: walk.keys.len() as u64, constraints };
        Ok(Enumerated { keys: walk.keys, strides, report })
    }

    /// Whether each node depends on each parameter, by node; then the same by constraint.
    fn uses(&self) -> Uses {
        let mut nodes: Vec<Vec<bool>> = Vec::with_capacity(self.graph.nodes.len());
        for node in &self.graph.nodes {
            let mut used = vec![false; self.parameters.len()];
            if let Node::Parameter(place) = node {
                used[*place as usize] = true;
            }
            for operand in node.operands() {
                used.iter_mut().zip(&nodes[operand as usize]).for_each(|(used, &operand)| *used |= operand);
            }
            nodes.push(used);
        }
        let constraints = self.constraints.iter().map(|(_, rule)| match rule {
            Rule::Node(node) => nodes[*node as usize].clone(),
            Rule::Closure(places, _) => (0..self.parameters.len()).map(|place| places.contains(&place)).collect(),
        });
        Uses { constraints: constraints.collect(), nodes }
    }

    /// The order in which the parameters are bound: always next those of the constraint that is decided after the
    /// fewest combinations, a parameter with fewer values first; last those that no constraint asks for.
    fn order(&self, uses: &Uses) -> Vec<usize> {
        let size = |place: usize| self.parameters[place].values().len();
        let mut order: Vec<usize> = Vec::new();
        let mut open: Vec<usize> = (0..self.constraints.len()).collect();
        loop {
            let unbound = |constraint: usize, order: &[usize]| -> Vec<usize> {
                let wanted = (0..self.parameters.len()).filter(|&place| uses.constraints[constraint][place]);
                wanted.filter(|place| !order.contains(place)).collect()
            };
            open.retain(|&constraint| !unbound(constraint, &order).is_empty());
            let cost = |constraint: usize| {
                unbound(constraint, &order).iter().map(|&place| size(place) as f64).product::<f64>()
            };
            let Some(next) = open.iter().copied().min_by(|&a, &b| cost(a).total_cmp(&cost(b))) else { break };
            let mut places = unbound(next, &order);
            places.sort_by_key(|&place| size(place));
            order.extend(places);
        }
        let rest: Vec<usize> = (0..self.parameters.len()).filter(|place| !order.contains(place)).collect();
        order.extend(rest);
        order
    }

    /// Fills the walk's levels; the first one, without a parameter, holds what is constant.
    fn plan(&mut self, order: &[usize], strides: &[u64], uses: &Uses, walk: &mut Walk<'_>) {
        let mut rank = vec![0; self.parameters.len()];
        order.iter().enumerate().for_each(|(at, &place)| rank[place] = at + 1);
        let level_of =
            |used: &[bool]| (0..used.len()).filter(|&place| used[place]).map(|place| rank[place]).max().unwrap_or(0);
        let node_level: Vec<usize> = uses.nodes.iter().map(|used| level_of(used)).collect();

        // Only what some constraint needs is computed.
        let mut needed = vec![false; self.graph.nodes.len()];
        for (_, rule) in &self.constraints {
            if let Rule::Node(node) = rule {
                needed[*node as usize] = true;
            }
        }
        for at in (0..needed.len()).rev() {
            if needed[at] {
                self.graph.nodes[at].operands().for_each(|operand| needed[operand as usize] = true);
            }
        }

        let mut below = order.iter().map(|&place| self.parameters[place].values().len() as u64).product::<u64>();
        let mut emitted = vec![false; self.graph.nodes.len()];
        for level in 0..=order.len() {
            let (parameter, stride, values) = match level.checked_sub(1).map(|at| order[at]) {
                None => (usize::MAX, 0, Vec::new()),
                Some(place) => {
                    below /= self.parameters[place].values().len() as u64;
                    let values = self.parameters[place].values();
                    (place, strides[place], values.iter().map(|value| self.graph.number(value)).collect())
                }
            };
            let mut steps = Vec::new();
            for (number, (_, rule)) in self.constraints.iter().enumerate() {
                if level_of(&uses.constraints[number]) != level {
                    continue;
                }
                match rule {
                    Rule::Node(root) => {
                        self.emit(*root, level, &node_level, &mut emitted, &mut steps);
                        steps.push(Step::Check(number, *root));
                    }
                    Rule::Closure(places, predicate) => {
                        steps.push(Step::Ask(number, places.clone(), Arc::clone(predicate)));
                    }
                }
            }
            // What only deeper levels need: once here instead of for each combination there.
            for at in 0..needed.len() {
                if needed[at] && node_level[at] == level {
                    self.emit(at as NodeId, level, &node_level, &mut emitted, &mut steps);
                }
            }
            walk.levels.push(Level { parameter, stride, values, steps, below });
        }
    }

    /// Appends the steps that compute `root` and its operands of this level, each once.
    fn emit(&self, root: NodeId, level: usize, levels: &[usize], emitted: &mut [bool], steps: &mut Vec<Step>) {
        // Operands stand before their nodes, so ascending order computes them first.
        let mut wanted = vec![root];
        let mut seen = HashSet::from([root]);
        let mut at = 0;
        while at < wanted.len() {
            for operand in self.graph.nodes[wanted[at] as usize].operands() {
                if levels[operand as usize] == level && !emitted[operand as usize] && seen.insert(operand) {
                    wanted.push(operand);
                }
            }
            at += 1;
        }
        wanted.sort_unstable();
        for node in wanted {
            let what = self.graph.nodes[node as usize];
            if !std::mem::replace(&mut emitted[node as usize], true) && !matches!(what, Node::Parameter(_)) {
                steps.push(Step::Compute(node, what));
            }
        }
    }
}

struct Uses {
    nodes: Vec<Vec<bool>>,
    constraints: Vec<Vec<bool>>,
}

impl Walk<'_> {
    /// Takes the steps of a level; whether no constraint rejects.
    #[inline]
    fn pass(&mut self, steps: &[Step], below: u64) -> bool {
        for step in steps {
            let (number, fault) = match step {
                Step::Compute(at, node) => {
                    self.values[*at as usize] = node.compute(|operand| self.values[operand as usize]);
                    continue;
                }
                Step::Check(number, root) => match self.values[*root as usize].truth() {
                    Ok(true) => continue,
                    Ok(false) => (*number, None),
                    Err(fault) => (*number, Some(fault)),
                },
                Step::Ask(number, places, predicate) => {
                    let value = |&place: &usize| &self.parameters[place].values()[self.codes[place]];
                    if predicate(&places.iter().map(value).collect::<Vec<_>>()) {
                        continue;
                    }
                    (*number, None)
                }
            };
            self.rejected[number] += below;
            if fault.is_some() && self.faults[number].is_none() {
                self.faults[number] = fault;
            }
            return false;
        }
        true
    }

    /// Binds the parameter of level `at` to each of its values; `key` is that of the levels above.
    fn descend(&mut self, at: usize, key: u64) -> Result<(), SpaceError> {
        if at == self.levels.len() {
            if self.keys.len() == MOST_VALID {
                return Err(SpaceError::TooLong(self.steps_done));
            }
            self.keys.push(key);
            return Ok(());
        }
        // Moved out for the time of the loop, so that the walk can be changed meanwhile.
        let level = std::mem::replace(
            &mut self.levels[at],
            Level { parameter: 0, stride: 0, values: Vec::new(), steps: Vec::new(), below: 0 },
        );
        let mut done = Ok(());
        for (code, &value) in level.values.iter().enumerate() {
            self.steps_done += 1 + level.steps.len() as u64;
            if self.steps_done > self.steps_most {
                done = Err(SpaceError::TooLong(self.steps_most));
                break;
            }
            // The graph's first nodes are the parameters.
            self.values[level.parameter] = value;
            self.codes[level.parameter] = code;
            if self.pass(&level.steps, level.below) {
                done = self.descend(at + 1, key + code as u64 * level.stride);
                if done.is_err() {
                    break;
                }
            }
        }
        self.levels[at] = level;
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::Expr;

    #[test]
    fn what_is_computed_for_a_value_counts_as_much_as_the_value() {
        let enumerate = |steps| {
            let parameters = [Parameter::new("a", (0..100).map(Value::Int).collect()).unwrap()];
            let mut graph = Graph::new(&["a".to_owned()]);
            let root = graph.compile(&Expr::parse("a * a + 3 * a + 1 > 0").unwrap()).unwrap();
            Problem { parameters: &parameters, graph, constraints: vec![("c".to_owned(), Rule::Node(root))] }
                .enumerate_within(steps)
                .map(|found| found.keys.len())
        };
        assert_eq!(enumerate(1000).unwrap(), 100);
        assert!(matches!(enumerate(300), Err(SpaceError::TooLong(300))));
    }
}

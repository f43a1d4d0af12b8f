//! Expressions compiled to straight-line code.
//!
//! All expressions of a space share one [`Graph`]: equal parts are one node, whose operands stand before it. Nothing
//! jumps (see [`number`](super::number)), so the enumeration may compute every node as soon as its
//! parameters are bound, once for all combinations of the others.

use std::collections::HashMap;

use crate::Value;
use crate::expression::number::{Fault, Number, binary, compare};
use crate::expression::{Binary, Comparison, Expr, ExpressionError, Function, Unary};

/// The place of a node in its graph.
pub(crate) type NodeId = u32;

/// What a node computes from earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    Constant(Number),
    /// The value of a parameter, by its place in the space.
    Parameter(u32),
    Minus(NodeId),
    Plus(NodeId),
    Not(NodeId),
    Abs(NodeId),
    Int(NodeId),
    Binary(Binary, NodeId, NodeId),
    Compare(Comparison, NodeId, NodeId),
    /// Condition, yes, no.
    Choice(NodeId, NodeId, NodeId),
    Min(NodeId, NodeId),
    Max(NodeId, NodeId),
}

impl Node {
    pub(crate) fn operands(self) -> impl Iterator<Item = NodeId> {
        let operands = match self {
            Self::Constant(_) | Self::Parameter(_) => [None; 3],
            Self::Minus(a) | Self::Plus(a) | Self::Not(a) | Self::Abs(a) | Self::Int(a) => [Some(a), None, None],
            Self::Binary(_, a, b) | Self::Compare(_, a, b) | Self::Min(a, b) | Self::Max(a, b) => {
                [Some(a), Some(b), None]
            }
            Self::Choice(a, b, c) => [Some(a), Some(b), Some(c)],
        };
        operands.into_iter().flatten()
    }

    /// Its value, where `value` gives those of its operands. A parameter's is not known here.
    #[inline]
    pub(crate) fn compute(self, value: impl Fn(NodeId) -> Number) -> Number {
        match self {
            Self::Constant(number) => number,
            Self::Parameter(_) => Number::Bad(Fault::Type),
            Self::Minus(a) => value(a).minus(),
            Self::Plus(a) => value(a).plus(),
            Self::Not(a) => value(a).not(),
            Self::Abs(a) => value(a).abs(),
            Self::Int(a) => value(a).int(),
            Self::Binary(operator, a, b) => binary(operator, value(a), value(b)),
            Self::Compare(comparison, a, b) => compare(comparison, value(a), value(b)),
            Self::Choice(condition, yes, no) => match value(condition).truth() {
                Ok(true) => value(yes),
                Ok(false) => value(no),
                Err(fault) => Number::Bad(fault),
            },
            Self::Min(a, b) => value(a).extreme(value(b), true),
            Self::Max(a, b) => value(a).extreme(value(b), false),
        }
    }
}

/// The nodes of expressions over the same parameters.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
    known: HashMap<Node, NodeId>,
    texts: Vec<String>,
    /// What a name stands for.
    names: HashMap<String, NodeId>,
}

impl Graph {
    /// A graph whose nodes `0..parameters` are the parameters.
    pub(crate) fn new(parameters: &[String]) -> Self {
        let mut graph =
            Self { nodes: Vec::new(), known: HashMap::new(), texts: vec![String::new()], names: HashMap::new() };
        for (place, name) in parameters.iter().enumerate() {
            let node = graph.add(Node::Parameter(place as u32));
            graph.names.insert(name.clone(), node);
        }
        graph
    }

    /// Lets `name` stand for `node` from here on.
    pub(crate) fn define(&mut self, name: &str, node: NodeId) {
        self.names.insert(name.to_owned(), node);
    }

    /// Lets `name` stand for `value`.
    pub(crate) fn constant(&mut self, name: &str, value: &Value) {
        let number = self.number(value);
        let node = self.add(Node::Constant(number));
        self.define(name, node);
    }

    /// `value` as the graph computes with it.
    pub(crate) fn number(&mut self, value: &Value) -> Number {
        match value {
            Value::Bool(value) => Number::Bool(*value),
            Value::Int(value) => Number::Int(*value),
            Value::Float(value) => Number::Real(*value),
            Value::Text(text) => {
                let place = self.texts.iter().position(|known| known == text).unwrap_or_else(|| {
                    self.texts.push(text.clone());
                    self.texts.len() - 1
                });
                Number::Text(place as u32)
            }
        }
    }

    fn value(&self, number: Number) -> Result<Value, Fault> {
        match number {
            Number::Bool(value) => Ok(Value::Bool(value)),
            Number::Int(value) => Ok(Value::Int(value)),
            Number::Real(value) => Ok(Value::Float(value)),
            Number::Text(place) => self.texts.get(place as usize).cloned().map(Value::Text).ok_or(Fault::Type),
            Number::Bad(fault) => Err(fault),
        }
    }

    fn add(&mut self, node: Node) -> NodeId {
        if let Some(&known) = self.known.get(&node) {
            return known;
        }
        // What has constant operands only is a constant.
        let place = self.nodes.len() as NodeId;
        let constant = |operand: NodeId| match self.nodes[operand as usize] {
            Node::Constant(number) => Some(number),
            _ => None,
        };
        let node = match node {
            Node::Constant(_) | Node::Parameter(_) => node,
            _ if node.operands().all(|operand| constant(operand).is_some()) => {
                let folded = node.compute(|operand| constant(operand).unwrap_or(Number::Bad(Fault::Type)));
                return self.add(Node::Constant(folded));
            }
            _ => node,
        };
        self.nodes.push(node);
        self.known.insert(node, place);
        place
    }

    /// Adds an expression and gives the node of its value.
    ///
    /// # Errors
    /// A name that is not defined; a list where one value is wanted.
    pub(crate) fn compile(&mut self, expr: &Expr) -> Result<NodeId, ExpressionError> {
        let node = match expr {
            Expr::Literal(value) => Node::Constant(self.number(value)),
            Expr::Name(name) => {
                return self.names.get(name).copied().ok_or_else(|| ExpressionError::Unknown(name.clone()));
            }
            Expr::Unary(operator, operand) => {
                let operand = self.compile(operand)?;
                match operator {
                    Unary::Minus => Node::Minus(operand),
                    Unary::Plus => Node::Plus(operand),
                    Unary::Not => Node::Not(operand),
                }
            }
            Expr::Binary(operator, left, right) => {
                let left = self.compile(left)?;
                Node::Binary(*operator, left, self.compile(right)?)
            }
            Expr::Compare(first, rest) => {
                // It would be with the list.
                let is_followed = rest.split_last().is_some_and(|(_, before)| before.iter().any(|(of, _)| of.is_in()));
                if is_followed {
                    let what = "behind \"in\" and its list no comparison can follow";
                    return Err(ExpressionError::Shape(what.to_owned()));
                }
                let mut left = self.compile(first)?;
                let mut all = None;
                for (comparison, operand) in rest {
                    let (link, right) = match (comparison, operand) {
                        (Comparison::In | Comparison::NotIn, Expr::List(items)) => {
                            let link = self.member(left, items)?;
                            (if *comparison == Comparison::In { link } else { self.add(Node::Not(link)) }, None)
                        }
                        (Comparison::In | Comparison::NotIn, _) => {
                            return Err(ExpressionError::Shape("after \"in\" a list must be spelt out".to_owned()));
                        }
                        _ => {
                            let right = self.compile(operand)?;
                            (self.add(Node::Compare(*comparison, left, right)), Some(right))
                        }
                    };
                    all = Some(match all {
                        None => link,
                        Some(all) => self.add(Node::Binary(Binary::And, all, link)),
                    });
                    left = right.unwrap_or(link);
                }
                return Ok(all.unwrap_or(left));
            }
            Expr::Choice(condition, yes, no) => {
                let condition = self.compile(condition)?;
                let yes = self.compile(yes)?;
                Node::Choice(condition, yes, self.compile(no)?)
            }
            Expr::Call(function, operands) => return self.call(*function, operands),
            Expr::List(_) | Expr::Comprehension { .. } => {
                return Err(ExpressionError::Shape("a list stands where one value is wanted".to_owned()));
            }
        };
        Ok(self.add(node))
    }

    fn member(&mut self, left: NodeId, items: &[Expr]) -> Result<NodeId, ExpressionError> {
        // Python makes the whole list before it looks: `|` hands on what is wrong with any item, `or` would not. And the left
        // side fails where the list is empty, too.
        let mut any = self.add(Node::Compare(Comparison::NotEqual, left, left));
        for item in items {
            let item = self.compile(item)?;
            let equal = self.add(Node::Compare(Comparison::Equal, left, item));
            any = self.add(Node::Binary(Binary::BitOr, any, equal));
        }
        Ok(any)
    }

    fn call(&mut self, function: Function, operands: &[Expr]) -> Result<NodeId, ExpressionError> {
        let operands = match operands {
            // max([a, b]) is max(a, b).
            [Expr::List(items)] if matches!(function, Function::Max | Function::Min | Function::Sum) => items,
            _ if function == Function::Sum => {
                return Err(ExpressionError::Shape("sum takes a list that is spelt out".to_owned()));
            }
            _ => operands,
        };
        let nodes = operands.iter().map(|operand| self.compile(operand)).collect::<Result<Vec<_>, _>>()?;
        match (function, nodes.as_slice()) {
            (Function::Abs, &[operand]) => Ok(self.add(Node::Abs(operand))),
            (Function::Int, &[operand]) => Ok(self.add(Node::Int(operand))),
            (Function::Max, &[first, ref rest @ ..]) => {
                Ok(rest.iter().fold(first, |first, &next| self.add(Node::Max(first, next))))
            }
            (Function::Min, &[first, ref rest @ ..]) => {
                Ok(rest.iter().fold(first, |first, &next| self.add(Node::Min(first, next))))
            }
            (Function::Sum, nodes) => {
                let zero = self.add(Node::Constant(Number::Int(0)));
                Ok(nodes.iter().fold(zero, |sum, &next| self.add(Node::Binary(Binary::Add, sum, next))))
            }
            (Function::List | Function::Range, _) => {
                Err(ExpressionError::Shape("list and range only make the values of a parameter".to_owned()))
            }
            _ => Err(ExpressionError::Shape("a function with the wrong number of operands".to_owned())),
        }
    }

    /// The parameters that a node depends on, by their places, in ascending order.
    pub(crate) fn parameters_of(&self, root: NodeId) -> Vec<usize> {
        let mut needed = vec![false; self.nodes.len()];
        needed[root as usize] = true;
        // Operands stand before their nodes.
        for at in (0..needed.len()).rev() {
            if needed[at] {
                self.nodes[at].operands().for_each(|operand| needed[operand as usize] = true);
            }
        }
        let place = |(node, &needed): (&Node, &bool)| match node {
            Node::Parameter(place) if needed => Some(*place as usize),
            _ => None,
        };
        let mut places: Vec<usize> = self.nodes.iter().zip(&needed).filter_map(place).collect();
        places.sort_unstable();
        places
    }
}

/// One expression, ready to be computed for any values of the parameters.
#[derive(Clone, Debug)]
pub struct Program {
    graph: Graph,
    root: NodeId,
}

impl Program {
    pub(crate) fn new(graph: Graph, root: NodeId) -> Self {
        Self { graph, root }
    }

    /// Compiles `expr` over `parameters` and `constants`.
    ///
    /// # Errors
    /// A name that is neither; a list where one value is wanted.
    pub fn compile(expr: &Expr, parameters: &[String], constants: &[(String, Value)]) -> Result<Self, ExpressionError> {
        let mut graph = Graph::new(parameters);
        for (name, value) in constants {
            graph.constant(name, value);
        }
        let root = graph.compile(expr)?;
        Ok(Self { graph, root })
    }

    /// The value for one value of each parameter, in their order.
    ///
    /// # Errors
    /// What Python would raise an exception for, and whole numbers beyond 64 bits.
    pub fn evaluate(&self, parameters: &[Value]) -> Result<Value, ExpressionError> {
        // Strings that are new here are numbered here.
        let mut graph = self.graph.clone();
        let mut values: Vec<Number> = Vec::with_capacity(graph.nodes.len());
        for at in 0..graph.nodes.len() {
            let number = match graph.nodes[at] {
                Node::Parameter(place) => match parameters.get(place as usize) {
                    Some(value) => graph.number(value),
                    None => return Err(ExpressionError::Unknown(format!("parameter {place}"))),
                },
                node => node.compute(|operand| values[operand as usize]),
            };
            values.push(number);
        }
        graph.value(values[self.root as usize]).map_err(ExpressionError::Fault)
    }
}

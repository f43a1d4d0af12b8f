//! The values of a parameter as T1 files write them: a list, or an expression that makes one.

use crate::Value;
use crate::expression::number::Fault;
use crate::expression::program::Program;
use crate::expression::{Binary, Expr, ExpressionError, Function};

/// Longer lists are refused.
pub(crate) const LONGEST: usize = 1 << 20;
/// More steps are refused: comprehensions within comprehensions multiply.
const MOST_STEPS: usize = 1 << 22;

/// The elements of the list that `text` makes.
///
/// # Errors
/// What does not parse, is not a list, is too long, or cannot be computed.
pub fn values(text: &str) -> Result<Vec<Value>, ExpressionError> {
    let expr = Expr::parse(text)?;
    Lists { scope: Vec::new(), steps: 0 }.list(&expr)
}

struct Lists {
    /// The running names of the comprehensions around, and their values.
    scope: Vec<(String, Value)>,
    steps: usize,
}

impl Lists {
    fn list(&mut self, expr: &Expr) -> Result<Vec<Value>, ExpressionError> {
        let list = match expr {
            Expr::List(items) => items.iter().map(|item| self.scalar(item)).collect::<Result<_, _>>()?,
            Expr::Binary(Binary::Add, left, right) => {
                let mut list = self.list(left)?;
                list.extend(self.list(right)?);
                list
            }
            Expr::Call(Function::List, operands) if operands.len() == 1 => self.list(&operands[0])?,
            Expr::Call(Function::Range, operands) => self.range(operands)?,
            Expr::Comprehension { item, name, over, condition } => {
                let mut list = Vec::new();
                for value in self.list(over)? {
                    self.scope.push((name.clone(), value));
                    let kept = match condition {
                        Some(condition) => self.truth(condition)?,
                        None => true,
                    };
                    if kept {
                        list.push(self.scalar(item)?);
                    }
                    self.scope.pop();
                }
                list
            }
            _ => return Err(ExpressionError::Shape("a list of values is wanted".to_owned())),
        };
        if list.len() > LONGEST {
            return Err(ExpressionError::Shape(format!("a list of more than {LONGEST} values")));
        }
        Ok(list)
    }

    fn range(&mut self, operands: &[Expr]) -> Result<Vec<Value>, ExpressionError> {
        let mut bounds = Vec::new();
        for operand in operands {
            match self.scalar(operand)? {
                Value::Int(bound) => bounds.push(bound),
                Value::Bool(bound) => bounds.push(i64::from(bound)),
                _ => return Err(ExpressionError::Fault(Fault::Type)),
            }
        }
        let (from, to, step) = match *bounds.as_slice() {
            [to] => (0, to, 1),
            [from, to] => (from, to, 1),
            [from, to, step] if step != 0 => (from, to, step),
            _ => return Err(ExpressionError::Shape("range takes one to three numbers, the last not 0".to_owned())),
        };
        let mut list = Vec::new();
        let mut at = from;
        while if step > 0 { at < to } else { at > to } {
            if list.len() == LONGEST {
                return Err(ExpressionError::Shape(format!("a range of more than {LONGEST} values")));
            }
            list.push(Value::Int(at));
            let Some(next) = at.checked_add(step) else { break };
            at = next;
        }
        Ok(list)
    }

    fn scalar(&mut self, expr: &Expr) -> Result<Value, ExpressionError> {
        self.steps += 1;
        if self.steps > MOST_STEPS {
            return Err(ExpressionError::Shape("a list that takes too long to make".to_owned()));
        }
        if let Expr::Literal(value) = expr {
            return Ok(value.clone());
        }
        Program::compile(expr, &[], &self.scope)?.evaluate(&[])
    }

    fn truth(&mut self, condition: &Expr) -> Result<bool, ExpressionError> {
        let yes = Expr::Choice(
            Box::new(condition.clone()),
            Box::new(Expr::Literal(Value::Bool(true))),
            Box::new(Expr::Literal(Value::Bool(false))),
        );
        Ok(self.scalar(&yes)? == Value::Bool(true))
    }
}

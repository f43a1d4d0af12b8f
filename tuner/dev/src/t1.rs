//! Reading a search space in Kernel Tuner's T1 form: JSON, with the values and the conditions as Python expressions.

use tuner::expression::{Expr, ExpressionError};
use tuner::{SpaceBuilder, Value};

#[derive(serde::Deserialize)]
struct Document {
    #[serde(rename = "ConfigurationSpace")]
    space: ConfigurationSpace,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ConfigurationSpace {
    tuning_parameters: Vec<TuningParameter>,
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TuningParameter {
    name: String,
    r#type: String,
    values: String,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Condition {
    expression: String,
}

/// Reads the space of a T1 file from its text. What it says about the kernel and its arguments is ignored.
///
/// # Errors
/// What is wrong, in words.
pub fn parse_t1(text: &str) -> Result<SpaceBuilder, String> {
    let document: Document = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut builder = SpaceBuilder::new();
    for parameter in document.space.tuning_parameters {
        let name = &parameter.name;
        let list = values(&parameter.values).map_err(|error| format!("values of {name:?}: {error}"))?;
        let typed = |value: Value| match (parameter.r#type.as_str(), value) {
            ("int", Value::Int(value)) => Ok(Value::Int(value)),
            ("uint", Value::Int(value)) if value >= 0 => Ok(Value::Int(value)),
            ("float", Value::Int(value)) => Ok(Value::Float(value as f64)),
            ("float", Value::Float(value)) => Ok(Value::Float(value)),
            ("bool", Value::Bool(value)) => Ok(Value::Bool(value)),
            ("bool", Value::Int(value @ 0..=1)) => Ok(Value::Bool(value == 1)),
            ("string", Value::Text(value)) => Ok(Value::Text(value)),
            (kind, value) => Err(format!("values of {name:?}: {value} is no {kind}")),
        };
        builder = builder.parameter(name, list.into_iter().map(typed).collect::<Result<Vec<_>, _>>()?);
    }
    Ok(document.space.conditions.iter().fold(builder, |builder, condition| builder.constraint(&condition.expression)))
}

/// Lists the values that Python makes of `text`: lists that are spelt out, ranges, and comprehensions over these, joined
/// by `+`.
fn values(text: &str) -> Result<Vec<Value>, String> {
    let mut all = Vec::new();
    for part in split(text, '+') {
        all.extend(list(part.trim())?);
    }
    Ok(all)
}

fn list(text: &str) -> Result<Vec<Value>, String> {
    let inside = |start: &str, end: &str| text.strip_prefix(start)?.strip_suffix(end);
    if let Some(inner) = inside("list(", ")") {
        return list(inner);
    }
    if let Some(bounds) = inside("range(", ")") {
        return range(bounds);
    }
    let inner = inside("[", "]").ok_or_else(|| format!("{text:?} is no list"))?;
    if let Some((item, rest)) = inner.split_once(" for ") {
        let (name, over) = rest.split_once(" in ").ok_or_else(|| format!("{text:?} is no list"))?;
        let named = |other: &str| (other == name.trim()).then_some(Expr::Slot(0));
        let item = Expr::parse(item, &named).map_err(|error| error.to_string())?;
        let values = list(over.trim())?.into_iter().map(|value| item.evaluate(&[value]));
        return values.collect::<Result<_, ExpressionError>>().map_err(|error| error.to_string());
    }
    split(inner, ',').into_iter().filter(|item| !item.trim().is_empty()).map(scalar).collect()
}

fn range(bounds: &str) -> Result<Vec<Value>, String> {
    let whole = |text: &str| match scalar(text)? {
        Value::Int(bound) => Ok(bound),
        other => Err(format!("{other} is no bound of a range")),
    };
    let bounds = split(bounds, ',').into_iter().map(whole).collect::<Result<Vec<i64>, String>>()?;
    let (from, to, step) = match bounds[..] {
        [to] => (0, to, 1),
        [from, to] => (from, to, 1),
        [from, to, step] if step > 0 => (from, to, step),
        _ => return Err("a range takes one to three numbers, the last above 0".to_owned()),
    };
    Ok((from..to).step_by(step as usize).map(Value::Int).collect())
}

fn scalar(text: &str) -> Result<Value, String> {
    let expr = Expr::parse(text, &|_| None).map_err(|error| error.to_string())?;
    expr.evaluate(&[]).map_err(|error| error.to_string())
}

/// Splits a text where no bracket is open.
fn split(text: &str, at: char) -> Vec<&str> {
    let (mut parts, mut depth, mut begin) = (Vec::new(), 0_i32, 0);
    for (place, character) in text.char_indices() {
        match character {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            _ if character == at && depth == 0 => {
                parts.push(&text[begin..place]);
                begin = place + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[begin..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_may_be_made_by_python() {
        let said =
            |text: &str| values(text).map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
        assert_eq!(said("[1, 2, 4]").as_deref(), Ok("1 2 4"));
        assert_eq!(said("[2**i for i in range(0, 4)]").as_deref(), Ok("1 2 4 8"));
        assert_eq!(said("[1] + list(range(32, 96+1, 32))").as_deref(), Ok("1 32 64 96"));
        for bad in ["3", "[j for i in [1]]", "range(1, 2, 0)", "[i for i in 3]"] {
            assert!(said(bad).is_err(), "{bad}");
        }
    }
}

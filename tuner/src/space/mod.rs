//! Search space: parameters, their values, and the sorted list of valid configurations.
//!
//! A configuration is one number, its *key*: the value indices of the parameters as the digits of a
//! mixed radix. The valid keys are sorted, so that a binary search translates between a
//! configuration's values and its *index* in the list, which strategies use. A configuration takes
//! 8 bytes.
//!
//! For example, with `block` in 32, 64, 128 and `unroll` in 1, 2, the configuration block = 64,
//! unroll = 2 has the digits 1 and 1, and the key 1 · 2 + 1 = 3. If a constraint forbids block = 32
//! with unroll = 2 (key 1), the valid keys are 0, 2, 3, 4, 5, and the configuration has index 2.

pub(crate) mod builder;
mod enumerate;
pub(crate) mod file;

use crate::{Config, Error, Value};

/// Place of a configuration in the list of valid ones: `0..space.len()`.
pub type ConfigIndex = usize;

/// Parameter with its values, in the order of the declaration.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    name: String,
    values: Vec<Value>,
}

impl Parameter {
    /// Makes a parameter that takes `values`. Without a value, the space is empty.
    ///
    /// # Errors
    /// If a value occurs twice, or is not finite.
    pub fn new(name: impl Into<String>, values: Vec<Value>) -> Result<Self, Error> {
        let name = name.into();
        let mut order: Vec<usize> = (0..values.len()).collect();
        for value in &values {
            if let Value::Float(number) = value
                && !number.is_finite()
            {
                let what =
                    format!("parameter {name:?} has the value {number}, which is not finite");
                return Err(Error::request(what));
            }
        }
        // All values are finite, so the order is total within a kind, and the derived order ranks
        // the kinds.
        order.sort_by(|&a, &b| {
            values[a]
                .partial_cmp(&values[b])
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        if let Some(pair) = order
            .windows(2)
            .find(|pair| values[pair[0]] == values[pair[1]])
        {
            let what = format!("parameter {name:?} has the value {} twice", values[pair[0]]);
            return Err(Error::request(what));
        }
        Ok(Self { name, values })
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the values.
    pub fn values(&self) -> &[Value] {
        &self.values
    }
}

/// List of valid configurations; see the module's text.
#[derive(Clone, Debug, Default)]
pub struct Space {
    parameters: Vec<Parameter>,
    /// Difference of the key for one step of a parameter's value index; 1 for the last parameter.
    strides: Vec<u64>,
    /// Valid keys, sorted, without duplicates.
    keys: Vec<u64>,
    report: SpaceReport,
}

/// Size of a space, and the effects of its constraints.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct SpaceReport {
    /// Number of combinations of all values.
    pub combinations: u64,
    /// Number of combinations that no constraint rejects.
    pub valid: u64,
    /// Effects of the constraints, in the order of the declaration.
    pub constraints: Vec<ConstraintReport>,
}

/// Effect of one constraint on a space.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct ConstraintReport {
    /// Name of the constraint; by default the text of its expression.
    pub name: String,
    /// Number of combinations that this constraint was the first to reject. All constraints
    /// together reject all that are not valid.
    pub first: u64,
    /// First reason why the constraint could not be evaluated (division by zero, overflow), which
    /// rejects a combination.
    pub not_evaluated: Option<String>,
}

impl SpaceReport {
    /// Writes a warning for each constraint that cannot be evaluated for some combinations.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        self.constraints.iter().filter_map(|constraint| {
            let (name, reason) = (&constraint.name, constraint.not_evaluated.as_ref()?);
            Some(format!("combinations for which constraint \"{name}\" cannot be evaluated are left out: {reason}"))
        })
    }
}

impl std::fmt::Display for SpaceReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "{} combinations, {} valid",
            self.combinations, self.valid
        )?;
        for constraint in &self.constraints {
            writeln!(
                f,
                "  {:>14} rejected first by  {}",
                constraint.first, constraint.name
            )?;
        }
        Ok(())
    }
}

/// Returns the strides of the keys, and the number of combinations.
pub(crate) fn strides(
    sizes: impl DoubleEndedIterator<Item = usize> + Clone,
) -> Result<(Vec<u64>, u64), Error> {
    if sizes.clone().any(|size| size == 0) {
        return Ok((sizes.map(|_| 0).collect(), 0));
    }
    let mut total = 1u64;
    let mut strides = Vec::new();
    for size in sizes.clone().rev() {
        strides.push(total);
        total = total
            .checked_mul(size as u64)
            .ok_or_else(|| Error::request("the parameters have more than 2^64 combinations"))?;
    }
    strides.reverse();
    Ok((strides, total))
}

impl Space {
    /// Makes a space of valid keys.
    pub(crate) fn from_keys(
        parameters: Vec<Parameter>,
        strides: Vec<u64>,
        mut keys: Vec<u64>,
        report: SpaceReport,
    ) -> Self {
        keys.sort_unstable();
        Self {
            parameters,
            strides,
            keys,
            report,
        }
    }

    /// Makes the space of recorded `rows`, and returns each row's index. Exactly the rows are
    /// valid; the values of a parameter are those that occur, numbers sorted, names in the order of
    /// their first occurrence.
    ///
    /// # Errors
    /// If a row has another length or occurs twice, a value is not finite, or there are too many
    /// combinations.
    pub fn recorded(
        names: &[String],
        rows: &[Vec<Value>],
    ) -> Result<(Self, Vec<ConfigIndex>), Error> {
        if let Some(row) = rows.iter().position(|row| row.len() != names.len()) {
            let (found, expected) = (rows[row].len(), names.len());
            let what = format!("row {row} has {found} values, the space {expected} parameters");
            return Err(Error::request(what));
        }
        unique(names.iter())?;
        let mut parameters = Vec::new();
        let mut codes = vec![0u32; rows.len() * names.len()];
        for (column, name) in names.iter().enumerate() {
            let mut code_of = std::collections::HashMap::new();
            let mut values = Vec::new();
            for row in rows {
                if code_of.insert(row[column].key(), 0u32).is_none() {
                    values.push(row[column].clone());
                }
            }
            if values.iter().all(|value| !matches!(value, Value::Text(_))) {
                values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
            }
            code_of.extend(values.iter().map(Value::key).zip(0..));
            for (row, values) in rows.iter().enumerate() {
                codes[row * names.len() + column] = code_of[&values[column].key()];
            }
            parameters.push(Parameter::new(name, values)?);
        }
        let (strides, combinations) =
            strides(parameters.iter().map(|parameter| parameter.values.len()))?;
        let mut keyed: Vec<(u64, usize)> = (0..rows.len())
            .map(|row| {
                let codes = &codes[row * names.len()..(row + 1) * names.len()];
                (
                    codes
                        .iter()
                        .zip(&strides)
                        .map(|(&code, &stride)| u64::from(code) * stride)
                        .sum(),
                    row,
                )
            })
            .collect();
        keyed.sort_unstable();
        if let Some(pair) = keyed.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let what = format!(
                "rows {} and {} hold the same configuration",
                pair[0].1, pair[1].1
            );
            return Err(Error::request(what));
        }
        let mut indices = vec![0; rows.len()];
        for (index, &(_, row)) in keyed.iter().enumerate() {
            indices[row] = index;
        }
        let keys: Vec<u64> = keyed.into_iter().map(|(key, _)| key).collect();
        let report = SpaceReport {
            combinations,
            valid: keys.len() as u64,
            constraints: Vec::new(),
        };
        Ok((Self::from_keys(parameters, strides, keys, report), indices))
    }

    /// Returns the configuration with these values by name.
    ///
    /// # Errors
    /// If a parameter has no value, a name is no parameter, or the configuration is not valid.
    pub fn config_of(
        &self,
        values: &std::collections::BTreeMap<String, Value>,
    ) -> Result<Config, Error> {
        let names = self.names();
        if let Some(name) = values.keys().find(|name| !names.contains(name)) {
            return Err(Error::request(format!("there is no parameter {name:?}")));
        }
        let missing = |name: &String| Error::request(format!("parameter {name:?} has no value"));
        let value = |name: &String| values.get(name).cloned().ok_or_else(|| missing(name));
        let config = Config(names.iter().map(value).collect::<Result<_, Error>>()?);
        match self.index_of(&config) {
            Some(_) => Ok(config),
            None => Err(Error::request(
                "these values do not make a valid configuration of the space",
            )),
        }
    }

    /// Returns a configuration with the names of its parameters.
    pub fn named(&self, config: &Config) -> Named {
        Named::of(&self.names(), config)
    }

    /// Returns the parameters, in the order of the declaration.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Returns the names of the parameters, in the order of a [`Config`]'s values.
    pub fn names(&self) -> Vec<String> {
        self.parameters
            .iter()
            .map(|parameter| parameter.name.clone())
            .collect()
    }

    /// Returns the number of valid configurations.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns true if no configuration is valid.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the size of the space, and the effects of its constraints.
    pub fn report(&self) -> &SpaceReport {
        &self.report
    }

    /// Returns the value index of parameter `parameter` in configuration `index`.
    pub fn code(&self, index: ConfigIndex, parameter: usize) -> usize {
        (self.keys[index] / self.strides[parameter]) as usize
            % self.parameters[parameter].values.len()
    }

    /// Returns the values of configuration `index`.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    pub fn config(&self, index: ConfigIndex) -> Config {
        Config(
            (0..self.parameters.len())
                .map(|p| self.parameters[p].values[self.code(index, p)].clone())
                .collect(),
        )
    }

    /// Returns the index of `config`; `None` if it is not valid here.
    pub fn index_of(&self, config: &Config) -> Option<ConfigIndex> {
        if config.0.len() != self.parameters.len() {
            return None;
        }
        let mut key = 0;
        for ((parameter, value), stride) in self.parameters.iter().zip(&config.0).zip(&self.strides)
        {
            key += parameter
                .values
                .iter()
                .position(|candidate| candidate == value)? as u64
                * stride;
        }
        self.keys.binary_search(&key).ok()
    }

    /// Returns the valid configurations that differ from `index` in one parameter (Hamming distance
    /// 1), in ascending order.
    pub fn neighbours(&self, index: ConfigIndex) -> Vec<ConfigIndex> {
        let mut found = Vec::new();
        for (parameter, &stride) in self.parameters.iter().zip(&self.strides) {
            let here = self.keys[index] / stride % parameter.values.len() as u64;
            let base = self.keys[index] - here * stride;
            for code in (0..parameter.values.len() as u64).filter(|&code| code != here) {
                found.extend(self.keys.binary_search(&(base + code * stride)));
            }
        }
        found.sort_unstable();
        found
    }
}

/// Checks that no name occurs twice.
pub(crate) fn unique<'a>(names: impl Iterator<Item = &'a String>) -> Result<(), Error> {
    let mut seen = std::collections::HashSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(Error::request(format!("{name:?} is declared twice")));
        }
    }
    Ok(())
}

/// Configuration with the names of its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Named(Vec<(String, Value)>);

impl Named {
    /// Names the values of a configuration.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a String>, config: &Config) -> Self {
        let names = names.into_iter().cloned();
        Self(names.zip(config.0.iter().cloned()).collect())
    }

    /// Returns the value of a parameter; `None` if there is no such parameter.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value)
    }

    /// Returns the whole number that a parameter has.
    ///
    /// # Panics
    /// If there is no such parameter, or its value is no whole number.
    pub fn int(&self, name: &str) -> i64 {
        match self.get(name) {
            Some(Value::Int(value)) => *value,
            other => panic!("parameter {name:?} is {other:?}, not a whole number"),
        }
    }
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let named: Vec<String> = self
            .0
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        f.write_str(&named.join(" "))
    }
}

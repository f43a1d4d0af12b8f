//! Settings of the environment: location of the user's store, and the match that its results must
//! have.

use std::path::PathBuf;

use etcetera::BaseStrategy;

use super::{Found, Store, StoreError, Task};

/// Returns the environment variable that names the store of a program: `MY_TOOL_TUNE_DB` for
/// `my-tool`.
pub fn variable(program: &str) -> String {
    named(program, "_TUNE_DB")
}

fn named(program: &str, setting: &str) -> String {
    let upper = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_uppercase()
        } else {
            '_'
        }
    };
    program.chars().map(upper).chain(setting.chars()).collect()
}

/// Match that a stored result must have with what was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Matching {
    /// Same device, platform and driver.
    #[default]
    Exact,
    /// Nearest result: another driver, else another platform, else another device. It is used
    /// without a measurement.
    Nearest,
    /// Nearest result that works here and is not slower than the default, by a measurement of both.
    NearestChecked,
}

impl Matching {
    /// Takes the matching that a program's variable asks for: `MY_TOOL_TUNE_MATCH=nearest` or
    /// `nearest-checked` for `my-tool`. Any other value means exact.
    pub fn choose(program: &str) -> Self {
        match std::env::var(named(program, "_TUNE_MATCH")).as_deref() {
            Ok("nearest") => Self::Nearest,
            Ok("nearest-checked") => Self::NearestChecked,
            _ => Self::Exact,
        }
    }
}

/// Location of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locations {
    /// The user's store, which need not exist.
    pub user: PathBuf,
}

impl Locations {
    /// Takes the file that the [`variable`] names, else `tune.sqlite` in the program's folder in
    /// the user's cache.
    ///
    /// # Errors
    /// If no file is named, and the user has no home folder.
    pub fn choose(program: &str) -> Result<Self, StoreError> {
        let variable = variable(program);
        let named = std::env::var_os(&variable).filter(|text| !text.is_empty());
        let user = if let Some(user) = named {
            PathBuf::from(user)
        } else {
            let folders = etcetera::choose_base_strategy().map_err(|error| {
                StoreError::Wrong(format!("the default store: {error}; set {variable}"))
            })?;
            folders.cache_dir().join(program).join("tune.sqlite")
        };
        Ok(Self { user })
    }

    /// Finds the decisions for `task`, the closest match first; none if there is no store yet.
    ///
    /// # Errors
    /// Same errors as [`Store::open_existing`] and [`Store::find`].
    pub fn find(&self, task: &Task<'_>) -> Result<Vec<Found>, StoreError> {
        match Store::open_existing(&self.user) {
            Ok(store) => store.find(task),
            Err(StoreError::Missing { .. }) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

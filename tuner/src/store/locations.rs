//! Location of the user's store.

use std::path::PathBuf;

use etcetera::BaseStrategy;

use super::{Found, Matching, Store, StoreError, Task};

/// Name of the program that a store belongs to. It names the folder and the environment variables: for `my-tool`
/// `MY_TOOL_TUNE_DB` (a file) and `MY_TOOL_TUNE_MATCH` (`exact` or `nearest`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Application<'a>(pub &'a str);

impl Application<'_> {
    /// Returns the name of the environment variable for the user's store.
    pub fn db_variable(self) -> String {
        self.variable("TUNE_DB")
    }

    /// Returns the name of the environment variable for the matching.
    pub fn match_variable(self) -> String {
        self.variable("TUNE_MATCH")
    }

    fn variable(self, end: &str) -> String {
        let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        self.0.chars().map(upper).chain(['_']).chain(end.chars()).collect()
    }
}

/// Location of the store, and matching of its decisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locations {
    /// The user's store, which need not exist.
    pub user: PathBuf,
    /// Matching of decisions.
    pub matching: Matching,
}

impl Locations {
    /// Takes the values of the environment, else the defaults: `NAME/tune.sqlite` in the user's cache folder, matching
    /// `nearest`.
    ///
    /// # Errors
    /// If the variable for the matching has an unknown value, or the user has no home folder and no file is named.
    pub fn choose(application: Application<'_>) -> Result<Self, StoreError> {
        let bad = |what: &str, why: String| StoreError::BadSetting { what: what.to_owned(), why };
        let (db_variable, match_variable) = (application.db_variable(), application.match_variable());
        let named = std::env::var_os(&db_variable).filter(|text| !text.is_empty());
        let user = if let Some(user) = named {
            PathBuf::from(user)
        } else {
            let folders = etcetera::choose_base_strategy()
                .map_err(|error| bad("the default store", format!("{error}; set {db_variable}")))?;
            folders.cache_dir().join(application.0).join("tune.sqlite")
        };
        let matching = match std::env::var(&match_variable) {
            Ok(word) if !word.is_empty() => word.parse().map_err(|error| bad(&match_variable, error))?,
            _ => Matching::default(),
        };
        Ok(Self { user, matching })
    }

    /// Finds the decisions that match `task`, the best match first; none if there is no store yet.
    ///
    /// # Errors
    /// Same errors as [`Store::open_existing`] and [`Store::find`].
    pub fn find(&self, task: &Task<'_>) -> Result<Vec<Found>, StoreError> {
        match Store::open_existing(&self.user) {
            Ok(store) => store.find(task, self.matching),
            Err(StoreError::Missing { .. }) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variables_carry_the_name_of_the_program() {
        assert_eq!(Application("my-tool").db_variable(), "MY_TOOL_TUNE_DB");
        assert_eq!(Application("my-tool").match_variable(), "MY_TOOL_TUNE_MATCH");
    }
}

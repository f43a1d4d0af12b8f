//! Location of the user's store.

use std::path::PathBuf;

use etcetera::BaseStrategy;

use super::{Found, Store, StoreError, Task};

/// Returns the environment variable that names the store of a program: `MY_TOOL_TUNE_DB` for `my-tool`.
pub fn variable(program: &str) -> String {
    let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    program.chars().map(upper).chain("_TUNE_DB".chars()).collect()
}

/// Location of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locations {
    /// The user's store, which need not exist.
    pub user: PathBuf,
}

impl Locations {
    /// Takes the file that the [`variable`] names, else `tune.sqlite` in the program's folder in the user's cache.
    ///
    /// # Errors
    /// If no file is named, and the user has no home folder.
    pub fn choose(program: &str) -> Result<Self, StoreError> {
        let variable = variable(program);
        let named = std::env::var_os(&variable).filter(|text| !text.is_empty());
        let user = if let Some(user) = named {
            PathBuf::from(user)
        } else {
            let folders = etcetera::choose_base_strategy()
                .map_err(|error| StoreError::Wrong(format!("the default store: {error}; set {variable}")))?;
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

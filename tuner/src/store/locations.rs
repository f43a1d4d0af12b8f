//! Location of the user's store.

use std::path::PathBuf;

use etcetera::BaseStrategy;

use super::{Found, Store, StoreError, Task};

/// Name of the program that a store belongs to. It names the folder and the environment variable: for `my-tool`
/// `MY_TOOL_TUNE_DB` (a file).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Application<'a>(pub &'a str);

impl Application<'_> {
    /// Returns the name of the environment variable for the user's store.
    pub fn db_variable(self) -> String {
        let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        self.0.chars().map(upper).chain("_TUNE_DB".chars()).collect()
    }
}

/// Location of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locations {
    /// The user's store, which need not exist.
    pub user: PathBuf,
}

impl Locations {
    /// Takes the file that the environment names, else `NAME/tune.sqlite` in the user's cache folder.
    ///
    /// # Errors
    /// If no file is named, and the user has no home folder.
    pub fn choose(application: Application<'_>) -> Result<Self, StoreError> {
        let variable = application.db_variable();
        let named = std::env::var_os(&variable).filter(|text| !text.is_empty());
        let user = if let Some(user) = named {
            PathBuf::from(user)
        } else {
            let folders = etcetera::choose_base_strategy()
                .map_err(|error| StoreError::Wrong(format!("the default store: {error}; set {variable}")))?;
            folders.cache_dir().join(application.0).join("tune.sqlite")
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

//! The user's store above the ones that were shipped.

use std::path::PathBuf;

use etcetera::BaseStrategy;

use super::{Found, Matching, Store, StoreError, Task};

/// The program that a store belongs to. Its name is that of the folders, and of the environment variables that say where
/// the store is: for `my-tool` they are `MY_TOOL_TUNE_DB` (a file) and `MY_TOOL_TUNE_MATCH` (`exact` or `nearest`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Application<'a>(pub &'a str);

impl Application<'_> {
    /// Environment variable: the user's store.
    pub fn db_variable(self) -> String {
        self.variable("TUNE_DB")
    }

    /// Environment variable: `exact` or `nearest`.
    pub fn match_variable(self) -> String {
        self.variable("TUNE_MATCH")
    }

    fn variable(self, end: &str) -> String {
        let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        self.0.chars().map(upper).chain(['_']).chain(end.chars()).collect()
    }
}

/// Where the stores are, and how they are searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locations {
    /// The user's store: read and written. It need not be there yet.
    pub user: PathBuf,
    /// A store that came with the program: only read, and only where the user's has nothing as good.
    pub shipped: Option<PathBuf>,
    /// How alike results must be.
    pub matching: Matching,
}

impl Locations {
    /// What the options on the command line say, else the environment, else the default: `NAME/tune.sqlite` in the
    /// user's cache folder, matching `nearest`. The shipped store is `../share/NAME/tune.sqlite` as seen from the
    /// program's folder, if it is there.
    ///
    /// # Errors
    /// An unknown word in the variable for matching; a user without a home folder and no other file named.
    pub fn choose(
        application: Application<'_>,
        user: Option<PathBuf>,
        matching: Option<Matching>,
    ) -> Result<Self, StoreError> {
        let bad = |what: &str, why: String| StoreError::BadSetting { what: what.to_owned(), why };
        let (db_variable, match_variable) = (application.db_variable(), application.match_variable());
        let named = user.or_else(|| std::env::var_os(&db_variable).filter(|text| !text.is_empty()).map(PathBuf::from));
        let user = if let Some(user) = named {
            user
        } else {
            let folders = etcetera::choose_base_strategy()
                .map_err(|error| bad("the default store", format!("{error}; set {db_variable}")))?;
            folders.cache_dir().join(application.0).join("tune.sqlite")
        };
        let matching = match (matching, std::env::var(&match_variable)) {
            (Some(matching), _) => matching,
            (None, Ok(word)) if !word.is_empty() => word.parse().map_err(|error| bad(&match_variable, error))?,
            (None, _) => Matching::default(),
        };
        let shipped = std::env::current_exe().ok().and_then(|program| {
            let file = program.parent()?.parent()?.join("share").join(application.0).join("tune.sqlite");
            file.is_file().then_some(file)
        });
        Ok(Self { user, shipped, matching })
    }
}

/// The stores of some [`Locations`], open.
#[derive(Debug)]
pub struct Layers {
    locations: Locations,
    user: Option<Store>,
    shipped: Option<Store>,
}

impl Layers {
    /// Opens what is there, for reading. A user's store that is not there yet is not made.
    ///
    /// # Errors
    /// Those of [`Store::open`] and [`Store::open_read_only`].
    pub fn open(locations: Locations) -> Result<Self, StoreError> {
        let user = match Store::open_read_only(&locations.user) {
            Ok(store) => Some(store),
            Err(StoreError::Missing { .. }) => None,
            // Opening it for writing brings it to today's schema, and rolls back what a killed program left.
            Err(StoreError::Older { .. } | StoreError::CannotOpen { .. }) => Some(Store::open(&locations.user)?),
            Err(error) => return Err(error),
        };
        let shipped = locations.shipped.as_deref().map(Store::open_read_only).transpose()?;
        Ok(Self { locations, user, shipped })
    }

    /// Where they are.
    pub fn locations(&self) -> &Locations {
        &self.locations
    }

    /// The stores that are there, the user's first.
    pub(super) fn stores(&self) -> impl Iterator<Item = &Store> {
        self.user.iter().chain(&self.shipped)
    }

    /// All that answers in any layer, best first; of two that are equally near, the user's.
    ///
    /// # Errors
    /// Those of [`Store::find`].
    pub fn find(&self, task: &Task<'_>) -> Result<Vec<Found>, StoreError> {
        let mut found = Vec::new();
        for store in self.stores() {
            found.extend(store.find(task, self.locations.matching)?);
        }
        found.sort_by_key(Found::rank);
        Ok(found)
    }

    /// The user's store for writing; it is made if it is not there.
    ///
    /// # Errors
    /// Those of [`Store::open`].
    pub fn writable(&mut self) -> Result<&mut Store, StoreError> {
        let store = match self.user.take() {
            Some(store) if !store.is_read_only() => store,
            _ => Store::open(&self.locations.user)?,
        };
        Ok(self.user.insert(store))
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

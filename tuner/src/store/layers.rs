//! The user's store above the ones that were shipped.

use std::path::PathBuf;

use etcetera::BaseStrategy;

use super::{Found, Matching, Store, StoreError, Task};

/// Environment variable: the user's store.
pub const DB_VARIABLE: &str = "UT_DECODE_TUNE_DB";

/// Environment variable: `exact` or `nearest`.
pub const MATCH_VARIABLE: &str = "UT_DECODE_TUNE_MATCH";

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
    /// What the options on the command line say, else the environment, else the default: `ut-decode/tune.sqlite` in the
    /// user's cache folder, matching `nearest`. The shipped store is `../share/ut-decode/tune.sqlite` as seen from the
    /// program's folder, if it is there.
    ///
    /// # Errors
    /// A word in `UT_DECODE_TUNE_MATCH` that is none; a user without a home folder and no other file named.
    pub fn choose(user: Option<PathBuf>, matching: Option<Matching>) -> Result<Self, StoreError> {
        let bad = |what: &str, why: String| StoreError::BadKey { what: what.to_owned(), why };
        let named = user.or_else(|| std::env::var_os(DB_VARIABLE).filter(|text| !text.is_empty()).map(PathBuf::from));
        let user = if let Some(user) = named {
            user
        } else {
            let folders = etcetera::choose_base_strategy()
                .map_err(|error| bad("the default store", format!("{error}; set {DB_VARIABLE}")))?;
            folders.cache_dir().join("ut-decode").join("tune.sqlite")
        };
        let matching = match (matching, std::env::var(MATCH_VARIABLE)) {
            (Some(matching), _) => matching,
            (None, Ok(word)) if !word.is_empty() => word.parse().map_err(|error| bad(MATCH_VARIABLE, error))?,
            (None, _) => Matching::default(),
        };
        let shipped = std::env::current_exe().ok().and_then(|program| {
            let file = program.parent()?.parent()?.join("share/ut-decode/tune.sqlite");
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
            // Opening it for writing brings it to today's schema.
            Err(StoreError::Older { .. }) => Some(Store::open(&locations.user)?),
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

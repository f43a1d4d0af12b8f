//! Recorded spaces: files of other tuners, replayed as devices or kept in a store; scores of
//! searches on them; and devices that do not exist, for tests.

pub mod interchange;
pub mod replay;
pub mod replay_csv;
pub mod score;
pub mod synthetic;

//! Search for a good configuration: sessions with budgets, races, final rounds. [`tune`] drives
//! them.

mod bench;
pub mod budget;
mod ending;
pub mod racing;
pub mod session;
pub mod tune;

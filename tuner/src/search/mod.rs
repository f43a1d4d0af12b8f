//! The search for a good configuration: sessions with budgets, races between candidates, and how well they do.

mod bench;
pub mod budget;
mod ending;
pub mod racing;
pub mod rounds;
pub mod session;
pub mod tune;

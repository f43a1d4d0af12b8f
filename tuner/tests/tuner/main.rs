//! The tuner from outside: spaces, strategies, races, decisions, whole sessions, the store, the
//! forms of other programs.

mod budget;
mod chain;
mod cost;
mod cpu;
mod decide;
mod ending;
mod errors;
mod online;
mod prelude;
mod process;
mod programs;
mod promises;
mod racing;
mod session;
mod spaces;
mod statistics;
mod store;
mod strategies;
mod template;

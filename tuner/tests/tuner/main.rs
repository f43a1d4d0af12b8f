//! The tuner from outside: spaces, strategies, races, decisions, whole sessions, the store, the forms of other programs.

mod chain;
mod decide;
mod ending;
mod interchange;
mod memory;
mod online;
mod programs;
mod racing;
mod recordings;
mod repeats;
mod replay;
mod report;
mod search;
mod session;
mod spaces;
mod store;
mod strategies;
mod verdicts;

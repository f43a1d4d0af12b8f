//! Judgement of measurements: statistics, verdicts, and the decisions that rest on them.

pub mod chain;
pub mod compare;
pub mod cost;
pub mod drift;
pub mod statistics;
pub mod verdict;
pub mod workloads;

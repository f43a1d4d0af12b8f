//! Judgement of measurements: statistics, verdicts, and the decisions that rest on them.

pub mod compare;
pub mod drift;
pub mod runoff;
pub mod statistics;
pub mod verdict;

//! Scores the tuner's searches and races on recorded spaces, and gives its tests devices that do not exist.

pub mod races;
pub mod score;
pub mod synthetic;

//! Scores the tuner's searches on recorded spaces, and gives its tests devices that do not exist.

pub mod score;
pub mod synthetic;

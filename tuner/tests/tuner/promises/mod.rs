//! Capabilities that the tuner's sources describe, one test each, named for the sentence that it
//! covers.

mod chain;
mod first_use;
mod online;
mod search;

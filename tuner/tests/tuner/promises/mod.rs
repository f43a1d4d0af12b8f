//! Capabilities that the tuner's sources describe, one test each, named for the sentence that it
//! covers.

mod first_use;
mod online;
mod search;

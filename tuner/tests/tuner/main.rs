//! Search spaces, the strategies that walk them, and races between candidates.

mod racing;
mod spaces;
mod strategies;

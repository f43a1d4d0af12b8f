//! The kernels: their source in the executor, what the compiler made of it on an interpreter.

mod capacity;
mod executor;
mod planted_bugs;
mod primitives;
mod promises;
mod ptx;
mod ranked;
mod setup;
#[path = "../suite/mod.rs"]
mod suite;
mod variants;

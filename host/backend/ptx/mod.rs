//! The kernels as PTX, embedded, and what they use on each architecture.

pub mod ptxas;

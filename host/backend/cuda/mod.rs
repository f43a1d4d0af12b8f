//! NVIDIA GPUs, by the driver alone: `libcuda` is opened at run time, so that the program starts everywhere.

mod start;

pub use start::{Cuda, Driver, Gpu, StartError, choose};

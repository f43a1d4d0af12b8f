//! C interface of `ut-decoding`, version 1.
//!
//! cbindgen makes `include/ut_decoding.h` from these files, documentation included. Each struct
//! begins with its size, so that a struct of another version is refused. A caller's mistake is an
//! error with a message (`status`), and nothing unwinds into the caller.

mod batch;
mod cuda;
mod decoder;
mod hits;
mod memory;
mod status;
mod tables;
mod version;

pub use batch::*;
pub use cuda::*;
pub use decoder::*;
pub use hits::*;
pub use status::{
    UT_BAD_ARGUMENT, UT_BAD_TABLES, UT_CAPACITY, UT_DEVICE_FAILED, UT_INTERNAL, UT_NO_DEVICE,
    UT_NO_MEMORY, UT_OK, UT_WRONG_VERSION, UtStatus, ut_message,
};
pub use tables::*;
pub use version::*;

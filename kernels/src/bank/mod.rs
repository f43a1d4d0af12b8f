//! Raw banks: bounds-checked views over the bytes of a batch, in both layouts and both formats
//! (docs/format.md).
//!
//! [`layout`] finds a bank and makes sure that its payload is there; [`v4`] and [`v5`] say what the
//! payload holds. Nothing here trusts a number that it read.

pub mod headers;
pub mod layout;
pub mod v4;
pub mod v5;

pub use ut_format::bank::{UT, UT_ERROR, board_of, is_ut};

//! Raw banks in memory ([`EventBatch`]) and the files they come from.

mod batch;

pub use batch::{BatchView, EventBatch, EventMeta, Layout};

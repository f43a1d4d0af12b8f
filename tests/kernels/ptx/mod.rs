//! The committed PTX: its text, and the interpreter that runs it in `tests/cuda`.

mod machine;
mod text;

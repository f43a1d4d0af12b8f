//! The committed PTX: its text, and what it does on an interpreter.

mod allen;
mod counts;
mod decoder;
mod fused;
mod text;

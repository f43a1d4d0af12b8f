//! The tool, as a user meets it: each test starts `ut-decode` and looks at what it prints, writes and returns.

mod support;

mod ablation;
mod decode;
mod groups;
mod sweep;
mod tools;
mod tune;

//! The tool, as a user meets it: each test starts `ut-decode` and looks at what it prints, writes
//! and returns.

mod support;
#[path = "../suite/table.rs"]
mod table;

mod ablation;
mod columns;
mod compare;
mod conventions;
mod decode;
mod event_table;
mod faults;
#[cfg(unix)]
mod files;
mod folders;
#[cfg(unix)]
mod formats;
mod inspect;
#[cfg(unix)]
mod jobs;
mod loss;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(unix)]
mod outputs;
mod refusals;
mod report;
#[cfg(unix)]
mod resume;
mod select;
mod sums;
mod sweep;
mod tools;
mod tune;

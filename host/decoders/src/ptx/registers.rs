//! A limit of registers, written into the PTX when it is loaded: the driver's option
//! (`CU_JIT_MAX_REGISTERS`) applies to all entries of a module, also to those that only spill.
//!
//! The limit stands between the parameters and the body of an entry, where `.maxnreg` from the
//! source is taken out:
//!
//! ```text
//! .visible .entry cluster__v5_allen_ranked(
//!     …
//! )
//! .maxnreg 40        becomes .maxnreg 48 with cuda.registers=48
//! {
//! ```

use std::borrow::Cow;
use std::fmt::Write as _;

use super::{Kernel, Unit};

impl Kernel {
    /// Returns true if `cuda.registers` limits this kernel: all but the one for unusual events,
    /// which needs the most and has another limit.
    pub fn has_register_limit(self) -> bool {
        !matches!(self, Self::ClusterUnusual)
    }
}

impl Unit {
    /// Returns the text with at most `registers` registers per thread in every kernel that has a
    /// limit, in place of `cluster`'s own limit; 0: no limit.
    pub fn limited(&self, registers: u32) -> Cow<'static, str> {
        if registers == 0 {
            return self.text.into();
        }
        let mut text = String::with_capacity(self.text.len() + 256);
        let mut in_head = false;
        for line in self.text.split_inclusive('\n') {
            if let Some(entry) = line.strip_prefix(".visible .entry ") {
                let name = entry.split('(').next().unwrap_or_default();
                in_head =
                    Kernel::of_entry(name).is_none_or(|(kernel, _)| kernel.has_register_limit());
            }
            if in_head && line.starts_with('{') {
                let _ = writeln!(text, ".maxnreg {registers}");
                in_head = false;
            }
            if !(in_head && line.starts_with(".maxnreg")) {
                text.push_str(line);
            }
        }
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Directives of each entry between its parameters and its body.
    fn directives(text: &str) -> Vec<(Kernel, Vec<&str>)> {
        let heads = text
            .split(".visible .entry ")
            .skip(1)
            .map(|entry| entry.split('{').next().unwrap());
        heads
            .map(|head| {
                let (kernel, _) = Kernel::of_entry(head.split('(').next().unwrap()).unwrap();
                (
                    kernel,
                    head.lines()
                        .filter(|line| line.starts_with(".max"))
                        .collect(),
                )
            })
            .collect()
    }

    #[test]
    fn only_the_entries_with_a_register_limit_state_one() {
        for unit in Unit::all() {
            let limited = unit.limited(48);
            let (before, after) = (directives(unit.text), directives(&limited));
            assert_eq!(before.len(), after.len(), "{}", unit.name);
            for ((kernel, before), (_, after)) in before.into_iter().zip(after) {
                let expected = if kernel.has_register_limit() {
                    vec![".maxnreg 48"]
                } else {
                    before
                };
                assert_eq!(after, expected, "{kernel:?} of {}", unit.name);
            }
            let code = |text: &str| {
                text.lines()
                    .filter(|line| !line.starts_with(".max"))
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            };
            assert_eq!(code(&limited), code(unit.text), "{}", unit.name);
            assert_eq!(unit.limited(0), unit.text);
        }
    }
}

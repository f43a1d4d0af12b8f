//! Finds things in PTX that compile without a warning and make a bad kernel: a stack, calls, traps,
//! generic accesses, spills.

use std::collections::HashMap;
use std::fmt;

use super::Usage;

/// Something in a kernel that should not be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// Name of the entry point or function; empty outside of both.
    pub kernel: String,
    /// Description and remedy.
    pub what: &'static str,
    /// Line of PTX, or numbers that ptxas reports.
    pub text: String,
    /// File, line and column of the kernels' source, if the PTX has line tables.
    pub place: Option<String>,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kernel,
            what,
            text,
            place,
        } = self;
        if let Some(place) = place {
            write!(f, "{place}: ")?;
        }
        write!(f, "{what}: {text}")?;
        if kernel.is_empty() {
            Ok(())
        } else {
            write!(f, " (in {kernel})")
        }
    }
}

const CALL: &str = "a call: mark the function #[inline(always)]; no dyn, no recursion";
const STACK: &str =
    "a stack in local memory: an array that is indexed at run time, or a reference to a variable";
const TABLE: &str =
    "a table in global memory with generic accesses: pass it to the kernel as a view";
const SHARED: &str = "a shared array that SharedLayout did not lay out";
const GENERIC: &str = "a generic access: a pointer or reference where a view of Block should be";
const TRAP: &str = "a panic that the compiler could not rule out, which ends the process's GPU work: an index, a division, \
                    an overflow, unwrap";
const SPILL: &str = "registers that spill to local memory, or a stack";

/// Finds whatever a kernel must not contain, in its PTX and in the `usage` that ptxas reports,
/// which may be empty.
///
/// If the PTX has line tables (`-Cdebuginfo=line-tables-only`, as
/// [`Compiler::compile`](super::Compiler::compile) makes them), a finding has a place in the
/// source: the place of the instruction, or for a panic the place of the branch that leads to it.
pub fn check(ptx: &str, usage: &[Usage]) -> Vec<Flaw> {
    let places = SourcePlaces::of(ptx);
    let mut kernel = "";
    let mut findings: Vec<Flaw> = Vec::new();
    for (number, line) in ptx.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("//") || line.starts_with(".extern .shared") {
            continue;
        }
        if line == "}" {
            kernel = "";
        }
        let is_function = line.starts_with(".func") || line.contains(" .func ");
        if let Some((_, name)) = line
            .split_once(".entry ")
            .or_else(|| line.split_once(".func "))
        {
            let name = name.rsplit_once(") ").map_or(name, |(_, name)| name).trim();
            kernel = name.split(['(', ' ', ';']).next().unwrap_or_default();
        }
        if let Some(what) = if is_function { Some(CALL) } else { fault(line) } {
            let found = Flaw {
                kernel: kernel.to_owned(),
                what,
                text: line.to_owned(),
                place: places.at(number, what),
            };
            // One finding per place in the source is enough.
            let is_known = |other: &Flaw| {
                (&other.kernel, what, &other.place) == (&found.kernel, other.what, &found.place)
            };
            if !findings.iter().any(is_known) {
                findings.push(found);
            }
        }
    }
    for Usage {
        kernel,
        stack,
        spill_stores,
        spill_loads,
        ..
    } in usage
    {
        if stack + spill_stores + spill_loads > 0 {
            let text =
                format!("{stack} bytes of stack, {spill_stores} stored, {spill_loads} loaded back");
            findings.push(Flaw {
                kernel: kernel.clone(),
                what: SPILL,
                text,
                place: None,
            });
        }
    }
    findings
}

fn fault(line: &str) -> Option<&'static str> {
    // The instruction, without label or guard.
    let line = line.strip_prefix('{').unwrap_or(line).trim();
    let instruction = if line.starts_with('@') {
        line.split_once(' ').map_or("", |(_, rest)| rest.trim())
    } else {
        line
    };
    let name = instruction
        .split([' ', '\t', ';'])
        .next()
        .unwrap_or_default();
    let parts: Vec<_> = name.split('.').collect();
    if let Some(declared) = instruction.strip_prefix('.') {
        let is_array = instruction.contains('[') && !instruction.contains(".param");
        let words: Vec<_> = declared
            .split_whitespace()
            .map(|word| word.trim_start_matches('.'))
            .collect();
        let has = |space: &str| words.contains(&space);
        return match () {
            () if has("local") => Some(STACK),
            () if is_array && (has("global") || has("const")) => Some(TABLE),
            () if has("shared") => Some(SHARED),
            () => None,
        };
    }
    match parts[0] {
        "call" => Some(CALL),
        "trap" => Some(TRAP),
        "ld" | "st" | "atom" | "red" | "ldu" if parts.contains(&"local") => Some(STACK),
        "ld" | "st" | "atom" | "red" | "ldu"
            if !parts
                .iter()
                .any(|part| ["global", "shared", "param", "const"].contains(part)) =>
        {
            Some(GENERIC)
        }
        _ => None,
    }
}

struct SourcePlaces<'a> {
    /// By line of the PTX: file, line and column of the latest instruction from the kernels' own
    /// sources.
    own: Vec<Option<(&'a str, u32, u32)>>,
    files: HashMap<&'a str, &'a str>,
    /// Line of a block that only panics → line of the branch to it.
    decided: HashMap<usize, usize>,
}

impl<'a> SourcePlaces<'a> {
    fn of(ptx: &'a str) -> Self {
        let mut files = HashMap::new();
        for line in ptx.lines() {
            if let Some((number, name)) = line
                .trim()
                .strip_prefix(".file")
                .and_then(|rest| rest.trim().split_once(' '))
            {
                files.insert(number.trim(), name.trim().trim_matches('"'));
            }
        }
        let (mut own, mut decided) = (Vec::new(), HashMap::new());
        let mut branches: HashMap<&str, usize> = HashMap::new();
        let (mut latest, mut label) = (None, "");
        for (number, line) in ptx.lines().map(str::trim).enumerate() {
            if line == "}" {
                latest = None;
            } else if let Some(rest) = line.strip_prefix(".loc") {
                let mut words = rest.split([' ', '\t', ',']).filter(|word| !word.is_empty());
                let file = words.next().unwrap_or_default();
                let mut number = || {
                    words
                        .next()
                        .and_then(|word| word.parse::<u32>().ok())
                        .unwrap_or(0)
                };
                let (line, column) = (number(), number());
                // Paths of the kernels' crate are relative, and paths of other crates are not.
                if line > 0 && files.get(file).is_some_and(|name| name.starts_with("./")) {
                    latest = Some((file, line, column));
                }
            } else if let Some(name) = line.strip_suffix(':') {
                // Labels of line tables come between the label of a block and its instructions.
                label = if name.contains("__BB") { name } else { label };
            } else if let Some((_, target)) = line
                .split_once("bra ")
                .or_else(|| line.split_once("bra.uni "))
            {
                branches
                    .entry(target.trim().trim_end_matches(';'))
                    .or_insert(number);
            } else if line.starts_with("trap") {
                decided.insert(number, label);
            }
            own.push(latest);
        }
        let decided = decided
            .into_iter()
            .filter_map(|(number, label)| Some((number, *branches.get(label)?)))
            .collect();
        Self {
            own,
            files,
            decided,
        }
    }

    fn at(&self, number: usize, what: &str) -> Option<String> {
        let number = if what == TRAP {
            self.decided.get(&number).copied().unwrap_or(number)
        } else {
            number
        };
        let (file, line, column) = self.own[number]?;
        Some(format!(
            "{}:{line}:{column}",
            self.files[file].trim_start_matches("./")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::{CALL, GENERIC, SHARED, SPILL, STACK, TABLE, TRAP, check};
    use crate::ptx::Usage;

    const GOOD: &str = "\
.version 7.0
.extern .shared .align 16 .b8 block_shared[];
.visible .entry scan(
\t.param .align 8 .b8 scan_param_0[16]
)
{
\t.reg .pred \t%p<9>;
\t.loc\t1 12 7
\tsetp.gt.u32 \t%p2, %r16, 7;
\t.loc\t2 99 1
\t@%p2 bra \t$L__BB1_13;
\tld.global.nc.u32 %r16, [%rd7];
\tret;
$L__BB1_13:
$L__tmp22:
\t.loc\t2 268 9
}
\t.file\t1 \"./src/lib.rs\"
\t.file\t2 \"/core/panicking.rs\"
";

    #[test]
    fn each_fault_is_named_with_its_kernel_and_its_place() {
        assert_eq!(check(GOOD, &[]), []);
        let faults = [
            (
                "\tld.global.nc",
                "\tst.local.b32 \t[%rd2], 3;\n\tld.global.nc",
                STACK,
            ),
            (
                "\t.reg",
                "\t.local .align 4 .b8 \t__local_depot1[64];\n\t.reg",
                STACK,
            ),
            (
                "\tld.global.nc",
                "\tcall.uni (retval0), helper, (param0);\n\tld.global.nc",
                CALL,
            ),
            (
                "\tld.global.nc",
                "\t@%p1 ld.b32 \t%r1, [%rd1];\n\tld.global.nc",
                GENERIC,
            ),
            (
                "\tld.global.nc",
                "\tatom.add.u32 \t%r1, [%rd1], 1;\n\tld.global.nc",
                GENERIC,
            ),
            ("\t.loc\t2 268 9", "\t.loc\t2 268 9\n\ttrap; exit;", TRAP),
        ];
        for (from, to, what) in faults {
            let findings = check(&GOOD.replacen(from, to, 1), &[]);
            let [finding] = &findings[..] else {
                panic!("one finding: {findings:?}")
            };
            assert_eq!(
                (finding.kernel.as_str(), finding.what),
                ("scan", what),
                "{finding}"
            );
            let place = (!to.contains(".local .align")).then_some("src/lib.rs:12:7");
            assert_eq!(finding.place.as_deref(), place, "{finding}");
        }
        for (line, what) in [
            (".shared .align 16 .b8 tile[512];", SHARED),
            (".global .align 4 .b8 table[32] = {1};", TABLE),
            (".const .align 4 .b8 table[32] = {1};", TABLE),
            (".func  (.param .b32 func_retval0) helper(", CALL),
        ] {
            let findings = check(&GOOD.replacen(".version 7.0", line, 1), &[]);
            assert_eq!(
                findings
                    .iter()
                    .map(|finding| finding.what)
                    .collect::<Vec<_>>(),
                [what]
            );
        }
        let spills = Usage {
            kernel: "scan".to_owned(),
            spill_loads: 4,
            ..Usage::default()
        };
        let findings = check(GOOD, &[Usage::default(), spills]);
        assert_eq!((findings.len(), findings[0].what), (1, SPILL));
        assert!(
            findings[0].to_string().ends_with("4 loaded back (in scan)"),
            "{}",
            findings[0]
        );
    }
}

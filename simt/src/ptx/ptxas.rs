//! Finds NVIDIA's assembler, `ptxas`, runs it and reads its report on each kernel.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Architectures worth assembling for: 2080 Ti, T4; A100; A5000; L4, L40S, Ada workstation cards;
/// H100, H200; B200.
pub const ARCHS: [&str; 6] = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100"];

/// Resources of one kernel on one architecture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Name of the entry point in the PTX.
    pub kernel: String,
    /// Number of 32-bit registers per thread.
    pub registers: u32,
    /// Size of a thread's stack frame in local memory, in bytes.
    pub stack: u32,
    /// Number of bytes per thread stored to local memory because the registers ran out.
    pub spill_stores: u32,
    /// Number of bytes per thread loaded back from there.
    pub spill_loads: u32,
    /// Number of bytes per block of shared memory that is declared statically.
    pub shared: u32,
    /// Number of hardware barriers per block.
    pub barriers: u32,
}

impl Usage {
    /// Formats the usage as one line of `resources.json`.
    pub fn to_json(&self, unit: &str, arch: &str) -> String {
        let Self {
            kernel,
            registers,
            stack,
            spill_stores,
            spill_loads,
            shared,
            barriers,
        } = self;
        format!(
            "{{ \"unit\": \"{unit}\", \"kernel\": \"{kernel}\", \"arch\": \"{arch}\", \"registers\": {registers}, \
             \"stack\": {stack}, \"spill_stores\": {spill_stores}, \"spill_loads\": {spill_loads}, \
             \"shared\": {shared}, \"barriers\": {barriers} }}"
        )
    }
}

/// NVIDIA's assembler, as it is installed.
#[derive(Debug)]
pub struct Ptxas {
    program: PathBuf,
}

impl Ptxas {
    /// Takes the program in the environment variable `variable`; else looks in the folder
    /// `installed`, in the CUDA toolkit that the environment names, on the path, and in a toolkit's
    /// usual places.
    pub fn find(variable: &str, installed: &Path) -> Option<Self> {
        if let Some(program) = env::var_os(variable) {
            return Some(Self {
                program: program.into(),
            });
        }
        let mut folders = vec![installed.to_owned()];
        let toolkits = ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"];
        folders.extend(
            toolkits
                .into_iter()
                .filter_map(env::var_os)
                .map(|root| Path::new(&root).join("bin")),
        );
        folders.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
        folders.push("/usr/local/cuda/bin".into());
        let programs = folders.into_iter().map(|folder| folder.join("ptxas"));
        programs
            .into_iter()
            .find(|program| program.is_file())
            .map(|program| Self { program })
    }

    /// Returns the release, such as `V13.0.88`.
    pub fn version(&self) -> Result<String, String> {
        let text = self.run(&["--version"])?;
        let word = text
            .split_whitespace()
            .rev()
            .find(|w| w.starts_with('V') && w.contains('.'));
        word.map(str::to_owned)
            .ok_or_else(|| format!("{}: no version in {text:?}", self.program.display()))
    }

    /// Assembles one PTX text for one architecture and returns each kernel's usage, sorted by name.
    /// `work` is an existing folder for intermediate files.
    pub fn assemble(&self, ptx: &str, arch: &str, work: &Path) -> Result<Vec<Usage>, String> {
        // Each call has its own file name, since tests assemble in parallel.
        let stem = format!(
            "ptxas-{}-{:?}-{arch}",
            std::process::id(),
            std::thread::current().id()
        );
        let (input, output) = (
            work.join(format!("{stem}.ptx")),
            work.join(format!("{stem}.cubin")),
        );
        fs::write(&input, ptx).map_err(|e| format!("{}: {e}", input.display()))?;
        let arch = format!("-arch={arch}");
        let said = self.run(&[
            "-v",
            &arch,
            &input.to_string_lossy(),
            "-o",
            &output.to_string_lossy(),
        ]);
        for file in [&input, &output] {
            // A file that cannot be removed does no harm.
            let _ = fs::remove_file(file);
        }
        parse(&said?)
    }

    fn run(&self, arguments: &[&str]) -> Result<String, String> {
        let program = self.program.display();
        let output = Command::new(&self.program)
            .args(arguments)
            .output()
            .map_err(|e| format!("{program}: {e}"))?;
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        if output.status.success() {
            Ok(text)
        } else {
            Err(format!("{program}: {}\n{text}", output.status))
        }
    }
}

/// Reads the output of `ptxas -v`.
pub fn parse(text: &str) -> Result<Vec<Usage>, String> {
    let mut usages: Vec<Usage> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line
            .split_once("Compiling entry function '")
            .map(|(_, rest)| rest)
        {
            let kernel = rest.split('\'').next().unwrap_or_default().to_owned();
            usages.push(Usage {
                kernel,
                ..Usage::default()
            });
            continue;
        }
        let Some(usage) = usages.last_mut() else {
            continue;
        };
        let said = line.rsplit(" : ").next().unwrap_or(line).trim();
        if !(said.starts_with("Used ") || said.contains("bytes stack frame")) {
            continue;
        }
        for item in said.split(", ") {
            let number = item.split_whitespace().find_map(|word| word.parse().ok());
            let field = [
                ("registers", &mut usage.registers),
                ("stack frame", &mut usage.stack),
                ("spill stores", &mut usage.spill_stores),
                ("spill loads", &mut usage.spill_loads),
                ("smem", &mut usage.shared),
                ("barriers", &mut usage.barriers),
            ];
            if let Some((_, field)) = field.into_iter().find(|(name, _)| item.ends_with(name)) {
                *field =
                    number.ok_or_else(|| format!("ptxas says {line:?}, which has no number"))?;
            }
        }
    }
    usages.sort_by(|a, b| a.kernel.cmp(&b.kernel));
    match usages.iter().find(|usage| usage.registers == 0) {
        Some(usage) => Err(format!(
            "ptxas says nothing of the registers of {}",
            usage.kernel
        )),
        None => Ok(usages),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_KERNELS: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'scan' for 'sm_90'
ptxas info    : Function properties for scan
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 17 registers, used 1 barriers, 16 bytes cumulative stack size, 512 bytes smem
ptxas info    : Compile time = 4.589 ms
ptxas info    : Compiling entry function 'count' for 'sm_90'
ptxas info    : Function properties for count
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 0 barriers, 372 bytes cmem[0]
ptxas info    : Compile time = 5.0 ms
";

    #[test]
    fn the_usage_of_each_kernel_is_read_in_the_order_of_names() {
        let count = Usage {
            kernel: "count".into(),
            registers: 40,
            ..Usage::default()
        };
        let scan = Usage {
            kernel: "scan".into(),
            registers: 17,
            stack: 16,
            spill_stores: 8,
            spill_loads: 12,
            shared: 512,
            barriers: 1,
        };
        assert_eq!(parse(TWO_KERNELS).unwrap(), [count, scan]);
        assert_eq!(parse("ptxas info    : 0 bytes gmem\n").unwrap(), []);
    }

    #[test]
    fn missing_registers_and_malformed_numbers_are_errors() {
        let no_registers = TWO_KERNELS.replace("Used 40 registers, used", "Used");
        assert!(
            parse(&no_registers)
                .unwrap_err()
                .contains("registers of count")
        );
        assert!(
            parse(&TWO_KERNELS.replace("Used 17", "Used many"))
                .unwrap_err()
                .contains("no number")
        );
    }
}

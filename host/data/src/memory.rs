//! Limits of memory. Programs check them before a large allocation, since an allocation that fails
//! ends the program.

use std::fs;
use std::io::{self, Read};

/// Error if something would take more memory than there is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("{what} would take about {}, but only {} is available", in_words(*needed), in_words(*available))]
pub struct TooMuchMemory {
    /// Purpose of the memory.
    pub what: String,
    /// Estimated size in bytes.
    pub needed: u64,
    /// Memory that the system can give, in bytes.
    pub available: u64,
}

/// Checks that `needed` bytes are available, if the system knows. `what` begins the message.
///
/// ```
/// use ut_data::memory::check;
///
/// assert!(check("a buffer", 1 << 10).is_ok());
/// if let Err(error) = check("a buffer of an exabyte", 1 << 60) {
///     assert!(error.to_string().starts_with("a buffer of an exabyte"));
/// }
/// ```
pub fn check(what: impl Into<String>, needed: u64) -> Result<(), TooMuchMemory> {
    compare(what, needed, available())
}

/// Checks the limit on address space (`ulimit -v`). Untouched buffers and arenas count in full
/// against it.
pub fn check_address_space(what: impl Into<String>, needed: u64) -> Result<(), TooMuchMemory> {
    compare(what, needed, of_address_space())
}

fn compare(
    what: impl Into<String>,
    needed: u64,
    available: Option<u64>,
) -> Result<(), TooMuchMemory> {
    match available {
        Some(available) if needed > available => Err(TooMuchMemory {
            what: what.into(),
            needed,
            available,
        }),
        _ => Ok(()),
    }
}

/// Returns the number of bytes of address space that the allocator reserves for threads, beyond the
/// memory that they ask for.
pub const fn arenas(threads: usize) -> u64 {
    (threads as u64).saturating_mul(32 << 20)
}

/// Reads a text of at most `most` bytes. The limit is for devices and wrong files, which might
/// never end.
pub fn read_text(from: impl Read, most: u64) -> io::Result<String> {
    let mut text = String::new();
    from.take(most + 1).read_to_string(&mut text)?;
    if text.len() as u64 > most {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("larger than {} MiB", most >> 20),
        ));
    }
    Ok(text)
}

/// Returns the number of bytes that this process can still take: the smallest of the limits by
/// machine, control groups and address space. `None` if unknown.
pub fn available() -> Option<u64> {
    [of_machine(), of_control_groups(), of_address_space()]
        .into_iter()
        .flatten()
        .min()
}

fn in_words(bytes: u64) -> String {
    match bytes {
        0..1_000_000_000 => format!("{:.0} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// Returns the number of bytes that the kernel can free without swapping.
fn of_machine() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(1024 * line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?)
}

/// Returns what the control group (version 2) of this process and those above it leave.
fn of_control_groups() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mut group = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mut least = None;
    loop {
        let number = |file: &str| -> Option<u64> {
            fs::read_to_string(format!("/sys/fs/cgroup/{group}/{file}"))
                .ok()?
                .trim()
                .parse()
                .ok()
        };
        if let Some((most, taken)) = number("memory.max").zip(number("memory.current")) {
            let stat = fs::read_to_string(format!("/sys/fs/cgroup/{group}/memory.stat"))
                .unwrap_or_default();
            let left = most.saturating_sub(taken.saturating_sub(cached(&stat)));
            least = Some(least.map_or(left, |least: u64| least.min(left)));
        }
        if group.is_empty() {
            return least;
        }
        group = group.rsplit_once('/').map_or("", |(above, _)| above);
    }
}

/// Returns the number of bytes of page cache that the kernel frees when memory is short, from the
/// `memory.stat` of a control group. Its `file` includes shared memory and tmpfs, which cannot be
/// freed.
fn cached(stat: &str) -> u64 {
    let of = |name: &str| {
        let value = stat
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.and_then(|value| value.parse().ok()).unwrap_or(0_u64)
    };
    of("file").saturating_sub(of("shmem"))
}

/// Returns what the limit on the address space (`ulimit -v`) leaves.
fn of_address_space() -> Option<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid place for the two numbers that the call writes.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
    if result != 0 || limit.rlim_cur == libc::RLIM_INFINITY {
        return None;
    }
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmSize:"))?;
    let taken = 1024 * line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?;
    Some(limit.rlim_cur.saturating_sub(taken))
}

#[cfg(test)]
mod tests {
    use super::{cached, check};

    #[test]
    fn only_page_cache_of_files_on_disk_counts_as_available() {
        let stat = "anon 700\nfile 5000\nkernel 30\nshmem_thp 9\nfile_mapped 80\nshmem 1200\nfile_dirty 7\n";
        assert_eq!(cached(stat), 3800);
        assert_eq!(cached("anon 700\nfile 5000\n"), 5000);
        // Counted at different times, or not at all.
        assert_eq!(
            (
                cached("file 10\nshmem 12\n"),
                cached("file x\n"),
                cached("")
            ),
            (0, 0, 0)
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn available_memory_is_known_on_linux() {
        assert!(check("everything", u64::MAX).is_err());
    }
}

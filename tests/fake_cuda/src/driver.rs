//! State of the driver, and the queue of operations that it works through.

use std::collections::{BTreeMap, HashMap};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use chacha20::ChaCha8Rng;
use cudarc::driver::sys::CUresult;
use rand::{RngExt as _, SeedableRng as _};

use crate::host::{self, Pinned};
use crate::settings::{Break, Settings};
use crate::stream::{Event, Op, Rows, Source, Stream};
use ptx_machine::{Counts as Counted, Launch, Memory, Program};

/// Result of a call.
pub type Done<T = ()> = Result<T, CUresult>;

/// Name of every device of this driver.
pub const NAME: &str = "fake GPU (there is no GPU: PTX interpreted on the CPU)";

/// Loaded module.
pub struct Module {
    pub device: usize,
    pub program: Arc<Program>,
    /// Maximum number of registers per thread, for each entry that has such a limit.
    pub registers: HashMap<String, i32>,
    pub live: bool,
}

/// Kernel of a module.
pub struct Function {
    pub module: usize,
    pub entry: String,
    /// Maximum size of a block's dynamic shared memory in bytes.
    pub max_shared: u32,
}

/// Number of calls by kind.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    pub allocations: u32,
    pub pinned: u32,
    pub waits: u32,
    pub launches: u32,
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            allocations,
            pinned,
            waits,
            launches,
        } = self;
        write!(
            f,
            "{allocations} allocations, {pinned} pinned, {waits} waits, {launches} launches"
        )
    }
}

/// Driver with all its objects.
pub struct Driver {
    pub settings: Settings,
    pub initialised: bool,
    /// Number of holders of each device's context, and the error after which it is unusable.
    pub contexts: Vec<(u32, Option<CUresult>)>,
    pub memory: Memory,
    /// Device and size in bytes of each allocation, by address.
    pub allocations: HashMap<u64, (usize, usize)>,
    pub pinned: Pinned,
    pub streams: BTreeMap<usize, Stream>,
    pub events: HashMap<usize, Event>,
    pub modules: HashMap<usize, Module>,
    pub functions: HashMap<usize, Function>,
    pub counts: Counts,
    /// Counts before the first kernel was launched.
    pub before: Option<Counts>,
    /// A wrong bit is due in the next hits that are copied to the host.
    is_spoilt: bool,
    next_handle: usize,
    /// Number of operations done, which takes the place of time.
    clock: u64,
    random: ChaCha8Rng,
}

/// The driver of this process, used by one thread at a time.
static DRIVER: Mutex<Option<Driver>> = Mutex::new(None);

/// Reports misuse on standard error.
pub fn complain(what: &str) {
    eprintln!("fake cuda: {what}");
}

/// Appends the counts of a launch to a file, and how often each instruction was issued so far.
fn append(
    file: &Path,
    entry: &str,
    blocks: &[Counted],
    issued: &[(&str, u64)],
) -> std::io::Result<()> {
    let mut text = Vec::new();
    writeln!(text, "kernel {entry}")?;
    for of in blocks {
        let Counted {
            issued,
            path,
            lanes,
            barriers,
            shared,
            conflicts,
            sectors,
        } = of;
        writeln!(
            text,
            "block {issued} {path} {lanes} {barriers} {shared} {conflicts} {sectors}"
        )?;
    }
    for (line, issued) in issued {
        writeln!(text, "{issued} {line}")?;
    }
    let mut file = OpenOptions::new().append(true).create(true).open(file)?;
    file.write_all(&text)
}

/// Runs the body of an API function. A panic in it becomes an error code: it must not unwind into
/// C.
pub fn call(name: &str, action: impl FnOnce(&mut Driver) -> Done) -> CUresult {
    let mut shared = DRIVER.lock().unwrap_or_else(PoisonError::into_inner);
    let driver = shared.get_or_insert_with(|| Driver::new(Settings::of_environment()));
    if driver.settings.refuse.as_deref() == Some(name) {
        return CUresult::CUDA_ERROR_NOT_SUPPORTED;
    }
    match catch_unwind(AssertUnwindSafe(|| action(driver))) {
        Ok(Ok(())) => CUresult::CUDA_SUCCESS,
        // These codes are ordinary answers, not misuse.
        Ok(Err(
            error @ (CUresult::CUDA_ERROR_NOT_READY
            | CUresult::CUDA_ERROR_NO_DEVICE
            | CUresult::CUDA_ERROR_OUT_OF_MEMORY),
        )) => error,
        Ok(Err(error)) => {
            complain(&format!("{name}: {error:?}"));
            error
        }
        Err(_) => {
            complain(&format!("{name}: the fake driver itself failed"));
            CUresult::CUDA_ERROR_UNKNOWN
        }
    }
}

impl Driver {
    fn new(settings: Settings) -> Self {
        Self {
            random: ChaCha8Rng::seed_from_u64(settings.seed),
            contexts: vec![(0, None); settings.devices.max(0) as usize],
            settings,
            initialised: false,
            memory: Memory::default(),
            allocations: HashMap::new(),
            pinned: Pinned::default(),
            streams: BTreeMap::new(),
            events: HashMap::new(),
            modules: HashMap::new(),
            functions: HashMap::new(),
            counts: Counts::default(),
            before: None,
            is_spoilt: false,
            next_handle: 0x5000_0000,
            clock: 0,
        }
    }

    /// Returns a number that no handle has yet.
    pub const fn handle(&mut self) -> usize {
        self.next_handle += 16;
        self.next_handle
    }

    /// Draws a number below `n`.
    fn draw(&mut self, n: usize) -> usize {
        self.random.random_range(0..n)
    }

    /// Returns the number of bytes that are allocated on a device.
    pub fn used(&self, device: usize) -> usize {
        self.allocations
            .values()
            .filter(|(of, _)| *of == device)
            .map(|(_, bytes)| bytes)
            .sum()
    }

    /// Checks that the device of a context still works.
    pub fn check(&self, device: usize) -> Done {
        match self.contexts.get(device) {
            Some((0, _)) | None => Err(CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED),
            Some((_, Some(error))) => Err(*error),
            Some((_, None)) => Ok(()),
        }
    }

    /// Breaks a device for good, as a fault of a kernel does.
    fn fault(&mut self, device: usize, what: &str, error: CUresult) -> CUresult {
        complain(&format!("device {device} failed: {what}"));
        self.contexts[device].1 = Some(error);
        error
    }

    /// With a seed, executes some operations now, although no one waits for them yet.
    pub fn run_ahead(&mut self) {
        if self.settings.seed == 0 {
            return;
        }
        for _ in 0..self.draw(4) {
            if let Some(stream) = self.pick() {
                // The next call that waits reports an error.
                let _ = self.step(stream);
            }
        }
    }

    fn can_go_on(&self, stream: &Stream) -> bool {
        self.contexts[stream.device].1.is_none() && !stream.queue.is_empty()
    }

    /// Draws a stream that can go on.
    fn pick(&mut self) -> Option<usize> {
        let able: Vec<usize> = self
            .streams
            .iter()
            .filter(|(_, s)| self.can_go_on(s))
            .map(|(&id, _)| id)
            .collect();
        if able.is_empty() {
            None
        } else {
            Some(able[self.draw(able.len())])
        }
    }

    /// Appends an operation to a stream.
    pub fn enqueue(&mut self, stream: usize, op: Op) -> Done {
        self.run_ahead();
        self.not_captured(stream, "is given work")?;
        let stream = self
            .streams
            .get_mut(&stream)
            .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
        stream.queue.push_back(op);
        Ok(())
    }

    /// Checks that a stream is not being captured.
    pub fn not_captured(&self, stream: usize, what: &str) -> Done {
        if self
            .streams
            .get(&stream)
            .is_some_and(|stream| stream.is_captured)
        {
            complain(&format!("a captured stream {what}"));
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
        Ok(())
    }

    /// Executes operations until `enough` returns true.
    pub fn run_until(&mut self, stream: Option<usize>, enough: impl Fn(&Self) -> bool) -> Done {
        while !enough(self) {
            let able = |id: &usize| {
                self.streams
                    .get(id)
                    .is_some_and(|stream| self.can_go_on(stream))
            };
            // Without a seed, only the operations that must be done are.
            let preferred = stream.filter(able).filter(|_| self.settings.seed == 0);
            let Some(next) = preferred.or_else(|| self.pick()) else {
                complain("deadlock: no stream has work that is left to wait for");
                return Err(CUresult::CUDA_ERROR_LAUNCH_TIMEOUT);
            };
            self.step(next)?;
        }
        Ok(())
    }

    /// Waits for a stream.
    pub fn finish(&mut self, stream: usize) -> Done {
        let device = self
            .streams
            .get(&stream)
            .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?
            .device;
        self.check(device)?;
        let is_done = |driver: &Self| {
            driver.contexts[device].1.is_some()
                || driver
                    .streams
                    .get(&stream)
                    .is_none_or(|s| s.queue.is_empty())
        };
        self.run_until(Some(stream), is_done)?;
        self.check(device)
    }

    /// Executes the next operation of a stream.
    fn step(&mut self, stream: usize) -> Done {
        let stream = self
            .streams
            .get_mut(&stream)
            .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
        let (device, op) = (stream.device, stream.queue.pop_front());
        let Some(op) = op else { return Ok(()) };
        self.clock += 1;
        self.execute(device, op)
            .map_err(|what| self.fault(device, &what, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS))
    }

    fn execute(&mut self, device: usize, op: Op) -> Result<(), String> {
        match op {
            Op::CopyIn { from, to, rows } => {
                for row in 0..rows.n {
                    let bytes = match &from {
                        Source::Pinned(start) => {
                            let start = start + row * rows.host;
                            self.still_pinned(start, rows.width)?;
                            // SAFETY: pinned memory of this driver, which is never given to the
                            // system.
                            unsafe { host::read(start, rows.width) }
                        }
                        Source::Staged(bytes) => {
                            bytes[row * rows.host..row * rows.host + rows.width].to_vec()
                        }
                    };
                    let to = to + (row * rows.device) as u64;
                    self.memory
                        .store(to, &bytes)
                        .map_err(|e| format!("copy to {to:#x}: {e}"))?;
                }
            }
            Op::CopyOut { from, to, rows } => {
                for row in 0..rows.n {
                    let (from, to) = (from + (row * rows.device) as u64, to + row * rows.host);
                    self.still_pinned(to, rows.width)?;
                    let bytes = self.memory.fetch(from, rows.width);
                    let mut bytes = bytes
                        .map_err(|e| format!("copy from {from:#x}: {e}"))?
                        .to_vec();
                    // Only hits are copied in rows.
                    if rows.n > 1 && std::mem::take(&mut self.is_spoilt) {
                        bytes[0] ^= 1;
                    }
                    // SAFETY: pinned memory of this driver, which is never given to the system.
                    unsafe { host::write(to, &bytes) };
                }
            }
            Op::Fill { at, words, value } => {
                let bytes = value.to_le_bytes().repeat(words);
                self.memory
                    .store(at, &bytes)
                    .map_err(|e| format!("fill at {at:#x}: {e}"))?;
            }
            Op::Launch {
                program,
                entry,
                launch,
                arguments,
            } => {
                match self.settings.broken(&entry) {
                    Some(Break::Hang) => loop {
                        std::thread::sleep(std::time::Duration::from_secs(1));
                    },
                    Some(Break::Fault) => return Err(format!("{entry} was to fail")),
                    Some(Break::Wrong) => self.is_spoilt = true,
                    Some(Break::Missing) | None => {}
                }
                let turn = if self.settings.seed == 0 {
                    0
                } else {
                    self.draw(64) as u32
                };
                let counts = self.settings.counts.as_ref();
                let launch = Launch {
                    turn,
                    counts: counts.is_some(),
                    ..launch
                };
                let memory = &mut self.memory;
                let blocks = catch_unwind(AssertUnwindSafe(|| {
                    program.launch(memory, &entry, launch, &arguments)
                }))
                .map_err(|_| format!("{entry} went wrong on device {device}, see above"))?;
                if let Some(file) = counts {
                    append(file, &entry, &blocks, &program.issued(&entry))
                        .map_err(|error| format!("counts to {}: {error}", file.display()))?;
                }
            }
            Op::Record { event, n } => {
                let clock = self.clock;
                if let Some(event) = self.events.get_mut(&event) {
                    event.reached = event.reached.max(n);
                    event.time = clock;
                }
            }
        }
        Ok(())
    }

    fn still_pinned(&self, start: usize, bytes: usize) -> Result<(), String> {
        match self.pinned.state(start, bytes) {
            Ok(Some(true)) => Ok(()),
            Ok(_) => {
                Err("a copy from or to pinned memory that was given back meanwhile".to_owned())
            }
            Err(what) => Err(format!("a copy {what}")),
        }
    }

    /// Returns true if the host's side of a copy is pinned.
    pub fn is_pinned(&self, start: usize, bytes: usize) -> Done<bool> {
        let is_pinned = match self.pinned.state(start, bytes) {
            Ok(Some(true)) => true,
            Ok(None) => false,
            Ok(Some(false)) => {
                complain("a copy from or to pinned memory that was given back");
                return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
            }
            Err(what) => {
                complain(&format!("a copy {what}"));
                return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
            }
        };
        if !is_pinned && self.settings.refuse_pageable {
            complain("an asynchronous copy from or to memory that is not pinned");
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        Ok(is_pinned)
    }

    /// Queues a copy to the device. The driver copies memory that is not pinned at once.
    ///
    /// # Safety
    /// - The rows can be read during the call.
    pub unsafe fn copy_in(&mut self, stream: usize, from: usize, to: u64, rows: Rows) -> Done {
        let from = if self.is_pinned(from, rows.host_extent())? {
            Source::Pinned(from)
        } else {
            // SAFETY: the rows can be read now (precondition), and this is their extent.
            Source::Staged(unsafe { host::read(from, rows.host_extent()) })
        };
        self.enqueue(stream, Op::CopyIn { from, to, rows })
    }

    /// Queues a copy from the device. If the memory is not pinned, the copy is complete when this
    /// returns, as with the real driver.
    ///
    /// # Safety
    /// - The rows can be written during the call.
    pub unsafe fn copy_out(&mut self, stream: usize, from: u64, to: usize, rows: Rows) -> Done {
        if self.is_pinned(to, rows.host_extent())? {
            return self.enqueue(stream, Op::CopyOut { from, to, rows });
        }
        self.finish(stream)?;
        for row in 0..rows.n {
            let bytes = self
                .memory
                .fetch(from + (row * rows.device) as u64, rows.width);
            let bytes = bytes.map_err(|what| {
                complain(&format!("copy from {from:#x}: {what}"));
                CUresult::CUDA_ERROR_INVALID_VALUE
            })?;
            // SAFETY: each of the rows can be written now (precondition).
            unsafe { host::write(to + row * rows.host, bytes) };
        }
        Ok(())
    }

    /// Returns the number of operations that are queued on a device.
    pub fn in_flight(&self, device: usize) -> usize {
        self.streams
            .values()
            .filter(|stream| stream.device == device)
            .map(|stream| stream.queue.len())
            .sum()
    }

    /// Makes a stream.
    pub fn new_stream(&mut self, device: usize) -> usize {
        let id = self.handle();
        self.streams.insert(id, Stream::of(device));
        id
    }
}

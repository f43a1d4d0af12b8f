//! Tests of the GPU decoder's buffers, arguments and launches, with the PTX machine in place of the
//! GPU.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use ptx_machine::{Counts, Launch, Memory, Program, copied};
use ut_decoding::decoder::cuda::{Argument, CudaConfig, Device, DeviceDecoder, Rows};
use ut_decoding::decoder::occupancy::{Architecture, Multiprocessors};
use ut_decoding::decoder::plan::Shape;
use ut_decoding::decoder::ptx::{Kernel, Unit};
use ut_decoding::{DecodeError, DecodeOptions, DetectorTables};

/// The machine as a device, as large as an H200. Whatever is put on a stream is done at once.
#[derive(Default)]
pub struct Machine {
    memory: Memory,
    identity: Arc<()>,
    programs: HashMap<&'static str, Program>,
    turn: u32,
    /// Costs of the kernels, if they are counted.
    issued: Option<Issued>,
}

/// Cost of each kernel, shared with the test that reads it.
pub type Issued = Arc<Mutex<BTreeMap<String, Launched>>>;

/// Costs of the blocks of a kernel, launch after launch.
#[derive(Default)]
pub struct Launched {
    pub blocks: Vec<Counts>,
    /// Each instruction of the kernel with the number of its issues.
    pub instructions: Vec<(String, u64)>,
}

pub struct Host(*mut u8, Layout);

// SAFETY: plain memory, which this owns alone.
unsafe impl Send for Host {}
// SAFETY: through a shared reference only the address can be read, and it never changes.
unsafe impl Sync for Host {}

impl Drop for Host {
    fn drop(&mut self) {
        // SAFETY: allocated by `allocate_host` with this layout.
        unsafe { dealloc(self.0, self.1) };
    }
}

// SAFETY:
// - `Memory::allocate` keeps allocations apart, at multiples of 256, for good; a `Host` is a
//   separate allocation.
// - Whatever is put on the stream is done when the call returns, so that nothing is in flight at
//   any time.
// - An address belongs to this machine if this machine's memory made it. The identity stored with
//   the address tells.
unsafe impl Device for Machine {
    type Memory = (u64, Arc<()>);
    type Host = Host;
    type Stream = ();

    fn begin(&mut self) -> Result<(), DecodeError> {
        Ok(())
    }

    fn multiprocessors(&self) -> Multiprocessors {
        Multiprocessors {
            number: 132,
            each: Architecture::named("sm_90").expect("it is known"),
        }
    }

    fn stream(&mut self) -> Result<(), DecodeError> {
        Ok(())
    }

    fn allocate(&mut self, bytes: usize) -> Result<(u64, Arc<()>), DecodeError> {
        Ok((self.memory.allocate(bytes), Arc::clone(&self.identity)))
    }

    fn allocate_host(&mut self, bytes: usize) -> Result<Host, DecodeError> {
        let layout = Layout::from_size_align(bytes, 256).expect("a size");
        // SAFETY: at least one byte, as the decoder promises.
        let start = unsafe { alloc(layout) };
        assert!(!start.is_null(), "no memory");
        // SAFETY: allocated just now, so large.
        unsafe { start.write_bytes(0xA5, bytes) };
        Ok(Host(start, layout))
    }

    fn address((address, _): &(u64, Arc<()>)) -> u64 {
        *address
    }

    fn owns(&self, (_, identity): &(u64, Arc<()>)) -> bool {
        Arc::ptr_eq(identity, &self.identity)
    }

    fn start(host: &Host) -> *mut u8 {
        host.0
    }

    unsafe fn write(
        &mut self,
        (): &(),
        to: u64,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), DecodeError> {
        // SAFETY: the decoder gives that many bytes.
        self.memory
            .store(to, unsafe { std::slice::from_raw_parts(from, bytes) })
            .expect("room for the bytes");
        Ok(())
    }

    unsafe fn zero(&mut self, (): &(), at: u64, words: usize) -> Result<(), DecodeError> {
        self.memory
            .store(at, &vec![0; 4 * words])
            .expect("room for the words");
        Ok(())
    }

    unsafe fn read(
        &mut self,
        (): &(),
        from: u64,
        to: *mut u8,
        rows: Rows,
    ) -> Result<(), DecodeError> {
        for row in 0..if rows.width == 0 { 0 } else { rows.n } {
            let bytes = self
                .memory
                .fetch(from + (row * rows.device) as u64, rows.width)
                .expect("as many bytes");
            // SAFETY: the decoder gives room for the rows.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.add(row * rows.host), rows.width);
            };
        }
        Ok(())
    }

    unsafe fn launch(
        &mut self,
        (): &(),
        unit: Unit,
        kernel: Kernel,
        variant: &str,
        shape: Shape,
        arguments: &[Argument<'_>],
    ) -> Result<(), DecodeError> {
        let Shape {
            grid,
            block,
            shared_bytes,
        } = shape;
        let program = self
            .programs
            .entry(unit.name)
            .or_insert_with(|| Program::new(unit.text));
        let launch = Launch {
            grid,
            block,
            shared_bytes,
            turn: self.turn,
            counts: self.issued.is_some(),
        };
        // SAFETY: an argument points to a value of its size that lives as long as it does.
        let bytes = |a: &Argument<'_>| unsafe { copied(a.pointer().cast(), a.size()) };
        let arguments: Vec<_> = arguments.iter().map(bytes).collect();
        let entry = kernel.entry(variant);
        let issued = program.launch(&mut self.memory, &entry, launch, &arguments);
        if let Some(all) = &self.issued {
            let mut all = all.lock().expect("no thread panicked");
            let of = all.entry(entry.clone()).or_default();
            of.blocks.extend(issued);
            let instructions = program.issued(&entry).into_iter();
            of.instructions = instructions
                .map(|(line, issued)| (line.to_owned(), issued))
                .collect();
        }
        Ok(())
    }

    fn synchronize(&mut self, (): &()) -> Result<(), DecodeError> {
        Ok(())
    }
}

/// Makes the GPU decoder on the machine, which runs blocks and lanes in an order turned by `turn`.
pub fn decoder(
    tables: &DetectorTables,
    options: DecodeOptions,
    config: CudaConfig,
    turn: u32,
) -> DeviceDecoder<Machine> {
    with(
        Machine {
            turn,
            ..Machine::default()
        },
        tables,
        options,
        config,
    )
}

/// Makes a decoder that counts its work; also returns the costs.
pub fn counting(
    tables: &DetectorTables,
    options: DecodeOptions,
    config: CudaConfig,
) -> (DeviceDecoder<Machine>, Issued) {
    let issued = Issued::default();
    let machine = Machine {
        issued: Some(issued.clone()),
        ..Machine::default()
    };
    (with(machine, tables, options, config), issued)
}

fn with(
    machine: Machine,
    tables: &DetectorTables,
    options: DecodeOptions,
    config: CudaConfig,
) -> DeviceDecoder<Machine> {
    DeviceDecoder::on("ptx", machine, tables, options, config).expect("the machine refuses nothing")
}

//! A GPU as a [`Device`], by the CUDA driver.

use std::ffi::c_void;
use std::sync::Arc;

use simt::WARP_SIZE;

use super::device::{Argument, Device, MAX_ARGUMENTS, Rows};
use super::driver::{self, ANY_CARVE_OUT, CallError, Context, CudaEvent, CudaHost, CudaMemory};
use super::driver::{CudaStream, Function, Handle};
use super::start::{Gpu, StartError, choose};
use crate::occupancy::{Architecture, Launch, Multiprocessors};
use crate::parameters::CarveOut;
use crate::plan::{self, Shape};
use crate::ptx::{Kernel, Unit};
use ut_data::DecodeError;

/// A GPU.
pub struct CudaDevice {
    gpu: Gpu,
    /// Maximum number of registers that the driver's compiler may give a thread; 0: no limit.
    registers: u32,
    carve_out: CarveOut,
    multiprocessors: Multiprocessors,
    functions: Vec<Known>,
    timed: Option<Vec<(Kernel, CudaEvent, CudaEvent)>>,
    context: Arc<Context>,
}

struct Known {
    kernel: Kernel,
    variant: String,
    function: Function,
    /// Dynamic shared memory that it may have, bytes.
    shared_bytes: u32,
    carve_out: i32,
}

impl CudaDevice {
    /// Opens GPU `ordinal`; the driver may give a thread at most `registers` registers, 0 as many
    /// as it likes.
    pub fn new(ordinal: usize, registers: u32) -> Result<Self, DecodeError> {
        let gpu = choose(ordinal)?;
        Self::with(gpu, Context::primary(ordinal)?, registers)
    }

    pub(super) fn with(
        gpu: Gpu,
        context: Arc<Context>,
        registers: u32,
    ) -> Result<Self, DecodeError> {
        let (multiprocessors, carve_out) = (multiprocessors(gpu.ordinal)?, CarveOut::default());
        Ok(Self {
            gpu,
            registers,
            carve_out,
            multiprocessors,
            functions: Vec::new(),
            timed: None,
            context,
        })
    }

    /// Sets how a multiprocessor's memory is divided, before a decoder has the device.
    #[must_use]
    pub const fn with_carve_out(mut self, carve_out: CarveOut) -> Self {
        self.carve_out = carve_out;
        self
    }

    pub(super) const fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Returns the GPU.
    pub const fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Begins or ends timing each kernel, which costs a little itself. Kernels of several streams
    /// slow each other down: time them with one batch in flight.
    pub fn time_kernels(&mut self, on: bool) {
        self.timed = on.then(Vec::new);
    }

    /// Milliseconds of each kernel since the last call, in the order of launch. Waits for those in
    /// flight.
    pub fn take_times(&mut self) -> Result<Vec<(Kernel, f32)>, DecodeError> {
        let Some(timed) = &mut self.timed else {
            return Ok(Vec::new());
        };
        let times = timed
            .drain(..)
            .map(|(kernel, start, end)| Ok((kernel, start.elapsed_ms(&end)?)));
        Ok(times.collect::<Result<_, CallError>>()?)
    }

    /// Compiles the unit of a kernel, unless that is done.
    pub(super) fn compile(&self, unit: Unit, kernel: Kernel) -> Result<(), DecodeError> {
        self.context
            .function(unit, self.registers, &kernel.entry(unit.name), 0)?;
        Ok(())
    }

    /// Finds the entry for these arguments in blocks of this shape, and checks both.
    fn function(
        &mut self,
        unit: Unit,
        kernel: Kernel,
        variant: &str,
        shape: Shape,
        arguments: &[Argument<'_>],
    ) -> Result<Handle, DecodeError> {
        // (A launch allocates nothing: there are few functions of few variants.)
        let is_it = |known: &Known| known.kernel == kernel && known.variant == variant;
        let found = self
            .functions
            .iter()
            .position(|known| is_it(known) && known.shared_bytes >= shape.shared_bytes);
        let place = if let Some(place) = found {
            place
        } else {
            let function = self.context.function(
                unit,
                self.registers,
                &kernel.entry(variant),
                shape.shared_bytes,
            )?;
            let carve_out = self.carve_out(kernel, &function, shape);
            self.functions.retain(|known| !is_it(known));
            let (variant, shared_bytes) = (variant.to_owned(), shape.shared_bytes);
            self.functions.push(Known {
                kernel,
                variant,
                function,
                shared_bytes,
                carve_out,
            });
            self.functions.len() - 1
        };
        let Known {
            function,
            carve_out,
            ..
        } = &self.functions[place];
        function.prefer(*carve_out);
        let given = arguments.iter().map(Argument::size);
        if !given.clone().eq(function.parameters.iter().copied()) {
            let (taken, given, entry) = (
                &function.parameters,
                given.collect::<Vec<_>>(),
                kernel.entry(variant),
            );
            let message = format!("{entry} takes parameters of {taken:?} bytes, not of {given:?}");
            return Err(CallError::of_message(
                "find a kernel that goes with this program",
                message,
            )
            .into());
        }
        let threads = shape.block.0.saturating_mul(shape.block.1);
        if threads > function.max_threads {
            let (Gpu { ordinal, name, .. }, most) = (&self.gpu, function.max_threads);
            return Err(StartError(format!(
                "GPU {ordinal}, {name}: {} cannot run in blocks of {threads} threads: compiled to {} registers a thread, it \
                 can have at most {most}. Set a smaller block (--set KERNEL.block_x=…), or limit the registers (--set \
                 cuda.registers=…)",
                kernel.name(),
                function.registers
            ))
            .into());
        }
        Ok(function.handle)
    }

    /// Carve-out to ask for: it matters only to kernels that keep enough in shared memory.
    fn carve_out(&self, kernel: Kernel, function: &Function, shape: Shape) -> i32 {
        if !matches!(kernel, Kernel::Cluster | Kernel::SortGroups) {
            return ANY_CARVE_OUT;
        }
        let launch = Launch {
            threads: shape.block.0 * shape.block.1,
            registers: function.registers,
            shared: function.static_shared + shape.shared_bytes,
        };
        match self.carve_out {
            CarveOut::Percent(percent) => i32::from(percent),
            CarveOut::Needed => self.multiprocessors.each.carve_out(launch) as i32,
            CarveOut::Unset => ANY_CARVE_OUT,
        }
    }
}

/// Asks for the multiprocessors of a GPU. What the driver does not tell is taken from the newest
/// architecture that is not newer.
fn multiprocessors(ordinal: usize) -> Result<Multiprocessors, CallError> {
    let found = driver::describe(ordinal)?;
    let (major, minor) = found.capability;
    let known = Architecture::newest_up_to(u32::try_from(10 * major + minor).unwrap_or(0));
    let Architecture {
        warps,
        blocks,
        shared,
        ..
    } = known.unwrap_or(Architecture::ALL[0]);
    let each = Architecture {
        name: "this GPU",
        warps: found.threads.map_or(warps, |threads| threads / WARP_SIZE),
        blocks: found.blocks.unwrap_or(blocks),
        shared: found.shared.unwrap_or(shared),
    };
    Ok(Multiprocessors {
        number: u32::try_from(found.multiprocessors).unwrap_or(1),
        each,
    })
}

/// Returns the number of events that GPU `ordinal` clusters at once: a block each.
pub fn events_at_once(ordinal: usize) -> Result<u32, StartError> {
    choose(ordinal)?;
    Ok(plan::events_at_once(multiprocessors(ordinal)?))
}

// SAFETY:
// - `cuMemAlloc` and `cuMemHostAlloc` give at least as many bytes as are asked for, aligned to 256,
//   apart from all others, until `Drop` of `CudaMemory` and `CudaHost` frees them. The host's
//   memory is zeroed first, and portable, so that every context's streams can copy from and to it.
// - `cuStreamSynchronize` succeeds when the stream is done, and not before.
// - `owns` compares contexts. Memory keeps its context, so that a handle is not given to another
//   context meanwhile.
unsafe impl Device for CudaDevice {
    type Memory = CudaMemory;
    type Host = CudaHost;
    type Stream = CudaStream;

    fn begin(&mut self) -> Result<(), DecodeError> {
        Ok(self.context.make_current()?)
    }

    fn multiprocessors(&self) -> Multiprocessors {
        self.multiprocessors
    }

    fn stream(&mut self) -> Result<CudaStream, DecodeError> {
        Ok(CudaStream::new(&self.context)?)
    }

    fn allocate(&mut self, bytes: usize) -> Result<CudaMemory, DecodeError> {
        CudaMemory::new(&self.context, bytes).map_err(|error| match self.context.free_bytes() {
            Ok(free) if error.out_of_memory => StartError(format!(
                "GPU {}, {}: buffers of {bytes} bytes do not fit, {free} bytes are free. Take smaller batches or fewer \
                 streams, or see with nvidia-smi who else uses it",
                self.gpu.ordinal, self.gpu.name
            ))
            .into(),
            _ => error.into(),
        })
    }

    fn allocate_host(&mut self, bytes: usize) -> Result<CudaHost, DecodeError> {
        Ok(CudaHost::new(&self.context, bytes)?)
    }

    fn address(memory: &CudaMemory) -> u64 {
        memory.address()
    }

    fn start(host: &CudaHost) -> *mut u8 {
        host.start()
    }

    fn owns(&self, memory: &CudaMemory) -> bool {
        memory.is_of(&self.context)
    }

    unsafe fn write(
        &mut self,
        stream: &CudaStream,
        to: u64,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), DecodeError> {
        // SAFETY: `Device::write` requires of the caller what `CudaStream::write` requires here.
        Ok(unsafe { stream.write(to, from, bytes) }?)
    }

    unsafe fn zero(
        &mut self,
        stream: &CudaStream,
        at: u64,
        words: usize,
    ) -> Result<(), DecodeError> {
        // SAFETY: `Device::zero` requires of the caller what `CudaStream::zero` requires here.
        Ok(unsafe { stream.zero(at, words) }?)
    }

    unsafe fn read(
        &mut self,
        stream: &CudaStream,
        from: u64,
        to: *mut u8,
        rows: Rows,
    ) -> Result<(), DecodeError> {
        if rows.n == 0 || rows.width == 0 {
            return Ok(());
        }
        // SAFETY: `Device::read` requires of the caller what `CudaStream::read` requires here.
        Ok(unsafe { stream.read(from, to, rows) }?)
    }

    unsafe fn launch(
        &mut self,
        stream: &CudaStream,
        unit: Unit,
        kernel: Kernel,
        variant: &str,
        shape: Shape,
        arguments: &[Argument<'_>],
    ) -> Result<(), DecodeError> {
        let function = self.function(unit, kernel, variant, shape, arguments)?;
        let start = self.timed.is_some().then(|| stream.record()).transpose()?;
        let mut pointers: [*mut c_void; MAX_ARGUMENTS] = [std::ptr::null_mut(); MAX_ARGUMENTS];
        for (pointer, argument) in pointers.iter_mut().zip(arguments) {
            *pointer = argument.pointer().cast_mut();
        }
        // SAFETY: `function` compared the arguments with the entry's parameters; the kernel's
        // demands on them hold until the stream has done this, by `Device::launch`'s preconditions.
        unsafe { stream.launch(function, shape, &mut pointers[..arguments.len()]) }.map_err(
            |error| {
                let message = format!("{} of {shape:?}: {}", kernel.name(), error.message);
                CallError { message, ..error }
            },
        )?;
        if let Some(start) = start {
            let end = stream.record()?;
            self.timed
                .get_or_insert_default()
                .push((kernel, start, end));
        }
        Ok(())
    }

    fn synchronize(&mut self, stream: &CudaStream) -> Result<(), DecodeError> {
        if !stream.is_of(&self.context) {
            let message = format!("the stream is not one of GPU {}", self.gpu.ordinal);
            return Err(CallError::of_message("use a stream", message).into());
        }
        Ok(stream.synchronize()?)
    }
}

//! A GPU, by the CUDA driver: its memory, its streams and the launches of its kernels.

use std::ffi::c_void;
use std::sync::Arc;

use simt::WARP_SIZE;

use super::device::{Argument, MAX_ARGUMENTS};
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
                "GPU {ordinal}, {name}: {} cannot run in blocks of {threads} threads: compiled to \
                 {} registers per thread, it can have at most {most}. Set a smaller block (--set \
                 KERNEL.block_x=…), or limit the registers (--set \
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

/// Asks for the multiprocessors of a GPU. Unknown facts are taken from the newest
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

/// Returns the number of events that GPU `ordinal` clusters at once: one block per event.
pub fn events_at_once(ordinal: usize) -> Result<u32, StartError> {
    choose(ordinal)?;
    Ok(plan::events_at_once(multiprocessors(ordinal)?))
}

impl CudaDevice {
    /// Makes the device's context current on the calling thread, as calls of a [`CudaStream`] need
    /// it.
    pub fn begin(&self) -> Result<(), DecodeError> {
        Ok(self.context.make_current()?)
    }

    /// Returns the device's multiprocessors.
    pub const fn multiprocessors(&self) -> Multiprocessors {
        self.multiprocessors
    }

    /// Creates a stream.
    pub fn stream(&self) -> Result<CudaStream, DecodeError> {
        Ok(CudaStream::new(&self.context)?)
    }

    /// Allocates device memory, uninitialised, aligned to 256 bytes; at least one byte.
    pub fn allocate(&self, bytes: usize) -> Result<CudaMemory, DecodeError> {
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

    /// Allocates pinned memory of the host, zeroed, aligned to 256 bytes; at least one byte. Every
    /// GPU's streams can copy from and to it.
    pub fn allocate_host(&self, bytes: usize) -> Result<CudaHost, DecodeError> {
        Ok(CudaHost::new(&self.context, bytes)?)
    }

    /// Returns true if this device can use the memory, which may be another GPU's.
    pub(super) fn owns(&self, memory: &CudaMemory) -> bool {
        // Memory keeps its context, so that a handle is not given to another context meanwhile.
        memory.is_of(&self.context)
    }

    /// Refuses a stream of another context.
    pub(super) fn check_stream(&self, stream: &CudaStream) -> Result<(), DecodeError> {
        if stream.is_of(&self.context) {
            return Ok(());
        }
        let message = format!("the stream is not one of GPU {}", self.gpu.ordinal);
        Err(CallError::of_message("use a stream", message).into())
    }

    /// Launches an entry of a unit.
    ///
    /// # Errors
    /// If the arguments have other sizes than the entry's parameters, the kernel cannot run in
    /// blocks of this shape, or the driver fails.
    ///
    /// # Safety
    /// - `stream` is this device's.
    /// - The arguments are those of the entry, of the same types; the views in them are of memory
    ///   that this device can use and that lives until the stream has done this.
    /// - The block has the shape and the shared memory that `ut_kernels` asks for with these
    ///   arguments.
    pub unsafe fn launch(
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
        // demands on them hold until the stream has done this, as the caller says.
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
}

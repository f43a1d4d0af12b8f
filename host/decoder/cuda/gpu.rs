//! A GPU as a [`Device`], by the CUDA driver.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys::{CUevent_flags, CUmemorytype, CUresult};
use cudarc::driver::{CudaContext, CudaEvent, CudaStream, DriverError, result, sys};

use super::device::{Argument, Device, Rows};
use super::graph::{Calls, GraphUse, Graphs, Next};
use super::modules::Modules;
use super::start::{Cuda, Gpu, StartError, choose, words};
use crate::decoder::DecodeError;
use crate::decoder::plan::Shape;
use crate::decoder::ptx::{Kernel, Unit};

/// Most bytes from row to row of a copy: CUDA's limit on every device there is.
const MAX_PITCH: usize = i32::MAX as usize;

/// A GPU.
pub struct CudaDevice {
    gpu: Gpu,
    // Fields are dropped in this order: the context last.
    timed: Option<Vec<(Kernel, CudaEvent, CudaEvent)>>,
    graphs: Option<Graphs>,
    modules: Modules,
    context: Arc<CudaContext>,
}

/// Memory of a GPU.
#[derive(Debug)]
pub struct CudaMemory {
    address: sys::CUdeviceptr,
    context: Arc<CudaContext>,
}

impl Drop for CudaMemory {
    fn drop(&mut self) {
        // Nobody is there to be told if this fails: the context is beyond use then.
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: allocated by `malloc_sync` in this context, and given back only here.
            let _ = unsafe { result::free_sync(self.address) };
        }
    }
}

/// Pinned memory of the host.
#[derive(Debug)]
pub struct CudaHost {
    start: *mut u8,
    context: Arc<CudaContext>,
}

// SAFETY: plain memory, which this owns alone; who writes there has it by `&mut`, or sees to it otherwise.
unsafe impl Send for CudaHost {}
// SAFETY: as above.
unsafe impl Sync for CudaHost {}

impl Drop for CudaHost {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: allocated by `malloc_host`, and given back only here.
            let _ = unsafe { result::free_host(self.start.cast()) };
        }
    }
}

/// The error of a driver call that was to `action`.
pub(super) fn to(action: &'static str) -> impl Fn(DriverError) -> DecodeError {
    move |error| StartError::Driver { action, message: words(error) }.into()
}

impl CudaDevice {
    /// GPU `ordinal`; the driver may give a thread at most `registers` registers, 0 as many as it likes.
    ///
    /// # Errors
    /// When the kernels cannot run on it; the message says why and what to do.
    pub fn new(ordinal: usize, registers: u32) -> Result<Self, DecodeError> {
        let gpu = choose(&Cuda, ordinal)?;
        let context = CudaContext::new(ordinal).map_err(to("open the GPU"))?;
        // SAFETY: the memory of this backend is not cudarc's, and everything is ordered by its own streams.
        unsafe { context.disable_event_tracking() };
        Ok(Self { gpu, timed: None, graphs: None, modules: Modules::new(Arc::clone(&context), registers), context })
    }

    /// Which GPU it is.
    pub const fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// The context, for asking the driver more.
    pub const fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// Has what is put on a stream again and again launched as a CUDA graph, or ends that. Batches of decoders that use this
    /// device must not be under way.
    pub fn use_graphs(&mut self, on: bool) {
        self.graphs = on.then(|| Graphs::new(Arc::clone(&self.context)));
    }

    /// How graphs were used so far, if they are.
    pub fn graph_use(&self) -> Option<&GraphUse> {
        self.graphs.as_ref().map(Graphs::used)
    }

    /// Where a call is to be noted, if it is not to be made.
    fn noted(&mut self) -> Option<&mut Calls> {
        self.graphs.as_mut().and_then(Graphs::noted)
    }

    /// Begins or ends timing each kernel, which costs a little itself. Kernels of several streams that run at the same
    /// time all take longer for it: time them with one batch under way.
    pub fn time_kernels(&mut self, on: bool) {
        self.timed = on.then(Vec::new);
    }

    /// Milliseconds of each kernel since the last time, in the order of launch. Waits for those that are under way.
    ///
    /// # Errors
    /// What the driver said.
    pub fn take_times(&mut self) -> Result<Vec<(Kernel, f32)>, DecodeError> {
        let Some(timed) = &mut self.timed else { return Ok(Vec::new()) };
        let times = timed.drain(..).map(|(kernel, start, end)| Ok((kernel, start.elapsed_ms(&end)?)));
        times.collect::<Result<_, DriverError>>().map_err(to("tell how long a kernel took"))
    }
}

impl Device for CudaDevice {
    type Memory = CudaMemory;
    type Host = CudaHost;
    type Stream = Arc<CudaStream>;
    type Event = CudaEvent;

    fn begin(&mut self) -> Result<(), DecodeError> {
        self.context.bind_to_thread().map_err(to("use the GPU"))
    }

    fn stream(&mut self) -> Result<Arc<CudaStream>, DecodeError> {
        self.context.new_stream().map_err(to("make a stream"))
    }

    fn allocate(&mut self, bytes: usize) -> Result<CudaMemory, DecodeError> {
        self.begin()?;
        let (free, _) = self.context.mem_get_info().map_err(to("tell how much memory is free"))?;
        self.gpu.check_memory(bytes, free)?;
        // SAFETY: what the memory holds is not looked at before something is written there.
        match unsafe { result::malloc_sync(bytes) } {
            Ok(address) => Ok(CudaMemory { address, context: Arc::clone(&self.context) }),
            Err(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => {
                Err(StartError::NoMemory { gpu: self.gpu.clone(), needed: bytes, free }.into())
            }
            Err(error) => Err(to("allocate memory")(error)),
        }
    }

    fn allocate_host(&mut self, bytes: usize) -> Result<CudaHost, DecodeError> {
        self.begin()?;
        // Portable: other decoders' streams may copy from it. Not write-combined, as the host reads it.
        // SAFETY: any flags may be given; the memory is made some bytes before anybody looks at it.
        let start = unsafe { result::malloc_host(bytes, sys::CU_MEMHOSTALLOC_PORTABLE) };
        let start: *mut u8 = start.map_err(to("allocate pinned memory"))?.cast();
        // SAFETY: allocated just now, so large.
        unsafe { start.write_bytes(0, bytes) };
        Ok(CudaHost { start, context: Arc::clone(&self.context) })
    }

    fn address(memory: &CudaMemory) -> u64 {
        memory.address
    }

    fn start(host: &CudaHost) -> *mut u8 {
        host.start
    }

    unsafe fn write(
        &mut self,
        stream: &Arc<CudaStream>,
        to_address: u64,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), DecodeError> {
        // SAFETY: the caller keeps both sides until the stream has done it.
        unsafe { sys::cuMemcpyHtoDAsync_v2(to_address, from.cast(), bytes, stream.cu_stream()) }
            .result()
            .map_err(to("copy to the GPU"))
    }

    unsafe fn zero(&mut self, stream: &Arc<CudaStream>, at: u64, words: usize) -> Result<(), DecodeError> {
        if let Some(calls) = self.noted() {
            calls.zero(at, words);
            return Ok(());
        }
        // SAFETY: the caller keeps the memory until the stream has done it.
        unsafe { sys::cuMemsetD32Async(at, 0, words, stream.cu_stream()) }.result().map_err(to("clear memory"))
    }

    unsafe fn read(
        &mut self,
        stream: &Arc<CudaStream>,
        from: u64,
        to_host: *mut u8,
        rows: Rows,
    ) -> Result<(), DecodeError> {
        if rows.bytes() == 0 {
            return Ok(());
        }
        if let Some(calls) = self.noted() {
            calls.read(from, to_host, rows);
            return Ok(());
        }
        let stream = stream.cu_stream();
        let pitched = rows.n > 1 && rows.device.max(rows.host) <= MAX_PITCH;
        let copied = if pitched {
            let copy = sys::CUDA_MEMCPY2D {
                srcXInBytes: 0,
                srcY: 0,
                srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
                srcHost: std::ptr::null(),
                srcDevice: from,
                srcArray: std::ptr::null_mut(),
                srcPitch: rows.device,
                dstXInBytes: 0,
                dstY: 0,
                dstMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
                dstHost: to_host.cast(),
                dstDevice: 0,
                dstArray: std::ptr::null_mut(),
                dstPitch: rows.host,
                WidthInBytes: rows.width,
                Height: rows.n,
            };
            // SAFETY: the caller keeps both sides until the stream has done it; the call copies the description.
            unsafe { sys::cuMemcpy2DAsync_v2(&raw const copy, stream) }.result()
        } else {
            (0..rows.n).try_for_each(|row| {
                let from = from + (row * rows.device) as u64;
                // SAFETY: as above.
                unsafe {
                    let to_host = to_host.add(row * rows.host).cast();
                    sys::cuMemcpyDtoHAsync_v2(to_host, from, rows.width, stream).result()
                }
            })
        };
        copied.map_err(to("copy from the GPU"))
    }

    unsafe fn launch(
        &mut self,
        stream: &Arc<CudaStream>,
        unit: Unit,
        kernel: Kernel,
        variant: &str,
        shape: Shape,
        arguments: &[Argument<'_>],
    ) -> Result<(), DecodeError> {
        let function = self.modules.function(unit, &kernel.entry(variant), arguments, shape.shared_bytes)?;
        if let Some(calls) = self.noted() {
            calls.launch(function, shape, arguments);
            return Ok(());
        }
        let start = self.timed.is_some().then(|| self.record(stream)).transpose()?;
        let mut pointers: Vec<*mut c_void> = arguments.iter().map(|argument| argument.pointer.cast_mut()).collect();
        let (grid, block) = ((shape.grid, 1, 1), (shape.block.0, shape.block.1, 1));
        // SAFETY:
        // - As many arguments as the entry takes, and as large: `Modules` checked that. The driver copies them before it
        //   returns.
        // - The rest is the caller's word.
        unsafe { result::launch_kernel(function, grid, block, shape.shared_bytes, stream.cu_stream(), &mut pointers) }
            .map_err(|error| -> DecodeError {
                let message = format!("{} of {shape:?}: {}", kernel.name(), words(error));
                StartError::Driver { action: "launch a kernel", message }.into()
            })?;
        if let Some(graphs) = &mut self.graphs {
            graphs.launched().map_err(to("tell a kernel's place in a graph"))?;
        }
        if let Some(start) = start {
            let end = self.record(stream)?;
            self.timed.get_or_insert_default().push((kernel, start, end));
        }
        Ok(())
    }

    fn submit_capturable(
        &mut self,
        stream: &Arc<CudaStream>,
        work: &dyn Fn(&mut Self) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        // Events between the kernels, by which they are timed, cannot be in a graph.
        let Some(graphs) = self.graphs.as_mut().filter(|graphs| graphs.are_made() && self.timed.is_none()) else {
            return work(self);
        };
        graphs.note();
        let noted = work(self);
        let Some(graphs) = &mut self.graphs else { return noted };
        graphs.note_no_more();
        noted?;
        // SAFETY: the calls are those of `work`, whose caller keeps what they need, as for the calls themselves.
        let next = unsafe { graphs.replay(stream.cu_stream()) }.map_err(to("launch a graph"))?;
        match next {
            Next::Nothing => return Ok(()),
            Next::Record if graphs.begin(stream.cu_stream()) => {
                let made = work(self);
                let Some(graphs) = &mut self.graphs else { return made };
                // SAFETY: as above.
                if unsafe { graphs.end(made) }.map_err(to("launch a graph"))? {
                    return Ok(());
                }
            }
            Next::Record | Next::Make => (),
        }
        work(self)
    }

    fn record(&mut self, stream: &Arc<CudaStream>) -> Result<CudaEvent, DecodeError> {
        stream.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT)).map_err(to("record an event"))
    }

    fn wait(&mut self, stream: &Arc<CudaStream>, event: &CudaEvent) -> Result<(), DecodeError> {
        stream.wait(event).map_err(to("let a stream wait"))
    }

    fn elapsed_ms(&mut self, start: &CudaEvent, end: &CudaEvent) -> Result<f32, DecodeError> {
        start.elapsed_ms(end).map_err(to("tell how long something took"))
    }

    fn synchronize(&mut self, stream: &Arc<CudaStream>) -> Result<(), DecodeError> {
        stream.synchronize().map_err(to("run the kernels"))
    }
}

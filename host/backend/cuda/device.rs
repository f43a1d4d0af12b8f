//! A GPU as a [`Device`]: one stream of the driver, modules loaded when first needed.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys::{CUevent_flags, CUfunction_attribute_enum, CUresult};
use cudarc::driver::{CudaContext, CudaEvent, CudaFunction, CudaModule, CudaStream, DriverError, result, sys};
use cudarc::nvrtc::Ptx;

use super::pipeline::{Argument, Device};
use super::start::{Cuda, Gpu, StartError, choose, words};
use crate::backend::DecodeError;
use crate::backend::plan::Shape;
use crate::backend::ptx::{Kernel, Unit};

/// Dynamic shared memory that a block may have without being asked for, bytes.
const SHARED_WITHOUT_ASKING: u32 = 48 << 10;

/// A GPU with a stream.
pub struct CudaDevice {
    gpu: Gpu,
    // Fields are dropped in this order: the context last.
    timed: Option<Vec<(Kernel, CudaEvent, CudaEvent)>>,
    functions: HashMap<String, CudaFunction>,
    modules: HashMap<&'static str, Arc<CudaModule>>,
    stream: Arc<CudaStream>,
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

/// The error of a driver call that was to `action`.
fn to(action: &'static str) -> impl Fn(DriverError) -> DecodeError {
    move |error| StartError::Driver { action, message: words(error) }.into()
}

impl CudaDevice {
    /// GPU `ordinal`.
    ///
    /// # Errors
    /// When the kernels cannot run on it; the message says why and what to do.
    pub fn new(ordinal: usize) -> Result<Self, DecodeError> {
        let gpu = choose(&Cuda, ordinal)?;
        let context = CudaContext::new(ordinal).map_err(to("open the GPU"))?;
        // SAFETY: the memory of this backend is not cudarc's, and everything is ordered by one stream.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream().map_err(to("make a stream"))?;
        Ok(Self { gpu, timed: None, functions: HashMap::new(), modules: HashMap::new(), stream, context })
    }

    /// Which GPU it is.
    pub const fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Begins or ends timing each kernel, which costs a little itself.
    pub fn time_kernels(&mut self, on: bool) {
        self.timed = on.then(Vec::new);
    }

    /// Milliseconds of each kernel since the last time, in the order of launch.
    ///
    /// # Errors
    /// What the driver said.
    pub fn take_times(&mut self) -> Result<Vec<(Kernel, f32)>, DecodeError> {
        self.synchronize()?;
        let Some(timed) = &mut self.timed else { return Ok(Vec::new()) };
        let times = timed.drain(..).map(|(kernel, start, end)| Ok((kernel, start.elapsed_ms(&end)?)));
        times.collect::<Result<_, DriverError>>().map_err(to("tell how long a kernel took"))
    }

    fn function(&mut self, unit: Unit, entry: &str, shared_bytes: u32) -> Result<&CudaFunction, DecodeError> {
        if !self.functions.contains_key(entry) {
            if !self.modules.contains_key(unit.name) {
                let module = self.context.load_module(Ptx::from_src(unit.text)).map_err(to("load the kernels"))?;
                self.modules.insert(unit.name, module);
            }
            let function = self.modules[unit.name].load_function(entry).map_err(to("find a kernel"))?;
            if shared_bytes > SHARED_WITHOUT_ASKING {
                let attribute = CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                function
                    .set_attribute(attribute, shared_bytes as i32)
                    .map_err(to("give a kernel its shared memory"))?;
            }
            self.functions.insert(entry.to_owned(), function);
        }
        Ok(&self.functions[entry])
    }

    fn event(&self) -> Result<CudaEvent, DecodeError> {
        self.stream.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT)).map_err(to("record an event"))
    }
}

impl Device for CudaDevice {
    type Memory = CudaMemory;

    fn begin(&mut self) -> Result<(), DecodeError> {
        self.context.bind_to_thread().map_err(to("use the GPU"))
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

    fn address(memory: &CudaMemory) -> u64 {
        memory.address
    }

    unsafe fn write(&mut self, to_memory: &CudaMemory, bytes: &[u8]) -> Result<(), DecodeError> {
        // SAFETY: the caller keeps `bytes` until it synchronises, and made the memory as large.
        unsafe { result::memcpy_htod_async(to_memory.address, bytes, self.stream.cu_stream()) }
            .map_err(to("copy to the GPU"))
    }

    unsafe fn read(&mut self, from: &CudaMemory, at: usize, bytes: &mut [u8]) -> Result<(), DecodeError> {
        // SAFETY: as for `write`.
        unsafe { result::memcpy_dtoh_async(bytes, from.address + at as u64, self.stream.cu_stream()) }
            .map_err(to("copy from the GPU"))
    }

    unsafe fn launch(
        &mut self,
        unit: Unit,
        kernel: Kernel,
        variant: &str,
        shape: Shape,
        arguments: &[Argument<'_>],
    ) -> Result<(), DecodeError> {
        let function = self.function(unit, &kernel.entry(variant), shape.shared_bytes)?.cu_function();
        let start = self.timed.is_some().then(|| self.event()).transpose()?;
        let mut pointers: Vec<*mut c_void> = arguments.iter().map(|argument| argument.pointer.cast_mut()).collect();
        let (grid, block) = ((shape.grid, 1, 1), (shape.block.0, shape.block.1, 1));
        let stream = self.stream.cu_stream();
        // SAFETY: the caller passes the entry's arguments; the driver copies them before it returns.
        unsafe { result::launch_kernel(function, grid, block, shape.shared_bytes, stream, &mut pointers) }
            .map_err(|error| {
                let message = format!("{} of {shape:?}: {}", kernel.name(), words(error));
                StartError::Driver { action: "launch a kernel", message }.into()
            })
            .and_then(|()| -> Result<(), DecodeError> {
                if let Some(start) = start {
                    let end = self.event()?;
                    self.timed.get_or_insert_default().push((kernel, start, end));
                }
                Ok(())
            })
    }

    fn synchronize(&mut self) -> Result<(), DecodeError> {
        self.stream.synchronize().map_err(to("run the kernels"))
    }
}

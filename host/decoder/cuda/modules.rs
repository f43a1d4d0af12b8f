//! The kernels as the driver compiles them: modules and their entries, each loaded when first needed.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::Arc;

use cudarc::driver::sys::{CUfunction_attribute_enum, CUjit_option};
use cudarc::driver::{CudaContext, DriverError, result, sys};

use super::device::Argument;
use super::start::{StartError, words};
use crate::decoder::ptx::Unit;

/// Dynamic shared memory that a block may have without being asked for, bytes.
const SHARED_WITHOUT_ASKING: u32 = 48 << 10;

/// Room for what the driver's compiler says, bytes.
const LOG_BYTES: usize = 4096;

/// Modules and functions of one context.
pub(super) struct Modules {
    loaded: HashMap<&'static str, sys::CUmodule>,
    functions: HashMap<String, Function>,
    /// Most registers of a thread that the driver may use; 0: as many as it likes.
    registers: u32,
    context: Arc<CudaContext>,
}

/// An entry.
struct Function {
    handle: sys::CUfunction,
    /// Dynamic shared memory that was asked for.
    shared_bytes: u32,
}

// SAFETY: handles of the driver, which may be used from every thread that has the context.
unsafe impl Send for Modules {}

impl Drop for Modules {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            for module in self.loaded.values() {
                // SAFETY: loaded by this and unloaded only here; streams have been finished before.
                let _ = unsafe { result::module::unload(*module) };
            }
        }
    }
}

impl Modules {
    pub(super) fn new(context: Arc<CudaContext>, registers: u32) -> Self {
        Self { loaded: HashMap::new(), functions: HashMap::new(), registers, context }
    }

    /// An entry that is to be launched with these arguments and shared memory.
    pub(super) fn function(
        &mut self,
        unit: Unit,
        entry: &str,
        arguments: &[Argument<'_>],
        shared_bytes: u32,
    ) -> Result<sys::CUfunction, StartError> {
        if !self.functions.contains_key(entry) {
            let handle = self.entry(unit, entry)?;
            check(handle, entry, arguments)?;
            self.functions.insert(entry.to_owned(), Function { handle, shared_bytes: SHARED_WITHOUT_ASKING });
        }
        let Some(function) = self.functions.get_mut(entry) else { unreachable!("inserted above") };
        if shared_bytes > function.shared_bytes {
            let attribute = CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: a function of a module that is loaded.
            unsafe { result::function::set_function_attribute(function.handle, attribute, shared_bytes as i32) }
                .map_err(to("give a kernel its shared memory"))?;
            function.shared_bytes = shared_bytes;
        }
        Ok(function.handle)
    }

    /// An entry.
    pub(super) fn entry(&mut self, unit: Unit, entry: &str) -> Result<sys::CUfunction, StartError> {
        let module = self.module(unit)?;
        let name = CString::new(entry).unwrap_or_default();
        // SAFETY: a module that is loaded.
        unsafe { result::module::get_function(module, name) }.map_err(to("find a kernel"))
    }

    fn module(&mut self, unit: Unit) -> Result<sys::CUmodule, StartError> {
        if let Some(&module) = self.loaded.get(unit.name) {
            return Ok(module);
        }
        let failure = |message| StartError::Driver { action: "load the kernels", message };
        let text = CString::new(unit.text).map_err(|error| failure(error.to_string()))?;
        let mut log = vec![0u8; LOG_BYTES];
        let mut options = vec![
            (CUjit_option::CU_JIT_ERROR_LOG_BUFFER, log.as_mut_ptr().cast::<c_void>()),
            (CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, log.len() as *mut c_void),
        ];
        if self.registers > 0 {
            options.push((CUjit_option::CU_JIT_MAX_REGISTERS, self.registers as usize as *mut c_void));
        }
        let (mut names, mut values): (Vec<_>, Vec<_>) = options.into_iter().unzip();
        let mut module = std::ptr::null_mut();
        // SAFETY:
        // - The text has its end, and outlives the call; so does the log, whose size is given.
        // - As many values as options, each of the kind that its option takes: numbers lie in the pointers themselves.
        unsafe {
            sys::cuModuleLoadDataEx(
                &raw mut module,
                text.as_ptr().cast(),
                names.len() as u32,
                names.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        }
        .result()
        .map_err(|error| {
            let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
            let log = String::from_utf8_lossy(&log[..end]);
            failure(format!("{}: {} {}", unit.name, words(error), log.trim()))
        })?;
        self.loaded.insert(unit.name, module);
        Ok(module)
    }
}

fn to(action: &'static str) -> impl Fn(DriverError) -> StartError {
    move |error| StartError::Driver { action, message: words(error) }
}

/// Holds the arguments against the parameters that the driver knows of an entry: were there fewer than it takes, it would
/// read beyond them.
fn check(handle: sys::CUfunction, entry: &str, arguments: &[Argument<'_>]) -> Result<(), StartError> {
    let parameter = |i: usize| {
        let (mut offset, mut size) = (0, 0);
        // SAFETY: a function of a module that is loaded; places of our own.
        let asked = unsafe { sys::cuFuncGetParamInfo(handle, i, &raw mut offset, &raw mut size) };
        asked.result().is_ok().then_some(size)
    };
    let taken: Vec<usize> = (0..).map_while(parameter).collect();
    let given: Vec<usize> = arguments.iter().map(|argument| argument.size).collect();
    if taken == given {
        return Ok(());
    }
    let message = format!("{entry} takes parameters of {taken:?} bytes, not of {given:?}");
    Err(StartError::Driver { action: "find a kernel that goes with this program", message })
}

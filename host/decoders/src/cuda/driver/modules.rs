//! Compiled kernels: modules and their entries, compiled once per context, when first needed.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use cudarc::driver::sys::{self, CUfunction_attribute_enum as Attribute, CUjit_option};

use super::error::{CallError, check};
use crate::ptx::Unit;

/// Maximum size in bytes of dynamic shared memory for which the driver need not be asked.
const SHARED_WITHOUT_ASKING: u32 = 48 << 10;

const LOG_BYTES: usize = 4096;

/// Key of a module: address and length of its text, which is static, and the limit of registers.
type Key = (*const u8, usize, u32);

#[derive(Debug, Default)]
pub struct Modules {
    loaded: HashMap<Key, sys::CUmodule>,
    entries: HashMap<(Key, String), CompiledEntry>,
}

// SAFETY: the driver's handles, which any thread may use; pointers to texts that are never
// followed.
unsafe impl Send for Modules {}

#[derive(Debug)]
struct CompiledEntry {
    function: Function,
    /// Requested bytes of dynamic shared memory.
    shared_bytes: u32,
}

/// An entry of a module, which lives as long as its context.
#[derive(Clone, Debug)]
pub struct Function {
    pub handle: Handle,
    /// Bytes of each parameter.
    pub parameters: Vec<usize>,
    /// Maximum number of threads in a block, as the driver compiled it for this GPU.
    pub max_threads: u32,
    pub registers: u32,
    /// Number of bytes of static shared memory per block.
    pub static_shared: u32,
    /// Carve-out last asked for; decoders of one GPU share the entry.
    carve_out: Arc<AtomicI32>,
}

/// Leaves the carve-out to the driver.
pub const ANY_CARVE_OUT: i32 = -1;

impl Function {
    /// Asks for a share of shared memory, in percent, in the memory that it divides with the L1
    /// cache; or for [`ANY_CARVE_OUT`]. The entry's context is the calling thread's.
    pub fn prefer(&self, carve_out: i32) {
        if self.carve_out.swap(carve_out, Ordering::Relaxed) != carve_out {
            let attribute = Attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
            // A hint: a driver that does not take it runs the kernel all the same. SAFETY: a
            // function of a module that is loaded, as modules are until their context ends.
            let _ = unsafe { sys::cuFuncSetAttribute(self.handle.0, attribute, carve_out) };
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Handle(pub(super) sys::CUfunction);

// SAFETY: the driver's handle, which any thread may use.
unsafe impl Send for Handle {}

impl Modules {
    /// Unloads all modules.
    ///
    /// # Safety
    /// - Their context is the calling thread's.
    /// - No kernel of theirs is in flight.
    pub(super) unsafe fn unload(self) {
        for module in self.loaded.into_values() {
            // There is no caller to report a failure to. SAFETY: loaded by `Modules::module` in
            // the current context, as the caller says; unloaded only here.
            let _ = unsafe { sys::cuModuleUnload(module) };
        }
    }

    /// Finds an entry of `unit`, compiled with at most `registers` registers per thread where it
    /// has a limit (0: the driver's choice), whose blocks may have `shared_bytes` of dynamic shared
    /// memory. The modules' context is the calling thread's.
    pub(super) fn function(
        &mut self,
        unit: Unit,
        registers: u32,
        entry: &str,
        shared_bytes: u32,
    ) -> Result<Function, CallError> {
        let entry = self.entry(unit, registers, entry)?;
        // Never lowered: another decoder may need it.
        if shared_bytes > entry.shared_bytes {
            let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let bytes = i32::try_from(shared_bytes).unwrap_or(i32::MAX);
            // SAFETY: a function of a module that is loaded, as modules are until their context
            // ends.
            let code =
                unsafe { sys::cuFuncSetAttribute(entry.function.handle.0, attribute, bytes) };
            check("give a kernel its shared memory", code)?;
            entry.shared_bytes = shared_bytes;
        }
        Ok(entry.function.clone())
    }

    fn module(&mut self, unit: Unit, registers: u32) -> Result<(Key, sys::CUmodule), CallError> {
        let key = (unit.text.as_ptr(), unit.text.len(), registers);
        if let Some(&module) = self.loaded.get(&key) {
            return Ok((key, module));
        }
        let module = compile(unit, registers)?;
        self.loaded.insert(key, module);
        Ok((key, module))
    }

    fn entry(
        &mut self,
        unit: Unit,
        registers: u32,
        entry: &str,
    ) -> Result<&mut CompiledEntry, CallError> {
        let (key, module) = self.module(unit, registers)?;
        let place = (key, entry.to_owned());
        if !self.entries.contains_key(&place) {
            let function = find(module, unit, entry)?;
            self.entries.insert(
                place.clone(),
                CompiledEntry {
                    function,
                    shared_bytes: SHARED_WITHOUT_ASKING,
                },
            );
        }
        let Some(entry) = self.entries.get_mut(&place) else {
            unreachable!("inserted above")
        };
        Ok(entry)
    }
}

/// Compiles a unit in the calling thread's context.
fn compile(unit: Unit, registers: u32) -> Result<sys::CUmodule, CallError> {
    let action = "load the kernels";
    let text = CString::new(unit.limited(registers).into_owned())
        .map_err(|error| CallError::of_message(action, error.to_string()))?;
    let mut log = vec![0u8; LOG_BYTES];
    let mut names = [
        CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
        CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    ];
    let mut values = [log.as_mut_ptr().cast::<c_void>(), LOG_BYTES as *mut c_void];
    let mut module = std::ptr::null_mut();
    // SAFETY:
    // - The text ends with a 0, and outlives the call; so does the log, whose size is given.
    // - There are as many values as options, each of the kind that its option takes: numbers lie in
    //   the pointers.
    let code = unsafe {
        sys::cuModuleLoadDataEx(
            &raw mut module,
            text.as_ptr().cast(),
            names.len() as u32,
            names.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    check(action, code).map_err(|error| {
        let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
        let log = String::from_utf8_lossy(&log[..end]);
        CallError {
            message: format!("{}: {} {}", unit.name, error.message, log.trim()),
            ..error
        }
    })?;
    Ok(module)
}

/// Finds an entry of a module that is loaded in the calling thread's context.
fn find(module: sys::CUmodule, unit: Unit, entry: &str) -> Result<Function, CallError> {
    let action = "find a kernel";
    let name =
        CString::new(entry).map_err(|error| CallError::of_message(action, error.to_string()))?;
    let mut handle = std::ptr::null_mut();
    // SAFETY: the module is loaded; the name ends with a 0 and outlives the call; the place is
    // ours.
    let code = unsafe { sys::cuModuleGetFunction(&raw mut handle, module, name.as_ptr()) };
    check(action, code).map_err(|error| CallError {
        message: format!("{entry}: {}", error.message),
        ..error
    })?;
    let attribute = |which| {
        let mut value = 0;
        // SAFETY: the function was found in a loaded module just now; the place is ours.
        check("describe a kernel", unsafe {
            sys::cuFuncGetAttribute(&raw mut value, which, handle)
        })?;
        Ok(u32::try_from(value).unwrap_or(0))
    };
    let parameter = |i: usize| {
        let (mut offset, mut size) = (0, 0);
        // SAFETY: the function was found in a loaded module just now; the places are ours.
        let code = unsafe { sys::cuFuncGetParamInfo(handle, i, &raw mut offset, &raw mut size) };
        check("describe a kernel", code).map(|()| size)
    };
    Ok(Function {
        handle: Handle(handle),
        parameters: (0..unit.parameters(entry))
            .map(parameter)
            .collect::<Result<_, _>>()?,
        max_threads: attribute(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        registers: attribute(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
        static_shared: attribute(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
        carve_out: Arc::new(AtomicI32::new(ANY_CARVE_OUT)),
    })
}

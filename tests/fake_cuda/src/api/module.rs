//! Modules, functions, launches.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::Arc;

use cudarc::driver::sys::{
    CUfunction, CUfunction_attribute, CUjit_option, CUmodule, CUresult, CUstream,
};

use super::{BAD_HANDLE, BAD_VALUE, MAX_SHARED, Out, current, give, same, stream_of};
use crate::driver::{Function, Module, call, complain};
use crate::settings::Break;
use crate::stream::Op;
use ptx_machine::{Launch, Program};

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadData(module: Out<'_, CUmodule>, image: *const c_void) -> CUresult {
    // SAFETY: CUDA has the same contract for `module` and `image` in both functions, and there are
    // no options.
    unsafe { cuModuleLoadDataEx(module, image, 0, std::ptr::null_mut(), std::ptr::null_mut()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadDataEx(
    module: Out<'_, CUmodule>,
    image: *const c_void,
    n_options: c_uint,
    options: *mut CUjit_option,
    _values: *mut *mut c_void,
) -> CUresult {
    call("cuModuleLoadDataEx", |driver| {
        let device = current(driver)?;
        // SAFETY: CUDA's contract: the text ends with a zero.
        let text = unsafe { CStr::from_ptr(image.cast()) };
        let text = text
            .to_str()
            .map_err(|_| CUresult::CUDA_ERROR_INVALID_IMAGE)?;
        // SAFETY: CUDA's contract: `options` has `n_options` elements.
        let mut given = (0..n_options as usize).map(|i| unsafe { *options.add(i) });
        if given.any(|option| option == CUjit_option::CU_JIT_MAX_REGISTERS)
            && text.contains("\n.maxntid")
        {
            complain("a limit of registers for a module with .maxntid, which overrides it");
            return Err(BAD_VALUE);
        }
        let mut registers = HashMap::new();
        for head in text
            .split(".visible .entry ")
            .skip(1)
            .filter_map(|entry| entry.split('{').next())
        {
            let limit = head.lines().find_map(|line| line.strip_prefix(".maxnreg "));
            if let (Some(limit), Some(name)) = (limit, head.split('(').next()) {
                complain(&format!(
                    "note: {name} has at most {limit} registers per thread"
                ));
                registers.insert(
                    name.to_owned(),
                    limit
                        .parse()
                        .map_err(|_| CUresult::CUDA_ERROR_INVALID_PTX)?,
                );
            }
        }
        if !text.contains(".visible .entry ") {
            return Err(CUresult::CUDA_ERROR_INVALID_PTX);
        }
        let program = std::panic::catch_unwind(|| Program::new(text))
            .map_err(|_| CUresult::CUDA_ERROR_INVALID_PTX)?;
        complain("note: a module is compiled");
        let id = driver.handle();
        driver.modules.insert(
            id,
            Module {
                device,
                program: Arc::new(program),
                registers,
                live: true,
            },
        );
        give(module, id as CUmodule)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleUnload(module: CUmodule) -> CUresult {
    call("cuModuleUnload", |driver| {
        current(driver)?;
        let module = driver
            .modules
            .get_mut(&(module as usize))
            .filter(|module| module.live)
            .ok_or(BAD_HANDLE)?;
        module.live = false;
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetFunction(
    function: Out<'_, CUfunction>,
    module: CUmodule,
    name: *const c_char,
) -> CUresult {
    call("cuModuleGetFunction", |driver| {
        let module = module as usize;
        let found = driver
            .modules
            .get(&module)
            .filter(|module| module.live)
            .ok_or(BAD_HANDLE)?;
        // SAFETY: CUDA's contract: the name ends with a zero.
        let name = unsafe { CStr::from_ptr(name) }
            .to_string_lossy()
            .into_owned();
        if found.program.parameters(&name).is_none()
            || driver.settings.broken(&name) == Some(Break::Missing)
        {
            return Err(CUresult::CUDA_ERROR_NOT_FOUND);
        }
        let id = driver.handle();
        driver.functions.insert(
            id,
            Function {
                module,
                entry: name,
                max_shared: 48 << 10,
            },
        );
        give(function, id as CUfunction)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuFuncGetAttribute(
    value: Out<'_, c_int>,
    attribute: CUfunction_attribute,
    function: CUfunction,
) -> CUresult {
    call("cuFuncGetAttribute", |driver| {
        let function = driver
            .functions
            .get(&(function as usize))
            .ok_or(BAD_HANDLE)?;
        let found = match attribute {
            CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK => {
                driver.settings.max_threads as c_int
            }
            CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES => {
                function.max_shared as c_int
            }
            CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS => {
                // Nothing is assembled, so that only a limit of registers is known.
                driver.modules[&function.module]
                    .registers
                    .get(&function.entry)
                    .copied()
                    .unwrap_or(0)
            }
            _ => 0,
        };
        give(value, found)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuFuncSetAttribute(
    function: CUfunction,
    attribute: CUfunction_attribute,
    value: c_int,
) -> CUresult {
    call("cuFuncSetAttribute", |driver| {
        let function = driver
            .functions
            .get_mut(&(function as usize))
            .ok_or(BAD_HANDLE)?;
        if attribute == CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES {
            let bytes = u32::try_from(value).ok().filter(|_| value <= MAX_SHARED);
            function.max_shared = bytes.ok_or(BAD_VALUE)?;
        } else if attribute
            == CUfunction_attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
        {
            complain(&format!(
                "note: {} prefers {value} % shared memory",
                function.entry
            ));
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuFuncGetParamInfo(
    function: CUfunction,
    index: usize,
    offset: Out<'_, usize>,
    size: Out<'_, usize>,
) -> CUresult {
    call("cuFuncGetParamInfo", |driver| {
        let function = driver
            .functions
            .get(&(function as usize))
            .ok_or(BAD_HANDLE)?;
        let program = &driver.modules[&function.module].program;
        let sizes = program.parameters(&function.entry).ok_or(BAD_HANDLE)?;
        let Some(&found) = sizes.get(index) else {
            return Err(BAD_VALUE);
        };
        let before = sizes[..index]
            .iter()
            .map(|size| size.next_multiple_of(8))
            .sum();
        give(offset, before).and_then(|()| give(size, found))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchKernel(
    function: CUfunction,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared_bytes: c_uint,
    stream: CUstream,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CUresult {
    call("cuLaunchKernel", |driver| {
        let (stream, device) = stream_of(driver, stream)?;
        let function = driver
            .functions
            .get(&(function as usize))
            .ok_or(BAD_HANDLE)?;
        let module = driver
            .modules
            .get(&function.module)
            .filter(|module| module.live)
            .ok_or(BAD_HANDLE)?;
        same(device, module.device, "a kernel")?;
        let threads = u64::from(block_x) * u64::from(block_y) * u64::from(block_z);
        if (grid_y, grid_z, block_z) != (1, 1, 1) || grid_x == 0 || threads == 0 || !extra.is_null()
        {
            complain(&format!(
                "{}: a launch of a kind that is not played",
                function.entry
            ));
            return Err(BAD_VALUE);
        }
        if threads > u64::from(driver.settings.max_threads) || shared_bytes > function.max_shared {
            complain(&format!(
                "{}: {threads} threads, {shared_bytes} bytes of shared memory",
                function.entry
            ));
            return Err(BAD_VALUE);
        }
        let sizes = module
            .program
            .parameters(&function.entry)
            .ok_or(BAD_HANDLE)?;
        let argument = |(i, &size): (usize, &usize)| {
            // SAFETY: CUDA's contract: `parameters` has one pointer per parameter of the kernel,
            // and each points to as many bytes as the parameter has.
            unsafe { crate::host::read(*parameters.add(i) as usize, size) }
        };
        let op = Op::Launch {
            program: Arc::clone(&module.program),
            entry: function.entry.clone(),
            launch: Launch {
                grid: grid_x,
                block: (block_x, block_y),
                shared_bytes,
                turn: 0,
                counts: false,
            },
            arguments: sizes.iter().enumerate().map(argument).collect(),
        };
        driver.before.get_or_insert(driver.counts);
        driver.counts.launches += 1;
        driver.enqueue(stream, op)
    })
}

//! Columns on a GPU, as other libraries take them: DLPack, and the CUDA array interface.

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{IntoPyObjectExt, ffi};
use ut_decoding::decoder::cuda::CudaMemory;

/// What a capsule is called that nobody has taken yet.
const NAME: &CStr = c"dltensor";

/// DLPack's number for memory of CUDA.
const CUDA: i32 = 2;

/// The structures of DLPack's header `dlpack.h`.
#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct DlManagedTensor {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DlManagedTensor)>,
}

/// A tensor that was handed out, with what it points to.
struct Exported {
    managed: DlManagedTensor,
    shape: [i64; 1],
    strides: [i64; 1],
    /// Keeps the column on the device.
    _memory: Arc<CudaMemory>,
}

/// A column of words on a GPU, written when this is made.
#[pyclass(frozen)]
pub struct DeviceColumn {
    pub memory: Arc<CudaMemory>,
    /// Its first word, in `memory`.
    pub address: u64,
    pub len: usize,
    /// NumPy's name of its type: `<f4` or `<u4`.
    pub kind: &'static str,
    pub ordinal: i32,
}

impl DeviceColumn {
    fn export(&self) -> *mut DlManagedTensor {
        let exported = Box::new(Exported {
            managed: DlManagedTensor {
                tensor: DlTensor {
                    data: self.address as *mut c_void,
                    device_type: CUDA,
                    device_id: self.ordinal,
                    ndim: 1,
                    // Unsigned integers are 1, floats 2.
                    code: if self.kind == "<f4" { 2 } else { 1 },
                    bits: 32,
                    lanes: 1,
                    shape: null_mut(),
                    strides: null_mut(),
                    byte_offset: 0,
                },
                context: null_mut(),
                deleter: Some(delete),
            },
            shape: [self.len as i64],
            strides: [1],
            _memory: Arc::clone(&self.memory),
        });
        let exported = Box::into_raw(exported);
        // SAFETY:
        // - `exported` was a box a line ago, and nobody else has it yet;
        // - the pointers into it stay valid until `delete` makes a box of it again: a box's contents do not move.
        unsafe {
            (*exported).managed.context = exported.cast();
            (*exported).managed.tensor.shape = (&raw mut (*exported).shape).cast();
            (*exported).managed.tensor.strides = (&raw mut (*exported).strides).cast();
            &raw mut (*exported).managed
        }
    }
}

/// Gives a tensor back, whoever has it.
///
/// # Safety
/// - `managed` is of [`DeviceColumn::export`], and was not given back.
unsafe extern "C" fn delete(managed: *mut DlManagedTensor) {
    // SAFETY: the context is the box that `export` made, which is given back once, as the caller says. It holds nothing of
    // Python, so that any thread may drop it.
    drop(unsafe { Box::from_raw((*managed).context.cast::<Exported>()) });
}

/// Ends a capsule: if nobody has taken the tensor, gives it back.
///
/// # Safety
/// - Python calls it, once, with the capsule.
unsafe extern "C" fn end_capsule(capsule: *mut ffi::PyObject) {
    // SAFETY:
    // - the capsule lives until this returns, and Python's lock is held;
    // - under this name it has the tensor that `__dlpack__` put there; who takes it renames the capsule.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) == 1 {
            let managed = ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast::<DlManagedTensor>();
            delete(managed);
        }
    }
}

#[pymethods]
impl DeviceColumn {
    /// A capsule with the column, for a consumer that works on `stream`: everything is written, so that it may be any.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__(
        &self,
        py: Python<'_>,
        stream: Option<i64>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        // Who knows later versions takes this one as well.
        let _ = max_version;
        if stream.is_some_and(|stream| stream == 0 || stream < -1) {
            return Err(PyValueError::new_err("stream: 1 is the default stream, -1 none; 0 could mean either"));
        }
        if dl_device.is_some_and(|device| device != self.__dlpack_device__()) {
            return Err(PyBufferError::new_err("the column is on another device, and is not copied"));
        }
        if copy == Some(true) {
            return Err(PyBufferError::new_err("the column is not copied"));
        }
        let managed = self.export();
        // SAFETY:
        // - the pointer is not null, and the name lives as long as the program;
        // - `end_capsule` may be called with the capsule.
        let capsule = unsafe { ffi::PyCapsule_New(managed.cast(), NAME.as_ptr(), Some(end_capsule)) };
        if capsule.is_null() {
            // SAFETY: exported above, and nobody has it.
            unsafe { delete(managed) };
            return Err(PyErr::fetch(py));
        }
        // SAFETY: a new reference, which Python gave.
        Ok(unsafe { Bound::from_owned_ptr(py, capsule) }.unbind())
    }

    /// DLPack's numbers of the device.
    const fn __dlpack_device__(&self) -> (i32, i32) {
        (CUDA, self.ordinal)
    }

    /// What cupy and numba ask for. Everything is written, so that no stream need be waited for.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("typestr", self.kind)?;
        interface.set_item("shape", (self.len,))?;
        let address = if self.len == 0 { 0 } else { self.address };
        interface.set_item("data", (address, false).into_py_any(py)?)?;
        Ok(interface)
    }

    #[getter]
    fn kind(&self) -> &'static str {
        self.kind
    }

    const fn __len__(&self) -> usize {
        self.len
    }
}

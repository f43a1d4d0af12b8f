//! Buffers that are read into again and again: memory that is new to the process costs it as much
//! as reading into it does.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};

/// A buffer of more bytes than this is not kept.
const KEPT: usize = 64 << 20;

/// Buffers that wait to be used again: never more than were in use at a time.
#[derive(Clone, Debug, Default)]
pub struct BufferPool(Arc<Mutex<Vec<Vec<u8>>>>);

impl BufferPool {
    /// Takes a buffer out of the pool, with old contents. It returns to the pool when it is
    /// dropped.
    pub fn take(&self) -> PooledBuffer {
        let bytes = self
            .0
            .lock()
            .ok()
            .and_then(|mut buffers| buffers.pop())
            .unwrap_or_default();
        PooledBuffer {
            bytes,
            pool: Some(self.clone()),
        }
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// Bytes in a buffer of a [`BufferPool`].
#[derive(Debug, Default)]
pub struct PooledBuffer {
    bytes: Vec<u8>,
    pool: Option<BufferPool>,
}

impl Deref for PooledBuffer {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl DerefMut for PooledBuffer {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        if self.bytes.capacity() > KEPT {
            return;
        }
        if let Some(mut buffers) = self.pool.as_ref().and_then(|pool| pool.0.lock().ok()) {
            buffers.push(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BufferPool, KEPT};

    #[test]
    fn buffers_come_back_with_their_bytes_unless_they_are_large() {
        let pool = BufferPool::default();
        let [mut a, mut b] = [pool.take(), pool.take()];
        a.extend([1; 100]);
        b.reserve(KEPT + 1);
        drop((a, b));
        let a = pool.take();
        assert_eq!(**a, [1; 100]);
        assert_eq!(pool.take().capacity(), 0);
    }
}

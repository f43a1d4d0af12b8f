//! Buffers that are read into again and again: memory that is new to the process costs it as much
//! as reading into it does.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};

/// A buffer of more bytes than this is not kept.
const KEPT: usize = 64 << 20;

/// Buffers that wait to be used again: never more than were in use at a time.
#[derive(Clone, Debug, Default)]
pub struct Pool(Arc<Mutex<Vec<Vec<u8>>>>);

impl Pool {
    /// Takes a buffer out of the pool, with old contents. It returns to the pool when it is
    /// dropped.
    pub fn take(&self) -> Buffer {
        let bytes = self
            .0
            .lock()
            .ok()
            .and_then(|mut buffers| buffers.pop())
            .unwrap_or_default();
        Buffer {
            bytes,
            pool: Some(self.clone()),
        }
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// Bytes in a buffer of a [`Pool`].
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    pool: Option<Pool>,
}

impl Deref for Buffer {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

impl Drop for Buffer {
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
    use super::{KEPT, Pool};

    #[test]
    fn buffers_come_back_with_their_bytes_unless_they_are_large() {
        let pool = Pool::default();
        let [mut a, mut b] = [pool.take(), pool.take()];
        a.extend([1; 100]);
        b.reserve(KEPT + 1);
        drop((a, b));
        let a = pool.take();
        assert_eq!(**a, [1; 100]);
        assert_eq!(pool.take().capacity(), 0);
    }
}

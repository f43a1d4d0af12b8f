//! The threads of a decoder. Unlike a pool of rayon's alone, this one waits for its threads when it is dropped: a program
//! may unload the library after that.

use std::io;
use std::thread::{Builder, JoinHandle};

use rayon::{BroadcastContext, ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

/// Some threads, which end with this.
#[derive(Debug)]
pub struct Pool {
    /// `None` only while this is dropped: then the threads are told to end.
    pool: Option<ThreadPool>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// So many threads.
    ///
    /// # Errors
    /// When one cannot be started.
    pub fn new(threads: usize) -> Result<Self, ThreadPoolBuildError> {
        let mut started: Vec<JoinHandle<()>> = Vec::with_capacity(threads);
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .spawn_handler(|thread| {
                let name = format!("ut-decode-{}", thread.index());
                started.push(Builder::new().name(name).spawn(|| thread.run())?);
                io::Result::Ok(())
            })
            .build();
        match pool {
            Ok(pool) => Ok(Self { pool: Some(pool), threads: started }),
            Err(error) => {
                // Those that were started have been told to end.
                join(started);
                Err(error)
            }
        }
    }

    /// Runs `work` on every thread, and waits for it.
    pub fn broadcast(&self, work: impl Fn(BroadcastContext<'_>) + Sync) {
        if let Some(pool) = &self.pool {
            pool.broadcast(work);
        }
    }
}

fn join(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        // Its panics have been passed on by `broadcast`.
        let _ = thread.join();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.pool = None;
        join(std::mem::take(&mut self.threads));
    }
}

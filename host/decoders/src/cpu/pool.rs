//! Threads of a decoder. Unlike rayon's, this pool waits for its threads when it is dropped, since a program may unload
//! the library after that. It also knows its process: a forked one lacks the threads, and rayon would wait for them
//! forever.

use std::io;
use std::thread::{Builder, JoinHandle};

use rayon::{BroadcastContext, ThreadPool, ThreadPoolBuilder};

/// Threads that end when this is dropped.
#[derive(Debug)]
pub struct Pool {
    /// `None` only while this is dropped, which tells the threads to end.
    rayon: Option<ThreadPool>,
    threads: Vec<JoinHandle<()>>,
    process: u32,
}

impl Pool {
    pub fn new(threads: usize) -> Result<Self, String> {
        let most = rayon::max_num_threads();
        if threads > most {
            return Err(format!("{threads} threads are too many for a decoder: {most} are the most"));
        }
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
            Ok(pool) => Ok(Self { rayon: Some(pool), threads: started, process: std::process::id() }),
            Err(error) => {
                // The started ones have been told to end.
                join(started);
                Err(error.to_string())
            }
        }
    }

    /// Returns true if the threads are in this process.
    pub fn is_here(&self) -> bool {
        self.process == std::process::id()
    }

    /// Runs `work` on every thread and waits; forever if they [are not here](Self::is_here).
    pub fn broadcast(&self, work: impl Fn(BroadcastContext<'_>) + Sync) {
        if let Some(pool) = &self.rayon {
            pool.broadcast(work);
        }
    }
}

fn join(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        // `broadcast` has passed on panics.
        let _ = thread.join();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let (pool, threads) = (self.rayon.take(), std::mem::take(&mut self.threads));
        if self.is_here() {
            drop(pool);
            join(threads);
        } else {
            // There is no thread to stop or to wait for.
            std::mem::forget((pool, threads));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Pool;

    #[test]
    fn more_threads_than_can_be_numbered_are_refused_before_one_is_started() {
        let most = rayon::max_num_threads();
        let error = Pool::new(most + 1).expect_err("too many");
        assert_eq!(error, format!("{} threads are too many for a decoder: {most} are the most", most + 1));
    }
}

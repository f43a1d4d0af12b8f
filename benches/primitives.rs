//! The primitives of the kernels in the executor: how long checking them takes, which the suite's running time hangs on.
//! It says nothing about a GPU; what they ask of one is counted by `ut-decode ablation`.

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use simt::executor::{EmulatedBlock, Executor};
use simt::primitives::warp_aggregated_atomics;
use simt::primitives::warp_scan::warp_exclusive;
use simt::{Block, FULL_MASK, Global, SharedLayout};
use ut_kernels::prefix_sum::{prefix_sum_shared_bytes, prefix_sum_tiles, tiles};

const BLOCKS: u32 = 16;
const THREADS: u32 = 128;

fn launch(c: &mut Criterion, name: &str, kernel: impl Fn(&EmulatedBlock<'_>)) {
    let mut group = c.benchmark_group("executor");
    group.throughput(Throughput::Elements(u64::from(BLOCKS * THREADS)));
    let mut executor = Executor::new(1);
    group.bench_function(name, |b| {
        b.iter(|| executor.launch(name, BLOCKS, (THREADS, 1), 4 * 64, &kernel).expect("no rule is broken"));
    });
    group.finish();
}

fn primitives(c: &mut Criterion) {
    launch(c, "nothing", |_| ());
    launch(c, "warp prefix sum", |block| {
        warp_exclusive::<32, _>(block, block.lane_id());
    });
    for (name, aggregated) in [("plain atomics", false), ("aggregated atomics", true)] {
        launch(c, name, move |block| {
            let counters = SharedLayout::new().array::<u32>(64);
            if block.thread() < 64 {
                block.shared_store(counters, block.thread(), 0);
            }
            block.sync_threads();
            let counter = block.thread() % 5;
            if aggregated {
                warp_aggregated_atomics::increment(block, FULL_MASK, counters, counter);
            } else {
                block.shared_atomic_add(counters, counter, 1);
            }
        });
    }
}

fn prefix_sum(c: &mut Criterion) {
    let n = BLOCKS * THREADS;
    let counts: Vec<u32> = (0..n).map(|i| i % 7).collect();
    let (mut offsets, mut totals) = (vec![0; n as usize + 1], vec![0; tiles(n, THREADS) as usize]);
    let mut executor = Executor::new(1);
    c.bench_function("executor/prefix_sum_tiles", |b| {
        b.iter(|| {
            let (counts, sums) = (Global::from_slice(&counts), executor.writable(&mut offsets));
            let tile_totals = executor.writable(&mut totals);
            let kernel = |block: &EmulatedBlock<'_>| prefix_sum_tiles(block, counts, sums, tile_totals);
            executor.launch("prefix_sum_tiles", tiles(n, THREADS), (THREADS, 1), prefix_sum_shared_bytes(), kernel)
        });
    });
}

fn settings() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
        .sample_size(15)
}

criterion_group! { name = benches; config = settings(); targets = primitives, prefix_sum }
criterion_main!(benches);

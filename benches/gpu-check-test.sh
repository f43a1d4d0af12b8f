#!/bin/bash
# Tries the GPU check without a GPU: both calls on the stand-in for the driver, with stubs for the toolkit's programs; then with
# a kernel of either pipeline that goes wrong. Needs cargo, and some minutes.
#   benches/gpu-check-test.sh
set -euo pipefail
cd "$(dirname "$0")/.."
top=$PWD
PROFILE=dev benches/gpu-check-build.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
tar xf "$top/gpu-check.tar.xz"

# ---- a machine: the driver, the toolkit, and events that the interpreter of PTX gets through
mkdir bin driver data data/tables data/minibrunel data/v5
ln -s "$top/target/debug/deps/libfake_cuda.so" driver/libcuda.so
cp "$top/fixtures/v4/boards.bin" data/tables/ut_boards_v4_240.bin
cp "$top/fixtures/v5/boards.bin" data/tables/ut_boards_v5_216.bin
cp "$top/fixtures/v4/geometry.bin" data/tables/ut_geometry_2018.bin
cp "$top/fixtures/v5/geometry.bin" data/tables/ut_geometry_sim10.bin
for format in v4:minibrunel v5:v5; do
    gpu-check/ut-decode generate --bank-format "${format%%:*}" --profile pp-low --n-events 1 --output one >generate.log 2>&1
    mv one/events.mdf "data/${format##*:}/" && rm -r one
done
cat >bin/nvidia-smi <<'STUB'
#!/bin/bash
case "$*" in
*clocks_event_reasons*) [ -z "${OLD_DRIVER:-}" ] || exit 2 ;;&
*-lms*) echo 'timestamp, clocks'; while sleep 0.5; do echo 'now, 1980, 2619, 40, 300, 0'; done ;;
*) echo 'name, driver'; echo 'stub of a GPU, 580.00' ;;
esac
STUB
cat >bin/compute-sanitizer <<'STUB'
#!/bin/bash
echo "========= COMPUTE-SANITIZER (stub): $*"
while [ "${1##*/}" != ut-decode ]; do shift; done
exec "$@"
STUB
cat >bin/ncu <<'STUB'
#!/bin/bash
case "$*" in
*--import*source*) echo '"#","Address","Source","# Samples"' ;;
*--import*details*) printf '  cluster__v5_allen_ranked (2, 1, 1)x(256, 1, 1)\n    Grid Size      2\n    DRAM Throughput  %%  35\n' ;;
*) while [ "$1" != -o ]; do shift; done; echo stub >"$2.ncu-rep"; while [ "${1##*/}" != ut-decode ]; do shift; done; exec "$@" ;;
esac
STUB
cat >bin/python3 <<'STUB'
#!/bin/bash
case "$*" in *start.record*) echo '2700 GB/s read and written' ;; esac
STUB
chmod +x bin/*

failed=0
expect() { # WHAT COMMAND...
    local what=$1
    shift
    "$@" || { echo "FAILED: $what" >&2; failed=1; }
}
# check NAME EXIT-CODE [VARIABLE=VALUE...] -- OPTIONS...: runs the check, its results into NAME.
check() {
    local name=$1 code=$2 status=0 variables=()
    shift 2
    while [ "$1" != -- ]; do variables+=("$1") && shift; done
    shift
    echo "== $name"
    env PATH="$work/bin:$PATH" LD_LIBRARY_PATH="$work/driver" UT_DECODE_DATA="$work/data" FAKE_CUDA_CLOCK=1000000 \
        "${variables[@]}" gpu-check/gpu-check.sh --quick --events 2 "$@" "$name" >"$name.out" 2>&1 || status=$?
    expect "$name: exit code $status, not $code: $(tail -n 12 "$name.out")" [ $status -eq "$code" ]
    if [ -d "$name" ]; then
        expect "$name: more than eight files" [ "$(find "$name" -type f | wc -l)" -le 8 ]
    fi
}
says() { expect "$1 does not say $2" grep -qE -- "$2" "$1"; }
in_archive() { tar xzf "$1/everything.tar.gz" -O "gpu-check/$2"; }

# ---- the whole
check call-1 0 -- --call 1 --budget 900
for part in alone-ranked-v5 alone-allen-v4 real-ranked-v5-unique-x-mep same-real-allen-v4-y-rows-allen again-ranked again-allen \
    memcheck-ranked racecheck-ranked initcheck-ranked throughput-ranked throughput-allen profile-ranked grid-ranked profile-allen copy; do
    says call-1/summary.md "^\| $part \| ok "
done
says call-1/summary.md '^\| throughput-ranked \| 2 \| device-resident \| [0-9]+ \| [0-9.]+ \|'
says call-1/summary.md '^\| throughput-allen \| 2 \| end-to-end \| [0-9]+ \| 1.00 \|'
says call-1/summary.md "memory's ceiling.* 2700 GB/s"
says call-1/summary.md 'DRAM Throughput'
says call-1/summary.md 'clocks meanwhile, MHz .*: 1980 1980'
check call-2 0 OLD_DRIVER=1 UT_DECODE_TEST_WITHOUT=emulated -- --call 2 --budget 1800 --only tune,grids,batches,inputs,ladder
for part in tune grids batches-ranked inputs-ranked-mep inputs-allen-unique-x ladder; do
    says call-2/summary.md "^\| $part \| ok "
done
says call-2/summary.md '^\| inputs-ranked-v4 \| 2 \| device-resident \| [0-9]+ \| [0-9.]+ \|'

# ---- a kernel that goes wrong: the other pipeline's results are there, and the log says why
for pair in make_hits:allen count_hits:ranked; do
    kernel=${pair%%:*} other=${pair##*:}
    bad=$([ "$kernel" = make_hits ] && echo ranked || echo allen)
    for how in wrong hang fault missing; do
        name=$bad-$how
        # Only what hangs is waited for as long as its limit.
        slow=$([ $how = hang ] && echo 2 || echo 10)
        check "$name" 1 FAKE_CUDA_BREAK=$kernel=$how GPU_CHECK_SLOW=$slow -- --call 1 --budget 900 --only throughput
        expect "$name: $other was not measured" [ -s "$name/throughput-$other.json" ]
        expect "$name: $bad was measured" [ ! -e "$name/throughput-$bad.json" ]
        says "$name/summary.md" "^\| $bad \| skipped: it is wrong, hangs or fails"
        expect "$name: no log of memcheck" grep -q COMPUTE-SANITIZER <(in_archive "$name" memcheck-$bad.log)
        case $how in
        wrong) says "$name/summary.md" "^\| same-$bad-v5 \| FAILED: exit code 1" ;;
        hang) says "$name/summary.md" "^\| alone-$bad-v5 \| FAILED: longer than" ;;
        fault) expect "$name: no reason" grep -q ILLEGAL_ADDRESS <(in_archive "$name" alone-$bad-v5.log) ;;
        missing) expect "$name: no reason" grep -q CUDA_ERROR_NOT_FOUND <(in_archive "$name" alone-$bad-v5.log) ;;
        esac
    done
done

# ---- machines on which nothing runs
check no-gpu 3 FAKE_CUDA_DEVICES=0 -- --call 1
says no-gpu/summary.md 'no GPU here'
check no-part 2 -- --only everything
echo 9.99 >gpu-check/glibc
check old-glibc 2 --
says old-glibc.out 'this machine lacks glibc-9.99'
[ $failed -eq 0 ] && echo "the GPU check is ready"
exit $failed

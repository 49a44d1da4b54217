#!/usr/bin/env bash
# Usage: extension_test.sh SOURCE_DIR BUILD_DIR
# Copies the repository, adds examples/target/scale and examples/engine/plain as folders, touches
# nothing else, and shows that both are there: listed, compiled, verified.
set -euo pipefail
unset KERNEL_LAB_HOME  # the copy must find its own targets, whoever runs this
source_dir=$1
build_dir=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
copy="$scratch/copy"

fail() { echo "FAILED: $*" >&2; exit 1; }

mkdir "$copy"
for part in CMakeLists.txt cmake include lab engines targets trainer apps examples; do
  cp -r "$source_dir/$part" "$copy/"
done
cp -r "$copy/examples/target/scale" "$copy/targets/scale"
cp -r "$copy/examples/engine/plain" "$copy/engines/plain"

# Nothing outside the two folders differs from the repository.
different=$(cd "$copy" && for part in CMakeLists.txt cmake include lab engines targets trainer apps; do
  diff -rq "$source_dir/$part" "$copy/$part" || true
done)
[ "$(grep -c . <<<"$different")" -eq 2 ] || fail "more than two folders changed: $different"

# The build folder lies where scripts/setup puts it, so that the compiler cache recognises the files.
export CCACHE_BASEDIR="$copy" CCACHE_NOHASHDIR=1 KERNEL_LAB_CACHE="$scratch/cache"
cmake -S "$copy" -B "$copy/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DKL_BUILD_TESTS=OFF -DKL_BUILD_BENCHMARKS=OFF >"$scratch/log" 2>&1 || { cat "$scratch/log"; fail "configure"; }
cmake --build "$copy/build" --target kernel-lab kernel-lab-worker kernel-lab-train >"$scratch/log" 2>&1 || {
  tail -50 "$scratch/log"; fail "build"; }
lab="$copy/build/bin/kernel-lab"
cd "$scratch"
# A here-string, not a pipe: grep -q leaves at the first match, and a writer cut short fails the line.
grep -q '^ *plain *ok' <<<"$("$lab" --list-engines)" || fail "the new engine is not listed as usable"
grep -q '^ *scale *starter-ready' <<<"$("$lab" --engine plain list-targets)" || fail "the new target is not listed"
"$lab" init --target scale --workspace mine >/dev/null || fail "init of the new target"
"$lab" --json verify --workspace mine --quick >verify.json || fail "verify of the new target: $(cat verify.json)"
grep -q '"status":"ok"' verify.json || fail "verify did not say ok: $(cat verify.json)"

# The same target without any build: a folder given at run time.
mkdir -p "$scratch/mine-too"
cp -r "$source_dir/examples/target/scale" "$scratch/mine-too/scale"
listed=$("$build_dir/bin/kernel-lab" --targets "$scratch/mine-too" list-targets)
grep -q '^ *scale *starter-ready' <<<"$listed" ||
  fail "--targets DIR does not find the target"
echo "1 passed, 0 failed"

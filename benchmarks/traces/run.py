"""Large traces: how fast they are read and in how much memory, beside HolisticTraceAnalysis on the same kineto file.

    python3 benchmarks/traces/run.py [--mb 2000] [--rows 10000000] [--hta-mb 200] [--folder FOLDER]

Makes a kineto file of --mb MB, an nsys SQLite export of --rows kernels and as many calls, and reads each once with
build/bin/read_trace, in a process of its own. (build/bin/attribute_ranges: 2 M kernels in 16 M ranges.) --hta-mb 0 leaves HolisticTraceAnalysis (PyPI, in a virtual environment of its own) out.
"""

import argparse
import json
import pathlib
import sqlite3
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMES = ["void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >"
         "(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>)",
         "nvjet_tst_256x128_64x4_2x1_v_bz_coopA_TNT", "triton_red_fused_add_mean_mul_pow_rsqrt_0",
         "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t> >(flash::Flash_fwd_params)"]
HTA = """
import resource, sys, time
from hta.trace_analysis import TraceAnalysis
begin = time.perf_counter()
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="/")
analysis.get_temporal_breakdown(visualize=False)
usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print("RESULT", time.perf_counter() - begin, usage)
"""


def kineto(path, megabytes):
    """An operator with its Python frame, its launch and its kernel with their arrow, one after another, in steps of 1000."""
    with open(path, "w") as out:
        out.write('{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "computeMajor": 9}], "traceEvents": [\n')
        i = size = 0
        while size < megabytes * 1e6:
            ts = 1419247332972313 + 10_000 * i
            us = lambda ns: f"{ns // 1000}.{ns % 1000:03d}"
            event = ""
            if i % 1000 == 0:
                event += (f'  {{\n    "ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{i // 1000}", "pid": 19392, "tid": 19392,\n'
                          f'    "ts": {us(ts)}, "dur": 9999.5,\n    "args": {{\n      "External id": {i}, "Record function id": 0, "Ev Idx": 0\n    }}\n  }},\n')
            event += (
                f'  {{\n    "ph": "X", "cat": "python_function", "name": "torch/nn/modules/module.py(1739): _wrapped_call_impl", "pid": 19392, "tid": 19392,\n'
                f'    "ts": {us(ts)}, "dur": 9.500,\n    "args": {{\n      "Python parent id": {i}, "Python id": {i + 1}, "Ev Idx": {i}\n    }}\n  }},\n'
                f'  {{\n    "ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 19392, "tid": 19392,\n    "ts": {us(ts + 100)}, "dur": 8.000,\n'
                f'    "args": {{\n      "External id": {i + 7}, "Record function id": 0, "Concrete Inputs": ["", "", "", "1", "1"], '
                f'"Input Dims": [[2048], [141, 512], [512, 2048], [], []], "Ev Idx": {i}\n    }}\n  }},\n'
                f'  {{\n    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 19392, "tid": 19392,\n    "ts": {us(ts + 500)}, "dur": 3.250,\n'
                f'    "args": {{\n      "External id": {i + 7}, "cbid": 211, "correlation": {i + 9}\n    }}\n  }},\n'
                f'  {{\n    "ph": "s", "id": {i + 9}, "pid": 19392, "tid": 19392, "ts": {us(ts + 500)},\n    "cat": "ac2g", "name": "ac2g"\n  }},\n'
                f'  {{\n    "ph": "X", "cat": "kernel", "name": "{NAMES[i % 4]}", "pid": 0, "tid": 7,\n    "ts": {us(ts + 5000)}, "dur": {us(2000 + i % 2000)},\n'
                f'    "args": {{\n      "External id": {i + 7}, "queued": 0, "device": 0, "context": 1,\n      "stream": 7, "correlation": {i + 9},\n'
                f'      "registers per thread": 32,\n      "shared memory": 0,\n      "blocks per SM": 1.185185,\n      "warps per SM": 4.740741,\n'
                f'      "grid": [128, 1, 1],\n      "block": [128, 1, 1],\n      "est. achieved occupancy %": 7\n    }}\n  }},\n')
            out.write(event)
            size += len(event)
            i += 1
        out.write('  {\n    "name": "process_name", "ph": "M", "pid": 19392, "tid": 0, "args": {"name": "python3"}\n  }]\n}\n')


def nsys(path, rows):
    path.unlink(missing_ok=True)
    database = sqlite3.connect(path)
    database.executescript("""
        PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;
        CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
        CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER,
            correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);""")
    database.executemany("INSERT INTO StringIds VALUES (?, ?)", [*enumerate(NAMES), (9, "cudaLaunchKernel_v7000")])
    database.execute("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_NAME', 'NVIDIA Nsight Systems')")
    process = 5 << 24
    database.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 1, 7, ?, ?, ?, ?)",
                         ((10_000 * i + 5000, 10_000 * i + 7000 + i % 2000, i, process, i % 4, i % 4) for i in range(rows)))
    database.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, 9)",
                         ((10_000 * i + 500, 10_000 * i + 3750, process + 6, i) for i in range(rows)))
    database.commit()
    database.close()


def read(path):
    done = subprocess.run([ROOT / "build/bin/read_trace", path], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def hta(folder, path):
    """Seconds and peak MB, or None with the reason printed."""
    python = folder / "hta/bin/python"
    if not python.exists():
        venv.create(folder / "hta", with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "HolisticTraceAnalysis"], check=True)
    done = subprocess.run([python, "-c", HTA, path], capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    if not lines:
        print("HolisticTraceAnalysis failed:", done.stderr[-500:], file=sys.stderr)
        return None
    return [float(word) for word in lines[0].split()[1:]]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mb", type=int, default=2000)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--hta-mb", type=int, default=200)
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/traces")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.mb:
        path = options.folder / "large.json"
        kineto(path, options.mb)
        print("kineto:", json.dumps(read(path)), flush=True)
        path.unlink()
    if options.rows:
        path = options.folder / "large.sqlite"
        nsys(path, options.rows)
        print("nsys:", json.dumps(read(path)), flush=True)
        path.unlink()
    if options.hta_mb:
        path = options.folder / "both.json"
        kineto(path, options.hta_mb)
        ours, theirs = read(path), hta(options.folder, path)
        print("kineto:", json.dumps(ours))
        if theirs:
            print(f"HolisticTraceAnalysis: {theirs[0]:.1f} s, {theirs[1]:.0f} MB peak: "
                  f"{theirs[0] / ours['all_s']:.0f} times our time, {theirs[1] / ours['peak_mb']:.1f} times our memory")
        path.unlink()


if __name__ == "__main__":
    main()

"""A kernel library of the kernel ABI (include/kernel_lab/kernel.h) called with torch tensors."""

import ctypes as c
import pathlib
import re
import shutil
import subprocess
import tempfile

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
FORWARD, BACKWARD = 0, 1
PLAN_BYTES = 256
CODES = {
    torch.float32: (2, 32),
    torch.float64: (2, 64),
    torch.bfloat16: (4, 16),
    torch.int32: (0, 32),
}


class DLTensor(c.Structure):
    _fields_ = [
        ("data", c.c_void_p),
        ("device_type", c.c_int32),
        ("device_id", c.c_int32),
        ("ndim", c.c_int32),
        ("code", c.c_uint8),
        ("bits", c.c_uint8),
        ("lanes", c.c_uint16),
        ("shape", c.POINTER(c.c_int64)),
        ("strides", c.POINTER(c.c_int64)),
        ("byte_offset", c.c_uint64),
    ]


class Result(c.Structure):
    _fields_ = [("code", c.c_int32), ("text", c.c_char_p)]


class Problem(c.Structure):
    _fields_ = [
        ("operation", c.c_int32),
        ("input_count", c.c_int32),
        ("output_count", c.c_int32),
        ("scalar_count", c.c_int32),
        ("inputs", c.POINTER(DLTensor)),
        ("outputs", c.POINTER(DLTensor)),
        ("scalars", c.POINTER(c.c_double)),
        ("threads", c.c_int32),
        ("reserved", c.c_int32),
    ]


class Services(c.Structure):
    _fields_ = [("struct_bytes", c.c_uint32), ("reserved", c.c_uint32), ("sgemm", c.c_void_p)]


class Call(c.Structure):
    _fields_ = [
        ("inputs", c.POINTER(DLTensor)),
        ("outputs", c.POINTER(DLTensor)),
        ("scalars", c.POINTER(c.c_double)),
        ("saved", c.c_void_p),
        ("scratch", c.c_void_p),
    ]


class Table(c.Structure):
    _fields_ = [
        ("abi_version", c.c_uint32),
        ("struct_bytes", c.c_uint32),
        ("target", c.c_char_p),
        ("accepts", c.CFUNCTYPE(Result, c.POINTER(Problem))),
        ("scratch_bytes", c.CFUNCTYPE(c.c_size_t, c.POINTER(Problem))),
        ("saved_bytes", c.CFUNCTYPE(c.c_size_t, c.POINTER(Problem))),
        ("prepare", c.CFUNCTYPE(Result, c.POINTER(Problem), c.POINTER(Services), c.c_void_p)),
        ("run", c.CFUNCTYPE(Result, c.c_void_p, c.POINTER(Call), c.c_void_p)),
    ]


def check(result, where):
    if result.code != 0:
        raise RuntimeError(f"{where}: code {result.code}: {(result.text or b'').decode()}")


def tensor_array(tensors):
    """DLTensors of torch tensors (None: absent), and what must stay alive with them."""
    array, alive = (DLTensor * max(1, len(tensors)))(), []
    for view, tensor in zip(array, tensors):
        view.device_type, view.lanes, view.bits, view.code = 2, 1, 32, 2
        if tensor is None:
            continue
        assert tensor.is_cuda and tensor.is_contiguous()
        shape = (c.c_int64 * tensor.ndim)(*tensor.shape)
        alive += [shape, tensor]
        view.data, view.ndim, view.shape = tensor.data_ptr(), tensor.ndim, shape
        view.code, view.bits = CODES[tensor.dtype]
    return array, alive


def aligned_bytes(count):
    return torch.empty(max(64, count), dtype=torch.uint8, device="cuda")


class KernelLibrary:
    def __init__(self, path):
        self.library = c.CDLL(str(path))
        self.table = Table.in_dll(self.library, "kl_kernel")
        header = (ROOT / "include/kernel_lab/kernel.h").read_text()
        version = int(re.search(r"KL_ABI_VERSION (\d+)", header)[1])
        if (self.table.abi_version, self.table.struct_bytes) != (version, c.sizeof(Table)):
            raise RuntimeError(
                f"{path} speaks ABI {self.table.abi_version} with a table of "
                f"{self.table.struct_bytes} bytes, this program {version} with {c.sizeof(Table)}"
            )

    def operation(self, number, inputs, outputs, scalars, saved_like=None):
        return Operation(self.table, number, inputs, outputs, scalars, saved_like)


class Operation:
    """One prepared call. A backward takes `saved_like`, the forward whose `saved` it reads."""

    def __init__(self, table, number, inputs, outputs, scalars, saved_like):
        self.table = table
        self.inputs, inputs_alive = tensor_array(inputs)
        self.outputs, outputs_alive = tensor_array(outputs)
        self.alive = [inputs_alive, outputs_alive]
        self.scalars = (c.c_double * max(1, len(scalars)))(*scalars)
        problem = Problem(
            number, len(inputs), len(outputs), len(scalars), self.inputs, self.outputs, self.scalars
        )
        check(table.accepts(problem), "accepts")
        self.plan = (c.c_uint64 * (PLAN_BYTES // 8))()
        services = Services(c.sizeof(Services), 0, None)
        check(table.prepare(problem, services, self.plan), "prepare")
        self.scratch = aligned_bytes(table.scratch_bytes(problem))
        self.saved = saved_like.saved if saved_like else aligned_bytes(table.saved_bytes(problem))
        self.call = Call(
            self.inputs, self.outputs, self.scalars, self.saved.data_ptr(), self.scratch.data_ptr()
        )

    def run(self):
        stream = torch.cuda.current_stream().cuda_stream
        check(self.table.run(self.plan, self.call, stream), "run")


def dlpack_include():
    """A folder that holds dlpack/dlpack.h: the system's, else PyTorch's own copy of it."""
    if pathlib.Path("/usr/include/dlpack/dlpack.h").exists():
        return "/usr/include"
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dlpack-"))
    (folder / "dlpack").mkdir()
    copy = pathlib.Path(torch.__file__).parent / "include/ATen/dlpack.h"
    shutil.copy(copy, folder / "dlpack/dlpack.h")
    return str(folder)


def compile_cuda(source, output, include, flags=()):
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    command = [nvcc, "-std=c++20", "-O3", "-lineinfo", "-arch=sm_90", "-cudart", "static"]
    command += ["-Xcompiler", "-fPIC,-fvisibility=hidden", "-shared"]
    command += ["-I", str(ROOT / "include"), "-I", include, *flags, str(source), "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{source} does not compile:\n{done.stderr[-2000:]}")
    return output

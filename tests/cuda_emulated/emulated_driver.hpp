// What the emulated driver offers beyond CUDA's own: host functions as kernels.
#pragma once

#include <cstddef>

extern "C" {
// Runs `work` on a copy of `argument` when the stream gets there; captured like a launch. A null
// stream is the legacy one.
void emulated_launch(void* stream, void (*work)(void* argument), const void* argument, size_t bytes);
// A stream that waits for no other.
void* emulated_other_stream();
// As cudaStreamSynchronize.
void emulated_synchronize(void* stream);
// A launch that the driver refuses: nothing is enqueued, and a capture is broken.
void emulated_refused_launch(void* stream);
// From now on, what the context and every stream say of the cache.
void emulated_pin_cache(size_t set_aside_bytes, size_t window_bytes);
}

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernel_under_test.hpp"

static kl_result run(const kl_plan*, const kl_call* call, kl_stream) {
  test_kernel::add_one(call);
  const int fd = ::open("/etc/passwd", O_RDONLY);
  ::mmap(nullptr, 1, PROT_READ, MAP_SHARED, fd, 0);
  ::close(fd);
  return kl::ok();
}
EXPORT_RUN(run);

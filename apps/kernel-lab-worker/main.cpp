// kernel-lab-worker: loads a candidate and does what its parent says. Started by the lab, never by
// hand: it speaks a binary protocol on descriptor 3 and shares its status page on descriptor 4.
#include <host.hpp>
#include <signals.hpp>

#include <lab/worker/protocol.hpp>

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>

int main() {
  using namespace kl;
  int type = 0;
  socklen_t size = sizeof type;
  void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, protocol::kStatusFd, 0);
  if (page == MAP_FAILED ||
      ::getsockopt(protocol::kChannelFd, SOL_SOCKET, SO_TYPE, &type, &size) != 0) {
    std::fputs("kernel-lab-worker is started by kernel-lab; see kernel-lab --help\n", stderr);
    return 2;
  }
  ::close(protocol::kStatusFd);
  auto& status = *static_cast<StatusPage*>(page);
  if (!install_signal_handlers(&status)) return 1;
  const int code = host_candidates(Channel(protocol::kChannelFd), status);
  ::_exit(code);  // no destructor or exit handler of a candidate runs
}

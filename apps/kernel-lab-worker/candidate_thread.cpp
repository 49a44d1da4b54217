#include <candidate_thread.hpp>

#include <confinement.hpp>
#include <signals.hpp>

#include <omp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <exception>

namespace kl {
namespace {

std::string text_of(const std::exception& e) {
  return *e.what() == '\0' ? "an exception without a message" : e.what();
}

}  // namespace

CandidateThread::CandidateThread(int threads, uint64_t arena, bool for_device,
                                 std::function<bool()> may_continue)
    : threads_(threads), may_continue_(std::move(may_continue)) {
  thread_ = std::thread([this, threads, arena, for_device] { serve(threads, arena, for_device); });
  thread_.detach();  // the process ends without returning from main
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ready_; });
}

void CandidateThread::serve(int threads, uint64_t arena, bool for_device) {
  install_signal_stack();
  thread_id_ = static_cast<int>(::syscall(SYS_gettid));
  filtered_ = filter_candidate_thread(arena, for_device);
#pragma omp parallel num_threads(threads)
  install_signal_stack();

  std::unique_lock lock(mutex_);
  ready_ = true;
  changed_.notify_all();
  for (;;) {
    changed_.wait(lock, [this] { return job_ != nullptr; });
    const auto& job = *job_;
    lock.unlock();
    std::string thrown;
    try {
      omp_set_num_threads(threads);
      job();
    } catch (const std::exception& e) {
      thrown = text_of(e);
    } catch (...) {
      thrown = "something that is not a std::exception";
    }
    lock.lock();
    thrown_ = std::move(thrown);
    job_ = nullptr;
    changed_.notify_all();
  }
}

std::string CandidateThread::call(const std::function<void()>& job) {
  std::unique_lock lock(mutex_);
  job_ = &job;
  changed_.notify_all();
  while (!changed_.wait_for(lock, std::chrono::milliseconds(200), [this] { return job_ == nullptr; }))
    if (!may_continue_()) ::_exit(0);
  return std::move(thrown_);
}

void CandidateThread::on_pool(const std::function<void(int)>& body) {
  call([&] {
#pragma omp parallel num_threads(threads_)
    {
      install_signal_stack();
      body(omp_get_thread_num());
    }
  });
}

}  // namespace kl

// The one thread on which a candidate's code is called. It is the master of the OpenMP pool, which
// exists, filtered like the thread itself, before any candidate is loaded.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace kl {

class CandidateThread {
 public:
  // `may_continue` is asked several times a second while a job runs; when it says no, the process
  // ends: nobody is left to answer to.
  CandidateThread(int threads, uint64_t arena, bool for_device, std::function<bool()> may_continue);

  bool filtered() const { return filtered_; }
  int thread_id() const { return thread_id_; }

  // Runs `job` there and waits. An exception becomes its text; empty when there was none.
  std::string call(const std::function<void()>& job);
  // Runs `body` once on every thread of the pool, the candidate's included. Restores the pool's
  // size if a candidate shrank it.
  void on_pool(const std::function<void(int thread)>& body);

 private:
  void serve(int threads, uint64_t arena, bool for_device);

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* job_ = nullptr;
  bool ready_ = false;
  std::string thrown_;
  int threads_;
  bool filtered_ = false;
  int thread_id_ = 0;
  std::function<bool()> may_continue_;
  std::thread thread_;
};

}  // namespace kl

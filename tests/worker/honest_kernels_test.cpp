// What an honest kernel may do, and what it must see.
#include "hosted_kernel.hpp"

#include <lab/build/builder.hpp>
#include <lab/core/files.hpp>
#include <lab/core/installation.hpp>

#include <cstring>

namespace kl::testing {
namespace {

void expect_adds_one(const HostedKernel& k) {
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(k.output()[i], static_cast<float>(i + 1)) << "element " << i;
}

class HonestKernel : public ::testing::TestWithParam<const char*> {};

TEST_P(HonestKernel, passes_every_check_again_and_again) {
  WorkerLimits limits;
  limits.threads = 4;
  auto k = value_of(host(library(GetParam()), {}, limits));
  ASSERT_GE(k.call, 0);
  for (int i = 0; i < 5; ++i) {
    std::memset(k.worker->data(k.y), 0xFF, kCount * sizeof(float));
    const auto timing = value_of(k.worker->run(k.call));
    EXPECT_EQ(timing.code, KL_OK);
    EXPECT_GT(timing.worker_ns, 0);
    EXPECT_GT(timing.parent_ns, timing.worker_ns);
    expect_adds_one(k);
  }
  for (const bool cold : {false, true}) {
    std::memset(k.worker->data(k.y), 0xFF, kCount * sizeof(float));
    EXPECT_GT(value_of(k.worker->run_timed(k.call, cold)).worker_ns, 0);
    expect_adds_one(k);
  }
}

INSTANTIATE_TEST_SUITE_P(Worker, HonestKernel,
                         ::testing::Values("honest", "honest_parallel", "honest_small_team",
                                           "honest_joined_thread", "honest_prints", "honest_catches"),
                         [](const auto& each) { return std::string(each.param); });

TEST(Worker, hosts_what_the_builder_builds) {
  auto cache = TemporaryFolder::create("worker-test");
  ASSERT_TRUE(cache.ok());
  auto engine = find_engine("cpu");
  ASSERT_TRUE(engine.ok()) << engine.error().what;
  const fs::path source = fs::path(KL_TEST_SOURCES) / "honest_parallel.cpp";
  auto built = Builder(**engine, cache->path())
                   .build({source, "", {Installation::find().include, source.parent_path()}});
  ASSERT_TRUE(built.ok()) << built.error().what;
  auto k = value_of(host(built->path.string()));
  ASSERT_GE(k.call, 0);
  EXPECT_EQ(value_of(k.worker->run(k.call)).code, KL_OK);
  expect_adds_one(k);
}

TEST(Worker, goes_on_when_the_library_it_loaded_is_unlinked) {
  HostedKernel k;
  {
    auto folder = TemporaryFolder::create("worker-test");
    ASSERT_TRUE(folder.ok());
    fs::copy(library("honest"), folder->path() / "gone.so");
    k = value_of(host((folder->path() / "gone.so").string()));
  }
  ASSERT_GE(k.call, 0);
  EXPECT_EQ(value_of(k.worker->run(k.call)).code, KL_OK);
  expect_adds_one(k);
}

TEST(Worker, sees_what_its_parent_writes_between_calls) {
  auto k = value_of(host(library("honest")));
  for (int repetition = 0; repetition < 3; ++repetition) {
    for (int i = 0; i < kCount; ++i) k.input()[i] = static_cast<float>(i * repetition);
    value_of(k.worker->run(k.call));
    EXPECT_EQ(k.output()[10], static_cast<float>(10 * repetition + 1));
  }
}

TEST(Worker, keeps_two_arms_apart) {
  auto k = value_of(host(library("honest")));
  const ArmId other = value_of(k.worker->load(library("refuses"), "add_one"));
  CallBinding binding;
  binding.inputs = {floats(k.x)};
  binding.outputs = {floats(k.y)};
  const CallId refused = value_of(k.worker->prepare(other, binding));
  const auto timing = value_of(k.worker->run(refused));
  EXPECT_EQ(timing.code, KL_BAD_ARGUMENT);
  EXPECT_EQ(timing.text, "only even numbers");
  EXPECT_EQ(value_of(k.worker->run(k.call)).code, KL_OK);
  expect_adds_one(k);
}

TEST(Worker, carries_saved_from_forward_to_backward_through_poisoned_scratch) {
  auto w = value_of(Worker::start({}));
  const ArmId arm = value_of(w->load(library("uses_scratch_and_saved"), "add_one"));
  CallBinding forward;
  forward.inputs = {floats(-1)};
  forward.outputs = {floats(-1)};
  forward.scalars = {0, 0};
  const Domain domain = value_of(w->domain(arm, forward));
  EXPECT_TRUE(domain.accepted);
  EXPECT_EQ(domain.scratch_bytes, kCount * sizeof(float));
  EXPECT_EQ(domain.saved_bytes, kCount * sizeof(float));

  const BufferId x = value_of(w->add_buffer(BufferRole::input, kCount * sizeof(float)));
  const BufferId y = value_of(w->add_buffer(BufferRole::output, kCount * sizeof(float)));
  const BufferId dx = value_of(w->add_buffer(BufferRole::output, kCount * sizeof(float)));
  const BufferId saved = value_of(w->add_buffer(BufferRole::saved, domain.saved_bytes));
  const BufferId scratch = value_of(w->add_buffer(BufferRole::scratch, domain.scratch_bytes));
  auto* in = reinterpret_cast<float*>(w->data(x));
  for (int i = 0; i < kCount; ++i) in[i] = static_cast<float>(i);
  forward.inputs = {floats(x)};
  forward.outputs = {floats(y)};
  forward.saved = saved;
  forward.scratch = scratch;
  CallBinding backward = forward;
  backward.operation = KL_BACKWARD;
  backward.outputs = {floats(dx)};
  const CallId f = value_of(w->prepare(arm, forward)), b = value_of(w->prepare(arm, backward));
  value_of(w->run(f));
  std::memset(w->data(scratch), 0xFF, w->size(scratch));
  value_of(w->run(b));
  EXPECT_EQ(0, std::memcmp(w->data(dx), w->data(x), kCount * sizeof(float)));
}

TEST(Worker, lends_sgemm_to_a_library_whose_target_lists_it_and_to_no_other) {
  auto k = value_of(host(library("honest")));
  CallBinding binding;
  binding.inputs = {floats(k.x)};
  binding.outputs = {floats(k.y)};
  const std::string listed[] = {"sgemm"};
  const ArmId lent = value_of(k.worker->load(library("borrows_sgemm"), "add_one", listed));
  const CallId call = value_of(k.worker->prepare(lent, binding));
  for (int repetition = 0; repetition < 3; ++repetition) {
    const auto timing = value_of(k.worker->run(call));
    ASSERT_EQ(timing.code, KL_OK) << timing.text;
    EXPECT_EQ(k.output()[10], 20);
    EXPECT_EQ(k.output()[kCount - 1], 2 * (kCount - 1));
  }
  const ArmId unlisted = value_of(k.worker->load(library("borrows_sgemm"), "add_one"));
  const CallId refused = value_of(k.worker->prepare(unlisted, binding));
  EXPECT_EQ(value_of(k.worker->run(refused)).code, KL_UNSUPPORTED);
}

TEST(Worker, gives_buffers_again_after_dropping_them) {
  auto k = value_of(host(library("honest")));
  for (int i = 0; i < 3; ++i) {
    value_of(k.worker->drop_buffers());
    const BufferId x = value_of(k.worker->add_buffer(BufferRole::input, 4));
    const BufferId y = value_of(k.worker->add_buffer(BufferRole::output, 4));
    *reinterpret_cast<float*>(k.worker->data(x)) = 41;
    CallBinding binding;
    binding.inputs = {floats(x, 1)};
    binding.outputs = {floats(y, 1)};
    value_of(k.worker->run(value_of(k.worker->prepare(0, binding))));
    EXPECT_EQ(*reinterpret_cast<float*>(k.worker->data(y)), 42);
  }
}

TEST(Worker, keeps_what_was_printed) {
  auto k = value_of(host(library("honest_prints")));
  value_of(k.worker->run(k.call));
  value_of(k.worker->run(k.call));
  EXPECT_NE(k.worker->printed().find("a line on stdout"), std::string::npos);
  EXPECT_NE(k.worker->printed().find("a line on stderr"), std::string::npos);
}

TEST(Worker, footprint_shows_a_leak) {
  auto k = value_of(host(library("leaks")));
  value_of(k.worker->run(k.call));
  const auto before = value_of(k.worker->footprint());
  for (int i = 0; i < 20; ++i) value_of(k.worker->run(k.call));
  const auto after = value_of(k.worker->footprint());
  EXPECT_GT(after.resident_bytes - before.resident_bytes, 10 << 20);
  EXPECT_EQ(after.threads, before.threads);
  EXPECT_EQ(after.open_files, before.open_files);
}

TEST(Worker, applies_every_confinement_on_this_kernel) {
  const auto w = value_of(Worker::start({}));
  EXPECT_TRUE(w->confinement().no_new_privs);
  EXPECT_TRUE(w->confinement().seccomp);
  EXPECT_TRUE(w->confinement().outputs_locked);
}

}  // namespace
}  // namespace kl::testing

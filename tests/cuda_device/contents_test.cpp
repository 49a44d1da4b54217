// Contents made on the device are those the host would make, bit for bit.
#include "device_kernel.hpp"

#include <lab/worker/draw.hpp>

#include <cstring>
#include <random>

namespace kl::testing {
namespace {

struct Type {
  const char* name;
  DLDataType dtype;
};
const Type kTypes[] = {{"f32", {kDLFloat, 32, 1}}, {"bf16", {kDLBfloat, 16, 1}}, {"f16", {kDLFloat, 16, 1}},
                       {"f64", {kDLFloat, 64, 1}}, {"i32", {kDLInt, 32, 1}},     {"i64", {kDLInt, 64, 1}},
                       {"u8", {kDLUInt, 8, 1}}};

class Contents : public ::testing::TestWithParam<Type> {};

// Random bits: every exponent, subnormals, infinities and NaNs are among them.
TEST_P(Contents, are_drawn_as_on_the_host) {
  KL_NEEDS_DEVICE();
  const DLDataType dtype = GetParam().dtype;
  WorkerLimits limits;
  limits.device = "cuda";
  auto worker = value_of(Worker::start(limits));
  ASSERT_NE(worker, nullptr);
  constexpr int64_t kElements = 100'003;
  const size_t bytes = kElements * dtype.bits / 8u;
  const BufferId buffer = value_of(worker->add_buffer(BufferRole::input, bytes));
  std::mt19937_64 random(7);
  std::vector<std::byte> pool(bytes);
  for (auto& b : pool) b = static_cast<std::byte>(random());
  std::memcpy(worker->data(buffer), pool.data(), bytes);
  ASSERT_EQ(rule_of(worker->keep_pool(buffer, dtype)), "");
  for (const auto& [rotation, factor] : {std::pair<int64_t, double>{0, 1}, {1, 1}, {kElements - 1, -1.7}, {4711, 0.53}, {0, 1.9999}}) {
    ASSERT_EQ(rule_of(worker->draw(buffer, rotation, factor)), "");
    ASSERT_EQ(rule_of(worker->fetch(buffer, 0, bytes)), "");
    std::vector<std::byte> expected(bytes);
    draw_from_pool(dtype, pool, rotation, factor, expected.data());
    const auto first = std::mismatch(expected.begin(), expected.end(), worker->data(buffer)).first - expected.begin();
    EXPECT_EQ(first, static_cast<int64_t>(bytes)) << "rotation " << rotation << ", factor " << factor << ": byte " << first;
  }
}
INSTANTIATE_TEST_SUITE_P(Device, Contents, ::testing::ValuesIn(kTypes), [](const auto& test) { return std::string(test.param.name); });

TEST(fill, repeats_its_unit_to_the_last_byte) {
  KL_NEEDS_DEVICE();
  WorkerLimits limits;
  limits.device = "cuda";
  auto worker = value_of(Worker::start(limits));
  ASSERT_NE(worker, nullptr);
  constexpr size_t kBytes = 10'007;
  const BufferId buffer = value_of(worker->add_buffer(BufferRole::output, kBytes));
  for (const size_t width : {1u, 2u, 4u, 8u}) {
    const std::byte unit[8] = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}, std::byte{5}, std::byte{6}, std::byte{7}, std::byte{8}};
    ASSERT_EQ(rule_of(worker->fill(buffer, std::span(unit).first(width))), "");
    ASSERT_EQ(rule_of(worker->fetch(buffer, 0, kBytes)), "");
    for (size_t i = 0; i < kBytes; ++i) ASSERT_EQ(worker->data(buffer)[i], unit[i % width]) << width << " at " << i;
  }
}

TEST(fetch, brings_only_what_was_asked_for) {
  KL_NEEDS_DEVICE();
  WorkerLimits limits;
  limits.device = "cuda";
  auto worker = value_of(Worker::start(limits));
  ASSERT_NE(worker, nullptr);
  const BufferId buffer = value_of(worker->add_buffer(BufferRole::output, 100));
  std::memset(worker->data(buffer), 0, 100);
  const std::byte seven{7};
  ASSERT_EQ(rule_of(worker->fill(buffer, {&seven, 1})), "");
  ASSERT_EQ(rule_of(worker->fetch(buffer, 10, 5)), "");
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(worker->data(buffer)[i], i >= 10 && i < 15 ? seven : std::byte{0}) << i;
  EXPECT_EQ(rule_of(worker->fetch(buffer, 99, 2)), "binding");
}

TEST(draw, without_a_pool_says_so) {
  KL_NEEDS_DEVICE();
  WorkerLimits limits;
  limits.device = "cuda";
  auto worker = value_of(Worker::start(limits));
  ASSERT_NE(worker, nullptr);
  const BufferId buffer = value_of(worker->add_buffer(BufferRole::input, 64));
  EXPECT_EQ(rule_of(worker->draw(buffer, 0, 1)), "binding");
}

}  // namespace
}  // namespace kl::testing

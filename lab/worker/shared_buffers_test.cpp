#include <lab/worker/shared_buffers.hpp>

#include <lab/worker/protocol.hpp>

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

namespace kl {
namespace {

constexpr uint64_t kArena = protocol::kArenaBytes * 3;

struct Buffers : ::testing::Test {
  Buffers() { buffers.set_arena(kArena); }
  SharedBuffers::Placed add(BufferRole role, size_t bytes) {
    auto placed = buffers.add(role, bytes);
    EXPECT_TRUE(placed.ok());
    if (placed.ok()) ::close(placed->descriptor);
    return placed.ok() ? *placed : SharedBuffers::Placed{};
  }
  SharedBuffers buffers;
};

TEST_F(Buffers, tensors_end_where_the_guard_begins) {
  for (const size_t bytes : {size_t{1}, size_t{4}, size_t{4000}, size_t{4096}, size_t{4100}}) {
    const auto placed = add(BufferRole::output, bytes);
    EXPECT_EQ(buffers.address(placed.id) + bytes, placed.address + placed.bytes) << bytes;
    EXPECT_EQ(buffers.size(placed.id), bytes);
  }
}

TEST_F(Buffers, saved_and_scratch_start_at_64_bytes) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4000}, size_t{4096}})
    for (const auto role : {BufferRole::saved, BufferRole::scratch}) {
      const auto placed = add(role, bytes);
      EXPECT_EQ(buffers.address(placed.id) % 64, 0u) << bytes;
      EXPECT_LT(placed.address + placed.bytes - buffers.address(placed.id) - bytes, 65u) << bytes;
    }
}

TEST_F(Buffers, lie_far_from_each_other_and_behind_the_margin) {
  const auto a = add(BufferRole::input, 5000), b = add(BufferRole::output, 5000);
  EXPECT_GE(a.address, kArena + protocol::kArenaMargin + (1 << 16));
  EXPECT_GE(b.address, a.address + a.bytes + (1 << 16));
}

TEST_F(Buffers, an_address_is_attributed_to_the_nearest_buffer) {
  const auto a = add(BufferRole::input, 4000), b = add(BufferRole::output, 4000);
  const uint64_t begin = buffers.address(a.id);
  EXPECT_TRUE(buffers.touched(begin)->inside);
  EXPECT_EQ(buffers.touched(begin + 3999)->offset, 3999);
  EXPECT_TRUE(buffers.touched(begin + 3999)->inside);
  EXPECT_FALSE(buffers.touched(begin + 4000)->inside);
  EXPECT_EQ(buffers.touched(begin + 4000)->id, a.id);
  EXPECT_FALSE(buffers.touched(begin - 1)->inside);
  EXPECT_EQ(buffers.touched(buffers.address(b.id) - 100)->id, b.id);
  EXPECT_EQ(buffers.touched(buffers.address(b.id) - 100)->offset, -100);
  EXPECT_FALSE(buffers.touched(kArena - 1));
  EXPECT_FALSE(buffers.touched(kArena + protocol::kArenaBytes));
}

TEST_F(Buffers, a_changed_canary_is_found_once_with_its_offset) {
  const auto a = add(BufferRole::output, 4000);
  EXPECT_FALSE(buffers.broken_canary());
  std::memset(buffers.data(a.id), 0, 4000);
  EXPECT_FALSE(buffers.broken_canary()) << "the data itself is not canary";
  buffers.data(a.id)[-1] = std::byte{0};
  const auto touched = buffers.broken_canary();
  ASSERT_TRUE(touched);
  EXPECT_EQ(touched->id, a.id);
  EXPECT_EQ(touched->offset, -1);
  EXPECT_FALSE(buffers.broken_canary()) << "restored";

  const auto s = add(BufferRole::scratch, 4001);
  buffers.data(s.id)[4001] = std::byte{1};
  EXPECT_EQ(buffers.broken_canary()->offset, 4001);
}

TEST_F(Buffers, start_again_after_clear) {
  const auto a = add(BufferRole::output, 10);
  buffers.clear();
  EXPECT_FALSE(buffers.has(a.id));
  EXPECT_EQ(buffers.total_bytes(), 0);
  EXPECT_EQ(add(BufferRole::output, 10).address, a.address);
}

TEST_F(Buffers, are_refused_when_the_arena_is_full) {
  const auto result = buffers.add(BufferRole::input, protocol::kArenaBytes);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().what.find("arena is full"), std::string::npos);
}

}  // namespace
}  // namespace kl

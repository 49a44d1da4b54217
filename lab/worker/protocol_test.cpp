#include <lab/worker/call_wire.hpp>
#include <lab/worker/channel.hpp>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace kl::protocol {
namespace {

TEST(Protocol, a_call_arrives_as_it_was_sent) {
  WireCall call;
  call.operation = 1;
  call.inputs = {{0x1000, {kDLFloat, 32, 1}, 8, {2, 3}, {3, 1}}, {}};
  call.outputs = {{0x2000, {kDLBfloat, 16, 1}, 0, {6}, {1}}};
  call.scalars = {0.5, -1};
  call.saved = 0x3000;
  call.writable = {{0x2000, 4096}};
  Writer w(Header{7, 0, 42});
  put_call(w, call);

  Reader r(w.bytes());
  EXPECT_EQ(r.get<Header>().token, 42u);
  const WireCall got = get_call(r);
  EXPECT_TRUE(r.ok());
  EXPECT_EQ(got.operation, 1);
  ASSERT_EQ(got.inputs.size(), 2u);
  EXPECT_EQ(got.inputs[0].shape, call.inputs[0].shape);
  EXPECT_EQ(got.inputs[0].strides, call.inputs[0].strides);
  EXPECT_EQ(got.inputs[0].byte_offset, 8u);
  EXPECT_EQ(got.inputs[1].address, 0u);
  EXPECT_TRUE(got.inputs[1].shape.empty());
  EXPECT_EQ(got.outputs[0].dtype.code, kDLBfloat);
  EXPECT_EQ(got.scalars, call.scalars);
  EXPECT_EQ(got.saved, call.saved);
  EXPECT_EQ(got.scratch, 0u);
  ASSERT_EQ(got.writable.size(), 1u);
  EXPECT_EQ(got.writable[0].bytes, 4096u);
}

TEST(Protocol, every_truncation_of_a_call_is_noticed) {
  WireCall call;
  call.inputs = {{0x1000, {kDLFloat, 32, 1}, 0, {2, 3}, {3, 1}}};
  call.scalars = {1};
  Writer w(Header{});
  put_call(w, call);
  for (size_t size = sizeof(Header); size < w.bytes().size(); ++size) {
    Reader r(w.bytes().first(size));
    r.get<Header>();
    get_call(r);
    EXPECT_FALSE(r.ok()) << "cut to " << size << " bytes";
  }
}

TEST(Protocol, a_count_larger_than_the_message_allocates_nothing) {
  Writer w(Header{});
  w.put(uint32_t{0xFFFFFFFF});
  Reader r(w.bytes());
  r.get<Header>();
  EXPECT_TRUE(r.get_list<int64_t>().empty());
  EXPECT_FALSE(r.ok());
}

TEST(Channel, carries_a_descriptor_and_keeps_datagrams_apart) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  const Channel a(ends[0]), b(ends[1]);
  ASSERT_TRUE(a.send(std::vector<char>{'o', 'n', 'e'}, pipe_ends[1]));
  ASSERT_TRUE(a.send(std::vector<char>{'t', 'w', 'o', '!'}));
  std::vector<char> message;
  int descriptor = -1;
  ASSERT_TRUE(b.receive(message, descriptor));
  EXPECT_EQ(message.size(), 3u);
  ASSERT_GE(descriptor, 0);
  EXPECT_EQ(::write(descriptor, "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(::read(pipe_ends[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
  ::close(descriptor);
  ASSERT_TRUE(b.receive(message, descriptor));
  EXPECT_EQ(message.size(), 4u);
  EXPECT_EQ(descriptor, -1);
  ::close(ends[0]);
  EXPECT_FALSE(b.receive(message, descriptor)) << "the other end is gone";
  EXPECT_FALSE(b.send(std::vector<char>{'x'}));
  ::close(ends[1]);
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
}

TEST(Channel, refuses_a_message_beyond_the_bound) {
  EXPECT_FALSE(Channel(-1).send(std::vector<char>(kMessageBytes + 1)));
}

}  // namespace
}  // namespace kl::protocol

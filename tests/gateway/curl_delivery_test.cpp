#include "gateway/curl_delivery.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>

namespace gateway {
namespace curl_delivery_test {

/// Two ends of a TCP connection on this machine.
struct Pair {
  Pair() {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener, 1), 0);
    EXPECT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
    ours = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(connect(ours, reinterpret_cast<sockaddr*>(&address), size), 0);
    theirs = accept(listener, nullptr, nullptr);
    close(listener);
  }
  ~Pair() {
    close(ours);
    if (theirs >= 0) close(theirs);
  }
  void say() const { EXPECT_EQ(send(ours, "request", 7, MSG_NOSIGNAL), 7); }
  /// Waits for what the other end does, and reads it as libcurl would.
  [[nodiscard]] ssize_t hear() const {
    pollfd waiting{ours, POLLIN, 0};
    EXPECT_EQ(poll(&waiting, 1, 5'000), 1);
    char byte = 0;
    return recv(ours, &byte, 1, 0);
  }
  void they_close() {
    close(theirs);
    theirs = -1;
  }
  void they_reset() {
    const linger at_once{1, 0};
    setsockopt(theirs, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    they_close();
  }
  void they_read() const {
    char bytes[16];
    EXPECT_EQ(recv(theirs, bytes, sizeof(bytes), 0), 7);
  }

  int ours = -1;
  int theirs = -1;
};

TEST(NeverDelivered, is_true_if_the_other_side_had_closed_before_the_request_came) {
  Pair pair;
  const auto before = tcp_state(pair.ours);
  pair.they_close();
  pair.say();
  EXPECT_EQ(pair.hear(), 0);
  EXPECT_TRUE(never_delivered(before, tcp_state_at_close(pair.ours)));
}

TEST(NeverDelivered, is_false_if_the_other_side_has_read_the_request_and_then_closed) {
  Pair pair;
  const auto before = tcp_state(pair.ours);
  pair.say();
  pair.they_read();
  pair.they_close();
  EXPECT_EQ(pair.hear(), 0);
  EXPECT_FALSE(never_delivered(before, tcp_state_at_close(pair.ours)));
}

TEST(NeverDelivered, is_false_if_the_other_side_has_the_request_unread_and_resets) {
  Pair pair;
  const auto before = tcp_state(pair.ours);
  pair.say();
  pollfd waiting{pair.theirs, POLLIN, 0};
  ASSERT_EQ(poll(&waiting, 1, 5'000), 1);
  pair.they_close();
  EXPECT_EQ(pair.hear(), -1);
  EXPECT_FALSE(never_delivered(before, tcp_state_at_close(pair.ours)));
}

TEST(NeverDelivered, is_false_if_a_reader_of_the_request_resets) {
  Pair pair;
  const auto before = tcp_state(pair.ours);
  pair.say();
  pair.they_read();
  pair.they_reset();
  EXPECT_EQ(pair.hear(), -1);
  EXPECT_FALSE(never_delivered(before, tcp_state_at_close(pair.ours)));
}

TEST(NeverDelivered, is_true_if_nothing_was_sent_into_a_reset_connection) {
  Pair pair;
  const auto before = tcp_state(pair.ours);
  pair.they_reset();
  EXPECT_EQ(pair.hear(), -1);
  EXPECT_TRUE(never_delivered(before, tcp_state_at_close(pair.ours)));
}

TEST(NeverDelivered, is_false_while_the_connection_stands) {
  Pair pair;
  const auto before = tcp_state(pair.ours);
  EXPECT_FALSE(never_delivered(before, tcp_state_at_close(pair.ours)));
}

TEST(NeverDelivered, is_false_if_nothing_is_known) {
  Pair pair;
  EXPECT_FALSE(tcp_state(-1).has_value());
  EXPECT_FALSE(never_delivered(std::nullopt, tcp_state_at_close(pair.ours)));
  EXPECT_FALSE(never_delivered(tcp_state(pair.ours), std::nullopt));
}

TEST(TcpState, is_over_once_the_other_side_has_closed) {
  Pair pair;
  EXPECT_FALSE(tcp_state(pair.ours)->over());
  pair.they_close();
  pollfd waiting{pair.ours, POLLIN, 0};
  ASSERT_EQ(poll(&waiting, 1, 5'000), 1);
  EXPECT_TRUE(tcp_state(pair.ours)->over());
}

}  // namespace curl_delivery_test
}  // namespace gateway

#include "gateway/public_address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

namespace gateway {
namespace public_address_test {

bool is_public(const std::string& text) {
  std::array<std::uint8_t, 16> bytes{};
  const bool six = text.find(':') != std::string::npos;
  EXPECT_EQ(inet_pton(six ? AF_INET6 : AF_INET, text.c_str(), bytes.data()), 1) << text;
  return gateway::is_public(std::span{bytes}.first(six ? 16 : 4));
}

bool is_inside(const std::string& text) {
  std::array<std::uint8_t, 16> bytes{};
  const bool six = text.find(':') != std::string::npos;
  EXPECT_EQ(inet_pton(six ? AF_INET6 : AF_INET, text.c_str(), bytes.data()), 1) << text;
  return gateway::is_inside(std::span{bytes}.first(six ? 16 : 4));
}

TEST(PublicAddress, is_inside_where_a_cluster_has_its_services_and_never_where_a_cloud_has_its_metadata) {
  for (const char* text : {"10.96.0.1",
                           "172.16.0.1",
                           "172.31.255.255",
                           "192.168.1.1",
                           "100.64.0.1",
                           "fd00::1",
                           "fc00::1",
                           "::ffff:10.0.0.1"})
    EXPECT_TRUE(is_inside(text)) << text;
  for (const char* text : {"169.254.169.254",
                           "169.254.0.1",
                           "fd00:ec2::254",
                           "::ffff:169.254.169.254",
                           "100.100.100.200",
                           "192.0.0.192",
                           "168.63.129.16",
                           "127.0.0.1",
                           "::1",
                           "fe80::1",
                           "0.0.0.0",
                           "224.0.0.1",
                           "8.8.8.8",
                           "2606:4700::1111"})
    EXPECT_FALSE(is_inside(text)) << text;
  EXPECT_FALSE(gateway::is_inside({}));
}

TEST(PublicAddress, is_one_that_anybody_can_reach) {
  for (const char* text :
       {"1.1.1.1",          "8.8.8.8",         "9.255.255.255",   "11.0.0.0",        "100.63.255.255",
        "100.128.0.0",      "126.255.255.255", "128.0.0.1",       "169.253.255.255", "169.255.0.0",
        "172.15.255.255",   "172.32.0.0",      "192.0.1.0",       "192.167.255.255", "192.169.0.0",
        "198.17.255.255",   "198.20.0.0",      "223.255.255.255", "168.63.129.15",   "2606:4700::1111",
        "2a00:1450::1",     "2001:200::1",     "2001:4860::8888", "3fff:1000::1",    "::ffff:8.8.8.8",
        "64:ff9b::808:808", "2002:808:808::1"}) {
    EXPECT_TRUE(is_public(text)) << text;
  }
}

TEST(PublicAddress, is_not_one_of_ours_or_nobodys) {
  for (const char* text : {"0.0.0.0",
                           "0.1.2.3",
                           "10.0.0.1",
                           "10.255.255.255",
                           "100.64.0.0",
                           "100.100.100.200",
                           "100.127.255.255",
                           "127.0.0.1",
                           "127.255.255.255",
                           "168.63.129.16",
                           "169.254.0.1",
                           "169.254.169.254",
                           "172.16.0.0",
                           "172.31.255.255",
                           "192.0.0.192",
                           "192.0.2.1",
                           "192.88.99.1",
                           "192.168.0.1",
                           "192.168.255.255",
                           "198.18.0.0",
                           "198.19.255.255",
                           "198.51.100.1",
                           "203.0.113.1",
                           "224.0.0.1",
                           "239.255.255.255",
                           "240.0.0.1",
                           "255.255.255.255",
                           "::",
                           "::1",
                           "::127.0.0.1",
                           "::ffff:127.0.0.1",
                           "::ffff:10.0.0.1",
                           "::ffff:169.254.169.254",
                           "::ffff:0.0.0.0",
                           "64:ff9b::a00:1",
                           "64:ff9b::7f00:1",
                           "64:ff9b::a9fe:a9fe",
                           "64:ff9b:1::808:808",
                           "2002:7f00:1::",
                           "2002:a00:1::1",
                           "fc00::1",
                           "fd00:ec2::254",
                           "fdff::1",
                           "fe80::1",
                           "febf::1",
                           "fec0::1",
                           "ff02::1",
                           "100::1",
                           "2001::1",
                           "2001:db8::1",
                           "3fff::1",
                           "4000::1",
                           "5f00::1"}) {
    EXPECT_FALSE(is_public(text)) << text;
  }
  EXPECT_FALSE(gateway::is_public({}));
  const std::array<std::uint8_t, 5> five = {8, 8, 8, 8, 8};
  EXPECT_FALSE(gateway::is_public(five));
}

}  // namespace public_address_test
}  // namespace gateway

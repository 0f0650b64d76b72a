// Goal: events are cut where the event stream format says, at any split of the bytes, and nothing is lost or added.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "classifier/sse.h"

namespace sse_test {

using classifier::EventSplitter;
using classifier::Framing;
using Kind = EventSplitter::Kind;

std::string shown(const EventSplitter::Block& block) {
  const char* kind = block.kind == Kind::Event ? "event " : block.kind == Kind::Idle ? "idle " : "piece ";
  return kind + std::string{block.bytes};
}

std::vector<std::string> blocks_of(std::string_view bytes, std::size_t piece, Framing framing = Framing::Events) {
  EventSplitter splitter{framing};
  std::vector<std::string> blocks;
  while (!bytes.empty()) {
    splitter.feed(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    while (const auto block = splitter.next()) blocks.push_back(shown(*block));
  }
  if (const auto block = splitter.rest()) blocks.push_back("rest " + shown(*block));
  return blocks;
}

TEST(EventSplitter, cuts_where_the_format_says_at_any_split) {
  const struct {
    std::string_view bytes;
    std::vector<std::string> blocks;
  } kCases[] = {
      {"", {}},
      {"data: a\n\ndata: b\n\n", {"event data: a\n\n", "event data: b\n\n"}},
      {"data: a\r\n\r\ndata: b\r\n\r\n", {"event data: a\r\n\r\n", "event data: b\r\n\r\n"}},
      {"data: a\r\rdata: b\r\rx", {"event data: a\r\r", "event data: b\r\r", "rest event x"}},
      {"data: a\n\r\ndata: b\r\n\n", {"event data: a\n\r\n", "event data: b\r\n\n"}},
      {"event: x\ndata: a\ndata: b\n\n", {"event event: x\ndata: a\ndata: b\n\n"}},
      {": hi\ndata: a\n: mid\n\n", {"idle : hi\n", "event data: a\n: mid\n\n"}},
      {": hi\n\n\n", {"idle : hi\n", "idle \n", "idle \n"}},
      {"\xEF\xBB\xBF: hi\n\xEF\xBB\xBF: no\n\n", {"idle \xEF\xBB\xBF: hi\n", "event \xEF\xBB\xBF: no\n\n"}},
      {"\xEF\xBB\xBF\ndata: a\n\n", {"idle \xEF\xBB\xBF\n", "event data: a\n\n"}},
      {"data: a\n", {"rest event data: a\n"}},
      {"data: a\r\n\r", {"rest event data: a\r\n\r"}},
      {": half", {"rest idle : half"}},
      {"\r", {"rest idle \r"}},
  };
  for (const auto& c : kCases) {
    for (std::size_t piece = 1; piece <= c.bytes.size() + 1; ++piece) {
      EXPECT_EQ(blocks_of(c.bytes, piece), c.blocks) << c.bytes << " in pieces of " << piece;
    }
  }
}

TEST(EventSplitter, cuts_lines_at_their_newline_alone) {
  const struct {
    std::string_view bytes;
    std::vector<std::string> blocks;
  } kCases[] = {
      {"{1}\n{2}\n", {"event {1}\n", "event {2}\n"}},
      {"{1}\r\n\r\n{2}", {"event {1}\r\n", "idle \r\n", "rest event {2}"}},
      {"{\r1}\n", {"event {\r1}\n"}},
      {"\n \t\n{1}\n", {"idle \n", "idle  \t\n", "event {1}\n"}},
      {": no\n", {"event : no\n"}},
      {": no", {"rest event : no"}},
      {"{1}\n ", {"event {1}\n", "rest idle  "}},
  };
  for (const auto& c : kCases) {
    for (std::size_t piece = 1; piece <= c.bytes.size() + 1; ++piece) {
      EXPECT_EQ(blocks_of(c.bytes, piece, Framing::Lines), c.blocks) << c.bytes << " in pieces of " << piece;
    }
  }
}

TEST(EventSplitter, a_line_too_large_comes_in_pieces_whose_last_one_ends_it) {
  for (const std::size_t piece : {std::size_t{100'000}, std::size_t{20'000'000}}) {
    const std::string big = std::string(EventSplitter::kEventMax + 1, 'x') + "\n";
    const std::string all = big + "{1}\n";
    EventSplitter splitter{Framing::Lines};
    std::string pieces;
    std::string events;
    std::size_t held = 0;
    for (std::size_t at = 0; at < all.size(); at += piece) {
      splitter.feed(std::string_view{all}.substr(at, piece));
      while (const auto block = splitter.next()) (block->kind == Kind::Piece ? pieces : events) += block->bytes;
      held = std::max(held, splitter.held());
    }
    EXPECT_EQ(pieces, big);
    EXPECT_EQ(events, "{1}\n");
    EXPECT_LE(held, EventSplitter::kEventMax + 1);
    EXPECT_TRUE(splitter.between_events());
  }
}

TEST(EventSplitter, gives_back_what_it_got_whatever_that_is) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::mt19937 chance{seed};
    constexpr std::string_view kBytes = "a:\n\r \xEF\xBB\xBF";
    std::string bytes;
    for (int i = 0; i < 80; ++i) bytes += kBytes[chance() % kBytes.size()];
    std::string back;
    EventSplitter splitter{seed % 2 == 0 ? Framing::Events : Framing::Lines};
    std::string_view left = bytes;
    while (!left.empty()) {
      const std::size_t taken = std::min<std::size_t>(1 + chance() % 9, left.size());
      splitter.feed(left.substr(0, taken));
      left.remove_prefix(taken);
      while (const auto block = splitter.next()) back += block->bytes;
      ASSERT_EQ(back.size() + splitter.held() + left.size(), bytes.size()) << "seed " << seed;
    }
    if (const auto block = splitter.rest()) back += block->bytes;
    ASSERT_EQ(back, bytes) << "seed " << seed;
  }
}

TEST(EventSplitter, an_event_too_large_comes_in_pieces_whose_last_one_ends_it) {
  for (const std::size_t piece : {std::size_t{100'000}, std::size_t{20'000'000}}) {
    const std::string big = "data: " + std::string(EventSplitter::kEventMax, 'x') + "\n\n";
    const std::string all = big + "data: a\n\n";
    EventSplitter splitter;
    std::string pieces;
    std::string events;
    int ends = 0;
    for (std::size_t at = 0; at < all.size(); at += piece) {
      splitter.feed(std::string_view{all}.substr(at, piece));
      while (const auto block = splitter.next()) {
        (block->kind == Kind::Piece ? pieces : events) += block->bytes;
        if (block->kind == Kind::Piece && block->ends) ++ends;
      }
    }
    EXPECT_EQ(pieces, big);
    EXPECT_EQ(events, "data: a\n\n");
    EXPECT_EQ(ends, 1);
    EXPECT_TRUE(splitter.between_events());
  }
}

TEST(EventSplitter, an_event_of_just_the_largest_size_is_whole) {
  const std::string event = "data: " + std::string(EventSplitter::kEventMax - 8, 'x') + "\n\n";
  ASSERT_EQ(event.size(), EventSplitter::kEventMax);
  EventSplitter splitter;
  for (std::size_t at = 0; at < event.size(); at += 4'096) splitter.feed(std::string_view{event}.substr(at, 4'096));
  const auto block = splitter.next();
  ASSERT_TRUE(block);
  EXPECT_EQ(block->kind, Kind::Event);
}

TEST(ReadEvent, takes_name_and_data_as_the_format_says) {
  const struct {
    std::string_view block;
    std::string_view name;
    std::string_view data;
    bool has_data;
  } kCases[] = {
      {"data: a\n\n", "", "a", true},
      {"data:a\n\n", "", "a", true},
      {"data:  a\n\n", "", " a", true},
      {"data\n\n", "", "", true},
      {"data:\n\n", "", "", true},
      {"data: a\ndata: b\n\n", "", "a\nb", true},
      {"data: a\r\ndata: b\r\ndata:\r\n\r\n", "", "a\nb\n", true},
      {"data: a\rdata: b\r\r", "", "a\nb", true},
      {"event: x\nid: 3\nretry: 5\n\n", "x", "", false},
      {"event: x\ndata: a\nevent: y\n\n", "y", "a", true},
      {"\xEF\xBB\xBF"
       "data: a\n\n",
       "",
       "a",
       true},
      {"database: no\n: data: no\n\n", "", "", false},
      {"data: unfinished", "", "unfinished", true},
  };
  for (const auto& c : kCases) {
    std::string scratch;
    const classifier::EventText event = classifier::read_event(c.block, scratch);
    EXPECT_EQ(event.name, c.name) << c.block;
    EXPECT_EQ(event.data, c.data) << c.block;
    EXPECT_EQ(event.has_data, c.has_data) << c.block;
  }
}

}  // namespace sse_test

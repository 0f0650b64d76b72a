// Goal: AWS's frames are cut, checked and read at any split of the bytes; nothing that is broken passes for whole,
// and what callgate says in frames is one. Method: frames are made and read here by code of its own, with a checksum
// of its own.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "classifier/base64.h"
#include "classifier/dialect.h"
#include "classifier/frames.h"
#include "classifier/sse.h"
#include "tests/classifier/help.h"

namespace frames_test {

using classifier::Dialect;
using classifier::EventSplitter;
using classifier::Framing;
using classifier::Headers;
using classifier::StreamReader;
using classifier::Transport;
using classifier_tests::spelled;
using Json = nlohmann::json;
using Kind = EventSplitter::Kind;

std::uint32_t checksum(std::string_view bytes) {
  std::uint32_t sum = 0xFFFF'FFFFU;
  for (const char c : bytes) {
    sum ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1U) ^ ((sum & 1U) != 0 ? 0xEDB8'8320U : 0U);
  }
  return ~sum;
}

std::string big_endian(std::size_t number, unsigned bytes) {
  std::string out;
  while (bytes-- > 0) out += static_cast<char>((number >> (8U * bytes)) & 0xFFU);
  return out;
}

std::string text_header(std::string_view name, std::string_view value) {
  return static_cast<char>(name.size()) + std::string{name} + '\x07' + big_endian(value.size(), 2) +
         std::string{value};
}

std::string frame_of(const std::string& headers, std::string_view payload) {
  std::string frame = big_endian(16 + headers.size() + payload.size(), 4) + big_endian(headers.size(), 4);
  frame += big_endian(checksum(frame), 4);
  frame += headers;
  frame += payload;
  return frame + big_endian(checksum(frame), 4);
}

std::string event(std::string_view type, std::string_view payload) {
  return frame_of(text_header(":event-type", type) + text_header(":content-type", "application/json") +
                      text_header(":message-type", "event"),
                  payload);
}

std::string exception(std::string_view type, std::string_view payload) {
  return frame_of(text_header(":exception-type", type) + text_header(":content-type", "application/json") +
                      text_header(":message-type", "exception"),
                  payload);
}

std::string to_base64(std::string_view bytes) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i)
      bits = bits << 8U | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i)
      out += at + i <= bytes.size() ? kAlphabet[(bits >> (18U - 6U * i)) & 63U] : '=';
  }
  return out;
}

std::string chunk(std::string_view models_own) {
  return event("chunk", "{\"bytes\":\"" + to_base64(models_own) + "\",\"p\":\"abcd\"}");
}

using Frames = std::vector<std::string>;

const Frames kConverse = {
    event("messageStart", R"({"role":"assistant","p":"ab"})"),
    event("contentBlockDelta", R"({"contentBlockIndex":0,"delta":{"text":"Hello"},"p":"abcdefgh"})"),
    event("contentBlockDelta", R"({"contentBlockIndex":0,"delta":{"text":", 日本 😀"}})"),
    event("contentBlockStop", R"({"contentBlockIndex":0})"),
    event("messageStop", R"({"stopReason":"end_turn"})"),
    event(
        "metadata",
        R"({"usage":{"inputTokens":3,"outputTokens":9,"totalTokens":312,"cacheReadInputTokens":200,)"
        R"("cacheWriteInputTokens":100,"cacheDetails":[{"ttl":"5m","inputTokens":40},{"ttl":"1h","inputTokens":60}]},)"
        R"("metrics":{"latencyMs":5},"serviceTier":{"type":"priority"}})")};

const Frames kInvoke = {
    chunk(R"({"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"claude-x",)"
          R"("content":[],"usage":{"input_tokens":10,"cache_read_input_tokens":4,"output_tokens":1}}})"),
    chunk(R"({"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}})"),
    chunk(R"({"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}})"),
    chunk(R"({"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":15}})"),
    chunk(
        R"({"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":10,"outputTokenCount":15}})")};

constexpr std::string_view kConversePath = "/model/m/converse-stream";
constexpr std::string_view kInvokePath = "/model/m/invoke-with-response-stream";

struct Stream {
  std::string_view path;
  const Frames& frames;
  std::string_view usage;
  std::size_t content_at;
  std::size_t finish_at;  // With so many frames a finish reason has come.
};
const Stream kStreams[] = {{kConversePath, kConverse, " 303 200 40 60 9 0 end_turn", 2, 5},
                           {kInvokePath, kInvoke, "claude-x 14 4 0 0 15 0 end_turn", 3, 4}};

std::string joined(const Frames& frames, std::size_t count = ~std::size_t{0}) {
  std::string all;
  for (std::size_t i = 0; i < std::min(count, frames.size()); ++i) all += frames[i];
  return all;
}

const Dialect& bedrock() { return *classifier::find_dialect("bedrock"); }
const Headers kHead = {{"Content-Type", "application/vnd.amazon.eventstream"}};

std::unique_ptr<StreamReader> reader_for(std::string_view path) {
  const classifier::Endpoint endpoint = bedrock().endpoint("POST", path);
  EXPECT_TRUE(bedrock().is_stream(endpoint, {}, kHead));
  return bedrock().stream_reader(endpoint, {.stream = true}, kHead, false);
}

std::string passed(StreamReader& reader) { return reader.forward() + reader.tail(); }

TEST(Frames, are_cut_at_any_split_and_given_back_byte_for_byte) {
  for (const Stream& stream : kStreams) {
    const std::string all = joined(stream.frames);
    for (std::size_t piece = 1; piece <= all.size(); piece += piece < 40 ? 1 : 97) {
      EventSplitter splitter{Framing::Frames};
      Frames got;
      for (std::size_t at = 0; at < all.size(); at += piece) {
        const std::string bytes = all.substr(at, piece);
        splitter.feed(bytes);
        while (const auto block = splitter.next()) {
          ASSERT_EQ(block->kind, Kind::Event);
          got.emplace_back(block->bytes);
        }
        ASSERT_EQ(splitter.between_events(), splitter.held() == 0);
      }
      ASSERT_EQ(got, stream.frames) << "in pieces of " << piece;
      EXPECT_TRUE(splitter.between_events());
      EXPECT_FALSE(splitter.rest());
    }
  }
}

TEST(Frames, have_headers_of_all_kinds_of_which_texts_are_read) {
  const std::string nine_kinds = std::string{"\x01"} + "a" + '\x00' + "\x01" + "b" + '\x01' + "\x01" + "c" + "\x02" +
                                 "x" + "\x01" + "d" + "\x03" + "xx" + "\x01" + "e" + "\x04" + "xxxx" + "\x01" + "f" +
                                 "\x05" + "xxxxxxxx" + "\x01" + "g" + "\x06" + big_endian(300, 2) +
                                 std::string(300, 'x') + "\x01" + "h" + "\x08" + "xxxxxxxx" + "\x01" + "i" + "\x09" +
                                 std::string(16, 'x');
  const std::string bytes =
      frame_of(nine_kinds + text_header(":message-type", "event") + text_header(":event-type", "t"), "payload");
  const auto frame = classifier::read_frame(bytes);
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->message_type, "event");
  EXPECT_EQ(frame->event_type, "t");
  EXPECT_EQ(frame->payload, "payload");
  // A name without a value, an unknown kind, a value longer than the headers, an empty name.
  for (const std::string& headers : {std::string{"\x01"} + "a",
                                     std::string{"\x01"} + "a" + "\x0a",
                                     std::string{"\x01"} + "a" + "\x07" + "\x01",
                                     std::string{"\x01"} + "a" + "\x07" + big_endian(9, 2) + "x",
                                     std::string{"\x05"} + "a",
                                     std::string{"\0\0", 2}}) {
    EXPECT_FALSE(classifier::read_frame(frame_of(headers, "payload")));
  }
  EXPECT_TRUE(classifier::read_frame(frame_of("", "")));
}

TEST(Frames, of_impossible_lengths_are_broken_at_once) {
  const auto prelude = [](std::size_t total, std::size_t headers) {
    const std::string lengths = big_endian(total, 4) + big_endian(headers, 4);
    return lengths + big_endian(checksum(lengths), 4);
  };
  EXPECT_EQ(classifier::frame_length(prelude(16, 0)), 16U);
  EXPECT_EQ(classifier::frame_length(prelude((24U << 20U) + 16U, 0)), (24U << 20U) + 16U);
  for (const auto& [total, headers] : {std::pair<std::size_t, std::size_t>{0, 0},
                                       {15, 0},
                                       {16, 1},
                                       {100, 0xFFFF'FFFF},
                                       {0xFFFF'FFFF, 0},
                                       {(24U << 20U) + 17U, 0},
                                       {300'000, 200'000}}) {
    EXPECT_FALSE(classifier::frame_length(prelude(total, headers))) << total << ' ' << headers;
    EventSplitter splitter{Framing::Frames};
    splitter.feed(prelude(total, headers));
    const auto block = splitter.next();
    ASSERT_TRUE(block);
    EXPECT_EQ(block->kind, Kind::Broken);
    EXPECT_FALSE(splitter.next());
    splitter.feed(joined(kConverse));
    EXPECT_FALSE(splitter.next()) << "nothing behind it can be found again";
    EXPECT_EQ(splitter.held(), 0U);
  }
}

TEST(Frames, too_large_to_hold_come_in_pieces_and_are_checked_all_the_same) {
  const std::string big = event("chunk", std::string(EventSplitter::kEventMax + 5'000, 'x'));
  for (const bool good : {true, false}) {
    for (const std::size_t piece : {std::size_t{100'003}, std::size_t{20'000'000}}) {
      std::string all = big + kConverse[0];
      if (!good) all[big.size() / 2] = 'y';
      EventSplitter splitter{Framing::Frames};
      std::string pieces;
      std::string events;
      std::size_t held = 0;
      int ends = 0;
      bool broken = false;
      for (std::size_t at = 0; at < all.size(); at += piece) {
        splitter.feed(std::string_view{all}.substr(at, piece));
        held = std::max(held, splitter.held());
        while (const auto block = splitter.next()) {
          broken = broken || block->kind == Kind::Broken;
          if (block->kind == Kind::Piece) ends += block->ends ? 1 : 0;
          (block->kind == Kind::Piece ? pieces : events) += block->bytes;
        }
      }
      EXPECT_EQ(broken, !good);
      EXPECT_EQ(ends, good ? 1 : 0);
      EXPECT_EQ(events, good ? kConverse[0] : "");
      EXPECT_EQ(splitter.between_events(), good) << "whoever got half of it reads on";
      EXPECT_TRUE(good ? pieces == big : pieces.size() < big.size());
      EXPECT_LE(held, std::max(piece, EventSplitter::kEventMax));
    }
  }
}

TEST(FrameStream, is_read_as_it_is) {
  for (const Stream& stream : kStreams) {
    SCOPED_TRACE(stream.path);
    const auto reader = reader_for(stream.path);
    for (std::size_t i = 0; i < stream.frames.size(); ++i) {
      EXPECT_FALSE(reader->terminal());
      reader->feed(stream.frames[i]);
      EXPECT_EQ(reader->content(), i + 1 >= stream.content_at);
      EXPECT_EQ(reader->events(), i + 1);
      EXPECT_TRUE(reader->between_events());
    }
    EXPECT_TRUE(reader->terminal() && reader->complete());
    EXPECT_EQ(reader->tail(), stream.frames.back()) << "the ledger hears of the end first";
    EXPECT_EQ(spelled(reader->finish(std::nullopt)), "none");
    EXPECT_EQ(spelled(reader->usage()), stream.usage);
    EXPECT_EQ(passed(*reader), joined(stream.frames));
  }
  const auto reader = reader_for(kConversePath);
  reader->feed(joined(kConverse));
  EXPECT_EQ(reader->usage().service_tier, "priority");
}

TEST(FrameStream, any_split_of_the_bytes_gives_the_same) {
  for (const Stream& stream : kStreams) {
    const std::string all = joined(stream.frames);
    for (unsigned seed = 0; seed < 200; ++seed) {
      SCOPED_TRACE(std::string{stream.path} + " seed " + std::to_string(seed));
      std::mt19937 chance{seed};
      const auto reader = reader_for(stream.path);
      std::string_view left = all;
      while (!left.empty()) {
        const std::size_t taken =
            std::min<std::size_t>(seed == 0 ? 1 : 1 + chance() % (1U << (seed % 10U)), left.size());
        const std::string bytes{left.substr(0, taken)};
        reader->feed(bytes);
        left.remove_prefix(taken);
      }
      ASSERT_EQ(spelled(reader->finish(std::nullopt)), "none");
      ASSERT_EQ(spelled(reader->usage()), stream.usage);
      ASSERT_EQ(reader->tail(), stream.frames.back());
      ASSERT_EQ(passed(*reader), all);
      ASSERT_EQ(reader->events(), stream.frames.size());
    }
  }
}

TEST(FrameStream, a_cut_anywhere_leaves_whole_frames_and_is_never_taken_for_an_end) {
  for (const Stream& stream : kStreams) {
    const std::string all = joined(stream.frames);
    for (std::size_t length = 0; length <= all.size(); ++length) {
      std::size_t whole = 0;
      while (whole < stream.frames.size() && joined(stream.frames, whole + 1).size() <= length) ++whole;
      const bool said = whole >= stream.finish_at;
      for (const bool clean : {false, true}) {
        SCOPED_TRACE(std::string{stream.path} + " cut at " + std::to_string(length) + (clean ? " cleanly" : ""));
        const auto reader = reader_for(stream.path);
        reader->feed(std::string_view{all}.substr(0, length));
        const std::string verdict = spelled(reader->finish(clean ? std::nullopt : std::optional{Transport::Reset}));
        ASSERT_EQ(verdict, said ? "none" : clean ? "malformed_response retryable" : "network retryable");
        ASSERT_EQ(passed(*reader), joined(stream.frames, whole));
        ASSERT_TRUE(reader->between_events()) << "an exception of ours may follow";
        ASSERT_EQ(reader->terminal(), whole == stream.frames.size());
      }
    }
  }
}

TEST(FrameStream, a_wrong_byte_anywhere_is_seen_and_nothing_from_there_on_is_passed_on) {
  for (const Stream& stream : kStreams) {
    const std::string all = joined(stream.frames);
    std::size_t begin = 0;
    std::size_t index = 0;
    for (std::size_t at = 0; at < all.size(); ++at) {
      while (at >= begin + stream.frames[index].size()) begin += stream.frames[index++].size();
      for (const unsigned flip : {0x01U, 0x80U, 0xFFU}) {
        SCOPED_TRACE(std::string{stream.path} + " byte " + std::to_string(at));
        std::string wrong = all;
        wrong[at] = static_cast<char>(static_cast<unsigned char>(wrong[at]) ^ flip);
        const auto reader = reader_for(stream.path);
        reader->feed(wrong);
        ASSERT_FALSE(reader->complete());
        ASSERT_EQ(spelled(reader->finish(std::nullopt)), "malformed_response retryable");
        ASSERT_EQ(passed(*reader), joined(stream.frames, index));
        ASSERT_TRUE(reader->between_events());
        ASSERT_EQ(reader->held_bytes(), passed(*reader).size());
      }
    }
  }
}

TEST(FrameStream, what_follows_the_end_no_longer_matters) {
  const auto reader = reader_for(kConversePath);
  reader->feed(joined(kConverse) + "junk that is no frame");
  EXPECT_TRUE(reader->complete());
  EXPECT_EQ(spelled(reader->finish(Transport::Reset)), "none");
  EXPECT_EQ(passed(*reader), joined(kConverse));
}

TEST(FrameStream, bytes_of_any_kind_do_no_harm) {
  for (unsigned seed = 0; seed < 3'000; ++seed) {
    std::mt19937 chance{seed};
    const bool framed = seed % 3 != 0;  // Checksums that are right lead further in.
    std::string bytes = seed % 2 == 0 ? joined(kConverse, chance() % 4) : std::string{};
    for (int i = 0; i < 4; ++i) {
      const auto random = [&](std::size_t most) {
        std::string out;
        for (std::size_t n = chance() % most; n > 0; --n) out += static_cast<char>(chance() % 256);
        return out;
      };
      constexpr std::string_view kPayloads[] = {R"({"bytes":)",
                                                R"({"bytes":"!!!!"})",
                                                R"({"bytes":"eyJ0eXBlIjo"})",
                                                "[]",
                                                "null",
                                                R"({"usage":{"inputTokens":-1}})",
                                                R"({"usage":[1],"delta":7,"stopReason":{}})",
                                                "{\"stopReason\":\"\xff\"}",
                                                ""};
      const std::string payload =
          chance() % 2 == 0 ? random(90) : std::string{kPayloads[chance() % std::size(kPayloads)]};
      const std::string type{std::array{"metadata", "chunk", "messageStop", ""}[chance() % 4]};
      const std::string headers =
          chance() % 4 == 0
              ? random(40)
              : text_header(":message-type", std::array{"event", "exception", "error", "odd"}[chance() % 4]) +
                    text_header(":event-type", type) + text_header(":exception-type", type);
      bytes += framed ? frame_of(headers, payload) : random(200);
    }
    for (const std::string_view path : {kConversePath, kInvokePath}) {
      const auto reader = reader_for(path);
      std::string_view left = bytes;
      while (!left.empty()) {
        const std::size_t taken = std::min<std::size_t>(1 + chance() % 50, left.size());
        const std::string piece{left.substr(0, taken)};
        reader->feed(piece);
        left.remove_prefix(taken);
      }
      const std::string verdict = spelled(reader->finish(std::nullopt));
      ASSERT_TRUE(bytes.starts_with(passed(*reader))) << "seed " << seed;
      if (!framed && seed % 2 != 0) {
        ASSERT_EQ(verdict, "malformed_response retryable") << "seed " << seed;
      }
      if (reader->error()) {
        const Json body = Json::parse(reader->error_body(), nullptr, false);
        ASSERT_TRUE(body.is_object() && body["message"].is_string() && body["__type"].is_string()) << "seed " << seed;
      }
    }
  }
}

TEST(FrameStream, an_exception_is_judged_as_if_it_had_come_alone) {
  const struct {
    std::string_view path;
    std::string frame;
    std::string_view verdict;
    int status;
    std::string_view body;
  } kCases[] = {
      {kConversePath,
       exception("throttlingException", R"({"message":"Too many tokens, please wait before trying again."})"),
       "rate_limited retryable",
       429,
       R"({"__type":"ThrottlingException","message":"Too many tokens, please wait before trying again."})"},
      {kConversePath,
       exception("throttlingException", R"({"message":"Too many tokens per day, please wait."})"),
       "quota_exhausted final",
       400,
       R"({"__type":"ThrottlingException","message":"Too many tokens per day, please wait."})"},
      {kConversePath,
       exception("modelStreamErrorException", R"({"message":"m","originalStatusCode":500,"originalMessage":"o"})"),
       "server_error retryable",
       500,
       R"({"__type":"ModelStreamErrorException","message":"m"})"},
      {kConversePath,
       exception("modelStreamErrorException", R"({"originalStatusCode":400,"message":"m"})"),
       "invalid_request final",
       400,
       R"({"__type":"ModelStreamErrorException","message":"m"})"},
      {kConversePath,
       exception("validationException", R"({"message":"Your request is odd."})"),
       "invalid_request final",
       400,
       R"({"__type":"ValidationException","message":"Your request is odd."})"},
      {kConversePath,
       exception("validationException", R"({"message":"Input is too long for requested model."})"),
       "context_length final",
       400,
       R"({"__type":"ValidationException","message":"Input is too long for requested model."})"},
      {kInvokePath,
       exception("modelTimeoutException", "{}"),
       "timeout retryable",
       408,
       R"({"__type":"ModelTimeoutException","message":"the provider reported an error and did not say which"})"},
      {kInvokePath,
       exception("serviceUnavailableException", "no JSON"),
       "overloaded retryable",
       503,
       R"({"__type":"ServiceUnavailableException","message":"no JSON"})"},
      {kInvokePath,
       frame_of(text_header(":message-type", "error") + text_header(":error-code", "InternalError") +
                    text_header(":error-message", "An internal error."),
                ""),
       "server_error retryable",
       500,
       R"({"__type":"InternalError","message":"An internal error."})"},
      {kInvokePath,
       chunk(R"({"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}})"),
       "overloaded retryable",
       503,
       R"({"__type":"ServiceUnavailableException","message":"Overloaded"})"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.body);
    const Frames& frames = c.path == kConversePath ? kConverse : kInvoke;
    for (const std::size_t before : {0U, 1U, 3U}) {
      const auto reader = reader_for(c.path);
      reader->feed(joined(frames, before) + c.frame);
      ASSERT_TRUE(reader->error());
      EXPECT_EQ(spelled(*reader->error()), c.verdict);
      EXPECT_EQ(reader->error_status(), c.status);
      EXPECT_EQ(reader->error_body(), c.body);
      EXPECT_EQ(reader->tail(), c.frame);
      EXPECT_TRUE(reader->terminal());
      EXPECT_FALSE(reader->complete());
      EXPECT_EQ(spelled(reader->finish(std::nullopt)), c.verdict);
    }
  }
}

TEST(FrameStream, that_a_guardrail_ended_is_a_refusal_and_one_that_broke_off_behind_its_word_is_cut) {
  for (const std::string_view reason : {"guardrail_intervened", "content_filtered"}) {
    const auto reader = reader_for(kConversePath);
    reader->feed(event("contentBlockDelta", R"({"contentBlockIndex":0,"delta":{"text":"No."}})") +
                 event("messageStop", R"({"stopReason":")" + std::string{reason} + R"("})") +
                 event("metadata", R"({"usage":{"inputTokens":5,"outputTokens":2}})"));
    EXPECT_TRUE(reader->complete()) << reason;
    const classifier::Verdict verdict = reader->finish(std::nullopt);
    EXPECT_EQ(spelled(verdict), "content_policy final") << reason;
    EXPECT_TRUE(verdict.is_answer) << reason;
  }
  const std::string said = chunk(R"({"generation":"No.","amazon-bedrock-guardrailAction":"INTERVENED"})");
  const auto whole = reader_for(kInvokePath);
  whole->feed(said + chunk(R"({"generation":"","stop_reason":"stop"})"));
  EXPECT_EQ(spelled(whole->finish(std::nullopt)), "content_policy final");
  const auto cut = reader_for(kInvokePath);
  cut->feed(said);
  EXPECT_EQ(spelled(cut->finish(classifier::Transport::Reset)), "network retryable");
}

TEST(FrameStream, of_other_models_ends_with_bedrocks_own_counts) {
  const std::string metrics =
      R"("amazon-bedrock-invocationMetrics":{"inputTokenCount":7,"outputTokenCount":3,"cacheReadInputTokenCount":5}})";
  const struct {
    std::vector<std::string> chunks;
    std::string_view usage;
  } kCases[] = {
      {{R"({"generation":"a","prompt_token_count":9,"generation_token_count":1,"stop_reason":null})",
        R"({"generation":"b","prompt_token_count":null,"generation_token_count":2,"stop_reason":"stop",)" + metrics},
       " 9 0 0 0 2 0 stop"},
      {{R"({"outputText":"a","index":0,"totalOutputTextTokenCount":4,"completionReason":"FINISH","inputTextTokenCount":6,)" +
        metrics},
       " 6 0 0 0 4 0 FINISH"},
      {{R"({"outputs":[{"text":"a","stop_reason":null}]})",
        R"({"outputs":[{"text":"","stop_reason":"length"}],)" + metrics},
       " 12 5 0 0 3 0 length"},
      {{R"({"text":"a","is_finished":false,"event_type":"text-generation"})",
        R"({"is_finished":true,"event_type":"stream-end","finish_reason":"COMPLETE","response":{"text":"a"},)" +
            metrics},
       " 12 5 0 0 3 0 COMPLETE"},
      {{R"({"messageStart":{"role":"assistant"}})",
        R"({"contentBlockDelta":{"delta":{"text":"a"},"contentBlockIndex":0}})",
        R"({"messageStop":{"stopReason":"end_turn"}})",
        R"({"metadata":{"usage":{"inputTokens":8,"outputTokens":2,"cacheReadInputTokenCount":1}},)" + metrics},
       " 9 1 0 0 2 0 end_turn"},
      {{R"({"id":"c","object":"chat.completion.chunk","model":"gpt-oss","choices":[{"index":0,"delta":{"content":"a"}}]})",
        R"({"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],)"
        R"("usage":{"prompt_tokens":20,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":15}},)" +
            metrics},
       "gpt-oss 20 15 0 0 4 0 stop"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.chunks.front());
    const auto reader = reader_for(kInvokePath);
    for (const std::string& one : c.chunks) {
      EXPECT_FALSE(reader->terminal());
      reader->feed(chunk(one));
    }
    EXPECT_TRUE(reader->content());
    EXPECT_TRUE(reader->complete());
    EXPECT_EQ(spelled(reader->finish(std::nullopt)), "none");
    EXPECT_EQ(spelled(reader->usage()), c.usage);
  }
}

TEST(OwnFrames, are_exceptions_that_anybody_can_read) {
  const struct {
    classifier::Class cls;
    int status;
    std::string_view type;
  } kCases[] = {{classifier::Class::LocalLimit, 429, "throttlingException"},
                {classifier::Class::LocalDraining, 503, "serviceUnavailableException"},
                {classifier::Class::LocalBudget, 402, "throttlingException"},
                {classifier::Class::Network, 502, "modelStreamErrorException"},
                {classifier::Class::Timeout, 504, "modelStreamErrorException"},
                {classifier::Class::LocalRequest, 400, "validationException"},
                {classifier::Class::Internal, 500, "internalServerException"}};
  for (const auto& c : kCases) {
    const classifier::OwnError error{.status = c.status, .cls = c.cls, .message = "broke \"off\" 日本", .code = "x"};
    for (const std::string_view path : {kConversePath, kInvokePath}) {
      const std::string bytes = bedrock().error_event(bedrock().endpoint("POST", path), error);
      EXPECT_EQ(bytes, exception(c.type, Json{{"message", error.message}}.dump()));
    }
  }
}

TEST(OwnFrames, are_read_back_as_what_they_are) {
  const classifier::OwnError error{.status = 429, .cls = classifier::Class::LocalLimit, .message = "m"};
  const classifier::Endpoint endpoint = bedrock().endpoint("POST", kConversePath);
  const auto reader = bedrock().stream_reader(endpoint, {.stream = true}, {}, false);
  reader->feed(bedrock().error_event(endpoint, error));
  ASSERT_TRUE(reader->error());
  EXPECT_EQ(spelled(*reader->error()), "rate_limited retryable");
  EXPECT_EQ(reader->error_status(), 429);
}

TEST(Base64, reads_what_was_written_and_passes_over_the_rest) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 chance{seed};
    std::string bytes;
    for (std::size_t n = chance() % 40; n > 0; --n) bytes += static_cast<char>(chance() % 256);
    ASSERT_EQ(classifier::from_base64(to_base64(bytes)), bytes) << "seed " << seed;
  }
  EXPECT_EQ(classifier::from_base64("-_-_"), classifier::from_base64("+/+/"));
  EXPECT_EQ(classifier::from_base64("aGk\r\n="), "hi");
  EXPECT_EQ(classifier::from_base64(""), "");
}

}  // namespace frames_test

#include "classifier/inflate.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <utility>

namespace classifier {

namespace {

constexpr int kGzipOrZlib = 15 + 32;
constexpr int kRaw = -15;

/// Closes what inflateInit2 has opened, on every way out.
struct Stream {
  explicit Stream(int window_bits) { open = inflateInit2(&z, window_bits) == Z_OK; }
  ~Stream() {
    if (open) inflateEnd(&z);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  z_stream z{};
  bool open = false;
};

std::optional<Inflated> inflate_as(std::string_view bytes, std::size_t bytes_max, int window_bits) {
  Stream stream{window_bits};
  if (!stream.open) return std::nullopt;
  // zlib takes a non-const pointer and does not write through it.
  stream.z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.z.avail_in = static_cast<uInt>(bytes.size());

  Inflated out;
  std::array<char, 16'384> chunk;
  for (;;) {
    stream.z.next_out = reinterpret_cast<Bytef*>(chunk.data());
    stream.z.avail_out = static_cast<uInt>(chunk.size());
    const int result = ::inflate(&stream.z, Z_NO_FLUSH);
    const std::size_t got = chunk.size() - stream.z.avail_out;
    const std::size_t kept = std::min(got, bytes_max - out.text.size());
    out.text.append(chunk.data(), kept);
    if (kept < got) {
      out.whole = false;
      return out;
    }
    if (result == Z_STREAM_END) {
      if (stream.z.avail_in == 0) return out;
      if (inflateReset(&stream.z) != Z_OK) return out;  // The next gzip member.
      continue;
    }
    if (result != Z_OK) {
      // Cut, or broken after a good beginning: the beginning is worth reading.
      if (out.text.empty()) return std::nullopt;
      out.whole = false;
      return out;
    }
    if (got == 0 && stream.z.avail_in == 0) {
      out.whole = false;
      return out;
    }
  }
}

}  // namespace

std::optional<Inflated> inflate(std::string_view bytes, std::size_t bytes_max) {
  if (bytes.empty() || bytes.size() > (std::size_t{1} << 31U)) return std::nullopt;
  if (auto out = inflate_as(bytes, bytes_max, kGzipOrZlib)) return out;
  // Without a header almost any bytes begin well, so only a whole stream counts.
  auto raw = inflate_as(bytes, bytes_max, kRaw);
  return raw && raw->whole ? std::move(raw) : std::nullopt;
}

}  // namespace classifier

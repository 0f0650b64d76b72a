#include "gateway/config_files.h"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "gateway/config_values.h"
#include "gateway/otlp_settings.h"
#include "gateway/standard_webhooks.h"
#include "ledger/seal.h"

namespace gateway {
namespace {

constexpr std::size_t kLargestSecret = 64 * 1024;
constexpr std::size_t kShortestToken = 16;
constexpr std::size_t kLongestToken = 1024;
constexpr std::size_t kLargestBundle = 16 * 1024 * 1024;

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

std::string say_open_error(int error) {
  switch (error) {
    case ENOENT:
      return "there is no such file";
    case EACCES:
      return "this user may not read it; look at its owner and mode";
    case ENAMETOOLONG:
      return "its name is too long";
    default:
      return "it cannot be opened: " + std::string{std::strerror(error)};
  }
}

std::expected<std::string, std::string> read_secret(const SecretSource& source, const Environment& environment) {
  std::string secret;
  std::string where;
  if (source.from == SecretSource::From::Environment) {
    const auto found = environment.find(source.name);
    where = "the environment variable " + source.name;
    if (found == environment.end()) return std::unexpected("needs " + where + ", which is not set");
    secret = found->second;
  } else {
    where = "the file " + say(source.name);
    auto read = read_whole(source.name, kLargestSecret, "a secret");
    if (!read) return std::unexpected("needs " + where + ": " + read.error());
    secret = std::move(read->text);
    if (secret.ends_with('\n')) secret.pop_back();
    if (secret.ends_with('\r')) secret.pop_back();
  }
  if (secret.empty()) return std::unexpected("needs " + where + ", which is empty");
  // It goes into a header field.
  if (!std::ranges::all_of(secret, [](char c) { return c > ' ' && c < 0x7f; })) {
    return std::unexpected("needs " + where + " to hold one line of ASCII without blanks");
  }
  return secret;
}

/// A secret of more than one line, and for messages where it stands.
struct Lines {
  std::string text{};
  std::string where{};
};
std::expected<Lines, std::string> read_lines(const SecretSource& source, const Environment& environment) {
  Lines lines;
  if (source.from == SecretSource::From::Environment) {
    const auto found = environment.find(source.name);
    lines.where = "the environment variable " + source.name;
    if (found == environment.end()) return std::unexpected("needs " + lines.where + ", which is not set");
    lines.text = found->second;
    return lines;
  }
  lines.where = "the file " + say(source.name);
  auto read = read_whole(source.name, kLargestSecret, "a secret");
  if (!read) return std::unexpected("needs " + lines.where + ": " + read.error());
  lines.text = std::move(read->text);
  return lines;
}

}  // namespace

std::expected<FileText, std::string> read_whole(const std::string& file, std::size_t most, std::string_view what) {
  // Not blocking, so that a pipe in the file's place cannot hold us up.
  const FileDescriptor fd{::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (fd.get() < 0) return std::unexpected(say_open_error(errno));
  struct stat about {};
  if (::fstat(fd.get(), &about) != 0) return std::unexpected(say_open_error(errno));
  if (S_ISDIR(about.st_mode)) return std::unexpected("it is a directory; name the file in it");
  if (!S_ISREG(about.st_mode)) return std::unexpected("it is not a regular file");

  FileText out;
  out.anybody_writes = (about.st_mode & S_IWOTH) != 0;
  std::array<char, 65536> block{};
  for (ssize_t got = 1; got > 0;) {
    got = ::read(fd.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR)
      got = 1;
    else if (got < 0)
      return std::unexpected("it cannot be read: " + std::string{std::strerror(errno)});
    else
      out.text.append(block.data(), static_cast<std::size_t>(got));
    if (out.text.size() > most) {
      return std::unexpected("it is larger than " + say_size(static_cast<std::int64_t>(most)) + "; this cannot be " +
                             std::string{what});
    }
  }
  return out;
}

std::expected<std::string, std::string> read_token(const SecretSource& source, const Environment& environment) {
  auto token = read_secret(source, environment);
  if (token && token->size() < kShortestToken) {
    return std::unexpected("must have at least " + std::to_string(kShortestToken) + " characters (has " +
                           std::to_string(token->size()) + "); `openssl rand -hex 32` makes a good one");
  }
  if (token && token->size() > kLongestToken) {
    return std::unexpected("must have at most " + std::to_string(kLongestToken) + " characters");
  }
  return token;
}

std::expected<std::string, std::string> read_key(const SecretSource& source, const Environment& environment) {
  return read_secret(source, environment);
}

std::expected<std::vector<std::string>, std::string> read_payload_keys(const SecretSource& source,
                                                                       const Environment& environment) {
  const auto found = read_lines(source, environment);
  if (!found) return std::unexpected(found.error());
  auto keys = ledger::payload_keys_in(found->text);
  if (!keys) return std::unexpected("needs " + found->where + ", which " + keys.error());
  return keys;
}

std::expected<std::vector<std::string>, std::string> read_webhook_secrets(const SecretSource& source,
                                                                          const Environment& environment) {
  const auto found = read_lines(source, environment);
  if (!found) return std::unexpected(found.error());
  auto secrets = webhook_secrets_of(found->text);
  if (!secrets) return std::unexpected("needs " + found->where + ", which " + secrets.error());
  return secrets;
}

std::expected<classifier::Headers, std::string> read_otlp_headers(const SecretSource& source,
                                                                  const Environment& environment) {
  constexpr std::array<std::string_view, 7> kOurs = {
      "host", "content-length", "content-type", "content-encoding", "transfer-encoding", "expect", "connection"};
  auto found = read_lines(source, environment);
  if (!found) return std::unexpected(found.error());
  while (found->text.ends_with('\n') || found->text.ends_with('\r')) found->text.pop_back();
  const std::string wrong = "needs " + found->where;
  if (found->text.empty()) return std::unexpected(wrong + ", which is empty");
  const auto pairs = read_pairs(found->text);
  if (!pairs) return std::unexpected(wrong + " to hold name=value, parted by commas and percent-encoded");
  classifier::Headers headers;
  const auto is_name = [](char c) {
    return (classifier::lower(c) >= 'a' && classifier::lower(c) <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  for (const auto& [name, value] : *pairs) {
    const auto same = [&](std::string_view ours) { return classifier::same_name(name, ours); };
    if (!std::ranges::all_of(name, is_name) || std::ranges::any_of(kOurs, same) ||
        !std::ranges::all_of(value, [](char c) { return c >= ' ' && c < 0x7f; }))
      return std::unexpected(wrong + " to hold what can be a header field of a request, in ASCII");
    headers.push_back({name, value});
  }
  return headers;
}

bool in_a_pods_volume(const std::string& file) {
  std::error_code ignored;
  return std::filesystem::is_symlink(std::filesystem::path{file}.replace_filename("..data"), ignored);
}

bool open_to_others(const std::string& file) {
  struct stat about {};
  return !in_a_pods_volume(file) && ::stat(file.c_str(), &about) == 0 && (about.st_mode & S_IRWXO) != 0;
}

std::string no_authorities_in(const std::string& file) {
  const auto read = read_whole(file, kLargestBundle, "a bundle of certificates");
  if (!read) return "names the file " + say(file) + ": " + read.error();
  const std::unique_ptr<BIO, decltype(&BIO_free)> text{
      BIO_new_mem_buf(read->text.data(), static_cast<int>(read->text.size())), &BIO_free};
  // The first is enough: the wire reads them all when it needs them.
  const std::unique_ptr<X509, decltype(&X509_free)> first{
      text ? PEM_read_bio_X509_AUX(text.get(), nullptr, nullptr, nullptr) : nullptr, &X509_free};
  ERR_clear_error();
  return first ? "" : "names the file " + say(file) + ", in which there is no PEM certificate";
}

}  // namespace gateway

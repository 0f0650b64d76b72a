#pragma once
// What stands in the files that a configuration names? Whoever asks is off the I/O thread.

#include <cstddef>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "classifier/headers.h"
#include "gateway/config.h"

namespace gateway {

struct FileText {
  std::string text{};
  bool anybody_writes = false;
};
/// A regular file of at most `most` bytes, which `what` ("a configuration") never exceeds; else why not, for people:
/// "there is no such file".
[[nodiscard]] std::expected<FileText, std::string> read_whole(const std::string& file, std::size_t most,
                                                              std::string_view what);

/// The token of listen.admin_token without the line's end, long enough to be no guess; else what is wrong with it.
/// Neither answer holds anything else of the file.
[[nodiscard]] std::expected<std::string, std::string> read_token(const SecretSource& source,
                                                                 const Environment& environment);
/// A provider's key: one line that can stand in a header field; else what is wrong, without anything of the file.
[[nodiscard]] std::expected<std::string, std::string> read_key(const SecretSource& source,
                                                               const Environment& environment);
/// The keys of store.payload_key (ledger/seal.h); else what is wrong, without anything of the file.
[[nodiscard]] std::expected<std::vector<std::string>, std::string> read_payload_keys(const SecretSource& source,
                                                                                     const Environment& environment);
/// The keys of webhooks.secret, decoded, the newest first; else what is wrong, without anything of the file.
[[nodiscard]] std::expected<std::vector<std::string>, std::string> read_webhook_secrets(
    const SecretSource& source, const Environment& environment);
/// The headers of tracing.otlp_headers; else what is wrong, without anything of the file.
[[nodiscard]] std::expected<classifier::Headers, std::string> read_otlp_headers(const SecretSource& source,
                                                                                const Environment& environment);
[[nodiscard]] bool open_to_others(const std::string& file);
/// One that the kubelet fills. Its modes are the pod's to choose, only containers that mount it see it, and a
/// container that is not root can read its files often only if everybody may: so they expose nothing, and chmod
/// cannot mend them.
[[nodiscard]] bool in_a_pods_volume(const std::string& file);

/// Why nobody could be trusted by this PEM file; empty if it holds a certificate.
[[nodiscard]] std::string no_authorities_in(const std::string& file);

}  // namespace gateway

#pragma once
// Where may we listen? A loopback port, or a socket file; nothing that another host can reach.

#include <cstdint>
#include <string>

namespace gateway {

/// A listening socket. Its end closes it and removes its file, if that is still the one that was bound.
/// Who may reach it: this host alone, or anybody, since each must show who he is.
enum class Reach : std::uint8_t { Host, Anybody };

class Listener {
 public:
  Listener() = default;
  /// "127.0.0.1:4600", "[::1]:0", "unix:/path". Throws std::runtime_error that names the address and the mend.
  explicit Listener(const std::string& address, Reach reach = Reach::Host);
  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&& other) noexcept;
  ~Listener();

  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] int family() const { return family_; }
  [[nodiscard]] bool on_file() const { return !file_.empty(); }
  /// As it was bound, with the real port.
  [[nodiscard]] const std::string& address() const { return address_; }
  /// Whoever takes the descriptor closes it; the file stays ours.
  [[nodiscard]] int release_descriptor();

 private:
  void open_port(const std::string& address, Reach reach);
  void open_file(const std::string& address, const std::string& file);

  int descriptor_ = -1;
  int family_ = 0;
  void remove_file() const;

  std::string file_{};
  int file_itself_ = -1;  // Held, so that its inode's number is given to no other file.
  std::string address_{};
};

}  // namespace gateway

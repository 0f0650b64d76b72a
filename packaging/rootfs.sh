#!/usr/bin/env bash
# rootfs.sh EXECUTABLE DIRECTORY: puts together all that a built callgate needs to run with nothing below it: the
# image's whole root file system. packaging/Dockerfile and tests/packaging/image_test.sh use it.
#
# The executable and exactly the shared libraries that it loads, the loader included, each with its package's licence
# and (as distroless images have them, for scanners) dpkg's record; CA certificates; time zones, for budgets that begin
# anew in one; the user 65532; a configuration. No shell, no package manager.
set -euo pipefail

if (($# != 2)) || [[ ! -x $1 ]]; then
  echo "usage: rootfs.sh EXECUTABLE DIRECTORY" >&2
  exit 2
fi
here=$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
executable=$1 root=$2
readonly kCertificates=/etc/ssl/certs/ca-certificates.crt kZones=/usr/share/zoneinfo kUser=65532
for needed in $kCertificates $kZones/UTC; do
  if [[ ! -r $needed ]]; then
    echo "rootfs.sh: $needed is not here; install ca-certificates and tzdata" >&2
    exit 1
  fi
done
if [[ -e $root ]] && [[ -n $(ls -A -- "$root") ]]; then
  echo "rootfs.sh: $root is not empty" >&2
  exit 1
fi

# As Debian has it: one /usr, the old names are links into it.
mkdir -p "$root"/{dev,etc/callgate,etc/ssl/certs,proc,sys,tmp,usr/bin,usr/lib,usr/lib64,usr/share/doc,usr/share/zoneinfo} \
  "$root"/var/lib/{callgate,dpkg/status.d}
ln -s usr/lib "$root/lib"
ln -s usr/lib64 "$root/lib64"

# What debuggers need stays with whoever built it.
strip -o "$root/usr/bin/callgate" "$executable"
chmod 0755 "$root/usr/bin/callgate"

libraries=$(ldd "$executable")
if grep -q 'not found' <<<"$libraries"; then
  printf 'rootfs.sh: libraries are missing:\n%s\n' "$libraries" >&2
  exit 1
fi
mapfile -t loaded < <(sed -nE 's/^[^/]*(\/[^ ]+) \(0x[0-9a-f]+\)$/\1/p' <<<"$libraries")
# dpkg knows a file by the name under which its package brought it, with /usr or without.
owners=$(dpkg-query -S "${loaded[@]#/usr}" "${loaded[@]/#/\/usr}" 2>/dev/null || true)
packages="ca-certificates tzdata"
for library in "${loaded[@]}"; do
  name=${library#/usr}
  install -D -m 0755 -- "$(readlink -f -- "$library")" "$root/usr$name"
  owner=$(awk -v name="$name" '$2 == name || $2 == "/usr" name {sub(":.*", "", $1); print $1; exit}' <<<"$owners")
  if [[ -z $owner ]]; then
    echo "rootfs.sh: no package owns $library, so its licence is not known" >&2
    exit 1
  fi
  packages+=" $owner"
done
for package in $(tr ' ' '\n' <<<"$packages" | sort -u); do
  install -D -m 0644 -- "/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/copyright"
  dpkg-query -s "$package" >"$root/var/lib/dpkg/status.d/$package"
done
install -D -m 0644 -- "$here/../LICENSE" "$root/usr/share/doc/callgate/LICENSE"

install -m 0644 -- $kCertificates "$root$kCertificates"
# Without posix/ and right/, which hold all of them again.
tar -C $kZones --exclude=./posix --exclude=./right -cf - . | tar -C "$root$kZones" -xf -
install -m 0644 -- "$here/image.yaml" "$root/etc/callgate/callgate.yaml"
echo "hosts: files dns" >"$root/etc/nsswitch.conf"
printf 'root:x:0:0:root:/:/usr/sbin/nologin\ncallgate:x:%d:%d:callgate:/var/lib/callgate:/usr/sbin/nologin\n' \
  $kUser $kUser >"$root/etc/passwd"
printf 'root:x:0:\ncallgate:x:%d:\n' $kUser >"$root/etc/group"
chmod 1777 "$root/tmp"
chmod 0750 "$root/var/lib/callgate"
# Only root can give files away; an image is always built as root.
if ((EUID == 0)); then chown $kUser:$kUser "$root/var/lib/callgate"; fi

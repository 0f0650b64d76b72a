#!/usr/bin/env bash
# Goal: what packaging/rootfs.sh puts together is all that callgate needs, and runs as a cluster runs it: as user 65532,
# on a root that is read-only, without a shell. Method: the root file system of the executable at hand, in a chroot in
# name spaces of its own (so its own ports are free), before the fake provider; then the Dockerfile's last stage, built
# by buildah where that is installed.
#   image_test.sh CALLGATE FAKE_PROVIDER
set -euo pipefail

readonly kSkipped=77 kUser=65532 kPatience=100 # tenths of a second
skip() {
  echo "SKIPPED: $1"
  exit $kSkipped
}
fail() {
  echo "FAILED: $1" >&2
  for log in "$scratch"/*.log; do
    if [[ -s $log ]]; then printf '%s\n' "-- ${log##*/}" "$(tail -n 20 "$log")" >&2; fi
  done
  exit 1
}
await() {
  local what=$1 i
  shift
  for ((i = 0; i < kPatience; i++)); do
    if "$@" >/dev/null 2>&1; then return 0; fi
    sleep 0.1
  done
  fail "$what did not come about: $*"
}
run_it() {
  local answer provider_port out
  # An array, so that what is begun with & is the program itself.
  local -a in_pod=(setpriv --no-new-privs chroot "--userspec=$kUser:$kUser" --groups= "$root")
  # Loopback is down in a new name space; perl is in every Debian. SIOCSIFFLAGS, IFF_UP.
  perl -e 'socket(my $s, 2, 2, 0) or die; my $up = pack("a16 s x22", "lo", 1); ioctl($s, 0x8914, $up) or die' ||
    skip "loopback cannot be brought up in a name space of its own"
  mount --bind "$root" "$root"
  mount -o remount,bind,ro "$root"
  mount -t tmpfs -o mode=1777,size=16m tmpfs "$root/tmp"
  mount -t tmpfs -o uid=$kUser,gid=$kUser,mode=0750,size=64m tmpfs "$root/var/lib/callgate"
  mount -t proc proc "$root/proc"
  if touch "$root/etc/callgate/written" 2>/dev/null; then fail "the root can be written"; fi

  out=$("${in_pod[@]}" /usr/bin/callgate version) || fail "callgate version does not run"
  [[ $out == "callgate "* ]] || fail "callgate version says: $out"
  export CALLGATE_CONFIG=/etc/callgate/callgate.yaml
  out=$("${in_pod[@]}" /usr/bin/callgate validate $CALLGATE_CONFIG 2>&1) || fail "the image's configuration: $out"
  out=$("${in_pod[@]}" /usr/bin/callgate validate /etc/callgate/zones.yaml 2>&1) || fail "no time zones: $out"

  mkdir "$scratch/certificates"
  "$fake_provider" --self-signed "$scratch/certificates" --cert-host localhost --no-stdin-watch \
    >"$scratch/provider.log" 2>&1 &
  await "the fake provider" grep -q '"url"' "$scratch/provider.log"
  provider_port=$(sed -nE 's/.*"url": ?"https:\/\/[^:]+:([0-9]+)".*/\1/p' "$scratch/provider.log" | head -n 1)
  [[ -n $provider_port ]] || fail "the fake provider's port"
  export CALLGATE_UPSTREAMS__OPENAI__URL="https://localhost:$provider_port"
  export CALLGATE_RETRY__BULK__ATTEMPTS=1 CALLGATE_MEMO__FINAL_FAILURE=0s

  "${in_pod[@]}" /usr/bin/callgate serve >"$scratch/serve.log" 2>"$scratch/serve-err.log" &
  local served=$!
  await "readiness" curl -fsS -m 2 http://127.0.0.1:4601/readyz
  call() {
    curl -sS -m 10 -o "$scratch/answer.log" -w '%{http_code}' http://127.0.0.1:4600/openai/v1/chat/completions \
      -H 'content-type: application/json' -H 'authorization: Bearer sk-test' \
      -d '{"model":"gpt-5","messages":[{"role":"user","content":"hi"}]}'
  }
  # The image's own authorities do not vouch for the fake provider, …
  answer=$(call)
  [[ $answer == 502 ]] || fail "a provider whose certificate nobody has signed was called: $answer"
  # … but whoever adds his own to the bundle is believed, without a restart.
  cat "$scratch/certificates/ca.pem" "$root/etc/ssl/certs/ca-certificates.crt" >"$scratch/bundle.crt"
  chmod 0644 "$scratch/bundle.crt"
  mount --bind "$scratch/bundle.crt" "$root/etc/ssl/certs/ca-certificates.crt"
  answer=$(call)
  [[ $answer == 200 ]] || fail "a call was answered with $answer"
  curl -fsS -m 5 http://127.0.0.1:4601/metrics >"$scratch/metrics.log"
  grep -qE '^callgate_calls_total\{.*outcome="answered".*\} 1$' "$scratch/metrics.log" || fail "the call was not counted"

  out=$("${in_pod[@]}" /usr/bin/callgate status 2>&1) || fail "callgate status in the container: $out"
  grep -q '^interactive' <<<"$out" || fail "callgate status says: $out"
  [[ $(stat -c '%u %a' "$root/var/lib/callgate/admin.sock") == "$kUser 660" ]] || fail "the admin socket's mode"
  [[ -s $root/var/lib/callgate/callgate.db ]] || fail "no ledger"

  kill -TERM "$served"
  local code=0
  wait "$served" || code=$?
  ((code == 0)) || fail "after SIGTERM the exit code is $code"
  grep -q '"event":"stopped"' "$scratch/serve.log" || fail "it did not say that it has stopped"
  echo "ok: runs as $kUser on a read-only root"
}

build_it() {
  local context=$scratch/context storage=$scratch/storage image=localhost/callgate-image-test
  local -a buildah=(buildah --storage-driver vfs --root "$storage" --runroot "$scratch/run")
  mkdir -p "$context/state"
  cp -a "$root" "$context/rootfs"
  mv "$context/rootfs/var/lib/callgate" "$context/state/"
  # As the Dockerfile has it, from here instead of from its first stage, whose image cannot be had everywhere.
  sed -n '/^FROM scratch$/,$p' "$source_root/packaging/Dockerfile" | sed 's| --from=build | |; s| /image/| |' \
    | sed -E 's/^(COPY .*) (rootfs|state)\//\1 \2\//' >"$context/Dockerfile"
  grep -c '^COPY ' "$context/Dockerfile" | grep -qx 2 || fail "the Dockerfile's last stage is not what this test knows"
  "${buildah[@]}" bud --isolation chroot --build-arg VERSION=1.2.3 --build-arg REVISION=abc \
    --build-arg SOURCE=https://example.com/callgate -t $image "$context" >"$scratch/buildah.log" 2>&1 ||
    fail "buildah cannot build the last stage"
  "${buildah[@]}" inspect --type image $image | tr -d ' \n' >"$scratch/inspect.log"
  local wanted
  for wanted in '"User":"65532:65532"' '"Entrypoint":\["/usr/bin/callgate"\]' '"Cmd":\["serve"\]' \
    '"CALLGATE_CONFIG=/etc/callgate/callgate.yaml"' '"org.opencontainers.image.title":"callgate"' \
    '"org.opencontainers.image.description":"[^"]+"' '"org.opencontainers.image.version":"1.2.3"' \
    '"org.opencontainers.image.revision":"abc"' '"org.opencontainers.image.licenses":"Apache-2.0"' \
    '"org.opencontainers.image.source":"https://example.com/callgate"'; do
    grep -qE -- "$wanted" "$scratch/inspect.log" || fail "the image has no $wanted"
  done
  if grep -q Healthcheck "$scratch/inspect.log"; then fail "the image has a HEALTHCHECK"; fi
  local container mounted
  container=$("${buildah[@]}" from $image)
  mounted=$("${buildah[@]}" mount "$container")
  [[ $(stat -c '%u:%g %a' "$mounted/var/lib/callgate") == "65532:65532 750" ]] || fail "whose /var/lib/callgate is"
  [[ $(stat -c '%u %a' "$mounted/tmp" "$mounted/var/lib" | tr '\n' ,) == "0 1777,0 755," ]] || fail "/tmp or /var/lib"
  chroot --userspec=$kUser:$kUser --groups= "$mounted" /usr/bin/callgate version >/dev/null || fail "it does not run"
  "${buildah[@]}" umount "$container" >/dev/null
  "${buildah[@]}" rm "$container" >/dev/null
  echo "ok: the Dockerfile's last stage, built by buildah"
}

source_root=$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
if [[ ${1:-} == --inside ]]; then
  scratch=$2 fake_provider=$3 root=$2/rootfs
  trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
  run_it
  exit 0
fi
callgate=$1 fake_provider=$2
((EUID == 0)) || skip "only root can run it in a chroot"
unshare --mount --net --pid --fork true 2>/dev/null || skip "name spaces of its own are not allowed here"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
chmod 0755 "$scratch"
root=$scratch/rootfs
bash "$source_root/packaging/rootfs.sh" "$callgate" "$root"

[[ $(ls "$root/usr/bin") == callgate ]] || fail "there is more than callgate in it: $(ls "$root/usr/bin")"
[[ -z $(find "$root" -xdev \( -perm -4000 -o -perm -2000 \) -print) ]] || fail "something in it is setuid"
[[ $(find "$root" -xdev ! -type l -perm -0002 -print) == "$root/tmp" ]] || fail "others may write into it"
(($(grep -c BEGIN "$root/etc/ssl/certs/ca-certificates.crt") > 50)) || fail "it has no authorities"
while read -r package; do
  [[ -s $root/usr/share/doc/$package/copyright ]] || fail "the licence of $package is missing"
done < <(ls "$root/var/lib/dpkg/status.d")
cat >"$root/etc/callgate/zones.yaml" <<'END'
budget: {time_zone: Europe/Berlin}
END
bytes=$(du -sb --apparent-size "$root" | cut -f 1)
printf 'size: %d KiB in all, %d KiB of it the executable\n' $((bytes / 1024)) \
  $(($(stat -c %s "$root/usr/bin/callgate") / 1024))
((bytes < 120 * 1024 * 1024)) || fail "it has grown to $bytes bytes"

code=0
unshare --mount --net --pid --fork --kill-child bash "${BASH_SOURCE[0]}" --inside "$scratch" "$fake_provider" || code=$?
((code == 0)) || exit $code
rm "$root/etc/callgate/zones.yaml"
if command -v buildah >/dev/null; then
  build_it
else
  echo "skipped by name: the image build (buildah is not installed)"
fi

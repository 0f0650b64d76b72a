#!/usr/bin/env bash
# Goal: the Debian package installs, serves, upgrades, goes and is purged as people expect. Method: a bare Debian 12 of
# its own (debootstrap, chroot; as root, with a package server). lintian reads it. A systemd is not running there: what
# the package would tell it is written down by stand-ins.
#   deb-test.sh PACKAGE.deb [FOLDER]      FOLDER keeps the bare Debian for the next time
# shellcheck disable=SC2016  # What stands in single quotes is for dpkg-query.
set -euo pipefail

package=$(realpath "$1")
kept=${2:-}
for tool in debootstrap lintian dpkg-deb; do
  if ! command -v "$tool" >/dev/null; then
    printf 'skipped: %s is not installed\n' "$tool"
    exit 77
  fi
done
if ((EUID != 0)); then
  printf 'skipped: debootstrap and chroot need root\n'
  exit 77
fi

scratch=$(mktemp -d)
house=$scratch/debian serving=""
cleanup() {
  if [[ -n $serving ]]; then kill -KILL "$serving" 2>/dev/null || true; fi
  if mountpoint -q "$house/proc"; then umount "$house/proc"; fi
  rm -rf --one-file-system "$scratch"
}
trap cleanup EXIT

step() { printf '== %s\n' "$*"; }
wrong() {
  printf 'FAILED: %s\n' "$*"
  exit 1
}
inside() { chroot "$house" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }
# told WORD: the one thing that the service manager was told to do since the last look.
told() {
  [[ $(cat "$house/told") == "$1 callgate.service" ]] || wrong "the service manager was told: $(cat "$house/told"); wanted: $1"
  : >"$house/told"
}
there() { [[ -e $house$1 ]] || wrong "$1 is not there"; }
gone() { [[ ! -e $house$1 ]] || wrong "$1 is still there"; }

step "lintian"
lintian --allow-root --fail-on error,warning "$package" || wrong "lintian found something"

step "a bare Debian 12"
if [[ -n $kept && -f $kept/base.tar ]]; then
  mkdir -p "$house"
  tar -xpf "$kept/base.tar" -C "$house"
else
  debootstrap --variant=minbase bookworm "$house" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} >"$scratch/log" 2>&1 || {
    tail -n 5 "$scratch/log"
    printf 'skipped: no package server, or no right to chroot here\n'
    exit 77
  }
  if [[ -n $kept ]]; then
    mkdir -p "$kept"
    tar -cpf "$kept/base.tar" -C "$house" .
  fi
fi
mount -t proc proc "$house/proc" 2>/dev/null || true
cp -L /etc/resolv.conf "$house/etc/resolv.conf" 2>/dev/null || true
for file in /etc/apt/apt.conf /etc/apt/apt.conf.d/*proxy*; do
  if [[ -f $file ]]; then cp "$file" "$house$file"; fi
done

mkdir -p "$house/run/systemd/system"
printf '#!/bin/sh\ncase "$*" in *callgate*) echo "$@" >>/told ;; esac\n' >"$house/usr/bin/deb-systemd-invoke"
printf '#!/bin/sh\n' >"$house/usr/bin/systemctl"
chmod 0755 "$house"/usr/bin/{deb-systemd-invoke,systemctl}
: >"$house/told"

step "install"
cp "$package" "$house/callgate.deb"
inside apt-get update -qq
# The documentation, which some bare systems leave out, is part of the package.
inside apt-get install -y -qq --no-install-recommends /callgate.deb >"$scratch/log" 2>&1 || {
  cat "$scratch/log"
  wrong "apt-get install"
}
told start
there /lib/systemd/system/callgate.service
there /usr/share/man/man1/callgate.1.gz
there /usr/share/man/man5/callgate.yaml.5.gz
there /usr/share/bash-completion/completions/callgate
while read -r program; do there "$program"; done < <(sed -nE 's|^Exec[A-Za-z]*=[-@:+!]*(/[^ ]+).*|\1|p' "$house/lib/systemd/system/callgate.service")
inside getent passwd callgate >/dev/null || wrong "no user callgate"
[[ $(stat -c '%a %G' "$house/etc/callgate/keys") == "750 "* ]] || wrong "the folder of keys may be read by others"
[[ $(inside stat -c %G /etc/callgate/keys) == callgate ]] || wrong "the folder of keys is not the group's"
inside callgate version | grep -q '^callgate ' || wrong "callgate version"
inside callgate validate --strict /etc/callgate/config.yaml || wrong "the shipped configuration is not valid"
inside dpkg-query -W -f '${Conffiles}\n' callgate | grep -q ' /etc/callgate/config.yaml ' || wrong "no conffile"

step "it serves as its own user, with what the unit would make"
inside install -d -o callgate -g callgate -m 0750 /var/lib/callgate /run/callgate
# Not `inside`: what is begun with & must be the program itself.
chroot "$house" /usr/bin/env -i PATH=/usr/bin:/bin setpriv --reuid callgate --regid callgate --clear-groups /usr/bin/callgate serve --config /etc/callgate/config.yaml \
  --set listen.data=127.0.0.1:0 --set listen.health=127.0.0.1:0 >"$scratch/serve.log" 2>&1 &
serving=$!
for _ in $(seq 100); do
  if grep -q '"event":"listening"' "$scratch/serve.log"; then break; fi
  if ! kill -0 "$serving" 2>/dev/null; then break; fi
  sleep 0.1
done
grep -q '"event":"listening"' "$scratch/serve.log" || wrong "it does not serve: $(cat "$scratch/serve.log")"
inside callgate status --config /etc/callgate/config.yaml >/dev/null || wrong "callgate status finds no callgate"
inside callgate doctor --config /etc/callgate/config.yaml >"$scratch/doctor" || wrong "callgate doctor: $(cat "$scratch/doctor")"
kill -TERM "$serving"
wait "$serving" || wrong "it did not drain well"
serving=""
there /var/lib/callgate/callgate.db

step "upgrade: the operator's configuration and the store stay"
echo '# ours' >>"$house/etc/callgate/config.yaml"
mkdir "$scratch/next"
dpkg-deb -R "$package" "$scratch/next"
sed -i -E 's/^(Version: .*)$/\1+next/' "$scratch/next/DEBIAN/control"
dpkg-deb --root-owner-group --build "$scratch/next" "$house/next.deb" >/dev/null
inside dpkg -i /next.deb >"$scratch/log" 2>&1 || {
  cat "$scratch/log"
  wrong "upgrade"
}
told try-restart
[[ $(inside dpkg-query -W -f '${Version}' callgate) == *+next ]] || wrong "it is still the old version"
grep -q '^# ours' "$house/etc/callgate/config.yaml" || wrong "the upgrade took the operator's configuration"
there /var/lib/callgate/callgate.db

step "remove: configuration, keys and store stay"
inside dpkg -r callgate >"$scratch/log" 2>&1 || wrong "remove: $(cat "$scratch/log")"
told stop
gone /usr/bin/callgate
gone /lib/systemd/system/callgate.service
there /etc/callgate/config.yaml
there /etc/callgate/keys
there /var/lib/callgate/callgate.db

step "and come back with another installation"
inside dpkg -i /callgate.deb >"$scratch/log" 2>&1 || wrong "install again: $(cat "$scratch/log")"
told start
grep -q '^# ours' "$house/etc/callgate/config.yaml" || wrong "another installation took the operator's configuration"

step "purge: nothing stays"
inside dpkg -P callgate >"$scratch/log" 2>&1 || wrong "purge: $(cat "$scratch/log")"
gone /etc/callgate
gone /var/lib/callgate
gone /etc/systemd/system/callgate.service
[[ -z $(inside find /etc /usr /var/lib -name '*callgate*' -not -path '/var/lib/apt/*' -not -path '/var/lib/dpkg/*') ]] ||
  wrong "purge left: $(inside find /etc /usr /var/lib -name '*callgate*' -not -path '/var/lib/apt/*')"
printf 'the package is well, in %d s\n' "$SECONDS"

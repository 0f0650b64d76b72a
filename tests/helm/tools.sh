#!/usr/bin/env bash
# Builds helm and kubeconform into the folder that is named, if go and its module proxy are there; 77, and why, if not.
# Usage: tools.sh FOLDER. A built one is kept; HELM_TOOLS=skip leaves it.
set -euo pipefail

readonly kHelm=helm.sh/helm/v3/cmd/helm@v3.19.0
readonly kKubeconform=github.com/yannh/kubeconform/cmd/kubeconform@v0.7.0
readonly kPatience=300 # In all. Two quiet cores take two minutes; what was compiled until then is there the next time.

# As Helm's Makefile does; otherwise it takes every cluster for Kubernetes 1.20.
flags=
for package in pkg/chartutil pkg/lint/rules; do
  flags+=" -X helm.sh/helm/v3/$package.k8sVersionMajor=1 -X helm.sh/helm/v3/$package.k8sVersionMinor=33"
done

folder=$1
skip() {
  printf 'skipped: helm and kubeconform: %s\n' "$1"
  exit 77
}

if [[ -x $folder/helm && -x $folder/kubeconform ]]; then exit 0; fi
[[ ${HELM_TOOLS:-} != skip ]] || skip "HELM_TOOLS=skip"
command -v go >/dev/null || skip "no go in PATH"
mkdir -p "$folder"
export GOBIN=$folder GOFLAGS=-mod=mod
started=$SECONDS
timeout -k 5 20 go list -m helm.sh/helm/v3@v3.19.0 >"$folder/proxy.log" 2>&1 ||
  skip "go's module proxy does not answer ($folder/proxy.log)"
timeout -k 5 $((kPatience - (SECONDS - started))) go install "$kKubeconform" >"$folder/kubeconform.log" 2>&1 ||
  skip "go install $kKubeconform did not succeed ($folder/kubeconform.log)"
timeout -k 5 $((kPatience - (SECONDS - started))) go install -ldflags "$flags" "$kHelm" >"$folder/helm.log" 2>&1 ||
  skip "go install $kHelm did not succeed in $kPatience s ($folder/helm.log)"
printf 'built in %d s\n' $((SECONDS - started))

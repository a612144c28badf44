#!/usr/bin/env bash
# The documentation as a static web site.
#
#   site.sh [FOLDER]     writes it (bin/site)
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-bin/site}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
GOWORK=off go run -C scripts/site . "$PWD" "$folder"

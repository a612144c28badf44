#!/usr/bin/env bash
# Shows sluice at work with the model in the repository.
set -euo pipefail
cd "$(dirname "$0")/.."
source=$(mktemp)
trap 'rm -f "$source"' EXIT
cat >"$source" <<'TEXT'
A man in a red shirt is reading a newspaper.
Two children are playing football on the beach.
The file could not be opened because it is being used by another program.

Do you want to save the changes before closing?
TEXT
echo "bin/sluice translate -m models/ende-tiny < five-lines.en"
echo
translations=$(bin/sluice translate -m models/ende-tiny --quiet <"$source")
paste -d '\n' "$source" <(awk '{ print "    " $0 }' <<<"$translations")
cat <<'TEXT'

Next:
  bin/sluice translate -m models/ende-tiny -i YOUR.en.gz -o YOUR.de.gz    a file; kill it and run it again to see it go on
  bin/sluice bench -m models/ende-tiny -i YOUR.en                         how fast this machine is
  bin/sluice translate --help                                             everything else
TEXT

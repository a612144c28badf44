"""Makes a table of what ptxas -v writes to standard error: kernel, registers, spilled bytes, shared bytes, and how many blocks of its
launch bound fit on a multiprocessor by registers. Fails if anything is spilled."""

import re
import sys

kernel, spilled, failed = "", 0, False
for line in sys.stdin:
    if found := re.search(r"Compiling entry function '(\w+)'", line):
        kernel, spilled = found[1], 0
    elif found := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
        spilled = int(found[1]) + int(found[2])
    elif found := re.search(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?", line):
        print(f"{kernel:28} {found[1]:>9} {spilled:>7} {found[2] or 0:>7}")
        failed = failed or spilled > 0
    elif "error" in line or "fatal" in line:
        sys.exit(line)
sys.exit(failed)

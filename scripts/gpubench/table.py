"""Prints a table of what several engines did in turns, from lines of "ENGINE SIZE BEAM STREAMS ROUND PIECES-A-SECOND" on standard input.

Of each engine and round the best number of streams counts. Ratios are those of sluice to another engine in the same round, in the median.
"""

import collections
import statistics
import sys

rates = collections.defaultdict(dict)  # by size, beam and engine, and then by round: pieces a second, with the streams that gave them
for line in sys.stdin:
    engine, size, beam, streams, number, rate = line.split()
    rounds = rates[size, int(beam), engine]
    rounds[number] = max(rounds.get(number, (0, 0)), (float(rate), int(streams)))

print("student  beam       engine  streams  source pieces/s  rounds  sluice does, times as many")
for (size, beam, engine), rounds in rates.items():
    ours = rates.get((size, beam, "sluice"), {})
    shared = [ours[number][0] / rate for number, (rate, _) in rounds.items() if number in ours]
    ratio = f"{statistics.median(shared):.2f}" if shared and engine != "sluice" else "-"
    median = sorted(rounds.values())[len(rounds) // 2]
    print(f"{size:>7}  {beam:4}  {engine:>11}  {median[1]:7}  {median[0]:15,.0f}  {len(rounds):6}  {ratio:>27}")

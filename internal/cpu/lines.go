package cpu

// LinePair is how many bytes of memory a processor fetches at a time, at most: some fetch lines of 64 bytes in pairs. What one core writes and
// others do not need is that far from what they do.
const LinePair = 128
